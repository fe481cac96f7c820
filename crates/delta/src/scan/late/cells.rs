//! The values of a column on their way to an Arrow array.

use datafusion::arrow::array::{Array, ArrayData, ArrayRef, BooleanBufferBuilder, NullBufferBuilder, make_array};
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::datatypes::DataType;

use super::form::Form;

/// Values that are put one after the other.
pub(super) struct Cells {
    form: Form,
    present: NullBufferBuilder,
    values: Values,
}

enum Values {
    Bits(BooleanBufferBuilder),
    Fixed(MutableBuffer),
    /// The ends of the values, behind a zero, and their bytes.
    Bytes(Vec<i32>, MutableBuffer),
}

impl Cells {
    /// With room for `rows` values.
    pub(super) fn new(form: Form, rows: usize) -> Self {
        let values = match form {
            Form::Boolean => Values::Bits(BooleanBufferBuilder::new(rows)),
            Form::Bytes => {
                let mut ends = Vec::with_capacity(rows + 1);
                ends.push(0);
                Values::Bytes(ends, MutableBuffer::new(rows * 16))
            }
            Form::Int8 | Form::Int16 | Form::Fixed(_) | Form::Decimal(_) | Form::BigEndian(_) => {
                Values::Fixed(MutableBuffer::new(rows * width(form)))
            }
        };
        Self {
            form,
            present: NullBufferBuilder::new(rows),
            values,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.present.len()
    }

    /// Puts a value as a page holds it, or NULL. `None`: it is no value of the column.
    pub(super) fn put(&mut self, value: Option<&[u8]>) -> Option<()> {
        self.present.append(value.is_some());
        match (&mut self.values, value) {
            (Values::Bits(bits), value) => bits.append(value == Some(&[1])),
            (Values::Bytes(ends, bytes), value) => {
                bytes.extend_from_slice(value.unwrap_or_default());
                ends.push(i32::try_from(bytes.len()).ok()?);
            }
            (Values::Fixed(out), None) => out.extend_zeros(width(self.form)),
            (Values::Fixed(out), Some(value)) => put_fixed(self.form, value, out)?,
        }
        Some(())
    }

    /// The array of all values. `None`: texts among them are no UTF-8.
    pub(super) fn finish(mut self, data_type: &DataType) -> Option<ArrayRef> {
        let nulls = self.present.finish();
        let rows = match &self.values {
            Values::Bits(bits) => bits.len(),
            Values::Bytes(ends, _) => ends.len() - 1,
            Values::Fixed(out) => out.len() / width(self.form).max(1),
        };
        let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
        let data = match self.values {
            Values::Bits(mut bits) => data.add_buffer(bits.finish().into_inner()),
            Values::Bytes(ends, bytes) => data.add_buffer(Buffer::from_vec(ends)).add_buffer(bytes.into()),
            Values::Fixed(out) => data.add_buffer(out.into()),
        };
        data.build().ok().map(make_array).filter(|array| array.len() == rows)
    }
}

/// The bytes of a value in the array.
fn width(form: Form) -> usize {
    match form {
        Form::Boolean | Form::Int8 => 1,
        Form::Int16 => 2,
        Form::Fixed(width) => width,
        Form::Decimal(_) | Form::BigEndian(_) => 16,
        Form::Bytes => 0,
    }
}

fn put_fixed(form: Form, value: &[u8], out: &mut MutableBuffer) -> Option<()> {
    match form {
        Form::Fixed(_) => out.extend_from_slice(value),
        Form::Int8 => out.push(i8::try_from(int32(value)?).ok()?),
        Form::Int16 => out.push(i16::try_from(int32(value)?).ok()?),
        Form::Decimal(4) => out.push(i128::from(int32(value)?)),
        Form::Decimal(_) => out.push(i128::from(i64::from_le_bytes(value.try_into().ok()?))),
        Form::BigEndian(_) => out.push(big_endian(value)?),
        Form::Boolean | Form::Bytes => return None,
    }
    Some(())
}

fn int32(value: &[u8]) -> Option<i32> {
    value.try_into().ok().map(i32::from_le_bytes)
}

/// A number whose first byte has its sign.
fn big_endian(value: &[u8]) -> Option<i128> {
    let sign = match value.first()? {
        0..0x80 => 0,
        _ => u8::MAX,
    };
    let mut bytes = [sign; 16];
    let from = bytes.len().checked_sub(value.len())?;
    bytes.get_mut(from..)?.copy_from_slice(value);
    Some(i128::from_be_bytes(bytes))
}
