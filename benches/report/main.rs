//! Our loads beside deltalake's merge: same process, same data, in turn. Prints a table; see the README of this folder.
//!
//!     cargo run --release -p alluvium-benches -- --rows 2000000

mod options;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use alluvium_benches::check::{self, Changes, Content};
use alluvium_benches::engine::Engine;
use alluvium_benches::lab::{Lab, Shape};
use alluvium_benches::workload::Workload;
use alluvium_benches::{Result, memory};
use clap::Parser;
use options::Options;
use table::Line;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result {
    let scratch = tempfile::tempdir()?;
    let directory = options.work.clone().unwrap_or_else(|| scratch.path().to_owned());
    let shape = Shape {
        rows: options.rows,
        files: options.files,
        by_day: options.by_day,
    };
    let lab = Lab::open(&directory, shape).await?;
    if let Some(engine) = options.peak_of {
        return print_peak(engine, &options, &lab).await;
    }
    table::heading(&options);
    let mut faults = Vec::new();
    for workload in &options.workload {
        for line in measure(workload, &options, &lab, &directory).await? {
            if let Some(fault) = &line.fault {
                faults.push(format!("{} on {}: {fault}", line.engine.name(), workload.name));
            }
            table::print(&line);
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n       ").into()),
    }
}

/// One engine's runs of one workload.
struct Runs {
    engine: Engine,
    times: Vec<Duration>,
    changes: Changes,
    content: Option<Content>,
    fault: Option<String>,
}

/// Runs the engines in turn, so that whatever else the machine does falls on all of them. Each repetition begins with
/// another engine.
async fn measure(workload: &Workload, options: &Options, lab: &Lab, directory: &Path) -> Result<Vec<Line>> {
    let source = lab.source(workload)?;
    let mut all: Vec<Runs> = options.engines().into_iter().map(Runs::new).collect();
    for repetition in 0..options.reps {
        let first = repetition % all.len().max(1);
        all.rotate_left(first);
        for runs in all.iter_mut().filter(|runs| runs.fault.is_none()) {
            if let Err(error) = runs.once(workload, options, lab, &source).await {
                runs.fault = Some(error.to_string());
            }
        }
        all.rotate_right(first);
        if repetition == 0 {
            compare(&mut all);
        }
    }
    let ours = all.first().and_then(Runs::median);
    let line = |runs: &Runs| -> Result<Line> {
        let median = runs.median();
        Ok(Line {
            workload: *workload,
            engine: runs.engine,
            ratio: median.zip(ours).map(|(m, o)| m.as_secs_f64() / o.as_secs_f64()),
            median,
            peak: match options.no_memory || runs.fault.is_some() {
                true => None,
                false => peak_of(runs.engine, workload, options, directory)?,
            },
            changes: runs.changes,
            fault: runs.fault.clone(),
        })
    };
    all.iter().map(line).collect()
}

impl Runs {
    fn new(engine: Engine) -> Self {
        Self {
            engine,
            times: Vec::new(),
            changes: Changes::default(),
            content: None,
            fault: None,
        }
    }

    async fn once(&mut self, workload: &Workload, options: &Options, lab: &Lab, source: &Path) -> Result {
        let table = lab.fresh_table(self.engine.deletion_vectors())?;
        let elapsed = self
            .engine
            .load(workload, table.path(), source, options.memory_limit)
            .await?;
        self.times.push(elapsed);
        self.changes = check::changes(table.path(), 1)?;
        if self.content.is_none() {
            let content = check::content(table.path()).await?;
            let expected = workload.expected(options.rows);
            if u64::try_from(content.rows) != Ok(expected.rows)
                || u64::try_from(content.versions) != Ok(expected.rows_of_source)
            {
                return Err(format!(
                    "the table holds {} rows, {} of them from the source; {expected:?}",
                    content.rows, content.versions
                )
                .into());
            }
            self.content = Some(content);
        }
        Ok(())
    }

    fn median(&self) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied()
    }
}

/// Every engine must leave the same rows.
fn compare(all: &mut [Runs]) {
    let Some(reference) = all.iter().find_map(|runs| runs.content.clone()) else {
        return;
    };
    for runs in all.iter_mut().filter(|runs| runs.fault.is_none()) {
        if runs.content.as_ref() != Some(&reference) {
            runs.fault = Some(format!("{:?} is not {reference:?}", runs.content));
        }
    }
}

/// The peak memory of one more run, in a process that does nothing else.
fn peak_of(engine: Engine, workload: &Workload, options: &Options, directory: &Path) -> Result<Option<u64>> {
    let program: PathBuf = std::env::current_exe()?;
    let output = Command::new(program)
        .args(options.for_peak(engine, workload, directory))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}

async fn print_peak(engine: Engine, options: &Options, lab: &Lab) -> Result {
    let workload = options.workload.first().ok_or("no workload")?;
    let (source, table) = (lab.source(workload)?, lab.fresh_table(engine.deletion_vectors())?);
    memory::reset_peak();
    engine
        .load(workload, table.path(), &source, options.memory_limit)
        .await?;
    match memory::peak() {
        Some(bytes) => println!("{bytes}"),
        None => println!("unknown"),
    }
    Ok(())
}
