//! Small loads, for comparing one commit of the project with another.
//!
//!     cargo bench --bench upsert

use std::time::Duration;

use alluvium_benches::Result;
use alluvium_benches::engine::Engine;
use alluvium_benches::lab::Lab;
use alluvium_benches::tables::Shape;
use alluvium_benches::workload::{WORKLOADS, Workload};
use criterion::{Criterion, SamplingMode};
use tokio::runtime::Runtime;

const SHAPE: Shape = Shape {
    rows: 100_000,
    files: 8,
    by_day: false,
};

fn main() -> Result {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = Runtime::new()?;
    let directory = tempfile::tempdir()?;
    let lab = Lab::open(directory.path(), SHAPE)?;
    let mut group = criterion.benchmark_group("upsert");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for workload in WORKLOADS {
        let mut failure = None;
        group.bench_function(workload.name, |bencher| {
            bencher.iter_custom(
                |iterations| match runtime.block_on(loads(&lab, &workload, iterations)) {
                    Ok(elapsed) => elapsed,
                    Err(error) => {
                        failure = Some(error);
                        // Criterion asks for a time; the error ends the bench after this workload.
                        Duration::from_millis(1)
                    }
                },
            );
        });
        if let Some(error) = failure {
            return Err(error);
        }
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}

/// The time of as many loads, each into a fresh table. Making the tables is not counted.
async fn loads(lab: &Lab, workload: &Workload, iterations: u64) -> Result<Duration> {
    let sources = lab.sources(workload)?;
    let mut elapsed = Duration::ZERO;
    for _ in 0..iterations {
        let table = lab.fresh_table(workload.base, true).await?;
        elapsed += Engine::Alluvium.load(workload, table.path(), &sources, None).await?;
    }
    Ok(elapsed)
}
