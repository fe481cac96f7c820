//! Data files: how they are laid out, written, described in the log, and thrown away when nothing comes of them.
//!
//! A writer of our own over Parquet's, because the log must be right in places where a wrong bound means a missed
//! row: NaN, infinities, long decimals, timestamps between milliseconds. Columns of plain types are encoded by `pages`, which
//! also changes values in stored pages; all others by Parquet's own column writers.

mod background;
mod dictionary;
mod group;
mod layout;
mod ledger;
mod original;
mod pages;
mod parquet;
mod partition;
mod rolling;
mod spliced;
mod stats;
mod table;

pub(super) use group::NewRowGroup;
pub(super) use layout::{FileLayout, conform, rows_size};
pub(super) use ledger::{OpenFile, StatementFiles};
pub(super) use original::Original;
pub(super) use rolling::{RollingWriter, WrittenFile, is_one_file, write_at_once};
pub(super) use spliced::SplicedFile;
pub(super) use table::TableWriter;
