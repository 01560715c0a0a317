//! Effect of a backup's change on a directory page, computed without any I/O.

use std::collections::{BTreeMap, BTreeSet};

use format::page;
use format::page::OBJECTS_MAX;
use model::{DirPath, DirectoryDigest, Kind, Name, Object, Payload, ServerTime};

use crate::{Growth, PageKey, PageRow, VersionRow};

/// A change of a page. The places of all its chunks are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// New states; an active object of the same name becomes inactive.
    pub backed_up: Vec<Object>,
    /// States of which only the attributes are new. The payload stays as it is.
    pub updated: Vec<Object>,
    pub expired: Vec<Name>,
    /// The pages after the change, in order; the first is the changed page. A page ends before the
    /// first name of the next page.
    pub pages: Vec<PageStart>,
}

/// The first name of a page, and the page's digest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageStart {
    pub first: Vec<u8>,
    pub digest: Option<DirectoryDigest>,
}

/// Reason why a change does not fit its page: the client has compared with another page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("an object of the update is not active, or has another kind or size")]
    Update,
    #[error("the pages after the change are not in order or do not begin with the changed page")]
    Pages,
    #[error("a page would hold more than {OBJECTS_MAX} objects")]
    TooLarge,
    /// The caller applies the change without its new states.
    #[error(transparent)]
    PageFull(#[from] page::PageFull),
}

/// The rows that a change writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effect {
    pub pages: Vec<PageRow>,
    /// Empty pages, which are removed. A directory's first page is never among them.
    pub removed: Vec<PageKey>,
    pub versions: Vec<VersionRow>,
    /// Number of objects that became inactive because they no longer exist.
    pub expired: u64,
    /// Growth of what is stored.
    pub growth: Growth,
    /// Number of new versions of directories that existed: what comes and goes in them makes such
    /// versions.
    pub renewed_directories: i64,
    /// True if other rules may now apply to versions that ended earlier: their object exists again,
    /// or has another class.
    pub affects_ended: bool,
}

/// Applies `change` at `now` to the page `key`, which holds `current`. `current` is sorted by name.
pub fn apply(
    key: &PageKey,
    current: Vec<Object>,
    change: Change,
    now: ServerTime,
) -> Result<Effect, ChangeError> {
    let ascend = |objects: &[Object]| objects.is_sorted_by(|a, b| a.name < b.name);
    assert!(ascend(&current), "a page has each name once, in order");
    let mut objects = current;
    let mut effect = Effect::default();
    if !change.expired.is_empty() {
        let gone = change.expired.into_iter().collect::<BTreeSet<Name>>();
        for object in objects.extract_if(.., |object| gone.contains(&object.name)) {
            effect.versions.push(deactivate(&key.directory, object, now));
            effect.expired += 1;
        }
    }
    let mut added = BTreeMap::new();
    for object in change.backed_up {
        let object = Object { inserted: now, ..object };
        effect.growth = effect.growth.plus(Growth::of(&object));
        let old = match position(&objects, &object.name) {
            Ok(at) => Some(std::mem::replace(&mut objects[at], object)),
            Err(_) => added.insert(object.name.clone(), object),
        };
        match old {
            Some(old) => {
                effect.renewed_directories += i64::from(old.stat.kind == Kind::Directory);
                effect.versions.push(deactivate(&key.directory, old, now));
            }
            None => effect.affects_ended = true,
        }
    }
    if !added.is_empty() {
        objects.extend(added.into_values());
        objects.sort_by(|a, b| a.name.cmp(&b.name));
    }
    assert!(ascend(&objects), "each name is replaced or added once");
    for update in change.updated {
        let at = position(&objects, &update.name).map_err(|_| ChangeError::Update)?;
        let object = &mut objects[at];
        let new = updated(object, update, now)?;
        let old = std::mem::replace(object, new);
        effect.affects_ended |= old.class != object.class;
        if object.inserted == now {
            effect.growth = effect.growth.plus(Growth::of(&old));
            effect.renewed_directories += i64::from(old.stat.kind == Kind::Directory);
            effect.versions.push(deactivate(&key.directory, old, now));
        }
    }
    let object_count = objects.len();
    divide(key, objects, change.pages, &mut effect)?;
    let written: usize = effect.pages.iter().map(|page| page.object_count as usize).sum();
    assert_eq!(written, object_count, "each object is in one of the pages");
    Ok(effect)
}

/// Returns the index of the object `name` in `objects`, or the index at which it would be.
fn position(objects: &[Object], name: &Name) -> Result<usize, usize> {
    objects.binary_search_by(|object| object.name.cmp(name))
}

/// Returns the object with its new attributes. If a restore would show the difference, the new
/// state begins now, and the earlier state becomes an inactive version. Otherwise (change time,
/// inode, link count, class) the new attributes replace the old attributes.
fn updated(object: &Object, update: Object, now: ServerTime) -> Result<Object, ChangeError> {
    assert_eq!(object.name, update.name, "an update is for the object of its name");
    let same_size = object.stat.kind != Kind::File || object.stat.size == update.stat.size;
    if object.stat.kind != update.stat.kind || !same_size {
        return Err(ChangeError::Update);
    }
    let shown = |object: &Object| {
        let stat = &object.stat;
        (stat.mode, stat.uid, stat.gid, object.attributes.flags)
    };
    let inserted = if shown(object) == shown(&update) { object.inserted } else { now };
    Ok(Object { payload: object.payload.clone(), inserted, ..update })
}

/// Returns the inactive version that `object` becomes at `now`.
pub fn deactivate(directory: &DirPath, object: Object, now: ServerTime) -> VersionRow {
    let version = VersionRow {
        directory: directory.clone(),
        name: object.name.clone(),
        inserted: object.inserted,
        // A version ends after its beginning, even if the clock was set back.
        deactivated: now.max(ServerTime(object.inserted.0 + 1)),
        body: page::encode(&[object]),
    };
    assert!(version.inserted < version.deactivated, "a version begins before it ends");
    version
}

/// Divides `objects` into the pages that the change asks for. Fails if an object's name is below
/// the first name of the first page.
fn divide(
    key: &PageKey,
    mut objects: Vec<Object>,
    pages: Vec<PageStart>,
    effect: &mut Effect,
) -> Result<(), ChangeError> {
    assert!(effect.pages.is_empty() && effect.removed.is_empty(), "pages are divided once");
    let in_order = pages.is_sorted_by(|a, b| a.first < b.first);
    if !in_order || pages.first().is_none_or(|page| page.first != key.first) {
        return Err(ChangeError::Pages);
    }
    let page_count = pages.len();
    // The last page is made first: each page splits off the objects from its first name on.
    for PageStart { first, digest } in pages.into_iter().rev() {
        let rest = match Name::new(&first) {
            Ok(name) => objects.split_off(objects.partition_point(|object| object.name < name)),
            Err(_) if first.is_empty() => std::mem::take(&mut objects),
            Err(_) => return Err(ChangeError::Pages),
        };
        let key = PageKey { directory: key.directory.clone(), first };
        if rest.is_empty() && !key.first.is_empty() {
            effect.removed.push(key);
            continue;
        }
        if rest.len() > OBJECTS_MAX {
            return Err(ChangeError::TooLarge);
        }
        debug_assert!(rest.first().is_none_or(|object| object.name.as_bytes() >= &key.first[..]));
        let object_count = u32::try_from(rest.len()).expect("bounded just above");
        let body = page::try_encode(&rest)?;
        effect.pages.push(PageRow { key, object_count, digest, body });
    }
    effect.pages.reverse();
    assert_eq!(effect.pages.len() + effect.removed.len(), page_count, "each page has a row");
    assert!(effect.pages.is_sorted_by(|a, b| a.key < b.key), "the pages ascend");
    if objects.is_empty() { Ok(()) } else { Err(ChangeError::Pages) }
}

/// Returns the payload of an update in a message. Nobody uses its extents, but a file that is not
/// empty must have some.
pub fn placeholder<P>(object: &Object<P>) -> Payload<P> {
    match &object.payload {
        Payload::Extents(_) => {
            Payload::Extents(vec![model::Extent::Hole { bytes: object.stat.size }])
        }
        Payload::Nothing => Payload::Nothing,
        Payload::Target(target) => Payload::Target(target.clone()),
    }
}

#[cfg(test)]
mod tests;
