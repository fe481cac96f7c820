//! Integration tests of the facade: one binary, because linking is slow.

mod catalog;
mod ddl;
mod support;
