//! What `CREATE TABLE` does when it is executed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use alluvium_core::{LoadError, Result, SqlState};
use alluvium_delta::write::create_table;
use async_trait::async_trait;
use datafusion::arrow::array::{Array, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;

use super::Place;
use super::definition::Definition;
use crate::commands::node::CommandTask;
use crate::commands::target;

impl Place {
    /// Makes the name known where that needs more than a directory.
    fn publish(&self) -> Result<()> {
        if self.external {
            self.locator.attach(&self.name, Arc::clone(&self.handle))?;
        } else {
            // An attachment whose table was never made must not hide the new one.
            self.locator.detach(&self.name);
        }
        self.locator.noted(&self.name, true);
        Ok(())
    }

    /// A local location must hold no files: a table must not swallow what was there before.
    pub(super) fn check_vacant(&self) -> Result<()> {
        let location = self.handle.location();
        let path = (location.scheme() == "file")
            .then(|| location.to_file_path().ok())
            .flatten();
        match path.is_some_and(|path| holds_files(&path)) {
            false => Ok(()),
            true => Err(LoadError::new(
                SqlState::DuplicateTable,
                format!("the location of \"{}\" is not empty", self.table),
            )
            .hint("Choose an empty directory, or move the files away.")),
        }
    }
}

fn holds_files(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else {
        return false;
    };
    entries
        .filter_map(std::result::Result::ok)
        .any(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds_files(&entry.path()),
            _ => true,
        })
}

/// Makes an empty table.
pub(super) struct Maker {
    place: Place,
    definition: Definition,
    session: SessionState,
}

impl Maker {
    pub(super) fn new(place: Place, definition: Definition, session: &SessionState) -> Self {
        Self {
            place,
            definition,
            session: session.clone(),
        }
    }

    async fn make(&self) -> Result<()> {
        self.place.check_vacant()?;
        let new = self.definition.new_table(&self.place.table);
        create_table(&self.place.handle, &new, &self.session).await?;
        Ok(())
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Maker").field(&self.place).finish()
    }
}

/// `CREATE TABLE` with a column list.
#[derive(Debug)]
pub(super) struct Create {
    pub maker: Maker,
}

#[async_trait]
impl CommandTask for Create {
    fn name(&self) -> &'static str {
        "CreateTable"
    }

    fn describe(&self) -> String {
        let columns: Vec<_> = self
            .maker
            .definition
            .schema
            .fields()
            .iter()
            .map(|f| f.name().as_str())
            .collect();
        format!("{}, columns=[{}]", self.maker.place, columns.join(", "))
    }

    fn schema(&self) -> SchemaRef {
        target::status_schema()
    }

    async fn run(&self, _input: Vec<RecordBatch>, _context: Arc<TaskContext>) -> Result<RecordBatch> {
        self.maker.make().await?;
        self.maker.place.publish()?;
        target::status(&self.maker.place.table, "created")
    }
}

/// The end of `CREATE TABLE .. AS`: the load below has made the table, unless its query was empty.
#[derive(Debug)]
pub(super) struct Created {
    pub maker: Maker,
}

#[async_trait]
impl CommandTask for Created {
    fn name(&self) -> &'static str {
        "CreateTable"
    }

    fn describe(&self) -> String {
        self.maker.place.to_string()
    }

    fn schema(&self) -> SchemaRef {
        target::status_schema()
    }

    async fn run(&self, input: Vec<RecordBatch>, _context: Arc<TaskContext>) -> Result<RecordBatch> {
        let place = &self.maker.place;
        if place.handle.snapshot().await?.is_none() {
            self.maker.make().await?;
        }
        place.publish()?;
        let rows: u64 = input.iter().map(inserted).sum();
        let noun = if rows == 1 { "row" } else { "rows" };
        target::status(&place.table, format!("created with {rows} {noun}"))
    }
}

fn inserted(result: &RecordBatch) -> u64 {
    let column = result.column_by_name("num_inserted_rows");
    let counts = column.and_then(|c| c.as_any().downcast_ref::<UInt64Array>());
    counts.map_or(0, |counts| (0..counts.len()).map(|i| counts.value(i)).sum())
}

/// Attaches a table that is there already.
#[derive(Debug)]
pub(super) struct Attach(pub Place);

#[async_trait]
impl CommandTask for Attach {
    fn name(&self) -> &'static str {
        "AttachTable"
    }

    fn describe(&self) -> String {
        self.0.to_string()
    }

    fn schema(&self) -> SchemaRef {
        target::status_schema()
    }

    async fn run(&self, _input: Vec<RecordBatch>, _context: Arc<TaskContext>) -> Result<RecordBatch> {
        self.0.publish()?;
        target::status(&self.0.table, "attached")
    }
}
