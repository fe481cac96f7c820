//! What a load is asked to do: the description that its logical node carries down to the commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use alluvium_core::syntax::OnEmpty;
use datafusion::arrow::datatypes::SchemaRef;

use crate::provider::DeltaTable;
use crate::table::{TableHandle, TableSnapshot};

/// The table that is written, as it will be after the commit.
#[derive(Debug, Clone)]
pub struct LoadTarget {
    /// The table's name as the statement wrote it, for messages and plans.
    pub name: String,
    /// The table's place, shared by the session.
    pub handle: Arc<TableHandle>,
    /// The snapshot the statement was bound to; `None` when the commit creates the table.
    pub base: Option<Arc<TableSnapshot>>,
    /// The schema as written, columns added by schema evolution included.
    pub schema: SchemaRef,
    /// The columns the table is partitioned by.
    pub partition_columns: Vec<String>,
    /// Properties of a table that is created; unused when `base` is set.
    pub properties: HashMap<String, String>,
    /// Whether `schema` differs from the schema of `base`, so that the commit carries new metadata.
    pub evolved: bool,
}

impl LoadTarget {
    /// A table that is there, as it is.
    pub(super) fn existing(name: String, table: &DeltaTable) -> Self {
        let snapshot = table.snapshot();
        Self {
            name,
            handle: Arc::clone(table.handle()),
            base: Some(Arc::clone(snapshot)),
            schema: Arc::clone(snapshot.schema()),
            partition_columns: snapshot.partition_columns().to_vec(),
            properties: snapshot.properties().clone(),
            evolved: false,
        }
    }
}

/// Which operation the log names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OperationKind {
    /// `MERGE`.
    #[default]
    Merge,
    /// `WRITE`.
    Write,
    /// `OPTIMIZE`: the rows of the files that are removed are those of the files that are added.
    Optimize,
}

impl OperationKind {
    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merge => "MERGE",
            Self::Write => "WRITE",
            Self::Optimize => "OPTIMIZE",
        }
    }
}

/// How the commit describes itself, and what it has read.
#[derive(Debug, Clone, Default)]
pub struct CommitOperation {
    /// The operation's name.
    pub kind: OperationKind,
    /// Which stored rows the statement looked at, as SQL over bare column names: commits that touch other rows do not
    /// conflict. `None` is every row.
    pub read_predicate: Option<String>,
    /// `operationParameters`: the clauses, never values of rows.
    pub parameters: BTreeMap<String, String>,
}

/// One load, ready to be planned.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// The statement's name as EXPLAIN shows it: `Upsert`, `MergeOverwrite`, ..
    pub statement: &'static str,
    /// The table that is written.
    pub target: LoadTarget,
    /// What an empty source does.
    pub on_empty: OnEmpty,
    /// Do everything but commit.
    pub dry_run: bool,
    /// `TRANSACTION ('app', n)`.
    pub transaction: Option<(String, i64)>,
    /// The commit's `userMetadata`.
    pub comment: Option<String>,
    /// How the commit describes itself.
    pub operation: CommitOperation,
    /// A sentence for the result row.
    pub notice: Option<String>,
    /// Ordinals of whole files to drop from metadata without reading them; their rows count as deleted.
    pub removed_files: Vec<u32>,
    /// With `RETURNING`: the output's columns, one per `__ret_<i>` column of the input, in order.
    pub returning: Option<SchemaRef>,
    /// Generated columns that the change stream does not carry: where they are NULL they are computed. Every generated
    /// column is checked.
    pub compute_generated: Vec<String>,
    /// Whether change data files are written: the table has the change data feed on and the statement can update or
    /// delete. The input must then carry `__old_<i>` columns.
    pub change_data: bool,
    /// `OPTIONS ('write.target_file_size' ..)` in bytes; `None` follows the table's property.
    pub target_file_size: Option<u64>,
    /// The columns that identify a row, the first of them that by which the table's files are told apart best. None where
    /// the statement knows no keys. An update leaves them as they are: new versions that stay in the places of the old ones
    /// keep the stored keys.
    pub keys: Vec<String>,
    /// Files that planning pruned already, for `num_files_skipped` (run-time pruning is added).
    pub files_skipped: u64,
}

impl LoadSpec {
    /// A spec with everything optional left out.
    pub fn new(statement: &'static str, target: LoadTarget) -> Self {
        Self {
            statement,
            target,
            on_empty: OnEmpty::default(),
            dry_run: false,
            transaction: None,
            comment: None,
            operation: CommitOperation::default(),
            notice: None,
            removed_files: Vec::new(),
            returning: None,
            compute_generated: Vec::new(),
            change_data: false,
            target_file_size: None,
            keys: Vec::new(),
            files_skipped: 0,
        }
    }
}
