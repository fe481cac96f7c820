//! DataFusion's `SQLOptions` for statements that DataFusion's own check does not know.

use std::sync::Arc;

use alluvium_core::{Effect, LoadError, Result, SqlState};
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::DFSchema;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::{DdlStatement, DropTable, LogicalPlan, LogicalPlanBuilder};

/// Refuses a statement of `effect` where `options` do not allow it.
///
/// The fields of `SQLOptions` are private, so a plan of the same effect is put before its own check.
pub(crate) fn verify(options: &SQLOptions, effect: Effect, name: &str) -> Result<()> {
    let probe = match effect {
        Effect::Read => return Ok(()),
        Effect::Dml => dml()?,
        Effect::Ddl => ddl(),
    };
    options.verify_plan(&probe).map_err(|_| {
        LoadError::new(
            SqlState::InsufficientPrivilege,
            format!("{name} is not allowed in this session"),
        )
        .hint("The session was opened with SQLOptions that refuse statements which change tables.")
    })
}

fn dml() -> Result<LogicalPlan> {
    let table = Arc::new(EmptyTable::new(Arc::new(Schema::empty())));
    let input = LogicalPlanBuilder::empty(false).build()?;
    let op = WriteOp::Insert(InsertOp::Append);
    Ok(LogicalPlan::Dml(DmlStatement::new(
        "t".into(),
        provider_as_source(table),
        op,
        Arc::new(input),
    )))
}

fn ddl() -> LogicalPlan {
    LogicalPlan::Ddl(DdlStatement::DropTable(DropTable {
        name: "t".into(),
        if_exists: true,
        schema: Arc::new(DFSchema::empty()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_honoured_for_every_effect() {
        let all = SQLOptions::new();
        let none = SQLOptions::new().with_allow_dml(false).with_allow_ddl(false);
        for effect in [Effect::Read, Effect::Dml, Effect::Ddl] {
            verify(&all, effect, "UPSERT").unwrap();
        }
        verify(&none, Effect::Read, "UPSERT").unwrap();
        assert_eq!(verify(&none, Effect::Dml, "UPSERT").unwrap_err().code(), "42501");
        assert_eq!(verify(&none, Effect::Ddl, "CREATE TABLE").unwrap_err().code(), "42501");
    }
}
