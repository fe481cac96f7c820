//! Writing the log entry, and finding out what has become of it when that fails.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use alluvium_core::secrets::redact;
use alluvium_core::{LoadError, Result, SqlState};
use chrono::Utc;
use deltalake::DeltaTableError;
use deltalake::kernel::transaction::{CommitBuilder, CommitProperties, PreCommit, TableReference, TransactionError};
use deltalake::kernel::{Action, Add, CommitInfo, IsolationLevel, Remove, Transaction};
use deltalake::protocol::DeltaOperation;
use serde_json::{Value, json};

use crate::table::FileTask;

use super::super::job::LoadJob;
use super::super::schema::{creation, evolution, kernel_schema};
use super::super::spec::OperationKind;
use super::collect::Collected;
use super::entry::EntrySent;

/// How often a commit gives way to others that do not touch what it has read.
const MOST_RETRIES: usize = 15;
/// Where the log entry names the statement.
const STATEMENT_KEY: &str = "txnId";

/// A commit that is in the log.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) version: i64,
    /// What went wrong after the commit, if anything.
    pub(super) notices: Vec<String>,
}

/// A commit that failed.
#[derive(Debug)]
pub(super) struct CommitFailed {
    pub(super) error: LoadError,
    /// Whether it is certain that the log does not refer to the statement's files.
    pub(super) nothing_committed: bool,
}

impl CommitFailed {
    /// An error from before the log was touched.
    fn before_the_log(error: LoadError) -> Self {
        Self {
            error,
            nothing_committed: true,
        }
    }

    /// An error while the outcome is open.
    fn unclear(error: LoadError) -> Self {
        Self {
            error,
            nothing_committed: false,
        }
    }
}

/// Commits what was collected.
pub(super) async fn commit(
    job: &Arc<LoadJob>,
    collected: Collected,
    elapsed: Duration,
    sent: &EntrySent,
) -> std::result::Result<Committed, CommitFailed> {
    let spec = &job.spec;
    let base = spec.target.base.as_ref().map(|base| base.eager());
    let actions = actions(job, collected, elapsed).map_err(CommitFailed::before_the_log)?;
    // A table that appears meanwhile is somebody else's: creating does not give way.
    let retries = if base.is_some() { MOST_RETRIES } else { 0 };
    let mut properties = CommitProperties::default().with_max_retries(retries);
    if let Some((app, version)) = &spec.transaction {
        properties = properties.with_application_transaction(Transaction::new(app, *version));
    }
    let prepared = CommitBuilder::from(properties)
        .with_actions(actions)
        .with_operation_id(job.statement)
        .build(
            base.map(|eager| -> &dyn TableReference { eager }),
            sent.told_by(Arc::clone(&job.log_store)),
            operation(job),
        );
    write(job, prepared).await
}

async fn write(job: &Arc<LoadJob>, commit: PreCommit<'_>) -> std::result::Result<Committed, CommitFailed> {
    let prepared = match commit.into_prepared_commit_future().await {
        Ok(prepared) => prepared,
        Err(e) => return Err(CommitFailed::before_the_log(refused(job, &e))),
    };
    let written = match prepared.await {
        Ok(written) => written,
        Err(e) => return after_error(job, e).await,
    };
    let version = signed(written.version).map_err(CommitFailed::unclear)?;
    let mut notices = Vec::new();
    match written.await {
        Ok(done) => {
            if let Err(e) = job.spec.target.handle.adopt(done.snapshot.snapshot().clone()).await {
                let cause = redact(&e.to_string());
                tracing::warn!("the state after commit {version} could not be kept: {cause}");
            }
        }
        Err(e) => {
            let cause = redact(&e.to_string());
            tracing::warn!("commit {version} succeeded, work on the log after it failed: {cause}");
            notices.push(format!(
                "Version {version} is committed, but the checkpoint or the clean-up after it failed: {cause}."
            ));
        }
    }
    Ok(Committed { version, notices })
}

/// A commit that failed may still be in the log: the answer of the store was lost, or a repeated request met its own
/// first try. The log tells.
async fn after_error(job: &Arc<LoadJob>, error: DeltaTableError) -> std::result::Result<Committed, CommitFailed> {
    let conflict = is_conflict(&error);
    match find_own_entry(job).await {
        Ok(Some(version)) => {
            let cause = redact(&error.to_string());
            tracing::warn!("commit {version} was reported as failed, but is in the log: {cause}");
            let version = signed(version).map_err(CommitFailed::unclear)?;
            Ok(Committed {
                version,
                notices: Vec::new(),
            })
        }
        Ok(None) if conflict => {
            let winner = job
                .log_store
                .get_latest_version(read_version(job).unwrap_or(0))
                .await
                .ok();
            Err(CommitFailed::before_the_log(conflicting(job, &error, winner)))
        }
        // Not there now, but a request may still be on its way: the files stay, VACUUM takes them later.
        Ok(None) => Err(CommitFailed::unclear(storage(job, &error))),
        Err(_) => Err(CommitFailed::unclear(unknown_outcome(job, &error))),
    }
}

/// The version in which this statement is in the log.
async fn find_own_entry(job: &LoadJob) -> std::result::Result<Option<u64>, DeltaTableError> {
    let first = read_version(job).map_or(0, |version| version + 1);
    let own = job.statement.to_string();
    let mut version = first;
    while let Some(entry) = job.log_store.read_commit_entry(version).await? {
        let text = String::from_utf8_lossy(&entry);
        let names_own = |line: &str| line.contains("\"commitInfo\"") && line.contains(&own);
        if text.lines().any(names_own) {
            return Ok(Some(version));
        }
        version += 1;
    }
    Ok(None)
}

fn read_version(job: &LoadJob) -> Option<u64> {
    job.spec.target.base.as_ref().map(|base| base.version())
}

fn is_conflict(error: &DeltaTableError) -> bool {
    matches!(
        error,
        DeltaTableError::VersionAlreadyExists(_)
            | DeltaTableError::Transaction {
                source: TransactionError::CommitConflict(_)
                    | TransactionError::MaxCommitAttempts(_)
                    | TransactionError::VersionAlreadyExists(_)
            }
    )
}

fn conflicting(job: &LoadJob, error: &DeltaTableError, winner: Option<u64>) -> LoadError {
    let read = match read_version(job) {
        Some(version) => format!("The statement has read version {version}"),
        None => "The statement was to create the table".to_owned(),
    };
    let winner = winner.map_or_else(String::new, |version| {
        format!(", the table is at version {version} now")
    });
    let reason = error.to_string();
    let reason = reason.lines().next().unwrap_or_default().trim_end_matches('.');
    LoadError::new(
        SqlState::Serialization,
        format!("table {:?} was changed by a concurrent commit", job.table()),
    )
    .detail(format!("{read}{winner}: {}.", redact(reason)))
    .hint("Nothing was written. The statement is safe to run again.")
}

fn storage(job: &LoadJob, error: &DeltaTableError) -> LoadError {
    LoadError::new(
        SqlState::Storage,
        format!("committing to table {:?} failed", job.table()),
    )
    .detail(redact(&error.to_string()))
    .hint("The table is as it was. Files that were written stay behind until VACUUM.")
}

fn unknown_outcome(job: &LoadJob, error: &DeltaTableError) -> LoadError {
    LoadError::new(
        SqlState::Storage,
        format!(
            "committing to table {:?} failed, and whether it took effect is not known",
            job.table()
        ),
    )
    .detail(redact(&error.to_string()))
    .hint(format!(
        "Look for {} in the table's history before running the statement again.",
        job.statement
    ))
}

/// The protocol does not allow this commit; the log was not touched.
fn refused(job: &LoadJob, error: &DeltaTableError) -> LoadError {
    let state = match error {
        DeltaTableError::Transaction { .. } => SqlState::FeatureNotSupported,
        _ => SqlState::Storage,
    };
    LoadError::new(state, format!("table {:?} does not take this commit", job.table()))
        .detail(redact(&error.to_string()))
}

fn signed(version: u64) -> Result<i64> {
    i64::try_from(version).map_err(|_| LoadError::internal(format!("version {version} is out of range")))
}

/// What the conflict check has to know. Always a merge: for a write without a predicate concurrent adds would not be
/// looked at.
fn operation(job: &LoadJob) -> DeltaOperation {
    DeltaOperation::Merge {
        predicate: job.spec.operation.read_predicate.clone(),
        merge_predicate: None,
        matched_predicates: Vec::new(),
        not_matched_predicates: Vec::new(),
        not_matched_by_source_predicates: Vec::new(),
    }
}

/// The log entry, in an order that depends on nothing but the result.
fn actions(job: &LoadJob, collected: Collected, elapsed: Duration) -> Result<Vec<Action>> {
    let target = &job.spec.target;
    let mut actions = vec![Action::CommitInfo(commit_info(job, &collected, elapsed)?)];
    match &target.base {
        None => {
            let schema = kernel_schema(target)?;
            let (protocol, metadata) = creation(&schema, &target.partition_columns, &target.properties, None)?;
            actions.extend([Action::Protocol(protocol), Action::Metadata(metadata)]);
        }
        Some(base) if target.evolved => {
            let (protocol, metadata) = evolution(target, base)?;
            actions.extend(protocol.map(Action::Protocol));
            actions.push(Action::Metadata(metadata));
        }
        Some(_) => (),
    }
    let now = Utc::now().timestamp_millis();
    let data_change = job.spec.operation.kind != OperationKind::Optimize;
    let remove = |file: &FileTask| {
        Action::Remove(Remove {
            data_change,
            ..file.remove_action(now)
        })
    };
    actions.extend(collected.removes.iter().map(remove));
    for mask in collected.masks {
        actions.push(Action::Remove(mask.before.remove_action(now)));
        actions.push(Action::Add(mask.after));
    }
    let add = |add| Action::Add(Add { data_change, ..add });
    actions.extend(collected.adds.into_iter().map(add));
    actions.extend(collected.changes.into_iter().map(Action::Cdc));
    Ok(actions)
}

fn commit_info(job: &LoadJob, collected: &Collected, elapsed: Duration) -> Result<CommitInfo> {
    let spec = &job.spec;
    let parameters = spec
        .operation
        .parameters
        .iter()
        .map(|(k, v)| (k.clone(), Value::from(v.clone())));
    let metrics: BTreeMap<_, _> = match spec.operation.kind {
        OperationKind::Optimize => files_metrics(collected).into_iter().collect(),
        OperationKind::Merge | OperationKind::Write => metrics(collected, elapsed).into_iter().collect(),
    };
    Ok(CommitInfo {
        timestamp: Some(Utc::now().timestamp_millis()),
        operation: Some(spec.operation.kind.name().to_owned()),
        operation_parameters: Some(parameters.collect()),
        read_version: read_version(job),
        isolation_level: Some(IsolationLevel::Serializable),
        is_blind_append: Some(false),
        engine_info: Some(format!("alluvium/{}", env!("CARGO_PKG_VERSION"))),
        user_metadata: spec.comment.clone(),
        info: HashMap::from([
            ("operationMetrics".to_owned(), json!(metrics)),
            (STATEMENT_KEY.to_owned(), Value::from(job.statement.to_string())),
        ]),
        ..CommitInfo::default()
    })
}

/// Delta's keys for a merge, spelled as Delta does: as text.
fn metrics(collected: &Collected, elapsed: Duration) -> [(&'static str, String); 13] {
    let (counts, tasks) = (&collected.counts, &collected.tasks);
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let rows_out = counts.inserted + counts.updated + tasks.copied;
    [
        ("numSourceRows", counts.source.to_string()),
        ("numTargetRowsInserted", counts.inserted.to_string()),
        ("numTargetRowsUpdated", counts.updated.to_string()),
        ("numTargetRowsDeleted", counts.deleted.to_string()),
        ("numTargetRowsCopied", tasks.copied.to_string()),
        ("numTargetFilesAdded", counts.files_added.to_string()),
        ("numTargetFilesRemoved", counts.files_removed.to_string()),
        ("numTargetDeletionVectorsAdded", counts.deletion_vectors.to_string()),
        ("numOutputRows", rows_out.to_string()),
        ("numOutputBytes", tasks.bytes.to_string()),
        ("executionTimeMs", millis.to_string()),
        ("scanTimeMs", millis.saturating_sub(tasks.rewrite_ms).to_string()),
        ("rewriteTimeMs", tasks.rewrite_ms.min(millis).to_string()),
    ]
}

/// Delta's keys for files that are put together.
fn files_metrics(collected: &Collected) -> [(&'static str, String); 5] {
    let removed = collected.removes.iter();
    let added = collected
        .adds
        .iter()
        .map(|add| u64::try_from(add.size).unwrap_or(0))
        .sum::<u64>();
    let vectors = removed.clone().filter(|file| file.deletion_vector.is_some()).count();
    [
        ("numRemovedFiles", removed.len().to_string()),
        (
            "numRemovedBytes",
            removed.map(|file| file.size).sum::<u64>().to_string(),
        ),
        ("numAddedFiles", collected.adds.len().to_string()),
        ("numAddedBytes", added.to_string()),
        ("numDeletionVectorsRemoved", vectors.to_string()),
    ]
}
