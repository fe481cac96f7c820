//! Errors of DataFusion, Arrow, Parquet and object stores as [`LoadError`]s: the one place where their shapes are read.

use std::error::Error;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Span};

use crate::error::LoadError;
use crate::secrets::redact;
use crate::sqlstate::SqlState;

impl From<DataFusionError> for LoadError {
    fn from(e: DataFusionError) -> Self {
        from_datafusion(e)
    }
}

impl From<ArrowError> for LoadError {
    fn from(e: ArrowError) -> Self {
        from_datafusion(DataFusionError::ArrowError(Box::new(e), None))
    }
}

impl From<ParserError> for LoadError {
    fn from(e: ParserError) -> Self {
        parser_error(&e)
    }
}

/// Finds our own error inside `e` however deeply it is wrapped, or translates `e`.
fn from_datafusion(e: DataFusionError) -> LoadError {
    match e {
        DataFusionError::External(inner) => match inner.downcast::<LoadError>() {
            Ok(own) => *own,
            Err(other) => from_external(other.as_ref()),
        },
        DataFusionError::Context(_, inner) => from_datafusion(*inner),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let error = from_datafusion(*inner);
            match diagnostic.span {
                Some(span) => error.at_if_unset(Span::new(
                    Location::new(span.start.line, span.start.column),
                    Location::new(span.end.line, span.end.column),
                )),
                None => error,
            }
        }
        DataFusionError::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => from_datafusion(inner),
            Err(shared) => from_reference(&shared),
        },
        DataFusionError::Collection(list) => match list.into_iter().next() {
            Some(first) => from_datafusion(first),
            None => LoadError::internal("an error without a cause"),
        },
        DataFusionError::ArrowError(inner, backtrace) => match *inner {
            ArrowError::ExternalError(inner) => from_datafusion(DataFusionError::External(inner)),
            other => translate(&DataFusionError::ArrowError(Box::new(other), backtrace)),
        },
        other => from_reference(&other),
    }
}

/// The same through a shared reference: our error cannot be moved out, so it is copied.
fn from_reference(e: &DataFusionError) -> LoadError {
    match find(e) {
        Some(own) => copy_of(own),
        None => match e {
            DataFusionError::External(inner) => from_external(inner.as_ref()),
            DataFusionError::Shared(inner) => from_reference(inner),
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_reference(inner),
            other => translate(other),
        },
    }
}

fn from_external(e: &(dyn Error + Send + Sync + 'static)) -> LoadError {
    if let Some(e) = e.downcast_ref::<DataFusionError>() {
        return from_reference(e);
    }
    if let Some(e) = e.downcast_ref::<Arc<DataFusionError>>() {
        return from_reference(e);
    }
    let found = find(e);
    match found {
        Some(own) => copy_of(own),
        None => LoadError::new(SqlState::Storage, redact(&e.to_string())),
    }
}

/// Walks `source()` until one of our errors turns up.
fn find<'a>(e: &'a (dyn Error + 'static)) -> Option<&'a LoadError> {
    let mut next: Option<&'a (dyn Error + 'static)> = Some(e);
    while let Some(e) = next {
        if let Some(own) = e.downcast_ref::<LoadError>() {
            return Some(own);
        }
        if let Some(shared) = e.downcast_ref::<Arc<DataFusionError>>() {
            next = Some(shared.as_ref());
            continue;
        }
        next = e.source();
    }
    None
}

fn copy_of(e: &LoadError) -> LoadError {
    let mut copy = LoadError::new(e.state(), e.message());
    if let Some(detail) = e.detail_text() {
        copy = copy.detail(detail);
    }
    if let Some(hint) = e.hint_text() {
        copy = copy.hint(hint);
    }
    match e.span() {
        Some(span) => copy.at(span),
        None => copy,
    }
}

fn translate(e: &DataFusionError) -> LoadError {
    match e {
        DataFusionError::SQL(inner, _) => parser_error(inner),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::Plan(text) => plan_error(text),
        DataFusionError::Configuration(text) => LoadError::new(SqlState::InvalidParameter, redact(text)),
        DataFusionError::NotImplemented(text) => LoadError::unsupported(lower_first(text)),
        DataFusionError::ResourcesExhausted(text) => {
            LoadError::new(SqlState::OutOfMemory, "the memory limit is reached")
                .detail(sentence(text))
                .hint("Raise the memory limit (--memory-limit), or lower the number of threads.")
        }
        DataFusionError::ArrowError(inner, _) => arrow_error(inner),
        DataFusionError::Execution(text) => execution_error(text),
        DataFusionError::ObjectStore(inner) => LoadError::new(SqlState::Storage, redact(&inner.to_string())),
        DataFusionError::IoError(inner) => LoadError::new(SqlState::Storage, redact(&inner.to_string())),
        DataFusionError::ParquetError(inner) => parquet_error(inner),
        DataFusionError::ExecutionJoin(inner) if inner.is_cancelled() => {
            LoadError::new(SqlState::Cancelled, "the statement was cancelled")
        }
        other => LoadError::internal(redact(&other.strip_backtrace())),
    }
}

/// sqlparser gives the position only as text: `.. at Line: 3, Column: 7`.
fn parser_error(e: &ParserError) -> LoadError {
    match e {
        ParserError::RecursionLimitExceeded => {
            LoadError::new(SqlState::TooComplex, "the statement is nested too deeply")
                .hint("Split it into several statements, or flatten the expression.")
        }
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            let (text, location) = split_position(text);
            let error = LoadError::new(SqlState::Syntax, lower_first(text.trim()));
            match location {
                Some(at) => error.at(Span::new(at, at)),
                None => error,
            }
        }
    }
}

fn split_position(text: &str) -> (&str, Option<Location>) {
    let Some((head, tail)) = text.rsplit_once(" at Line: ") else {
        return (text, None);
    };
    let Some((line, column)) = tail.split_once(", Column: ") else {
        return (text, None);
    };
    let column: String = column.chars().take_while(char::is_ascii_digit).collect();
    match (line.parse(), column.parse()) {
        (Ok(line), Ok(column)) => (head, Some(Location { line, column })),
        _ => (text, None),
    }
}

fn schema_error(e: &SchemaError) -> LoadError {
    match e {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let mut names: Vec<String> = valid_fields
                .iter()
                .filter(|c| !c.name.starts_with("__"))
                .map(|c| c.name.clone())
                .collect();
            names.dedup();
            let error = LoadError::new(
                SqlState::UndefinedColumn,
                format!("column \"{}\" does not exist", field.flat_name().replace('"', "")),
            );
            if let Some(close) = names.iter().find(|n| n.eq_ignore_ascii_case(&field.name)) {
                return error.hint(format!(
                    "Perhaps you mean \"{close}\": names with capital letters need double quotes."
                ));
            }
            match names.is_empty() {
                true => error,
                false => error.hint(format!("Columns here: {}.", names.join(", "))),
            }
        }
        SchemaError::AmbiguousReference { field } => LoadError::new(
            SqlState::UndefinedColumn,
            format!("column \"{}\" is ambiguous", field.name),
        )
        .hint("Put the table name or alias before the column."),
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            LoadError::new(SqlState::DuplicateColumn, format!("column \"{name}\" occurs twice"))
                .hint("Give one of them another name with AS.")
        }
    }
}

fn plan_error(text: &str) -> LoadError {
    if let Some(name) = between(text, "table '", "' not found") {
        let name = name.rsplit('.').next().unwrap_or(name);
        return LoadError::new(SqlState::UndefinedTable, format!("table \"{name}\" does not exist"));
    }
    if text.contains("Invalid function") || text.contains("not a known function") {
        return LoadError::new(
            SqlState::UndefinedFunction,
            lower_first(text.lines().next().unwrap_or(text)),
        );
    }
    if text.contains("require unique expression names") {
        return doubled_column(text);
    }
    let lower = text.to_lowercase();
    let state = if lower.contains("already exists") {
        SqlState::DuplicateTable
    } else if ["type", "coerc", "cast"].iter().any(|word| lower.contains(word)) {
        SqlState::DatatypeMismatch
    } else {
        SqlState::Syntax
    };
    LoadError::new(state, redact(lower_first(text.trim()).trim_end_matches('.')))
}

/// `Projections require unique expression names but the expression "a AS x" at position 0 and "b AS x" at position 1 ..`
fn doubled_column(text: &str) -> LoadError {
    let error = LoadError::new(SqlState::DuplicateColumn, "two columns of a query have the same name")
        .hint("Give one of them another name with AS.");
    match between(text, "the expression \"", "\" at position ").zip(between(text, " and \"", "\" at position ")) {
        Some((one, other)) => error.detail(format!("They are {} and {}.", redact(one), redact(other))),
        None => error,
    }
}

fn arrow_error(e: &ArrowError) -> LoadError {
    let text = match e {
        ArrowError::DivideByZero => return LoadError::new(SqlState::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(text) => return LoadError::new(SqlState::NumericOutOfRange, lower_first(text)),
        ArrowError::CastError(text) | ArrowError::ParseError(text) | ArrowError::ComputeError(text) => text.clone(),
        other => other.to_string(),
    };
    if matches!(
        e,
        ArrowError::CsvError(_) | ArrowError::JsonError(_) | ArrowError::ParseError(_)
    ) {
        return LoadError::new(SqlState::InvalidText, redact(&lower_first(&text)));
    }
    execution_error(&text)
}

fn execution_error(text: &str) -> LoadError {
    let lower = text.to_lowercase();
    let state = if lower.contains("overflow") || lower.contains("out of range") || lower.contains("too large") {
        SqlState::NumericOutOfRange
    } else if lower.contains("timestamp") || lower.contains("date") {
        SqlState::InvalidDatetime
    } else if lower.contains("cast") || lower.contains("parse") {
        SqlState::InvalidText
    } else if lower.contains("divide by zero") {
        SqlState::DivisionByZero
    } else if lower.contains("i/o error") || lower.contains("no such file") || lower.contains("object") {
        SqlState::Storage
    } else {
        SqlState::InvalidParameter
    };
    LoadError::new(state, redact(&lower_first(text)))
}

fn parquet_error(e: &ParquetError) -> LoadError {
    match e {
        ParquetError::External(inner) => from_external(inner.as_ref()),
        other => LoadError::new(SqlState::Storage, redact(&lower_first(&other.to_string()))),
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let from = text.find(start)? + start.len();
    let rest = text.get(from..)?;
    rest.get(..rest.find(end)?)
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

fn sentence(text: &str) -> String {
    let text = redact(text.lines().next().unwrap_or(text).trim_end_matches(['.', ' ']));
    format!("{text}.")
}
