//! What was asked of a store.

use std::fmt;

use object_store::path::Path;
use object_store::{GetOptions, GetRange};

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// An object is written, whatever is there.
    Put,
    /// An object is written if it does not exist (a commit of a log).
    PutIfAbsent,
    /// A written object appears under its name: the end of a multipart upload.
    CompleteUpload,
    /// One part of a multipart upload.
    PutPart,
    /// An object is read, or a part of it.
    Get,
    /// Only an object's metadata.
    Head,
    /// Objects are listed.
    List,
    /// An object is deleted.
    Delete,
    /// An object is copied.
    Copy,
    /// An object is renamed.
    Rename,
}

impl Operation {
    /// Whether it changes what readers see: the steps between which a crash can leave something behind.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            Self::Put | Self::PutIfAbsent | Self::CompleteUpload | Self::Delete | Self::Copy | Self::Rename
        )
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What was asked.
    pub operation: Operation,
    /// For which object, or under which prefix.
    pub path: Path,
    /// The byte range of a partial read.
    pub range: Option<String>,
}

impl Request {
    /// A request for a whole object.
    pub fn new(operation: Operation, path: &Path) -> Self {
        Self {
            operation,
            path: path.clone(),
            range: None,
        }
    }

    /// A read with its options.
    pub fn get(path: &Path, options: &GetOptions) -> Self {
        let operation = if options.head { Operation::Head } else { Operation::Get };
        let range = options.range.as_ref().map(|range| match range {
            GetRange::Bounded(range) => format!("{}-{}", range.start, range.end),
            GetRange::Offset(start) => format!("{start}-"),
            GetRange::Suffix(length) => format!("-{length}"),
        });
        Self {
            operation,
            path: path.clone(),
            range,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.operation, self.path)?;
        match &self.range {
            Some(range) => write!(f, " {range}"),
            None => Ok(()),
        }
    }
}
