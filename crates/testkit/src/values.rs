//! Values, rows and tables of the model.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// One value. Equality, order and hash follow SQL's comparison of non-NULL values: NaN equals NaN, -0.0 equals 0.0.
/// NULL equals NULL here; where SQL says "unknown", the model asks for it by name.
#[derive(Debug, Clone)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// BIGINT.
    Int(i64),
    /// DOUBLE.
    Float(f64),
    /// STRING.
    Text(String),
    /// BOOLEAN.
    Bool(bool),
    /// TIMESTAMP, microseconds since 1970 in UTC.
    Ts(i64),
    /// DATE, days since 1970.
    Date(i32),
}

impl Value {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// SQL equality: unknown (`None`) if either side is NULL.
    pub fn sql_eq(&self, other: &Self) -> Option<bool> {
        self.sql_cmp(other).map(Ordering::is_eq)
    }

    /// SQL comparison: unknown (`None`) if either side is NULL.
    pub fn sql_cmp(&self, other: &Self) -> Option<Ordering> {
        (!self.is_null() && !other.is_null()).then(|| self.cmp(other))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Float(_) => 3,
            Self::Date(_) => 4,
            Self::Ts(_) => 5,
            Self::Text(_) => 6,
        }
    }
}

/// -0.0 becomes 0.0 and every NaN the same NaN, so that `total_cmp` agrees with SQL.
fn canonical(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) | (Self::Ts(a), Self::Ts(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => canonical(*a).total_cmp(&canonical(*b)),
            (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Self::Null => {}
            Self::Bool(v) => v.hash(state),
            Self::Int(v) | Self::Ts(v) => v.hash(state),
            Self::Float(v) => canonical(*v).to_bits().hash(state),
            Self::Date(v) => v.hash(state),
            Self::Text(v) => v.hash(state),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The types the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// BIGINT.
    Int,
    /// DOUBLE.
    Float,
    /// STRING.
    Text,
    /// BOOLEAN.
    Bool,
    /// TIMESTAMP (UTC, microseconds).
    Ts,
    /// DATE.
    Date,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
}

impl Column {
    /// A nullable column.
    pub fn new(name: &str, ty: ColumnType) -> Self {
        Self {
            name: name.to_owned(),
            ty,
            nullable: true,
        }
    }

    /// The same column as NOT NULL.
    pub fn not_null(mut self) -> Self {
        self.nullable = false;
        self
    }
}

/// A row: one value per column of its table.
pub type Row = Vec<Value>;

/// Columns and rows. The order of rows matters only for a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// A table of these columns and rows.
    pub fn new(columns: Vec<Column>, rows: Vec<Row>) -> Self {
        Self { columns, rows }
    }

    /// A table of these columns without rows.
    pub fn empty(columns: Vec<Column>) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// The index of a column.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// The value of a named column in one of this table's rows; NULL when there is no such column.
    pub fn get(&self, row: &[Value], name: &str) -> Value {
        self.index(name)
            .and_then(|i| row.get(i))
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// The names of all columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|c| c.name.clone()).collect()
    }

    /// The rows in value order: what two tables are compared by.
    pub fn sorted_rows(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        rows.sort();
        rows
    }
}
