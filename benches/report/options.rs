//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use alluvium_benches::engine::Engine;
use alluvium_benches::tables::Shape;
use alluvium_benches::workload::{Size, WORKLOADS, Workload};
use clap::Parser;

/// Measures our loads beside deltalake's operations.
#[derive(Debug, Clone, Parser)]
#[command(name = "report")]
pub struct Options {
    /// Rows of the base table.
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Data files of the base table.
    #[arg(long, default_value_t = 32)]
    pub files: u64,
    /// Partition the base table by day, one file for each of 90 days.
    #[arg(long)]
    pub by_day: bool,
    /// Runs of each engine and workload.
    #[arg(long, default_value_t = 5)]
    pub reps: usize,
    /// Workloads, separated by commas. All of them unless named.
    #[arg(long, value_delimiter = ',', value_parser = workload)]
    pub workload: Vec<Workload>,
    /// What to measure ours against, separated by commas: merge-range, merge-filter, merge-streaming.
    #[arg(long, value_delimiter = ',', value_parser = engine, default_value = "merge-range")]
    pub against: Vec<Engine>,
    /// Measure nothing but ours.
    #[arg(long)]
    pub only_ours: bool,
    /// Memory of the operators of each engine, such as 512MiB or 2GiB.
    #[arg(long, value_parser = size)]
    pub memory_limit: Option<usize>,
    /// Leave out peak memory and what is read, which cost one more run of each.
    #[arg(long)]
    pub no_usage: bool,
    /// Leave out the least that a load has to do.
    #[arg(long)]
    pub no_floors: bool,
    /// Rows of each source, instead of a share of the table.
    #[arg(long)]
    pub source_rows: Option<u64>,
    /// Measure w1 and w2, unless --workload names others, with sources of one size on tables of several sizes.
    #[arg(long)]
    pub curve: bool,
    /// The sizes of these tables, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1000000,3000000,10000000")]
    pub curve_rows: Vec<u64>,
    /// Draw what --curve measures into this file.
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// Keep tables and sources here for the next time. A temporary directory otherwise.
    #[arg(long)]
    pub work: Option<PathBuf>,
    /// Run one engine once and print what it needs: bytes of memory, files of the table, bytes of them.
    #[arg(long, value_parser = engine, hide = true)]
    pub usage_of: Option<Engine>,
}

impl Options {
    /// The base table.
    pub fn shape(&self) -> Shape {
        Shape {
            rows: self.rows,
            files: self.files,
            by_day: self.by_day,
        }
    }

    /// What to measure.
    pub fn workloads(&self) -> impl Iterator<Item = Workload> {
        let unnamed = match self.curve {
            true => WORKLOADS.get(..2).unwrap_or_default(),
            false => &WORKLOADS,
        };
        let named = match self.workload.is_empty() {
            true => unnamed,
            false => &self.workload,
        };
        let sized = |workload: &Workload| Workload {
            size: self.source_rows.map_or(workload.size, Size::Rows),
            ..*workload
        };
        named.iter().map(sized).collect::<Vec<_>>().into_iter()
    }

    /// Ours first, then the others, then the least there is to do.
    pub fn engines(&self) -> Vec<Engine> {
        let others = self.against.iter().copied().filter(|_| !self.only_ours);
        let floors = [Engine::FloorKeys, Engine::FloorRewrite];
        [Engine::Alluvium, Engine::AlluviumRewrite]
            .into_iter()
            .chain(others.filter(|engine| !engine.is_ours() && !engine.is_floor()))
            .chain(floors.into_iter().filter(|_| !self.only_ours && !self.no_floors))
            .collect()
    }

    /// The arguments that make another process print what `engine` needs.
    pub fn for_usage(&self, engine: Engine, workload: &Workload, directory: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--rows".into(), self.rows.to_string().into()];
        arguments.extend(["--files".into(), self.files.to_string().into()]);
        arguments.extend(["--workload".into(), workload.name.into()]);
        arguments.extend(["--usage-of".into(), engine.name().into()]);
        arguments.extend(["--work".into(), directory.into()]);
        if self.by_day {
            arguments.push("--by-day".into());
        }
        if let Some(rows) = self.source_rows {
            arguments.extend(["--source-rows".into(), rows.to_string().into()]);
        }
        if let Some(bytes) = self.memory_limit {
            arguments.extend(["--memory-limit".into(), bytes.to_string().into()]);
        }
        arguments
    }
}

fn workload(name: &str) -> Result<Workload, String> {
    Workload::named(name).ok_or_else(|| format!("the workloads are {}", WORKLOADS.map(|w| w.name).join(", ")))
}

fn engine(name: &str) -> Result<Engine, String> {
    Engine::named(name).ok_or_else(|| format!("the engines are {}", Engine::ALL.map(Engine::name).join(", ")))
}

/// A number of bytes, with or without a unit.
fn size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, usize); 7] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("", 1),
    ];
    let with_unit = |(unit, bytes): (&str, usize)| {
        let number: usize = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(bytes)
    };
    let found = UNITS.into_iter().find_map(with_unit);
    found.ok_or_else(|| "write a whole number and a unit, such as 2GiB".to_owned())
}
