//! Which source columns land in which target columns, and what the table looks like afterwards.

use std::sync::Arc;

use alluvium_core::syntax::ColumnSet;
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::storable_type;
use alluvium_exec::checked_cast::sql_type_name;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::Ident;

use super::source::{SourceRows, ident_name};
use super::target::TargetTable;

/// What a statement asks of its columns.
pub struct ColumnsRequest<'a> {
    /// `COLUMNS ..`.
    pub set: Option<&'a ColumnSet>,
    /// `WITH SCHEMA EVOLUTION`.
    pub evolve: bool,
    /// A plain column that marks deletes: dropped where the target lacks it, unless `COLUMNS` lists it.
    pub marker: Option<&'a str>,
    /// Columns the statement fills itself, such as validity columns; they are part of a table that is created.
    pub own: Vec<FieldRef>,
}

/// The columns of a load.
#[derive(Debug, Clone)]
pub struct Columns {
    /// The table after the load.
    pub schema: SchemaRef,
    /// Whether `schema` has more than the stored table.
    pub evolved: bool,
    /// The table columns that the source fills, in table order.
    pub landing: Vec<String>,
}

impl Columns {
    /// Matches source columns to target columns by name.
    ///
    /// # Errors
    ///
    /// 42703 naming a source column that the target lacks, without `WITH SCHEMA EVOLUTION`.
    pub fn resolve(
        state: &SessionState,
        table: &TargetTable,
        source: &SourceRows,
        request: &ColumnsRequest<'_>,
    ) -> Result<Self> {
        let names = source.names();
        let selected = match request.set {
            Some(set) => select(state, set, &names, "the source")?,
            None => names.clone(),
        };
        let listed = matches!(request.set, Some(ColumnSet::Only(_)));
        let stored = table.stored_schema();
        let dropped = |name: &str| !listed && request.marker == Some(name) && stored.index_of(name).is_err();
        let landing: Vec<&String> = selected.iter().filter(|name| !dropped(name)).collect();
        let (schema, evolved) = match &table.base {
            None => (created(source, &landing, request, table)?, false),
            Some(_) => evolved(table, source, &landing, request)?,
        };
        let landing = schema
            .fields()
            .iter()
            .map(|f| f.name())
            .filter(|name| landing.contains(name))
            .cloned()
            .collect();
        Ok(Self {
            schema,
            evolved,
            landing,
        })
    }

    /// The type a source column is cast to, if it lands in the target or shares the name of a target column.
    pub fn target_type(&self, name: &str) -> Option<&DataType> {
        self.schema.field_with_name(name).ok().map(Field::data_type)
    }

    /// Whether the source fills this table column.
    pub fn lands(&self, name: &str) -> bool {
        self.landing.iter().any(|column| column == name)
    }
}

/// The names that a column set picks out of `names`, in the order of `names`.
pub(crate) fn select(state: &SessionState, set: &ColumnSet, names: &[String], of: &str) -> Result<Vec<String>> {
    let (listed, keep) = match set {
        ColumnSet::Only(listed) => (listed, true),
        ColumnSet::AllExcept(listed) => (listed, false),
    };
    let mut chosen = Vec::with_capacity(listed.len());
    for ident in listed {
        chosen.push(find(state, ident, names, of)?);
    }
    Ok(names
        .iter()
        .filter(|name| chosen.contains(name) == keep)
        .cloned()
        .collect())
}

/// The name of `ident` among `names`.
pub(crate) fn find(state: &SessionState, ident: &Ident, names: &[String], of: &str) -> Result<String> {
    let wanted = ident_name(state, ident);
    if names.contains(&wanted) {
        return Ok(wanted);
    }
    let error = LoadError::new(
        SqlState::UndefinedColumn,
        format!("column \"{wanted}\" does not exist in {of}"),
    )
    .at(ident.span);
    Err(match names.iter().find(|name| name.eq_ignore_ascii_case(&wanted)) {
        Some(close) => error.hint(format!(
            "Perhaps you mean \"{close}\": names with capital letters need double quotes."
        )),
        None => error.hint(format!("The columns of {of} are {}.", names.join(", "))),
    })
}

/// The columns of a table that the statement creates: the source's, storable, nullable, and the statement's own.
fn created(
    source: &SourceRows,
    landing: &[&String],
    request: &ColumnsRequest<'_>,
    table: &TargetTable,
) -> Result<SchemaRef> {
    let mut fields = Vec::new();
    for (_, field) in source.plan.schema().iter() {
        if landing.contains(&field.name()) {
            let data_type = storable_type(field.name(), field.data_type()).map_err(|e| e.at_if_unset(source.span))?;
            fields.push(Arc::new(Field::new(field.name(), data_type, true)));
        }
    }
    fields.extend(request.own.iter().cloned());
    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    if let Some(unknown) = table.partition_columns.iter().find(|c| !names.contains(&c.as_str())) {
        return Err(LoadError::new(
            SqlState::UndefinedColumn,
            format!("partition column \"{unknown}\" does not exist in the source"),
        )
        .hint(format!("The columns of the new table are {}.", names.join(", ")))
        .at(source.span));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The stored columns, with those that evolution adds at the end and new fields inside structs.
fn evolved(
    table: &TargetTable,
    source: &SourceRows,
    landing: &[&String],
    request: &ColumnsRequest<'_>,
) -> Result<(SchemaRef, bool)> {
    let stored = table.stored_schema();
    let mut fields: Vec<FieldRef> = stored.fields().to_vec();
    for (_, field) in source.plan.schema().iter().filter(|(_, f)| landing.contains(&f.name())) {
        let name = field.name();
        match stored.index_of(name) {
            Ok(i) => fields[i] = widened(name, &fields[i], field.data_type(), request.evolve, source)?,
            Err(_) if request.evolve => {
                refuse_case_twin(name, &stored, source)?;
                let data_type = storable_type(name, field.data_type()).map_err(|e| e.at_if_unset(source.span))?;
                fields.push(Arc::new(Field::new(name, data_type, true)));
            }
            Err(_) => return Err(unknown_column(name, table, &stored, source)),
        }
    }
    let changed = fields.as_slice() != stored.fields().as_ref();
    let schema = Schema::new_with_metadata(fields, stored.metadata().clone());
    Ok((Arc::new(schema), changed))
}

/// Delta's column names are unique without regard to case.
fn refuse_case_twin(name: &str, stored: &SchemaRef, source: &SourceRows) -> Result<()> {
    match stored.fields().iter().find(|f| f.name().eq_ignore_ascii_case(name)) {
        None => Ok(()),
        Some(twin) => Err(LoadError::new(
            SqlState::DuplicateColumn,
            format!(
                "source column \"{name}\" and table column \"{}\" differ only in case",
                twin.name()
            ),
        )
        .hint(format!("Rename it in the source query: AS \"{}\".", twin.name()))
        .at(source.span)),
    }
}

fn unknown_column(name: &str, table: &TargetTable, stored: &SchemaRef, source: &SourceRows) -> LoadError {
    let error = LoadError::new(
        SqlState::UndefinedColumn,
        format!("source column \"{name}\" does not exist in table \"{}\"", table.name),
    )
    .at(source.span);
    match stored.fields().iter().find(|f| f.name().eq_ignore_ascii_case(name)) {
        Some(close) => error.hint(format!(
            "The table has \"{}\": rename the source column with AS.",
            close.name()
        )),
        None => error.hint(format!(
            "Add WITH SCHEMA EVOLUTION to add it to the table, or leave it out with COLUMNS * EXCEPT (\"{name}\")."
        )),
    }
}

/// The stored field, with the struct fields that only the source has (when the schema may evolve).
fn widened(name: &str, stored: &FieldRef, source: &DataType, evolve: bool, rows: &SourceRows) -> Result<FieldRef> {
    let data_type = widened_type(name, stored.data_type(), source, evolve, rows)?;
    match &data_type == stored.data_type() {
        true => Ok(Arc::clone(stored)),
        false => Ok(Arc::new(stored.as_ref().clone().with_data_type(data_type))),
    }
}

fn widened_type(path: &str, stored: &DataType, source: &DataType, evolve: bool, rows: &SourceRows) -> Result<DataType> {
    match (stored, source) {
        (DataType::Struct(stored), DataType::Struct(source)) => {
            Ok(DataType::Struct(widened_fields(path, stored, source, evolve, rows)?))
        }
        (DataType::List(stored), DataType::List(source) | DataType::LargeList(source) | DataType::ListView(source)) => {
            let item = widened(&format!("{path}.element"), stored, source.data_type(), evolve, rows)?;
            Ok(DataType::List(item))
        }
        (stored, _) => Ok(stored.clone()),
    }
}

fn widened_fields(path: &str, stored: &Fields, source: &Fields, evolve: bool, rows: &SourceRows) -> Result<Fields> {
    let mut fields: Vec<FieldRef> = stored.to_vec();
    for new in source {
        let inner = format!("{path}.{}", new.name());
        match fields.iter().position(|f| f.name() == new.name()) {
            Some(i) => fields[i] = widened(&inner, &fields[i], new.data_type(), evolve, rows)?,
            None if evolve => fields.push(Arc::new(Field::new(
                new.name(),
                storable_type(&inner, new.data_type())?,
                true,
            ))),
            None => {
                return Err(LoadError::new(
                    SqlState::UndefinedColumn,
                    format!(
                        "source field \"{inner}\" of type {} does not exist in the table",
                        sql_type_name(new.data_type())
                    ),
                )
                .hint("Add WITH SCHEMA EVOLUTION to add it to the table.")
                .at(rows.span));
            }
        }
    }
    Ok(fields.into())
}
