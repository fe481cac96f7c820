//! Key columns in the parts that they were read in: to put millions of keys into one column takes one thread longer than
//! all of them need to go through the parts.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, new_empty_array};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};

/// The columns of a key.
pub(crate) struct KeyParts(Vec<KeyColumn>);

/// One of them.
pub(super) struct KeyColumn {
    pub(super) data_type: DataType,
    pub(super) parts: Vec<ArrayRef>,
}

impl KeyParts {
    /// Columns of these types, `rows` of which come part after part.
    pub(crate) fn new(
        types: impl IntoIterator<Item = DataType>,
        rows: impl IntoIterator<Item = Vec<ArrayRef>>,
    ) -> Self {
        let column = |data_type| KeyColumn {
            data_type,
            parts: Vec::new(),
        };
        let mut columns: Vec<KeyColumn> = types.into_iter().map(column).collect();
        for part in rows {
            for (column, part) in columns.iter_mut().zip(part) {
                column.parts.push(part);
            }
        }
        Self(columns)
    }

    pub(super) fn columns(&self) -> &[KeyColumn] {
        &self.0
    }

    pub(super) fn rows(&self) -> usize {
        self.0.first().map_or(0, KeyColumn::len)
    }

    /// Each column in one piece.
    pub(super) fn joined(&self) -> Result<Vec<ArrayRef>> {
        self.0.iter().map(KeyColumn::joined).collect()
    }

    /// The only column as integers; `None` where there are others or it has no integers.
    pub(super) fn integers(&self) -> Result<Option<Vec<Int64Array>>> {
        match self.0.as_slice() {
            [key] if are_integers(&key.data_type) => key.parts.iter().map(integers).collect::<Result<_>>().map(Some),
            _ => Ok(None),
        }
    }
}

impl KeyColumn {
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    pub(super) fn null_count(&self) -> usize {
        self.parts.iter().map(|part| part.null_count()).sum()
    }

    /// The column in one piece. More bytes than one column can hold count as memory that is not there.
    pub(super) fn joined(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(new_empty_array(&self.data_type));
        }
        concat(&parts).map_err(|e| match e {
            ArrowError::OffsetOverflowError(bytes) => too_much("bytes of the keys", bytes),
            other => other.into(),
        })
    }
}

/// What a plan that sorts can do.
pub(super) fn too_much(what: &str, count: usize) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("{count} {what} of a source are too many to be held in memory"))
}

/// Whether values of a type are integers that fit into 64 bits with a sign.
pub(super) fn are_integers(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::Date32
            | DataType::Timestamp(_, _)
    )
}

/// The values of a column whose type passes [`are_integers`].
pub(super) fn integers(key: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(key, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, StringArray};

    use super::*;

    #[test]
    fn parts_are_what_the_column_is() {
        let numbers = |values: &[i32]| -> ArrayRef { Arc::new(Int32Array::from(values.to_vec())) };
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let keys = KeyParts::new(
            [DataType::Int32],
            [vec![numbers(&[7, -1])], vec![numbers(&[])], vec![numbers(&[3])]],
        );
        assert_eq!(keys.rows(), 3);
        assert_eq!(&keys.joined().unwrap()[0], &numbers(&[7, -1, 3]));
        let integers = keys.integers().unwrap().unwrap();
        assert_eq!(
            integers
                .iter()
                .map(|part| part.values().to_vec())
                .collect::<Vec<_>>()
                .concat(),
            [7, -1, 3]
        );
        let two = KeyParts::new([DataType::Int32, DataType::Utf8], [vec![numbers(&[1, 2]), texts]]);
        assert!(two.integers().unwrap().is_none());
        assert_eq!(
            two.columns().iter().map(KeyColumn::null_count).collect::<Vec<_>>(),
            [0, 1]
        );
        let none = KeyParts::new([DataType::Utf8], []);
        assert_eq!(
            (none.rows(), none.joined().unwrap()[0].data_type()),
            (0, &DataType::Utf8)
        );
    }
}
