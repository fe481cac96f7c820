//! Which files lie wholly inside a window: every row of them passes, so they can be replaced without being read.

use std::sync::Arc;

use alluvium_core::Result;
use datafusion::arrow::array::Array;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, not};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::utils::collect_columns;

use crate::scan::may_match;
use crate::table::TableSnapshot;

/// The ordinals of the files of `snapshot` whose rows all pass `condition` (over the table's columns, qualified or
/// not), by partition values and statistics.
///
/// A row fails where the condition is false or NULL. The first is ruled out by bounds, the second by NULL counts: the
/// condition must be NULL only where one of its columns is, so anything but comparisons gives no files.
pub fn wholly_inside(snapshot: &TableSnapshot, condition: &Expr, session: &dyn Session) -> Result<Vec<u32>> {
    let condition = unqualified(condition.clone())?;
    if !is_comparison(&condition)? {
        return Ok(Vec::new());
    }
    let schema = Arc::new(DFSchema::try_from(Arc::clone(snapshot.schema()))?);
    let context = SimplifyContext::builder().with_schema(Arc::clone(&schema)).build();
    let simplifier = ExprSimplifier::new(context);
    let outside = simplifier.simplify(simplifier.coerce(not(condition), &schema)?)?;
    let outside = session.create_physical_expr(outside, &schema)?;
    let may_fail = may_match(snapshot, &outside)?;
    let columns: Vec<usize> = collect_columns(&outside)
        .into_iter()
        .map(|column| column.index())
        .collect();
    let files = snapshot.loaded_files()?;
    let mut inside = Vec::new();
    for (row, (task, may_fail)) in files.tasks.iter().zip(may_fail).enumerate() {
        let nulls = |index: &usize| {
            files
                .stats
                .column(*index)
                .filter(|c| c.nulls.is_valid(row))
                .map(|c| c.nulls.value(row))
        };
        let without_nulls = columns.iter().all(|index| nulls(index) == Some(0));
        if !may_fail && without_nulls && !columns.is_empty() {
            inside.push(task.ordinal);
        }
    }
    Ok(inside)
}

fn unqualified(condition: Expr) -> Result<Expr> {
    let moved = condition.transform(|e| match e {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(moved.data)
}

/// Whether the condition is made of comparisons, `AND`, `OR`, `NOT`, `BETWEEN` and lists of values, over columns and
/// literals: then it is NULL only where a column is.
fn is_comparison(condition: &Expr) -> Result<bool> {
    let mut plain = true;
    condition.apply(|e| {
        plain &= matches!(
            e,
            Expr::Column(_)
                | Expr::Literal(_, _)
                | Expr::BinaryExpr(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Not(_)
                | Expr::IsNotNull(_)
                | Expr::Cast(_)
        ) && !matches!(e, Expr::Literal(value, _) if value.is_null());
        Ok(if plain {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(plain)
}
