//! How the cost of one source grows with the table it is loaded into.

use std::path::Path;

use alluvium_benches::Result;
use alluvium_benches::engine::Engine;

use crate::measure::measure;
use crate::options::Options;
use crate::plot::{Chart, Series, draw};
use crate::table::{Line, mebibytes, or_dash, seconds, setting};

/// Rows of the source unless the options say otherwise.
const SOURCE_ROWS: u64 = 100_000;

/// Measures and prints every size, then draws them. Returns what went wrong.
pub async fn run(options: &Options, directory: &Path) -> Result<Vec<String>> {
    let rows = options.source_rows.unwrap_or(SOURCE_ROWS);
    println!("Sources of {rows} rows, {} files, {}", options.files, setting(options));
    println!(
        "| workload | table rows | engine | median s | x ours | peak MiB | files opened | MiB read | MiB written | result |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|---|");
    let (mut charts, mut faults) = (Vec::new(), Vec::new());
    let sized = Options {
        source_rows: Some(rows),
        ..options.clone()
    };
    for workload in sized.workloads() {
        let mut points = Vec::new();
        for table_rows in &options.curve_rows {
            let of_size = Options {
                rows: *table_rows,
                ..sized.clone()
            };
            for line in measure(&workload, &of_size, directory).await? {
                print(&line, *table_rows);
                faults.extend(line.fault());
                points.extend(
                    line.median
                        .map(|median| (line.engine, *table_rows, median.as_secs_f64())),
                );
            }
        }
        let title = format!("{}: {rows} rows, {:?}", workload.name, workload.place).to_lowercase();
        let series = sized
            .engines()
            .into_iter()
            .map(|engine| of_engine(engine, &points))
            .collect();
        charts.push(Chart { title, series });
    }
    if let Some(path) = &options.svg {
        std::fs::write(path, draw(&charts, "rows of the table", "seconds"))?;
    }
    Ok(faults)
}

fn of_engine(engine: Engine, points: &[(Engine, u64, f64)]) -> Series {
    let mine = points.iter().filter(|(of, _, _)| *of == engine);
    Series {
        name: engine.name(),
        points: mine
            // Tables of more rows than that are not measured here.
            .map(|(_, rows, time)| (f64::from(u32::try_from(*rows).unwrap_or(u32::MAX)), *time))
            .collect(),
    }
}

fn print(line: &Line, rows: u64) {
    println!(
        "| {} {:?} | {rows} | {} | {} | {} | {} | {} | {} | {} | {} |",
        line.workload.name,
        line.workload.place,
        line.engine.name(),
        or_dash(line.median.map(seconds)),
        or_dash(line.ratio.map(|r| format!("{r:.2}"))),
        or_dash(line.usage.peak.map(mebibytes)),
        or_dash(line.usage.reads.map(|r| r.files.to_string())),
        or_dash(line.usage.reads.map(|r| mebibytes(r.bytes))),
        or_dash(line.changes.map(|c| mebibytes(c.bytes_written))),
        line.result(),
    );
}
