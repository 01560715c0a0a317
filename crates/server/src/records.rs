//! All that names chunks: pages, inactive versions, and versions that deletions took aside.
//!
//! Of a filespace pages come before versions, and what was taken aside comes last: an object that
//! moves on meanwhile, as it does when it is replaced or deleted, is seen where it was or where it
//! is, or twice.

use catalog::{PageKey, PageRow, PageSpan, VersionRow, Write};
use format::page;
use model::{DirPath, FilespaceId, NodeId, Object};
use tonic::Status;

use crate::backup::decode_page;
use crate::core::Core;
use crate::refusal;

/// Pages, directories or deleted versions read at once.
const BATCH: usize = 256;

/// Something in the catalogue that names chunks.
pub(crate) enum Record {
    Page(PageRow),
    Version(VersionRow),
    /// Taken aside by the deletion of this number.
    Trash(u64, VersionRow),
}

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) node: NodeId,
    pub(crate) filespace: FilespaceId,
}

/// What [`visit`] tells of.
pub(crate) enum Seen {
    Record(Owner, Record),
    /// So many records have been seen since the last time: a moment to say how it goes.
    Batch(usize),
}

impl Record {
    pub(crate) fn objects(&self) -> Result<Vec<Object>, Status> {
        match self {
            Self::Page(row) => decode_page(row),
            Self::Version(row) | Self::Trash(_, row) => page::decode(&row.body).map_err(|_| {
                let path = model::escaped(&row.directory.join(&row.name));
                Status::data_loss(format!("the catalogue's version of {path} is damaged"))
            }),
        }
    }

    /// The directory that its objects are or were in.
    pub(crate) fn directory(&self) -> &DirPath {
        match self {
            Self::Page(row) => &row.key.directory,
            Self::Version(row) | Self::Trash(_, row) => &row.directory,
        }
    }

    /// The same record with other objects, if it is still the same.
    pub(crate) fn rewrite(self, filespace: FilespaceId, objects: &[Object]) -> Write {
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

type Visitor<'a> = &'a mut dyn FnMut(Seen) -> Result<(), Status>;

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

/// Calls `visitor` with all records, filespace by filespace in path order.
pub(crate) fn visit(core: &Core, visitor: Visitor<'_>) -> Result<(), Status> {
    for node in core.catalog.nodes().map_err(failed)? {
        for filespace in core.catalog.filespaces(node.id).map_err(failed)? {
            let owner = Owner { node: node.id, filespace: filespace.id };
            pages(core, owner, visitor)?;
            versions(core, owner, visitor)?;
        }
    }
    for deletion in core.catalog.deletions(None).map_err(failed)? {
        let mut skip = 0;
        loop {
            let rows = core.catalog.trash(deletion.number, skip, BATCH).map_err(failed)?;
            if rows.is_empty() {
                break;
            }
            let count = rows.len();
            skip += count;
            for (filespace, row) in rows {
                let owner = Owner { node: deletion.node, filespace };
                visitor(Seen::Record(owner, Record::Trash(deletion.number, row)))?;
            }
            visitor(Seen::Batch(count))?;
        }
    }
    Ok(())
}

fn pages(core: &Core, owner: Owner, visitor: Visitor<'_>) -> Result<(), Status> {
    let span = PageSpan::Subtree(DirPath::above_root());
    let mut after: Option<PageKey> = None;
    loop {
        let pages = core
            .catalog
            .pages(owner.filespace, &span, after.as_ref(), BATCH)
            .map_err(failed)?;
        let Some(last) = pages.last().map(|page| page.key.clone()) else { return Ok(()) };
        let count = pages.len();
        for page in pages {
            visitor(Seen::Record(owner, Record::Page(page)))?;
        }
        after = Some(last);
        visitor(Seen::Batch(count))?;
    }
}

fn versions(core: &Core, owner: Owner, visitor: Visitor<'_>) -> Result<(), Status> {
    let span = PageSpan::Subtree(DirPath::above_root());
    let mut after: Option<DirPath> = None;
    loop {
        let directories = core
            .catalog
            .version_directories(owner.filespace, &span, after.as_ref(), BATCH)
            .map_err(failed)?;
        let Some(last) = directories.last().cloned() else { return Ok(()) };
        let mut count = 0;
        for directory in directories {
            let rows = core.catalog.versions(owner.filespace, &directory).map_err(failed)?;
            count += rows.len();
            for row in rows {
                visitor(Seen::Record(owner, Record::Version(row)))?;
            }
        }
        after = Some(last);
        visitor(Seen::Batch(count))?;
    }
}
