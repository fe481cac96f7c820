//! Statements about tables rather than rows: making, attaching, dropping, describing and optimizing them.
//!
//! Each is a [`StatementKind`] like the load statements. Most plan to a [`node::CommandNode`] that does its work when it
//! is executed, so that EXPLAIN shows it only.

mod create_external;
mod create_table;
mod describe;
mod drop_table;
mod exec;
mod functions;
mod node;
mod optimize;
mod target;
mod words;

use std::sync::Arc;

use alluvium_core::{Result, StatementKind};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

pub(crate) use node::CommandPlanner;
use node::{CommandNode, CommandTask};

/// The commands of every session.
pub(crate) fn builtin() -> Vec<Arc<dyn StatementKind>> {
    vec![
        Arc::new(create_table::CreateTableKind),
        Arc::new(create_external::CreateExternalTableKind),
        Arc::new(drop_table::DropTableKind),
        Arc::new(describe::DescribeHistoryKind),
        Arc::new(describe::DescribeDetailKind),
        Arc::new(optimize::OptimizeKind),
    ]
}

/// Adds the table functions `table_history('t')` and `table_files('t')`.
pub(crate) fn with_functions(mut state: SessionState) -> SessionState {
    for function in functions::LogFunction::ALL {
        state.register_udtf(function.name(), Arc::new(*function));
    }
    state
}

/// A plan that does nothing but say so.
fn task_of(table: &str, status: &str) -> Result<LogicalPlan> {
    let task = Nothing {
        table: table.to_owned(),
        status: status.to_owned(),
    };
    Ok(CommandNode::plan(Arc::new(task), None)?)
}

/// There is nothing to do.
#[derive(Debug)]
struct Nothing {
    table: String,
    status: String,
}

#[async_trait]
impl CommandTask for Nothing {
    fn name(&self) -> &'static str {
        "Nothing"
    }

    fn describe(&self) -> String {
        format!("table={}, status={}", self.table, self.status)
    }

    fn schema(&self) -> SchemaRef {
        target::status_schema()
    }

    async fn run(&self, _input: Vec<RecordBatch>, _context: Arc<TaskContext>) -> Result<RecordBatch> {
        target::status(&self.table, self.status.clone())
    }
}
