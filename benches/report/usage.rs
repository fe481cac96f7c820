//! What one more run needs, in a process that does nothing else: memory, and what it reads of the table.

use std::path::{Path, PathBuf};
use std::process::Command;

use alluvium_benches::engine::Engine;
use alluvium_benches::lab::Lab;
use alluvium_benches::reads::{Reads, Recorder};
use alluvium_benches::workload::Workload;
use alluvium_benches::{Result, memory};

use crate::options::Options;

/// What a run needed, as far as it was measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// The most bytes that were resident.
    pub peak: Option<u64>,
    /// What was read of the data files.
    pub reads: Option<Reads>,
}

/// Starts the process and reads what it prints.
pub fn of(engine: Engine, workload: &Workload, options: &Options, directory: &Path) -> Result<Usage> {
    let program: PathBuf = std::env::current_exe()?;
    let output = Command::new(program)
        .args(options.for_usage(engine, workload, directory))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = printed.split_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    let (peak, files, bytes) = (next(), next(), next());
    let reads = files.zip(bytes).map(|(files, bytes)| Reads { files, bytes });
    Ok(Usage { peak, reads })
}

/// In that process: runs the engine once and prints its peak memory, the files it opened and the bytes it read.
pub async fn print(engine: Engine, options: &Options, directory: &Path) -> Result {
    let workload = options.workloads().next().ok_or("no workload")?;
    let lab = Lab::open(directory, options.shape())?;
    let sources = lab.sources(&workload)?;
    let table = lab.fresh_table(workload.base, engine.deletion_vectors()).await?;
    let recorder = Recorder::install()?;
    memory::reset_peak();
    engine
        .load(&workload, table.path(), &sources, options.memory_limit)
        .await?;
    let peak = memory::peak().map_or("-".to_owned(), |bytes| bytes.to_string());
    let reads = recorder.take(table.path())?;
    println!("{peak} {} {}", reads.files, reads.bytes);
    Ok(())
}
