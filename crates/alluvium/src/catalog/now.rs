//! `now()` in microseconds, the unit of every timestamp of a session of ours: DataFusion's own has nanoseconds, which no
//! table column could take without losing digits.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

/// The function under the names of DataFusion's.
pub(super) fn now() -> ScalarUDF {
    ScalarUDF::new_from_impl(Now {
        signature: Signature::nullary(Volatility::Stable),
        aliases: vec!["current_timestamp".to_owned()],
    })
}

/// The start of the statement, UTC.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    signature: Signature,
    aliases: Vec<String>,
}

fn utc_micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(utc_micros())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(self.name(), utc_micros(), false).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("now() is a literal by the time a plan runs")
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(start) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value = ScalarValue::TimestampMicrosecond(Some(start.timestamp_micros()), Some("UTC".into()));
        Ok(ExprSimplifyResult::Simplified(lit(value)))
    }
}
