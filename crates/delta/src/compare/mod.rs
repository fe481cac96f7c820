//! Whether rows of the source differ from the stored rows they match, found out with as little reading as possible.
//!
//! The join below has read nothing of the target but its keys. For rows that match, statistics of the file may prove a
//! difference without any reading; what is left is compared one column at a time, and of each column only the rows that
//! have been equal so far are read. In a load where every row carries a new time, nothing or one column is read.
//!
//! ```text
//! CompareStoredExec: columns=[updated_at, qty, note]      appends `__load_differs`
//!   ProjectionExec                                        `__load_compare`: which rows; `__load_cmp_<i>`: new values
//!     MatchExec                                           source, keys of the target, `__file`, `__row`
//! ```

mod exec;
mod pending;
mod proof;
mod stored;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use alluvium_exec::columns;
use alluvium_exec::node::{RowNode, RowSpec};
use datafusion::arrow::datatypes::{DataType, Field};

use crate::table::TableSnapshot;

pub(crate) use exec::CompareStoredExec;

/// The Boolean input column that is true for the rows to be compared.
pub const WANTED: &str = "__load_compare";
/// The Boolean output column: false for rows that are equal to the stored ones.
pub const DIFFERS: &str = "__load_differs";

/// The input column with the new value of compared column `i`.
pub fn new_value(i: usize) -> String {
    format!("__load_cmp_{i}")
}

/// The logical node of the comparison.
pub type CompareNode = RowNode<CompareSpec>;

/// What is compared: the columns of one table, in the order in which they are looked at.
#[derive(Debug, Clone)]
pub struct CompareSpec {
    snapshot: Arc<TableSnapshot>,
    columns: Vec<String>,
    read: Vec<String>,
}

impl CompareSpec {
    /// Compares `columns` of `snapshot`, none of them a partition column.
    pub fn new(snapshot: Arc<TableSnapshot>, columns: Vec<String>) -> Self {
        let fixed = [WANTED, columns::FILE, columns::ROW].map(str::to_owned);
        Self {
            read: fixed.into_iter().chain((0..columns.len()).map(new_value)).collect(),
            snapshot,
            columns,
        }
    }

    /// The snapshot that is read.
    pub fn snapshot(&self) -> &Arc<TableSnapshot> {
        &self.snapshot
    }

    /// The same columns of another snapshot.
    pub fn repinned(&self, snapshot: Arc<TableSnapshot>) -> Self {
        Self::new(snapshot, self.columns.clone())
    }

    /// The compared columns.
    pub fn compared(&self) -> &[String] {
        &self.columns
    }
}

/// How soon a column is looked at: what costs little and tells much first.
pub fn rank(data_type: &DataType) -> usize {
    match data_type {
        DataType::Timestamp(..) => 0,
        DataType::Date32 => 1,
        other if other.is_nested() => 100,
        other => other.primitive_width().map_or(50, |width| 1 + width),
    }
}

impl PartialEq for CompareSpec {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns
            && self.snapshot.version() == other.snapshot.version()
            && self.snapshot.location() == other.snapshot.location()
    }
}

impl Eq for CompareSpec {}

impl Hash for CompareSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snapshot.location().hash(state);
        self.snapshot.version().hash(state);
        self.columns.hash(state);
    }
}

impl RowSpec for CompareSpec {
    const NAME: &'static str = "CompareStored";
    const EXEC_NAME: &'static str = "CompareStoredExec";

    fn columns(&self) -> Vec<&str> {
        self.read.iter().map(String::as_str).collect()
    }

    fn appended(&self) -> Vec<Field> {
        vec![Field::new(DIFFERS, DataType::Boolean, false)]
    }

    fn arguments(&self) -> Vec<(&'static str, String)> {
        vec![
            ("table", self.snapshot.name()),
            ("columns", format!("[{}]", self.columns.join(", "))),
        ]
    }
}
