//! The table a statement loads: looked up, checked, pinned to one snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_core::syntax::{CreateIfNotExists, Target};
use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::table::{TableLocator, features};
use alluvium_delta::{DeltaTable, LoadOptions, TableHandle, TableSnapshot, TargetScan};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::TableReference;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::planner::object_name_to_table_reference;

/// The target of a statement.
#[derive(Debug, Clone)]
pub struct TargetTable {
    /// The name as written, for messages.
    pub name: String,
    /// How clauses call its columns: the alias, or `target`.
    pub alias: TableReference,
    /// Its place.
    pub handle: Arc<TableHandle>,
    /// The snapshot that is read and committed on; `None` when the statement creates the table.
    pub base: Option<Arc<TableSnapshot>>,
    /// Partition columns, of the table or of `CREATE IF NOT EXISTS`.
    pub partition_columns: Vec<String>,
    /// Properties of a table that is created.
    pub properties: HashMap<String, String>,
    /// Columns that the statement fills itself: a source that is matched by position leaves them out.
    pub own: Vec<String>,
    /// Where the name stands in the text.
    pub span: datafusion::sql::sqlparser::tokenizer::Span,
}

impl TargetTable {
    /// Looks the table up and checks that it may be written.
    ///
    /// # Errors
    ///
    /// 42P01 when it does not exist and the statement may not create it; 0A000 naming a table feature that is not
    /// honoured.
    pub async fn resolve(state: &SessionState, target: &Target, create: Option<&CreateIfNotExists>) -> Result<Self> {
        let normalize = state.config_options().sql_parser.enable_ident_normalization;
        let reference = object_name_to_table_reference(target.name.clone(), normalize)
            .map_err(|e| LoadError::from(e).at_if_unset(target.span))?;
        let alias = match &target.alias {
            Some(alias) => TableReference::bare(super::source::ident_name(state, alias)),
            None => TableReference::bare("target"),
        };
        let found = lookup(state, &reference)
            .await
            .map_err(|e| e.at_if_unset(target.span))?;
        let mut table = match (found, create) {
            (Some(provider), _) => Self::existing(provider.as_ref(), target)?,
            (None, Some(create)) => Self::missing(state, &reference, create).map_err(|e| e.at_if_unset(target.span))?,
            (None, None) => return Err(no_such_table(target)),
        };
        table.name = target.name.to_string();
        table.alias = alias;
        table.span = target.span;
        if let Some(base) = &table.base {
            features::check_writable(base).map_err(|e| e.at_if_unset(target.span))?;
        }
        Ok(table)
    }

    fn existing(provider: &dyn TableProvider, target: &Target) -> Result<Self> {
        let Some(table) = provider.downcast_ref::<DeltaTable>() else {
            return Err(LoadError::new(
                SqlState::FeatureNotSupported,
                format!("table \"{}\" is not a Delta table of this session", target.name),
            )
            .hint("Loads write Delta tables: attach one with CREATE EXTERNAL TABLE .. STORED AS DELTATABLE LOCATION '..'.")
            .at(target.span));
        };
        let snapshot = Arc::clone(table.snapshot());
        Ok(Self {
            partition_columns: snapshot.partition_columns().to_vec(),
            ..Self::blank(Arc::clone(table.handle()), Some(snapshot))
        })
    }

    fn missing(state: &SessionState, reference: &TableReference, create: &CreateIfNotExists) -> Result<Self> {
        let locator = state.config().get_extension::<TableLocator>().ok_or_else(|| {
            LoadError::new(
                SqlState::UndefinedTable,
                format!("there is no place to create table \"{reference}\" in"),
            )
            .hint("Open the session with a warehouse, or write LOCATION '..' after CREATE IF NOT EXISTS.")
        })?;
        let handle = match &create.location {
            Some(location) => locator.attach_location(reference, location)?,
            None => locator.handle_at(&locator.locate(reference)?),
        };
        let properties = create
            .properties
            .iter()
            .map(|kv| (kv.key.clone(), kv.value.clone()))
            .collect();
        let partition_columns = create
            .partitioned_by
            .iter()
            .map(|ident| super::source::ident_name(state, ident))
            .collect();
        Ok(Self {
            partition_columns,
            properties: LoadOptions::table_properties(state.config_options(), properties),
            ..Self::blank(handle, None)
        })
    }

    fn blank(handle: Arc<TableHandle>, base: Option<Arc<TableSnapshot>>) -> Self {
        Self {
            name: String::new(),
            alias: TableReference::bare("target"),
            handle,
            base,
            partition_columns: Vec::new(),
            properties: HashMap::new(),
            own: Vec::new(),
            span: datafusion::sql::sqlparser::tokenizer::Span::empty(),
        }
    }

    /// The stored columns; none when the table is created.
    pub fn stored_schema(&self) -> SchemaRef {
        match &self.base {
            Some(base) => Arc::clone(base.schema()),
            None => Arc::new(Schema::empty()),
        }
    }

    /// Generated columns that nothing in the source fills.
    pub fn generated_columns(&self) -> Result<Vec<String>> {
        let generated = self
            .base
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |base| base.generated_columns())?;
        Ok(generated.into_iter().map(|(column, _)| column).collect())
    }

    /// Whether updates and deletes must leave a change feed.
    pub fn change_data_feed(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.change_data_feed())
    }

    /// Refuses statements that update or delete rows of an append-only table.
    pub fn refuse_append_only(&self, statement: &str) -> Result<()> {
        if !self.base.as_ref().is_some_and(|base| base.is_append_only()) {
            return Ok(());
        }
        Err(LoadError::unsupported(format!(
            "table \"{}\" is append-only: {statement} cannot change its rows",
            self.name
        ))
        .detail("The table has the property delta.appendOnly = true.")
        .hint("INSERT ONLY adds rows without changing any.")
        .at(self.span))
    }

    /// Scans the stored rows under the target's alias: the columns of `schema` (those the table does not have yet
    /// are NULL), then `__file` and `__row`.
    pub fn scan(&self, schema: &SchemaRef) -> Result<LogicalPlanBuilder> {
        let provider: Arc<dyn TableProvider> = match &self.base {
            Some(base) => Arc::new(TargetScan::new(Arc::clone(base))),
            None => Arc::new(EmptyTable::new(with_positions(schema))),
        };
        self.scan_provider(provider, schema)
    }

    /// The same without the files of these ordinals.
    pub fn scan_without(&self, schema: &SchemaRef, files: &[u32]) -> Result<LogicalPlanBuilder> {
        let Some(base) = self.base.as_ref().filter(|_| !files.is_empty()) else {
            return self.scan(schema);
        };
        self.scan_provider(Arc::new(TargetScan::new(Arc::clone(base)).without_files(files)), schema)
    }

    /// The same for a plan that wants nothing but the positions of the rows in a range of column `name`.
    pub fn scan_positions(&self, schema: &SchemaRef, name: &str) -> Result<LogicalPlanBuilder> {
        let base = self.base.as_ref();
        let Some((base, column)) = base.and_then(|base| Some((base, base.schema().index_of(name).ok()?))) else {
            return self.scan(schema);
        };
        let provider = TargetScan::new(Arc::clone(base)).positions_in(column);
        self.scan_provider(Arc::new(provider), schema)
    }

    fn scan_provider(&self, provider: Arc<dyn TableProvider>, schema: &SchemaRef) -> Result<LogicalPlanBuilder> {
        let scan = LogicalPlanBuilder::scan(self.alias.clone(), provider_as_source(provider), None)?;
        match self.base.is_some() && schema != &self.stored_schema() {
            true => self.with_new_columns(scan, schema),
            false => Ok(scan),
        }
    }

    /// Adds the columns of schema evolution to a scan, as NULL, and gives evolved structs their new fields.
    fn with_new_columns(&self, scan: LogicalPlanBuilder, schema: &SchemaRef) -> Result<LogicalPlanBuilder> {
        let mut exprs = Vec::new();
        for field in with_positions(schema).fields() {
            let known = scan
                .schema()
                .field_with_unqualified_name(field.name())
                .ok()
                .map(|f| f.data_type().clone());
            let value = match known {
                Some(stored) => {
                    super::expr::coerce(super::expr::col(&self.alias, field.name()), &stored, field.data_type())
                }
                None => super::expr::null_of(field.data_type())?,
            };
            exprs.push(value.alias_qualified(Some(self.alias.clone()), field.name()));
        }
        Ok(scan.project(exprs)?)
    }
}

/// The columns of a target scan.
fn with_positions(schema: &SchemaRef) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(
        alluvium_exec::columns::FILE,
        DataType::UInt32,
        false,
    )));
    fields.push(Arc::new(Field::new(
        alluvium_exec::columns::ROW,
        DataType::Int64,
        false,
    )));
    Arc::new(Schema::new(fields))
}

async fn lookup(state: &SessionState, reference: &TableReference) -> Result<Option<Arc<dyn TableProvider>>> {
    let Ok(schema) = state.schema_for_ref(reference.clone()) else {
        return Ok(None);
    };
    Ok(schema.table(reference.table()).await?)
}

fn no_such_table(target: &Target) -> LoadError {
    LoadError::new(
        SqlState::UndefinedTable,
        format!("table \"{}\" does not exist", target.name),
    )
    .hint("Create it with CREATE TABLE .. USING DELTA, or add CREATE IF NOT EXISTS to the statement.")
    .at(target.span)
}

/// A plan reads the target at the pinned snapshot wherever it reads it, so that a source may read its own target.
pub(crate) fn pin_source(plan: LogicalPlan, base: &Arc<TableSnapshot>) -> Result<LogicalPlan> {
    Ok(alluvium_delta::repin::pin(plan, base)?)
}
