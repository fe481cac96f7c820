//! How values of a column are stored, and what they become.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::parquet::basic::{ConvertedType, LogicalType, TimeUnit as StoredUnit, Type};
use datafusion::parquet::schema::types::ColumnDescriptor;

/// Bytes of the longest decimal.
const LONGEST_DECIMAL: usize = 16;

/// How stored values become those of an Arrow array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Of bits.
    Boolean,
    /// Numbers of four bytes, of which one or two are needed.
    Int8,
    Int16,
    /// So many bytes that are taken as they are.
    Fixed(usize),
    /// A number of so many bytes, the lowest first, as a long decimal.
    Decimal(usize),
    /// A number of so many bytes, the highest first, as a long decimal.
    BigEndian(usize),
    /// Bytes behind their length.
    Bytes,
}

impl Form {
    /// Whether values of a type can be gathered at all.
    pub(super) fn takes(data_type: &DataType) -> bool {
        matches!(
            data_type,
            DataType::Boolean
                | DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Float32
                | DataType::Float64
                | DataType::Date32
                | DataType::Timestamp(TimeUnit::Microsecond, _)
                | DataType::Decimal128(_, _)
                | DataType::Utf8
                | DataType::Binary
        )
    }

    /// `None`: values of the stored column are not those of `data_type` as they are, or that is not known here.
    pub(super) fn of(column: &ColumnDescriptor, data_type: &DataType) -> Option<Self> {
        if column.max_rep_level() > 0 || column.max_def_level() > 1 || column.path().parts().len() != 1 {
            return None;
        }
        match (column.physical_type(), data_type) {
            (_, DataType::Decimal128(precision, scale)) => Self::decimal(column, *precision, *scale),
            (Type::BOOLEAN, DataType::Boolean) => Some(Self::Boolean),
            (Type::INT32, DataType::Date32) => Self::fixed(4, is_date(column)),
            (Type::INT32, DataType::Int8) => (bits(column)? <= 8).then_some(Self::Int8),
            (Type::INT32, DataType::Int16) => (bits(column)? <= 16).then_some(Self::Int16),
            (Type::INT32, DataType::Int32) => Self::fixed(4, bits(column)? <= 32),
            (Type::INT64, DataType::Int64) => Self::fixed(8, bits(column).is_some()),
            (Type::INT64, DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
                Self::fixed(8, is_time(column, zone.as_deref()))
            }
            (Type::FLOAT, DataType::Float32) => Self::fixed(4, is_plain(column)),
            (Type::DOUBLE, DataType::Float64) => Self::fixed(8, is_plain(column)),
            (Type::BYTE_ARRAY, DataType::Utf8) => is_text(column).then_some(Self::Bytes),
            (Type::BYTE_ARRAY, DataType::Binary) => is_plain(column).then_some(Self::Bytes),
            _ => None,
        }
    }

    fn fixed(width: usize, known: bool) -> Option<Self> {
        known.then_some(Self::Fixed(width))
    }

    fn decimal(column: &ColumnDescriptor, precision: u8, scale: i8) -> Option<Self> {
        let annotated = match column.logical_type_ref() {
            Some(LogicalType::Decimal(stored)) => Some((stored.precision, stored.scale)),
            None if column.converted_type() == ConvertedType::DECIMAL => {
                Some((column.type_precision(), column.type_scale()))
            }
            _ => None,
        };
        if annotated != Some((i32::from(precision), i32::from(scale))) {
            return None;
        }
        match column.physical_type() {
            Type::INT32 => Some(Self::Decimal(4)),
            Type::INT64 => Some(Self::Decimal(8)),
            Type::FIXED_LEN_BYTE_ARRAY => {
                let width = usize::try_from(column.type_length()).ok();
                width
                    .filter(|width| (1..=LONGEST_DECIMAL).contains(width))
                    .map(Self::BigEndian)
            }
            _ => None,
        }
    }

    /// The bytes of every value as a page holds it, where they are as many.
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Self::Boolean | Self::Bytes => None,
            Self::Int8 | Self::Int16 => Some(4),
            Self::Fixed(width) | Self::Decimal(width) | Self::BigEndian(width) => Some(width),
        }
    }
}

/// Whether nothing is said about what the values mean.
fn is_plain(column: &ColumnDescriptor) -> bool {
    column.logical_type_ref().is_none() && column.converted_type() == ConvertedType::NONE
}

/// The bits of a number with a sign.
fn bits(column: &ColumnDescriptor) -> Option<u8> {
    let whole = match column.physical_type() {
        Type::INT32 => 32,
        _ => 64,
    };
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(number)), _) => {
            let bits = u8::try_from(number.bit_width).ok()?;
            (number.is_signed && bits <= whole).then_some(bits)
        }
        (None, ConvertedType::NONE) => Some(whole),
        (None, ConvertedType::INT_8) => Some(8),
        (None, ConvertedType::INT_16) => Some(16),
        (None, ConvertedType::INT_32) => Some(32),
        (None, ConvertedType::INT_64) => Some(64),
        _ => None,
    }
}

fn is_date(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(logical) => matches!(logical, LogicalType::Date),
        None => column.converted_type() == ConvertedType::DATE,
    }
}

/// Whether values are microseconds, of UTC where the type has a zone.
fn is_time(column: &ColumnDescriptor, zone: Option<&str>) -> bool {
    let adjusted = match column.logical_type_ref() {
        Some(LogicalType::Timestamp(stored)) if stored.unit == StoredUnit::MICROS => stored.is_adjusted_to_u_t_c,
        None if column.converted_type() == ConvertedType::TIMESTAMP_MICROS => true,
        _ => return false,
    };
    adjusted == zone.is_some()
}

fn is_text(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(logical) => matches!(logical, LogicalType::String),
        None => column.converted_type() == ConvertedType::UTF8,
    }
}
