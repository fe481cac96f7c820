//! One run of the statement: names resolved, stored rows read as histories, and written back at the end.

use super::{DeleteVersions, Scd2, Track, Validity, time_of};
use crate::oracle::clauses::{ColumnSet, Keys, NullKeys};
use crate::oracle::insert_only::source_rows;
use crate::oracle::source::{self, tuple};
use crate::oracle::{AbsentVersions, BAD_VALUE, Counts, DUPLICATE_COLUMN, ErrorCode, NO_COLUMN, target};
use crate::values::{Column, ColumnType, Row, Table, Value};

/// One version of a key.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub from: i64,
    /// `None`: open.
    pub to: Option<i64>,
    pub deleted: bool,
    /// All target columns; the validity cells are rewritten at the end.
    pub row: Row,
    /// The stored row this version is; `None` for a new one.
    pub stored: Option<Row>,
}

/// All versions of one identity that the statement looks at.
pub(super) struct History {
    /// `None` never matches.
    pub key: Option<Vec<Value>>,
    pub versions: Vec<Version>,
}

impl History {
    /// The open version; the latest, should there be several.
    pub fn open(&self) -> Option<usize> {
        let open = (0..self.versions.len()).filter(|&i| self.versions[i].to.is_none());
        open.max_by_key(|&i| self.versions[i].from)
    }
}

/// One run.
pub(super) struct Frame<'a> {
    pub spec: &'a Scd2,
    pub source: &'a Table,
    /// The key columns, or the tracked columns.
    pub identity: Keys,
    pub tracked: Vec<String>,
    pub boundary: i64,
    pub counts: Counts,
    pub histories: Vec<History>,
    pub table: Table,
    before: Option<&'a Table>,
    landing: Vec<String>,
    validity: Validity,
    /// Stored rows outside `WITHIN`.
    others: Vec<Row>,
}

impl<'a> Frame<'a> {
    pub fn new(spec: &'a Scd2, before: Option<&'a Table>, source: &'a Table, boundary: i64) -> Result<Self, ErrorCode> {
        let validity = spec.validity_columns();
        if validity.names().iter().any(|name| source.has(name)) {
            return Err(DUPLICATE_COLUMN);
        }
        let marker = spec.delete_when.as_ref().map(|(marker, _)| marker);
        let landing = source::landing(&spec.common, source, before, marker)?;
        let tracked = tracked_columns(spec, source, &landing)?;
        let explicit = matches!(spec.track, Track::On(ColumnSet::Only(_)));
        let nulls = if explicit {
            NullKeys::Error
        } else {
            NullKeys::NotDistinct
        };
        let by_content = Keys {
            columns: tracked.clone(),
            nulls,
            within: None,
        };
        let identity = spec.common.keys.first().cloned().unwrap_or(by_content);
        let mut table = target::prepared(before, source, &landing);
        add_validity(&mut table, before, &validity)?;
        let counts = Counts {
            source: source_rows(source),
            ..Counts::default()
        };
        let mut frame = Self {
            spec,
            source,
            identity,
            tracked,
            boundary,
            counts,
            histories: Vec::new(),
            table,
            before,
            landing,
            validity,
            others: Vec::new(),
        };
        frame.read()?;
        Ok(frame)
    }

    fn read(&mut self) -> Result<(), ErrorCode> {
        for row in std::mem::take(&mut self.table.rows) {
            if !self.identity.looks_at(&self.table, &row) {
                self.others.push(row);
                continue;
            }
            let end = self.table.get(&row, &self.validity.to);
            let deleted = |name: &String| self.table.get(&row, name) == Value::Bool(true);
            let version = Version {
                from: time_of(&self.table.get(&row, &self.validity.from))?,
                to: if end == self.open_end() { None } else { end_of(&end)? },
                deleted: self.validity.is_deleted.as_ref().is_some_and(deleted),
                stored: Some(row.clone()),
                row,
            };
            let key = self.identity.of(&self.table, &version.row);
            self.history(key).versions.push(version);
        }
        Ok(())
    }

    /// The history of a key, a new one if there is none.
    pub fn history(&mut self, key: Option<Vec<Value>>) -> &mut History {
        let found = self.histories.iter().position(|h| key.is_some() && h.key == key);
        let index = found.unwrap_or(self.histories.len());
        if found.is_none() {
            self.histories.push(History {
                key,
                versions: Vec::new(),
            });
        }
        &mut self.histories[index]
    }

    fn open_end(&self) -> Value {
        self.spec.active_until.map_or(Value::Null, Value::Ts)
    }

    /// Open rows of the table must carry our marker: a NULL end beside another marker, or a current row with an end that
    /// is not ours (and the other way round), tells of a table that uses another.
    pub fn check_open_marker(&self) -> Result<(), ErrorCode> {
        let Some(before) = self.before else { return Ok(()) };
        for row in &before.rows {
            let end = before.get(row, &self.validity.to);
            let open = end == self.open_end();
            let current = |name: &String| before.get(row, name) == Value::Bool(true);
            let disagrees = self
                .validity
                .is_current
                .as_ref()
                .is_some_and(|name| current(name) != open);
            if disagrees || (end.is_null() && !open) {
                return Err(BAD_VALUE);
            }
        }
        Ok(())
    }

    /// What rows of one key and one time must agree in.
    pub fn agrees(&self, a: &Row, b: &Row) -> bool {
        let marker = self.spec.delete_when.as_ref().map(|(marker, _)| marker);
        source::Content {
            source: self.source,
            landing: &self.landing,
            marker,
        }
        .same(a, b)
    }

    pub fn marks(&self, row: &Row) -> bool {
        self.spec
            .delete_when
            .as_ref()
            .is_some_and(|(marker, _)| marker.marks(self.source, row))
    }

    pub fn deletes_as_record(&self) -> bool {
        matches!(self.spec.delete_when, Some((_, DeleteVersions::NewRecord)))
    }

    /// Whether a source row has the tracked content of a version.
    pub fn same_content(&self, version: &Version, row: &Row) -> bool {
        tuple(&self.table, &version.row, &self.tracked) == tuple(self.source, row, &self.tracked)
    }

    /// A new open version from a source row.
    pub fn opened(&self, row: &Row, from: i64) -> Version {
        let row = target::landed(&self.table, self.source, row, &self.landing);
        Version {
            from,
            to: None,
            deleted: false,
            row,
            stored: None,
        }
    }

    /// A deleted version with the content of another.
    pub fn record(&self, of: &Version, from: i64) -> Version {
        Version {
            from,
            to: None,
            deleted: true,
            row: of.row.clone(),
            stored: None,
        }
    }

    /// Takes over all landing columns but the keys; whether that changed anything.
    pub fn overwrite(&self, version: &mut Version, row: &Row) -> bool {
        if self.spec.trusts_tracked && self.same_content(version, row) {
            return false;
        }
        let old = version.row.clone();
        for column in self.landing.iter().filter(|c| !self.identity_keeps(c)) {
            target::set(&self.table, &mut version.row, column, self.source.get(row, column));
        }
        version.row != old
    }

    fn identity_keeps(&self, column: &String) -> bool {
        !self.spec.common.keys.is_empty() && self.identity.columns.contains(column)
    }

    /// Closes open versions of identities that the whole source lacks, deleted ones excepted.
    pub fn retire_absent(&mut self) -> Result<(), ErrorCode> {
        let Some(absent) = &self.spec.absent else { return Ok(()) };
        let present = |key: &Option<Vec<Value>>| {
            key.is_some()
                && self
                    .source
                    .rows
                    .iter()
                    .any(|row| self.identity.of(self.source, row) == *key)
        };
        let mut histories = std::mem::take(&mut self.histories);
        for history in histories.iter_mut().filter(|h| !present(&h.key)) {
            let Some(open) = history.open() else { continue };
            let version = &mut history.versions[open];
            let stored = version.stored.as_ref();
            let concerned = stored.is_some_and(|row| absent.concerns(&self.table, row, self.source));
            if version.deleted || !concerned {
                continue;
            }
            close(version, self.boundary)?;
            if absent.action == AbsentVersions::NewRecord {
                let record = self.record(version, self.boundary);
                history.versions.push(record);
            }
        }
        self.histories = histories;
        Ok(())
    }

    /// All rows with their validity columns, and what was opened and changed.
    pub fn finish(mut self) -> Result<(Table, Counts), ErrorCode> {
        let mut rows = std::mem::take(&mut self.others);
        for version in self.histories.iter().flat_map(|h| &h.versions) {
            let row = self.written(version);
            match &version.stored {
                None => self.counts.inserted += 1,
                Some(stored) if *stored != row => self.counts.updated += 1,
                Some(_) => {
                    rows.push(row);
                    continue;
                }
            }
            target::check_written(&self.table, &row)?;
            rows.push(row);
        }
        self.table.rows = rows;
        Ok((self.table, self.counts))
    }

    fn written(&self, version: &Version) -> Row {
        let mut row = version.row.clone();
        target::set(&self.table, &mut row, &self.validity.from, Value::Ts(version.from));
        target::set(
            &self.table,
            &mut row,
            &self.validity.to,
            version.to.map_or(self.open_end(), Value::Ts),
        );
        if let Some(name) = &self.validity.is_current {
            target::set(&self.table, &mut row, name, Value::Bool(version.to.is_none()));
        }
        if let Some(name) = &self.validity.is_deleted {
            // A stored NULL stays what it is: it means the same as false.
            let stored_null = version
                .stored
                .as_ref()
                .is_some_and(|row| self.table.get(row, name).is_null());
            if !stored_null || version.deleted {
                target::set(&self.table, &mut row, name, Value::Bool(version.deleted));
            }
        }
        row
    }
}

/// Ends a version; not before it began.
pub(super) fn close(version: &mut Version, at: i64) -> Result<(), ErrorCode> {
    if at < version.from {
        return Err(BAD_VALUE);
    }
    version.to = Some(at);
    Ok(())
}

fn end_of(end: &Value) -> Result<Option<i64>, ErrorCode> {
    if end.is_null() {
        Ok(None)
    } else {
        time_of(end).map(Some)
    }
}

fn tracked_columns(spec: &Scd2, source: &Table, landing: &[String]) -> Result<Vec<String>, ErrorCode> {
    let keys = spec
        .common
        .keys
        .first()
        .map(|keys| keys.columns.as_slice())
        .unwrap_or_default();
    let set = match &spec.track {
        Track::All | Track::Always => ColumnSet::all_except(&[]),
        Track::On(set) => set.clone(),
    };
    source::check_columns(source, set.named())?;
    match &set {
        ColumnSet::Only(columns) if columns.iter().any(|c| !landing.contains(c)) => Err(NO_COLUMN),
        ColumnSet::Only(columns) => Ok(columns.clone()),
        ColumnSet::AllExcept(_) => {
            let content = |c: &&String| !keys.contains(c) && !spec.common.sequence.contains(c) && set.has(c);
            Ok(landing.iter().filter(content).cloned().collect())
        }
    }
}

fn add_validity(table: &mut Table, before: Option<&Table>, validity: &Validity) -> Result<(), ErrorCode> {
    let flags = [&validity.is_current, &validity.is_deleted].into_iter().flatten();
    let times = [&validity.from, &validity.to]
        .into_iter()
        .map(|name| (name, ColumnType::Ts));
    for (name, ty) in times.chain(flags.map(|name| (name, ColumnType::Bool))) {
        match before {
            Some(before) if !before.has(name) => return Err(NO_COLUMN),
            Some(_) => {}
            None => target::add_column(table, Column::new(name, ty)),
        }
    }
    Ok(())
}
