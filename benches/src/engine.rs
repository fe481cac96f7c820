//! Who loads: our statements, the operations that come with the table format library, and the least that either has to
//! do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::workload::Workload;
use crate::{Result, floor, ours, peer};

/// An engine, with the way it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Our statements on a table with deletion vectors.
    Alluvium,
    /// The same on a table without: files with changed rows are written again.
    AlluviumRewrite,
    /// deltalake's merge as a careful user writes it: the source is asked for its range of keys, the range is part of
    /// the condition, and the source streams.
    MergeRange,
    /// deltalake's merge with its own early filter, which reads the source once more.
    MergeFilter,
    /// deltalake's merge with a streaming source and nothing else.
    MergeStreaming,
    /// No engine: the key columns are read once, and the source.
    FloorKeys,
    /// No engine: the files with changed rows are decoded and encoded once, and the rows that come in.
    FloorRewrite,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Self; 7] = [
        Self::Alluvium,
        Self::AlluviumRewrite,
        Self::MergeRange,
        Self::MergeFilter,
        Self::MergeStreaming,
        Self::FloorKeys,
        Self::FloorRewrite,
    ];

    /// Its name in options and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alluvium => "alluvium",
            Self::AlluviumRewrite => "alluvium-rewrite",
            Self::MergeRange => "merge-range",
            Self::MergeFilter => "merge-filter",
            Self::MergeStreaming => "merge-streaming",
            Self::FloorKeys => "floor-keys",
            Self::FloorRewrite => "floor-rewrite",
        }
    }

    /// The engine of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Whether its tables have deletion vectors.
    pub fn deletion_vectors(self) -> bool {
        self == Self::Alluvium
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Alluvium | Self::AlluviumRewrite)
    }

    /// Whether it loads nothing.
    pub fn is_floor(self) -> bool {
        matches!(self, Self::FloorKeys | Self::FloorRewrite)
    }

    /// Loads `sources` into `table` and tells how long that took, from opening the table to the last commit. The
    /// session is there before the clock starts.
    ///
    /// # Errors
    ///
    /// Whatever the engine reports, memory that ran out included.
    pub async fn load(
        self,
        workload: &Workload,
        table: &Path,
        sources: &[PathBuf],
        memory_limit: Option<usize>,
    ) -> Result<Duration> {
        match self {
            Self::Alluvium | Self::AlluviumRewrite => ours::load(workload, table, sources, memory_limit).await,
            Self::MergeRange | Self::MergeFilter | Self::MergeStreaming => {
                peer::load(self, workload, table, sources, memory_limit).await
            }
            Self::FloorKeys => floor::read_keys(workload, table, sources).await,
            Self::FloorRewrite => floor::rewrite(workload, table, sources).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::lab::Lab;
    use crate::tables::Shape;
    use crate::workload::WORKLOADS;

    const SHAPE: Shape = Shape {
        rows: 4_000,
        files: 4,
        by_day: false,
    };

    /// One of each kind: the others differ in size and place, and take too long for a test.
    fn kinds() -> impl Iterator<Item = Workload> {
        let kinds = ["w1", "w4", "w6s", "w6p", "w7", "w8", "w9"];
        WORKLOADS
            .into_iter()
            .filter(move |workload| kinds.contains(&workload.name))
    }

    #[tokio::test]
    async fn engines_leave_the_rows_that_are_expected() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::open(directory.path(), SHAPE).unwrap();
        for workload in kinds() {
            let (name, base) = (workload.name, workload.base);
            let sources = lab.sources(&workload).unwrap();
            let mut contents = Vec::new();
            for engine in [Engine::Alluvium, Engine::AlluviumRewrite, Engine::MergeRange] {
                let table = lab.fresh_table(base, engine.deletion_vectors()).await.unwrap();
                engine.load(&workload, table.path(), &sources, None).await.unwrap();
                contents.push(check::content(table.path(), base).await.unwrap());
            }
            let expected = workload.expected(SHAPE.rows);
            assert_eq!(u64::try_from(contents[0].rows), Ok(expected.rows), "{name}");
            assert_eq!(u64::try_from(contents[0].marked), Ok(expected.marked), "{name}");
            assert!(
                contents.iter().all(|content| *content == contents[0]),
                "{name}: {contents:?}"
            );
        }
    }

    #[tokio::test]
    async fn floors_need_no_commit() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::open(directory.path(), SHAPE).unwrap();
        for workload in kinds() {
            let sources = lab.sources(&workload).unwrap();
            for engine in Engine::ALL.into_iter().filter(|engine| engine.is_floor()) {
                let table = lab.fresh_table(workload.base, false).await.unwrap();
                engine.load(&workload, table.path(), &sources, None).await.unwrap();
                let changes = check::changes(table.path()).unwrap();
                assert_eq!(changes, check::Changes::default(), "{}", workload.name);
            }
        }
    }
}
