//! Data files: how they are laid out, written, described in the log, and thrown away when nothing comes of them.
//!
//! A thin writer of our own over Parquet's, because the log must be right in places where a wrong bound means a missed
//! row: NaN, infinities, long decimals, timestamps between milliseconds.

mod background;
mod dictionary;
mod layout;
mod ledger;
mod original;
mod parquet;
mod partition;
mod patch;
mod rolling;
mod spliced;
mod stats;
mod table;

pub(super) use layout::{FileLayout, conform, rows_size};
pub(super) use ledger::{OpenFile, StatementFiles};
pub(super) use original::Original;
pub(super) use parquet::NewRowGroup;
pub(super) use rolling::{RollingWriter, WrittenFile};
pub(super) use spliced::SplicedFile;
pub(super) use table::TableWriter;
