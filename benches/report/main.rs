//! Our loads beside deltalake's operations: same process, same data, in turn. Prints a table; see the README of this
//! folder.
//!
//!     cargo run --release -p alluvium-benches -- --rows 2000000

mod curve;
mod measure;
mod options;
mod plot;
mod table;
mod usage;

use std::path::Path;
use std::process::ExitCode;

use alluvium_benches::Result;
use clap::Parser;
use measure::measure;
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
    if let Some(engine) = options.usage_of {
        return usage::print(engine, &options, &directory).await;
    }
    let faults = match options.curve {
        true => curve::run(&options, &directory).await?,
        false => report(&options, &directory).await?,
    };
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n       ").into()),
    }
}

/// Every workload on one size of table.
async fn report(options: &Options, directory: &Path) -> Result<Vec<String>> {
    table::heading(options);
    let mut faults = Vec::new();
    for workload in options.workloads() {
        let lines = measure(&workload, options, directory).await?;
        lines.iter().for_each(table::print);
        faults.extend(lines.iter().filter_map(Line::fault));
    }
    Ok(faults)
}
