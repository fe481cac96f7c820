//! The report: a Markdown table.

use std::time::Duration;

use alluvium_benches::check::Changes;
use alluvium_benches::engine::Engine;
use alluvium_benches::workload::Workload;

use crate::options::Options;

/// One line of the report.
pub struct Line {
    pub workload: Workload,
    pub engine: Engine,
    pub median: Option<Duration>,
    /// The median over ours.
    pub ratio: Option<f64>,
    pub peak: Option<u64>,
    pub changes: Changes,
    pub fault: Option<String>,
}

/// What was measured, and the head of the table.
pub fn heading(options: &Options) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = options.memory_limit.map_or("no memory limit".to_owned(), |bytes| {
        format!("memory limit {} MiB", bytes >> 20)
    });
    let layout = match options.by_day {
        true => "partitioned by day".to_owned(),
        false => format!("{} files", options.files),
    };
    println!(
        "{} rows x 11 columns, {layout}, {limit}, {} runs of each, {threads} threads; deltalake-core {}, DataFusion {}\n",
        options.rows,
        options.reps,
        deltalake::crate_version(),
        datafusion::DATAFUSION_VERSION,
    );
    if cfg!(debug_assertions) {
        println!("This is a debug build: its times say nothing.\n");
    }
    println!(
        "| workload | engine | median s | x ours | peak MiB | MiB written | files + | files - | vectors | result |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---|");
}

/// One row of the table.
pub fn print(line: &Line) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    println!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        line.workload.name,
        line.workload.title,
        line.engine.name(),
        or_dash(line.median.map(|m| format!("{:.3}", m.as_secs_f64()))),
        or_dash(line.ratio.map(|r| format!("{r:.2}"))),
        or_dash(line.peak.map(mebibytes)),
        mebibytes(line.changes.bytes_written),
        line.changes.files_added,
        line.changes.files_removed,
        line.changes.vectors,
        if line.fault.is_some() { "FAILED" } else { "checked" },
    );
}

/// With one decimal.
fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes * 10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}
