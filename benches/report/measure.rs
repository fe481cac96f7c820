//! The runs of one workload: times, what the commits did, and whether all engines leave the same rows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use alluvium_benches::Result;
use alluvium_benches::check::{self, Changes, Content};
use alluvium_benches::engine::Engine;
use alluvium_benches::lab::Lab;
use alluvium_benches::source::Expected;
use alluvium_benches::workload::Workload;

use crate::options::Options;
use crate::table::Line;
use crate::usage::{self, Usage};

/// Runs the engines in turn, so that whatever else the machine does falls on all of them. Each repetition begins with
/// another engine.
pub async fn measure(workload: &Workload, options: &Options, directory: &Path) -> Result<Vec<Line>> {
    let lab = Lab::open(directory, options.shape())?;
    let case = Case {
        workload: *workload,
        sources: lab.sources(workload)?,
        expected: workload.expected(options.rows),
        memory_limit: options.memory_limit,
        lab,
    };
    let mut all: Vec<Runs> = options.engines().into_iter().map(Runs::new).collect();
    for repetition in 0..options.reps {
        let first = repetition % all.len().max(1);
        all.rotate_left(first);
        for runs in all.iter_mut().filter(|runs| runs.fault.is_none()) {
            if let Err(error) = runs.once(&case).await {
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
            usage: match options.no_usage || runs.fault.is_some() {
                true => Usage::default(),
                false => usage::of(runs.engine, workload, options, directory)?,
            },
            changes: runs.changes,
            fault: runs.fault.clone(),
        })
    };
    all.iter().map(line).collect()
}

/// What every engine is given.
struct Case {
    workload: Workload,
    sources: Vec<PathBuf>,
    expected: Expected,
    memory_limit: Option<usize>,
    lab: Lab,
}

/// One engine's runs of one workload.
struct Runs {
    engine: Engine,
    times: Vec<Duration>,
    changes: Option<Changes>,
    content: Option<Content>,
    fault: Option<String>,
}

impl Runs {
    fn new(engine: Engine) -> Self {
        Self {
            engine,
            times: Vec::new(),
            changes: None,
            content: None,
            fault: None,
        }
    }

    async fn once(&mut self, case: &Case) -> Result {
        let base = case.workload.base;
        let table = case.lab.fresh_table(base, self.engine.deletion_vectors()).await?;
        let elapsed = self
            .engine
            .load(&case.workload, table.path(), &case.sources, case.memory_limit)
            .await?;
        self.times.push(elapsed);
        if self.engine.is_floor() {
            return Ok(());
        }
        self.changes = Some(check::changes(table.path())?);
        if self.content.is_none() {
            let content = check::content(table.path(), base).await?;
            let found = (u64::try_from(content.rows), u64::try_from(content.marked));
            if found != (Ok(case.expected.rows), Ok(case.expected.marked)) {
                let (rows, marked) = (content.rows, content.marked);
                return Err(format!("the table holds {rows} rows, marked {marked}; {:?}", case.expected).into());
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
    let loaded = |runs: &&mut Runs| runs.fault.is_none() && !runs.engine.is_floor();
    for runs in all.iter_mut().filter(loaded) {
        if runs.content.as_ref() != Some(&reference) {
            runs.fault = Some(format!("{:?} is not {reference:?}", runs.content));
        }
    }
}
