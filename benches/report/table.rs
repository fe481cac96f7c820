//! The report: a Markdown table.

use std::time::Duration;

use alluvium_benches::check::Changes;
use alluvium_benches::engine::Engine;
use alluvium_benches::workload::Workload;

use crate::options::Options;
use crate::usage::Usage;

/// One line of the report.
pub struct Line {
    pub workload: Workload,
    pub engine: Engine,
    pub median: Option<Duration>,
    /// The median over ours.
    pub ratio: Option<f64>,
    pub usage: Usage,
    /// None where nothing is committed.
    pub changes: Option<Changes>,
    pub fault: Option<String>,
}

impl Line {
    /// What went wrong, and where.
    pub fn fault(&self) -> Option<String> {
        let fault = self.fault.as_ref()?;
        Some(format!("{} on {}: {fault}", self.engine.name(), self.workload.name))
    }

    /// What the check of the rows found.
    pub fn result(&self) -> &'static str {
        match (&self.fault, self.engine.is_floor()) {
            (Some(_), _) => "FAILED",
            (None, true) => "-",
            (None, false) => "checked",
        }
    }
}

/// What was measured, and the head of the table.
pub fn heading(options: &Options) {
    let limit = options.memory_limit.map_or("no memory limit".to_owned(), |bytes| {
        format!("memory limit {} MiB", bytes >> 20)
    });
    let layout = match options.by_day {
        true => "partitioned by day".to_owned(),
        false => format!("{} files", options.files),
    };
    println!(
        "{} rows x 11 columns, {layout}, {limit}, {}",
        options.rows,
        setting(options)
    );
    println!(
        "| workload | engine | median s | x ours | peak MiB | files opened | MiB read | MiB written | files + | files - \
         | vectors | result |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|");
}

/// How it was measured, and with what.
pub fn setting(options: &Options) -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let warning = match cfg!(debug_assertions) {
        true => "\nThis is a debug build: its times say nothing.\n",
        false => "",
    };
    format!(
        "{} runs of each, {threads} threads; deltalake-core {}, DataFusion {}\n{warning}",
        options.reps,
        deltalake::crate_version(),
        datafusion::DATAFUSION_VERSION,
    )
}

/// One row of the table.
pub fn print(line: &Line) {
    let of_changes = |number: fn(&Changes) -> u64| or_dash(line.changes.as_ref().map(|c| number(c).to_string()));
    println!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        line.workload.name,
        line.workload.title,
        line.engine.name(),
        or_dash(line.median.map(seconds)),
        or_dash(line.ratio.map(|r| format!("{r:.2}"))),
        or_dash(line.usage.peak.map(mebibytes)),
        or_dash(line.usage.reads.map(|r| r.files.to_string())),
        or_dash(line.usage.reads.map(|r| mebibytes(r.bytes))),
        or_dash(line.changes.map(|c| mebibytes(c.bytes_written))),
        of_changes(|c| c.files_added),
        of_changes(|c| c.files_removed),
        of_changes(|c| c.vectors),
        line.result(),
    );
}

/// What there is, or a dash.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// With three decimals.
pub fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// With one decimal.
pub fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes * 10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}
