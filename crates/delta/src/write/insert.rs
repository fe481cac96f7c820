//! Plain `INSERT INTO` and `INSERT OVERWRITE`, through the same checks and the same commit as the load statements.

use std::collections::BTreeMap;
use std::sync::Arc;

use alluvium_core::syntax::OnEmpty;
use alluvium_core::{LoadError, Result};
use alluvium_exec::{action, columns};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal, cast};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use deltalake::kernel::StructTypeExt;

use crate::provider::DeltaTable;
use crate::table::features::check_writable;

use super::commit::Output;
use super::planner::load_plan;
use super::spec::{CommitOperation, LoadSpec, LoadTarget, OperationKind};

/// The plan of an `INSERT` of `input`, whose columns are the table's, by place. It gives back one `count`.
pub async fn plan(
    table: &DeltaTable,
    session: &dyn Session,
    input: Arc<dyn ExecutionPlan>,
    op: InsertOp,
) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
    Ok(checked_plan(table, session, input, op).await?)
}

async fn checked_plan(
    table: &DeltaTable,
    session: &dyn Session,
    input: Arc<dyn ExecutionPlan>,
    op: InsertOp,
) -> Result<Arc<dyn ExecutionPlan>> {
    let snapshot = table.snapshot();
    check_writable(snapshot)?;
    let target = LoadTarget::existing(snapshot.name(), table);
    let mut spec = LoadSpec::new("Insert", target);
    spec.on_empty = OnEmpty::Apply;
    let (mode, read_predicate) = match op {
        // An append reads nothing of the table: it stands beside every other commit.
        InsertOp::Append => ("Append", Some("false".to_owned())),
        InsertOp::Overwrite => {
            refuse_append_only(&spec)?;
            spec.removed_files = snapshot.files().await?.iter().map(|file| file.ordinal).collect();
            ("Overwrite", None)
        }
        InsertOp::Replace => {
            return Err(
                LoadError::unsupported("REPLACE INTO").hint("UPSERT INTO t USING src KEYS (..) replaces rows by key.")
            );
        }
    };
    spec.operation = CommitOperation {
        kind: OperationKind::Write,
        read_predicate,
        parameters: BTreeMap::from([("mode".to_owned(), mode.to_owned())]),
    };
    // Whether a generated column was left out cannot be told from its being NULL: NULL is computed, a value checked.
    let generated = snapshot.eager().schema().get_generated_columns();
    let generated = generated.map_err(|e| LoadError::unsupported(format!("generated columns cannot be read: {e}")))?;
    spec.compute_generated = generated.into_iter().map(|column| column.name).collect();
    let changes = as_change_stream(&spec, input)?;
    load_plan(Arc::new(spec), changes, Output::Count, session).await
}

fn refuse_append_only(spec: &LoadSpec) -> Result<()> {
    let property = spec.target.properties.get("delta.appendOnly");
    if property.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return Err(
            LoadError::unsupported(format!("overwriting append-only table {:?}", spec.target.name))
                .hint("The table has the property delta.appendOnly."),
        );
    }
    Ok(())
}

/// Every row of `input` as a row to insert.
fn as_change_stream(spec: &LoadSpec, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let given = input.schema();
    let wanted = spec.target.schema.fields();
    if given.fields().len() != wanted.len() {
        return Err(LoadError::internal(format!(
            "an insert into {} columns comes with {}",
            wanted.len(),
            given.fields().len()
        )));
    }
    let mut exprs: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::with_capacity(wanted.len() + 3);
    for (index, (field, stored)) in given.fields().iter().zip(wanted).enumerate() {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let value = if field.data_type() == stored.data_type() {
            column
        } else {
            cast(column, &given, stored.data_type().clone())?
        };
        exprs.push((value, stored.name().clone()));
    }
    let constants = [
        (ScalarValue::UInt8(Some(action::INSERT)), columns::ACTION),
        (ScalarValue::try_new_null(&DataType::UInt32)?, columns::FILE),
        (ScalarValue::try_new_null(&DataType::Int64)?, columns::ROW),
    ];
    for (value, name) in constants {
        exprs.push((Arc::new(Literal::new(value)), name.to_owned()));
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, input)?))
}
