//! Columns that only few rows are wanted of, found by the rows' positions.
//!
//! A scan with filters (mostly the keys of a join) reads the columns of the filters first. Of the other columns, the late
//! ones, it needs the rows that pass. Arrow's reader goes there in steps: it passes over so many rows, reads one, passes
//! over the next, in every column. When one row in a hundred passes, these steps cost as much as unpacking the pages.
//! Here values are found by their place in the page:
//!
//! ```text
//! early columns, __file, __row ──first filters──▶ Group: rows of one row group
//!                                                   │
//!                           many rows, or columns ──┴── few rows
//!                           that are not known           │
//!                                    │                   ▼
//!                      other filters, with what          Part, Part, ..: some late columns each,
//!                      they need: fewer rows? ─────────▶ of bounded size, two at once
//!                                    │                   │
//!                                    ▼                   ▼
//!                      Reader with positions             Chunk::gather: page after page unpacked into the same
//!                                    │                   memory, levels counted by bits, values taken by index
//!                                    └─────────┬─────────┘
//!                                              ▼
//!                               batches in the order of the file
//! ```
//!
//! The first filters are those of a join's keys. What others need (the validity of versions) is as good as late: of the few
//! rows with a known key it costs less than of all.
//!
//! | module   | knows |
//! |----------|---|
//! | `form`   | which stored columns have the values of which Arrow type as they are |
//! | `cells`  | how an array is put together |
//! | `page`   | where in a page a value is |
//! | `chunk`  | which pages have the rows, and what is in them |
//! | `file`   | row groups of a file, and where its late columns are |
//! | `groups` | the rows that pass |
//! | `part`   | what is fetched and gathered together |
//! | `source` | in which way late columns come |
//! | `rows`   | the order of it all |
//!
//! Only what is known is gathered: plain and dictionary encoded columns of the types in `form`, neither nested nor encrypted,
//! compressed with Snappy, Zstandard or not at all, and stored with the type that the table has. Of a row group with
//! anything else, or in which a page is not what its description says, the rows are read by [`Reader`], which has words for
//! what is wrong with it.

mod cells;
mod chunk;
mod file;
mod form;
mod groups;
mod page;
mod part;
mod rows;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use alluvium_core::Result;
use alluvium_exec::columns;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;

use crate::scan::reader::Reader;
use crate::scan::tasks::ScanTask;
use crate::scan::{PAGES_UNPACKED, ROWS_FETCHED_LATE};
use form::Form;
use groups::{Files, Groups, Passing};
use rows::Rows;
use source::{Counters, Late, Source};

type Filter = Arc<dyn PhysicalExpr>;

/// What a scan reads with late columns.
pub(super) struct LateScan<'a> {
    pub(super) reader: &'a Reader,
    pub(super) tasks: Vec<ScanTask>,
    /// Filters that leave out files, row groups and pages.
    pub(super) pruning: Vec<Filter>,
    /// Filters that rows have to pass.
    pub(super) passing: Vec<Filter>,
    pub(super) partition: usize,
    pub(super) context: &'a Arc<TaskContext>,
    pub(super) metrics: &'a ExecutionPlanMetricsSet,
}

/// The columns of a scan: those that are read first, with the places of the rows, those that the other filters need, and
/// those that only rows are read for which pass.
struct Columns {
    early: Vec<FieldRef>,
    middle: Vec<FieldRef>,
    rest: Vec<FieldRef>,
}

impl Columns {
    /// With the columns of `first` filters among the early ones, and those of `other` filters in the middle.
    fn of(reader: &Reader, first: &[Filter], other: &[Filter]) -> Self {
        let (mut early, late): (Vec<_>, Vec<_>) = reader
            .output()
            .fields()
            .iter()
            .cloned()
            .partition(|field| !reader.is_in_files(field.name()) || uses(first, field.name()));
        let (middle, rest) = late.into_iter().partition(|field| uses(other, field.name()));
        for place in [columns::FILE, columns::ROW] {
            if early.iter().all(|field| field.name() != place) {
                early.extend(reader.field(place));
            }
        }
        Self { early, middle, rest }
    }
}

fn uses(filters: &[Filter], name: &str) -> bool {
    filters
        .iter()
        .flat_map(collect_columns)
        .any(|column| column.name() == name)
}

fn schema<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> SchemaRef {
    Arc::new(Schema::new(fields.into_iter().cloned().collect::<Vec<_>>()))
}

/// Those filters that are looked at first, and the others: first the one that leaves the fewest rows, as far as it can be
/// seen, with all that need no other columns. One that looks values up, as for a join's keys, leaves fewer than one that
/// compares them.
fn by_turn(passing: &[Filter]) -> (Vec<Filter>, Vec<Filter>) {
    let looks = passing
        .iter()
        .map(|filter| (!looks_up(filter), collect_columns(filter)));
    let first = looks.min_by_key(|(compares, columns)| (*compares, columns.len()));
    let keys = first.map(|(_, columns)| columns).unwrap_or_default();
    passing
        .iter()
        .cloned()
        .partition(|filter| collect_columns(filter).is_subset(&keys))
}

/// Whether a filter, as it is now, does more than to compare columns with values.
fn looks_up(filter: &Filter) -> bool {
    let compares = |e: &Filter| {
        e.downcast_ref::<BinaryExpr>().is_some()
            || e.downcast_ref::<Column>().is_some()
            || e.downcast_ref::<Literal>().is_some()
            || e.downcast_ref::<IsNullExpr>().is_some()
            || e.downcast_ref::<IsNotNullExpr>().is_some()
            || e.downcast_ref::<CastExpr>().is_some()
    };
    let current = snapshot_physical_expr(Arc::clone(filter));
    current.is_ok_and(|filter| filter.exists(|e| Ok(!compares(e))).unwrap_or(false))
}

fn over(filters: &[Filter], schema: &SchemaRef) -> Result<Vec<Filter>> {
    let filters = filters.iter().map(|f| reassign_expr_columns(Arc::clone(f), schema));
    Ok(filters.collect::<Result<_, _>>()?)
}

impl LateScan<'_> {
    /// Whether there are late columns, all of types that can be gathered.
    pub(super) fn gathers(&self) -> bool {
        let late = Columns::of(self.reader, &self.passing, &[]).rest;
        let (first, other) = by_turn(&self.passing);
        let middle = Columns::of(self.reader, &first, &other).middle;
        !self.passing.is_empty()
            && !late.is_empty()
            && late.iter().chain(&middle).all(|field| Form::takes(field.data_type()))
    }

    /// The rows of the tasks that pass, in their order.
    pub(super) fn stream(self) -> Result<SendableRecordBatchStream> {
        let output = Arc::clone(self.reader.output());
        let (first, other) = by_turn(&self.passing);
        let Columns { early, middle, rest } = Columns::of(self.reader, &first, &other);
        let reader = self.reader.narrowed(schema(&early))?;
        let known = schema(early.iter().chain(&middle));
        let late = Late {
            all: self.reader.narrowed(schema(middle.iter().chain(&rest)))?,
            middle: self.reader.narrowed(schema(&middle))?,
            rest: self.reader.narrowed(schema(&rest))?,
            filters: over(&other, &known)?,
            finally: over(&other, &output)?,
            known,
        };
        let counter = |name| MetricBuilder::new(self.metrics).counter(name, self.partition);
        let files = Files {
            tasks: self.tasks.iter().map(|task| (task.ordinal, task.clone())).collect(),
            reader: reader.clone(),
            late: Arc::clone(late.all.output()),
            context: Arc::clone(self.context),
            current: None,
        };
        let passing = Passing {
            matched: counter("pushdown_rows_matched"),
            pruned: counter("pushdown_rows_pruned"),
        };
        let source = Source {
            late,
            store: reader.store(self.context)?,
            output: Arc::clone(&output),
            partition: self.partition,
            context: Arc::clone(self.context),
            counters: Counters {
                rows: counter(ROWS_FETCHED_LATE),
                pages: counter(PAGES_UNPACKED),
                bytes: counter("bytes_scanned"),
            },
        };
        // Filters that do not stand yet are all there is, and say what they know to the reader whenever it asks.
        let pruning = match self.pruning.is_empty() {
            true => self.passing,
            false => self.pruning,
        };
        let filters = over(&first, reader.output())?;
        let rows = reader.stream(self.tasks, pruning, false, self.partition, self.context);
        let rows = Rows::new(Groups::new(rows, filters, files, passing)?, source);
        let rows = stream::try_unfold(rows, |mut rows| async move {
            let next = rows.next().await?;
            Ok(next.map(|batch| (batch, rows)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, rows)))
    }
}
