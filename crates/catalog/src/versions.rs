//! Inactive versions of objects.

use model::{DirPath, FilespaceId, Name, ServerTime};

use crate::{CatalogError, PageSpan};

/// The key of an inactive version within its directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VersionKey {
    pub name: Name,
    pub inserted: ServerTime,
    pub deactivated: ServerTime,
}

/// An inactive version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionRow {
    pub directory: DirPath,
    pub name: Name,
    pub inserted: ServerTime,
    pub deactivated: ServerTime,
    /// An encoded page that has only this object.
    pub body: Vec<u8>,
}

/// The inactive versions in filespaces.
pub trait Versions {
    /// At most `limit` directories within `span` after `after` that have inactive versions, in
    /// ascending order.
    fn version_directories(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&DirPath>,
        limit: usize,
    ) -> Result<Vec<DirPath>, CatalogError>;

    /// Inactive versions of the objects in `directory`, by name, newest first.
    fn versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<Vec<VersionRow>, CatalogError>;
}
