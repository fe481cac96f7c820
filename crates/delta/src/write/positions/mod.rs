//! What becomes of stored rows that are marked: a strategy per kind of table. Where a table has deletion vectors turned
//! on they are named in one, else their file is written again without them, or with their new versions in place.

pub(super) mod homes;
pub(super) mod rewrite;
mod splice;
pub(super) mod vector;
pub(super) mod versions;

use std::collections::BTreeMap;

use alluvium_core::{LoadError, Result};
use roaring::RoaringTreemap;

use super::actions::ActionRow;
use super::exec::twice_updated;

/// The positions marked in one file, from all writers.
#[derive(Debug, Default)]
pub(super) struct Marked {
    updated: RoaringTreemap,
    deleted: RoaringTreemap,
}

impl Marked {
    /// Every marked position, and how many of them go without a new version.
    pub(super) fn into_all(self) -> (RoaringTreemap, u64) {
        let updated = self.updated.len();
        let all = self.updated | self.deleted;
        let deleted = all.len() - updated;
        (all, deleted)
    }
}

/// Adds positions as they arrive. A row that two writers want to update is an error.
pub(super) fn collect(marked: &mut BTreeMap<u32, Marked>, rows: Vec<ActionRow>, table: &str) -> Result<()> {
    for row in rows {
        match row {
            ActionRow::Updated(file, positions) => {
                let known = marked.entry(file).or_default();
                if !known.updated.is_disjoint(&positions) {
                    return Err(twice_updated(table));
                }
                known.updated |= positions;
            }
            ActionRow::Deleted(file, positions) => marked.entry(file).or_default().deleted |= positions,
            _ => (),
        }
    }
    Ok(())
}

fn lost_mark() -> LoadError {
    LoadError::internal("a marked row was not met in its file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_updated_and_deleted_count_once() {
        let mut marked = BTreeMap::new();
        let rows = vec![
            ActionRow::Updated(0, RoaringTreemap::from_iter([1_u64, 2])),
            ActionRow::Deleted(0, RoaringTreemap::from_iter([2_u64, 3])),
            ActionRow::Deleted(0, RoaringTreemap::from_iter([3_u64])),
        ];
        collect(&mut marked, rows, "t").unwrap();
        let (all, deleted) = marked.remove(&0).unwrap().into_all();
        assert_eq!((all.len(), deleted), (3, 1));
    }

    #[test]
    fn two_updates_of_one_row_are_an_error() {
        let mut marked = BTreeMap::new();
        let update = || ActionRow::Updated(0, RoaringTreemap::from_iter([1_u64]));
        assert_eq!(
            collect(&mut marked, vec![update(), update()], "t").unwrap_err().code(),
            "21000"
        );
    }
}
