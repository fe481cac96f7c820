//! Kinds of columns whose values can be put into pages, and how their values compare.

use std::cmp::Ordering;

use datafusion::parquet::basic::{ConvertedType, LogicalType, Type};
use datafusion::parquet::schema::types::ColumnDescriptor;

/// How a value is stored: `BOOLEAN` in a byte here, everything else as it is in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Int32,
    Int64,
    Float,
    Double,
    /// UTF-8.
    Text,
    Binary,
    /// So many bytes of a big-endian number.
    Decimal(usize),
}

impl Kind {
    /// The kind of a column that is not inside of others.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Self> {
        if column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return None;
        }
        let logical = column.logical_type_ref();
        let unsigned = matches!(logical, Some(LogicalType::Integer(int)) if !int.is_signed)
            || matches!(
                column.converted_type(),
                ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
            );
        match column.physical_type() {
            Type::BOOLEAN => Some(Self::Boolean),
            Type::INT32 if !unsigned => Some(Self::Int32),
            Type::INT64 if !unsigned => Some(Self::Int64),
            Type::FLOAT => Some(Self::Float),
            Type::DOUBLE => Some(Self::Double),
            Type::BYTE_ARRAY => match (logical, column.converted_type()) {
                (Some(LogicalType::String), _) | (None, ConvertedType::UTF8) => Some(Self::Text),
                (None, ConvertedType::NONE) => Some(Self::Binary),
                _ => None,
            },
            Type::FIXED_LEN_BYTE_ARRAY if matches!(logical, Some(LogicalType::Decimal { .. })) => {
                usize::try_from(column.type_length()).ok().map(Self::Decimal)
            }
            _ => None,
        }
    }

    /// The bytes of every value, where they are as many.
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Self::Boolean => Some(1),
            Self::Int32 | Self::Float => Some(4),
            Self::Int64 | Self::Double => Some(8),
            Self::Decimal(width) => Some(width),
            Self::Text | Self::Binary => None,
        }
    }

    /// `None`: one of the two is NaN, or no value of this kind.
    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        match self {
            Self::Boolean | Self::Text | Self::Binary => Some(a.cmp(b)),
            Self::Int32 => Some(int32(a)?.cmp(&int32(b)?)),
            Self::Int64 => Some(int64(a)?.cmp(&int64(b)?)),
            Self::Float => float(a)?.partial_cmp(&float(b)?),
            Self::Double => double(a)?.partial_cmp(&double(b)?),
            Self::Decimal(_) => Some(signed(a).cmp(signed(b))),
        }
    }
}

/// Big-endian numbers of one length compare like bytes when their sign is turned.
fn signed(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let first = bytes.first().map(|first| first ^ 0x80);
    first.into_iter().chain(bytes.iter().skip(1).copied())
}

pub(super) fn int32(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().ok().map(i32::from_le_bytes)
}

pub(super) fn int64(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_le_bytes)
}

pub(super) fn float(bytes: &[u8]) -> Option<f32> {
    bytes.try_into().ok().map(f32::from_le_bytes)
}

pub(super) fn double(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().ok().map(f64::from_le_bytes)
}
