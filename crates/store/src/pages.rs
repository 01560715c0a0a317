//! Pages of the catalogue: decoding them to objects, and writing changed pages.

use catalog::change::Effect;
use catalog::{Day, PageKey, PageRow, Write};
use format::page;
use model::{DirPath, FilespaceId, Object, ServerTime};

use crate::error::StoreError;

/// Decodes a stored page.
pub fn decode_page(row: &PageRow) -> Result<Vec<Object>, StoreError> {
    page::decode(&row.body).map_err(|damage| {
        let directory = model::escaped(row.key.directory.as_bytes());
        StoreError::damaged(format!("the catalogue's page of {directory} is damaged: {damage}"))
    })
}

/// Returns the writes that store a change, which was applied to a page of `directory` at `now`.
pub(crate) fn writes(
    filespace: FilespaceId,
    directory: &DirPath,
    changed: Effect,
    now: ServerTime,
) -> Vec<Write> {
    let mut writes = Vec::new();
    let versions = changed.versions.into_iter();
    writes.extend(versions.map(|version| Write::AddVersion { filespace, version }));
    let pages = changed.pages.into_iter();
    writes.extend(pages.map(|page| Write::PutPage { filespace, page }));
    let removed = changed.removed.into_iter();
    writes.extend(removed.map(|key| Write::RemovePage { filespace, key }));
    if changed.affects_ended {
        let (directory, day) = (directory.clone(), Day::of(now));
        writes.push(Write::MarkDirectory { filespace, directory, day });
    }
    writes
}

/// Returns the write that gives the page other objects. It removes a page without objects, unless
/// this is the first page of its directory. The page gets no digest, so that the next backup
/// examines it.
pub(crate) fn rewritten(filespace: FilespaceId, key: PageKey, objects: &[Object]) -> Write {
    if objects.is_empty() && !key.first.is_empty() {
        return Write::RemovePage { filespace, key };
    }
    let object_count = u32::try_from(objects.len()).unwrap_or(u32::MAX);
    let page = PageRow { key, object_count, digest: None, body: page::encode(objects) };
    Write::PutPage { filespace, page }
}
