//! Our statements.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use alluvium::Session;

use crate::Result;
use crate::reads::share_store;
use crate::source::{WINDOW_FROM, WINDOW_TO};
use crate::workload::{Load, Workload};

/// How versions are told apart.
const HISTORY: &str = "KEYS (id) SEQUENCE BY updated_at TRACK HISTORY ON (row_hash) \
                       VALIDITY COLUMNS (valid_from, valid_to, is_current)";

/// One statement for each source, in one session.
pub(crate) async fn load(
    workload: &Workload,
    table: &Path,
    sources: &[PathBuf],
    memory_limit: Option<usize>,
) -> Result<Duration> {
    let builder = match memory_limit {
        Some(bytes) => Session::builder().with_memory_limit(bytes),
        None => Session::builder(),
    };
    let session = builder.build().await?;
    share_store(session.context())?;
    let table = table.display();
    let started = Instant::now();
    session
        .execute(&format!(
            "CREATE EXTERNAL TABLE t STORED AS DELTATABLE LOCATION '{table}'"
        ))
        .await?;
    for source in sources {
        session.execute(&statement(workload.load, source)).await?;
    }
    Ok(started.elapsed())
}

fn statement(load: Load, source: &Path) -> String {
    let (verb, clauses) = match load {
        Load::Upsert => ("UPSERT", "KEYS (id)".to_owned()),
        Load::InsertOnly => ("INSERT ONLY", "KEYS (id)".to_owned()),
        Load::Window => (
            "MERGE OVERWRITE",
            format!("WINDOW day FROM DATE '{WINDOW_FROM}' TO DATE '{WINDOW_TO}'"),
        ),
        Load::Newest => (
            "MERGE OVERWRITE",
            "KEYS (id) DEDUPLICATE ON (id) BY updated_at DESC".to_owned(),
        ),
        // As deltalake's script does, an extract trusts the hash of its rows.
        Load::HistoryOfExtract => ("SCD2 MERGE", format!("{HISTORY} OPTIONS ('merge.compare' 'tracked')")),
        Load::HistoryOfChanges => ("SCD2 MERGE", HISTORY.to_owned()),
    };
    format!("{verb} INTO t USING '{}' {clauses}", source.display())
}
