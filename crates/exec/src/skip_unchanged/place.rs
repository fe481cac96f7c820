//! A condition put into the scan of Parquet files below, which decodes the other columns only for rows that meet it.

use std::sync::Arc;

use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;

/// `plan` with a scan that delivers only rows that meet `condition`, which is over the columns of `plan`. `None`: there
/// is something else between, or the scan has conditions or a limit of its own, so that it would see other rows.
pub(super) fn place(
    plan: &Arc<dyn ExecutionPlan>,
    condition: &Arc<dyn PhysicalExpr>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(below) = below(projection.expr(), condition)? else {
            return Ok(None);
        };
        return Ok(match place(projection.input(), &below)? {
            Some(input) => Some(replace_children_if_necessary(Arc::clone(plan), vec![input])?),
            None => None,
        });
    }
    match plan.downcast_ref::<DataSourceExec>() {
        Some(scan) => in_scan(scan, condition),
        None => Ok(None),
    }
}

/// The condition over the columns that a projection reads; `None` where it computes one.
fn below(projection: &[ProjectionExpr], condition: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut plain = true;
    let below = Arc::clone(condition).transform(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        match projection.get(column.index()).map(|read| &read.expr) {
            Some(read) if read.downcast_ref::<Column>().is_some() => Ok(Transformed::yes(Arc::clone(read))),
            _ => {
                plain = false;
                Ok(Transformed::no(expr))
            }
        }
    })?;
    Ok(plain.then_some(below.data))
}

fn in_scan(scan: &DataSourceExec, condition: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((config, source)) = scan.downcast_to_file_source::<ParquetSource>() else {
        return Ok(None);
    };
    if config.limit.is_some() || source.filter().is_some() {
        return Ok(None);
    }
    let Some(condition) = source
        .projection()
        .map_or_else(|| Ok(None), |read| below(read.as_ref(), condition))?
    else {
        return Ok(None);
    };
    let condition = reassign_expr_columns(condition, source.table_schema().table_schema())?;
    let source = source.with_predicate(condition).with_pushdown_filters(true);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source));
    Ok(Some(DataSourceExec::from_data_source(config.build())))
}
