//! How pages of a Parquet file hold what they hold, as far as it is known here: for those who change stored pages
//! (`write::files::pages`) and for those who pick single values out of them (`scan::late`).

pub(crate) mod codec;
pub(crate) mod header;
pub(crate) mod hybrid;
pub(crate) mod levels;
pub(crate) mod texts;
