//! Putting files together: small ones, and those that deletion vectors take many rows from.
//!
//! ```text
//! LoadCommitExec         the old files out, the new ones in: no row changes, and readers of changes see nothing
//!   LoadWriteExec        one writer for each partition of the table; sorts first where the table has alluvium.keys
//!     <the rows of the files, one file after the other>
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use alluvium_core::Result;
use alluvium_core::syntax::OnEmpty;
use alluvium_exec::{action, columns};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, lit};

use crate::provider::DeltaTable;
use crate::scan::TargetScan;
use crate::table::features::check_writable;
use crate::table::{FileTask, TableSnapshot};

use super::files::FileLayout;
use super::node::LoadNode;
use super::spec::{CommitOperation, LoadSpec, LoadTarget, OperationKind};

/// What is to be done.
#[derive(Debug, Clone, Default)]
pub struct Optimize {
    /// How messages name the table.
    pub table: String,
    /// Over the table's columns: files that cannot hold a row for which it is true are left alone.
    pub predicate: Option<Expr>,
    /// The same as text, for the history of the table.
    pub predicate_text: Option<String>,
}

impl Optimize {
    /// The plan for `table`, which gives back the result row of a load with all counts of rows zero.
    ///
    /// # Errors
    ///
    /// 0A000 for a table with a feature that writers here do not honour.
    pub fn plan(self, table: &DeltaTable, session: &dyn Session) -> Result<LogicalPlan> {
        let snapshot = table.snapshot();
        check_writable(snapshot)?;
        let target = LoadTarget::existing(self.table, table);
        let layout = FileLayout::data(&target.schema, &target.partition_columns, &target.properties, None)?;
        let scan = TargetScan::new(Arc::clone(snapshot)).in_order();
        let among = scan.candidates(session, self.predicate.as_slice())?;
        let chosen = chosen(snapshot, &among, layout.target_size())?;
        let rows = rows(scan, snapshot, &chosen)?;
        let mut spec = LoadSpec::new("Optimize", target);
        spec.on_empty = OnEmpty::Apply;
        spec.removed_files = chosen;
        let text = |text: String| ("predicate".to_owned(), text);
        spec.operation = CommitOperation {
            kind: OperationKind::Optimize,
            // Rows that others add do not matter here; a file that they change cannot be removed any more.
            read_predicate: Some("false".to_owned()),
            parameters: self.predicate_text.map(text).into_iter().collect::<BTreeMap<_, _>>(),
        };
        let node = Arc::new(LoadNode::try_new(Arc::new(spec), rows)?);
        Ok(LogicalPlan::Extension(Extension { node }))
    }
}

/// The rows of the `chosen` files as rows to insert.
fn rows(scan: TargetScan, snapshot: &TableSnapshot, chosen: &[u32]) -> Result<LogicalPlan> {
    let files = snapshot.loaded_files()?;
    let others = files.tasks.iter().map(|task| task.ordinal);
    let others: Vec<u32> = others.filter(|file| chosen.binary_search(file).is_err()).collect();
    let source = provider_as_source(Arc::new(scan.without_files(&others)));
    let stored = (0..snapshot.schema().fields().len()).collect();
    let rows = LogicalPlanBuilder::scan("stored", source, Some(stored))?.build()?;
    let mut exprs: Vec<Expr> = rows
        .schema()
        .columns()
        .into_iter()
        .map(|column| {
            let name = column.name.clone();
            Expr::Column(column).alias(name)
        })
        .collect();
    let none = |data_type| ScalarValue::try_new_null(&data_type).map(|value| Expr::Literal(value, None));
    exprs.push(lit(action::INSERT).alias(columns::ACTION));
    exprs.push(none(DataType::UInt32)?.alias(columns::FILE));
    exprs.push(none(DataType::Int64)?.alias(columns::ROW));
    Ok(LogicalPlanBuilder::from(rows).project(exprs)?.build()?)
}

/// Which of the files `among` are worth being written again: in each partition of the table those that are much smaller
/// than they should be, where fewer come out than went in, and those that deletion vectors take many rows from. Ascending.
fn chosen(snapshot: &TableSnapshot, among: &[u32], target: u64) -> Result<Vec<u32>> {
    let files = snapshot.loaded_files()?;
    let mut partitions: BTreeMap<Vec<Option<&str>>, Vec<&FileTask>> = BTreeMap::new();
    for task in files
        .tasks
        .iter()
        .filter(|task| among.binary_search(&task.ordinal).is_ok())
    {
        let values = snapshot.partition_columns().iter();
        let values = values.map(|name| task.raw_partition_values.get(name).and_then(Option::as_deref));
        partitions.entry(values.collect()).or_default().push(task);
    }
    let mut chosen: Vec<u32> = partitions
        .values()
        .flat_map(|files| of_partition(files, target))
        .collect();
    chosen.sort_unstable();
    Ok(chosen)
}

fn of_partition(files: &[&FileTask], target: u64) -> Vec<u32> {
    // A file of three quarters is as good as it will become, so that as many such files may come out.
    let enough = target / 4 * 3;
    let small = |file: &&FileTask| file.size < enough;
    let (mut count, mut size) = (0_u64, 0_u64);
    for file in files.iter().copied().filter(|file| small(file) || wastes(file)) {
        count += 1;
        size = size.saturating_add(live_size(file));
    }
    let fewer = count > size.div_ceil(enough.max(1)).max(1);
    let worth = |file: &&FileTask| wastes(file) || fewer && small(file);
    files.iter().copied().filter(worth).map(|file| file.ordinal).collect()
}

/// The bytes of the rows that are not deleted, as far as it can be told.
fn live_size(file: &FileTask) -> u64 {
    match file.num_records.filter(|rows| *rows > 0) {
        Some(rows) => {
            let live = u128::from(rows.saturating_sub(deleted(file)));
            let size = u128::from(file.size) * live / u128::from(rows);
            u64::try_from(size).unwrap_or(file.size)
        }
        None => file.size,
    }
}

fn deleted(file: &FileTask) -> u64 {
    let vector = file.deletion_vector.as_ref();
    vector.map_or(0, |vector| u64::try_from(vector.cardinality).unwrap_or(0))
}

/// Whether more than a twentieth of the rows are deleted, which is where Spark's `OPTIMIZE` draws the line, too.
fn wastes(file: &FileTask) -> bool {
    let deleted = deleted(file);
    file.num_records.is_none_or(|rows| deleted > rows / 20) && deleted > 0
}
