//! Records of the catalogue that name chunks: pages, inactive versions, and versions in the trash
//! of deletions.
//!
//! The pages of a filespace come before its versions, and versions in the trash come last. An
//! object that is replaced or deleted meanwhile moves in this direction. So the visitor sees the
//! object in its old place, in its new place, or in both.

use crate::error::StoreError;
use catalog::{PageKey, PageRow, PageSpan, TrashedVersion, VersionRow, Write};
use format::page;
use model::{DirPath, FilespaceId, NodeId, Object};

use crate::pages::decode_page;
use crate::store::Store;

/// Number of pages, directories or deleted versions that are read at once.
const BATCH: usize = 256;

/// A record of the catalogue that names chunks.
pub enum Record {
    Page(PageRow),
    Version(VersionRow),
    /// A version in the trash of the deletion with this number.
    Trash(u64, VersionRow),
}

/// Node and filespace of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub node: NodeId,
    pub filespace: FilespaceId,
}

/// An event of a visit of all records.
pub enum VisitEvent {
    Record(Owner, Record),
    /// End of a batch, with its number of records: a moment to report progress.
    Batch(usize),
}

impl Record {
    pub fn objects(&self) -> Result<Vec<Object>, StoreError> {
        match self {
            Self::Page(row) => decode_page(row),
            Self::Version(row) | Self::Trash(_, row) => page::decode(&row.body).map_err(|_| {
                let path = model::escaped(&row.directory.join(&row.name));
                StoreError::damaged(format!("the catalogue's version of {path} is damaged"))
            }),
        }
    }

    /// Returns the directory in which the record's objects are, or were.
    pub fn directory(&self) -> &DirPath {
        match self {
            Self::Page(row) => &row.key.directory,
            Self::Version(row) | Self::Trash(_, row) => &row.directory,
        }
    }

    /// Returns the write that puts `objects` into the record. The write changes nothing if the
    /// record has changed since it was read.
    pub fn rewrite(self, filespace: FilespaceId, objects: &[Object]) -> Write {
        let new = page::encode(objects);
        match self {
            Self::Page(PageRow { key, body: old, .. }) => {
                Write::RewritePage { filespace, key, old, new }
            }
            Self::Version(version) => Write::RewriteVersion { filespace, version, new },
            Self::Trash(deletion, version) => {
                Write::RewriteTrash { deletion, filespace, version, new }
            }
        }
    }
}

type Visitor<'a> = &'a mut dyn FnMut(VisitEvent) -> Result<(), StoreError>;

/// Calls `visitor` with all records, one filespace after the other, in the order of paths.
pub fn visit(store: &Store, visitor: Visitor<'_>) -> Result<(), StoreError> {
    for node in store.catalog.nodes()? {
        for filespace in store.catalog.filespaces(node.id)? {
            let owner = Owner { node: node.id, filespace: filespace.id };
            of_filespace(store, owner, visitor)?;
        }
    }
    for deletion in store.catalog.deletions(None)? {
        let mut skip = 0;
        loop {
            let rows = store.catalog.trash(deletion.number, skip, BATCH)?;
            if rows.is_empty() {
                break;
            }
            let count = rows.len();
            skip += count;
            for TrashedVersion { filespace, version } in rows {
                let owner = Owner { node: deletion.node, filespace };
                visitor(VisitEvent::Record(owner, Record::Trash(deletion.number, version)))?;
            }
            visitor(VisitEvent::Batch(count))?;
        }
    }
    Ok(())
}

/// Calls `visitor` with the pages and the inactive versions of one filespace.
pub(crate) fn of_filespace(
    store: &Store,
    owner: Owner,
    visitor: Visitor<'_>,
) -> Result<(), StoreError> {
    pages(store, owner, visitor)?;
    versions(store, owner, visitor)
}

fn pages(store: &Store, owner: Owner, visitor: Visitor<'_>) -> Result<(), StoreError> {
    let span = PageSpan::Subtree(DirPath::above_root());
    let mut after: Option<PageKey> = None;
    loop {
        let pages = store.catalog.pages(owner.filespace, &span, after.as_ref(), BATCH)?;
        let Some(last) = pages.last().map(|page| page.key.clone()) else { return Ok(()) };
        let count = pages.len();
        for page in pages {
            visitor(VisitEvent::Record(owner, Record::Page(page)))?;
        }
        after = Some(last);
        visitor(VisitEvent::Batch(count))?;
    }
}

fn versions(store: &Store, owner: Owner, visitor: Visitor<'_>) -> Result<(), StoreError> {
    let span = PageSpan::Subtree(DirPath::above_root());
    let mut after: Option<DirPath> = None;
    loop {
        let directories =
            store
                .catalog
                .version_directories(owner.filespace, &span, after.as_ref(), BATCH)?;
        let Some(last) = directories.last().cloned() else { return Ok(()) };
        debug_assert!(directories.is_sorted_by(|a, b| a < b), "each directory comes once");
        let mut count = 0;
        for directory in directories {
            let rows = store.catalog.versions(owner.filespace, &directory)?;
            count += rows.len();
            for row in rows {
                visitor(VisitEvent::Record(owner, Record::Version(row)))?;
            }
        }
        after = Some(last);
        visitor(VisitEvent::Batch(count))?;
    }
}
