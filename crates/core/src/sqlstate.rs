//! The SQLSTATE codes a load can end with, and what kind of trouble each one is.

use std::fmt;

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The statement or its data is at fault; running it again gives the same error.
    User,
    /// Another commit got in between; the statement may be run again as it is.
    Conflict,
    /// The store did not answer as it should.
    Storage,
    /// The table or the statement asks for something that is not supported.
    Unsupported,
    /// Memory or disk space ran out.
    Resources,
    /// A bug of ours.
    Internal,
}

macro_rules! sql_states {
    ($($(#[$doc:meta])* $name:ident = $code:literal $kind:ident,)*) => {
        /// A five-character SQLSTATE.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum SqlState { $($(#[$doc])* $name,)* }

        impl SqlState {
            /// The five characters.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Who has to act.
            pub fn kind(self) -> ErrorKind {
                match self { $(Self::$name => ErrorKind::$kind,)* }
            }
        }
    };
}

sql_states! {
    /// 42601: the text does not follow the grammar, or a clause is missing or not allowed here.
    Syntax = "42601" User,
    /// 42701: two columns of one name, or a source column named like a validity column.
    DuplicateColumn = "42701" User,
    /// 42703: no such column.
    UndefinedColumn = "42703" User,
    /// 42804: a type does not fit.
    DatatypeMismatch = "42804" User,
    /// 42883: no such function.
    UndefinedFunction = "42883" User,
    /// 42P01: no such table.
    UndefinedTable = "42P01" User,
    /// 42P07: the table exists already.
    DuplicateTable = "42P07" User,
    /// 42602: a name that cannot be used.
    InvalidName = "42602" User,
    /// 42501: the session does not allow this statement.
    InsufficientPrivilege = "42501" User,
    /// 22023: a value of a clause is not usable (bounds, empty source, late rows, boundary).
    InvalidParameter = "22023" User,
    /// 22003: a number does not fit its type.
    NumericOutOfRange = "22003" User,
    /// 22007: a date or time does not fit its type.
    InvalidDatetime = "22007" User,
    /// 22012: division by zero.
    DivisionByZero = "22012" User,
    /// 22P02: a text cannot be read as the type.
    InvalidText = "22P02" User,
    /// 21000: several source rows for one key.
    CardinalityViolation = "21000" User,
    /// 23502: NULL in a key or a NOT NULL column.
    NotNullViolation = "23502" User,
    /// 23514: a constraint does not hold.
    CheckViolation = "23514" User,
    /// 44000: a row outside the window or outside WITHIN.
    OutsideWindow = "44000" User,
    /// 40001: a concurrent change; the statement may be run again.
    Serialization = "40001" Conflict,
    /// 0A000: a feature that is not supported.
    FeatureNotSupported = "0A000" Unsupported,
    /// 53200: the memory limit is reached.
    OutOfMemory = "53200" Resources,
    /// 54001: the statement is nested too deeply or is too complex.
    TooComplex = "54001" User,
    /// 57014: the statement was cancelled.
    Cancelled = "57014" User,
    /// 58030: reading or writing storage failed.
    Storage = "58030" Storage,
    /// XX000: a bug of ours.
    Internal = "XX000" Internal,
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
