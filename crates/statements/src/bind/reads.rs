//! The stored rows a statement looks at, as SQL that the conflict check of a commit understands: what other commits do
//! to other rows does not concern it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::keys::KeySet;

impl KeySet {
    /// The stored rows that `WITHIN` admits. A `WITHIN` over other columns than keys is also looked behind.
    pub fn read_predicate(&self) -> Option<String> {
        let within = self.within.as_ref().filter(|within| within.keys_only)?;
        read_predicate(&within.of_target)
    }
}

/// `condition` as SQL over bare names. Parts of it that have no such form are left out, which only widens it; `None` is
/// every row.
pub(crate) fn read_predicate(condition: &Expr) -> Option<String> {
    let parts: Vec<String> = split_conjunction(untested(condition))
        .into_iter()
        .filter_map(comparison)
        .collect();
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

fn untested(condition: &Expr) -> &Expr {
    match condition {
        Expr::IsTrue(inner) => inner,
        other => other,
    }
}

/// A column compared with a literal.
fn comparison(expr: &Expr) -> Option<String> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return None;
    };
    let (column, op, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), value) => (column, *op, value),
        (value, Expr::Column(column)) => (column, op.swap()?, value),
        _ => return None,
    };
    let comparable = [Operator::Eq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
    comparable.contains(&op).then_some(())?;
    Some(format!("{} {op} {}", sql_name(&column.name), sql_literal(value)?))
}

/// A column's name in SQL.
pub(crate) fn sql_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A literal whose text means the same value everywhere.
pub(crate) fn sql_literal(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    match value {
        value if value.is_null() => None,
        ScalarValue::Int8(_) | ScalarValue::Int16(_) | ScalarValue::Int32(_) | ScalarValue::Int64(_) => {
            Some(value.to_string())
        }
        ScalarValue::Utf8(Some(text)) => Some(format!("'{}'", text.replace('\'', "''"))),
        ScalarValue::Date32(Some(_)) => value.cast_to(&DataType::Utf8).ok().map(|text| format!("DATE '{text}'")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn what_cannot_be_written_widens() {
        let condition = Expr::IsTrue(Box::new(col("p").eq(lit("it's")).and(lit(3_i64).lt_eq(col("n")))));
        assert_eq!(read_predicate(&condition).unwrap(), "\"p\" = 'it''s' AND \"n\" >= 3");
        assert_eq!(
            read_predicate(&col("n").gt(lit(1_i64)).and(col("x").is_null())).unwrap(),
            "\"n\" > 1"
        );
        assert_eq!(read_predicate(&col("n").gt(lit(1_i64)).or(col("p").eq(lit("a")))), None);
        assert_eq!(read_predicate(&col("n").not_eq(lit(1_i64))), None);
        assert_eq!(read_predicate(&col("n").eq(lit(ScalarValue::Int64(None)))), None);
    }
}
