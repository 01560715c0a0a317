//! How a backup's change turns a directory page into the next: pure.

use std::collections::{BTreeMap, BTreeSet};

use format::page;
use model::{DirPath, DirectoryDigest, Kind, Name, Object, PAGE_OBJECTS_MAX, Payload, ServerTime};

use crate::{PageKey, PageRow, VersionRow};

/// A page never holds more objects, even while deletions are withheld.
pub const PAGE_OBJECTS_LIMIT: usize = 8 * PAGE_OBJECTS_MAX;

/// What is to become of a page, its places resolved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// New states; an active object of the same name becomes inactive.
    pub backed_up: Vec<Object>,
    /// States whose attributes alone are new. The payload stays as it is.
    pub updated: Vec<Object>,
    pub expired: Vec<Name>,
    /// The pages that there are after the change with their digests, in order; the first is the
    /// page changed. A page ends where the next begins.
    pub pages: Vec<(Vec<u8>, Option<DirectoryDigest>)>,
}

/// A change that does not fit the page it is for: the client saw another page than there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    #[error("an object to be updated is not active, or not of this kind and size")]
    Update,
    #[error("the pages after the change are not in order or do not begin with the page changed")]
    Pages,
    #[error("a page would hold more than {PAGE_OBJECTS_LIMIT} objects")]
    TooLarge,
}

/// What to write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changed {
    pub pages: Vec<PageRow>,
    /// Pages that are empty and not the directory's first: they go.
    pub removed: Vec<PageKey>,
    pub versions: Vec<VersionRow>,
    /// Objects that became inactive because they are gone.
    pub expired: u64,
    /// Whether other rules may hold now for versions that ended before: their object exists again,
    /// or has another class.
    pub affects_ended: bool,
}

/// Applies `change` at `now` to the page `key` that holds `current`, sorted by name.
pub fn apply(
    key: &PageKey,
    current: Vec<Object>,
    change: Change,
    now: ServerTime,
) -> Result<Changed, Unfit> {
    let mut objects = current;
    let mut changed = Changed::default();
    if !change.expired.is_empty() {
        let gone = change.expired.into_iter().collect::<BTreeSet<Name>>();
        for object in objects.extract_if(.., |object| gone.contains(&object.name)) {
            changed.versions.push(deactivate(&key.directory, object, now));
            changed.expired += 1;
        }
    }
    let mut added = BTreeMap::new();
    for object in change.backed_up {
        let object = Object { inserted: now, ..object };
        let old = match position(&objects, &object.name) {
            Ok(at) => Some(std::mem::replace(&mut objects[at], object)),
            Err(_) => added.insert(object.name.clone(), object),
        };
        match old {
            Some(old) => changed.versions.push(deactivate(&key.directory, old, now)),
            None => changed.affects_ended = true,
        }
    }
    if !added.is_empty() {
        objects.extend(added.into_values());
        objects.sort_by(|a, b| a.name.cmp(&b.name));
    }
    for update in change.updated {
        let at = position(&objects, &update.name).map_err(|_| Unfit::Update)?;
        let object = &mut objects[at];
        let new = updated(object, update, now)?;
        let old = std::mem::replace(object, new);
        changed.affects_ended |= old.class != object.class;
        if object.inserted == now {
            changed.versions.push(deactivate(&key.directory, old, now));
        }
    }
    divide(key, objects, change.pages, &mut changed)?;
    Ok(changed)
}

/// Where the object `name` is among `objects`, or would be.
fn position(objects: &[Object], name: &Name) -> Result<usize, usize> {
    objects.binary_search_by(|object| object.name.cmp(name))
}

/// The object with its new attributes. Where a restore would show the difference, the state before
/// becomes an inactive version and this one begins now; what only tells the client where to look
/// (change time, inode, link count, class) is put in place.
fn updated(object: &Object, update: Object, now: ServerTime) -> Result<Object, Unfit> {
    let same_size = object.stat.kind != Kind::File || object.stat.size == update.stat.size;
    if object.stat.kind != update.stat.kind || !same_size {
        return Err(Unfit::Update);
    }
    let shown = |object: &Object| {
        let stat = &object.stat;
        (stat.mode, stat.uid, stat.gid, object.attributes.flags)
    };
    let inserted = if shown(object) == shown(&update) { object.inserted } else { now };
    Ok(Object { payload: object.payload.clone(), inserted, ..update })
}

/// The inactive version that `object` becomes at `now`.
pub fn deactivate(directory: &DirPath, object: Object, now: ServerTime) -> VersionRow {
    VersionRow {
        directory: directory.clone(),
        name: object.name.clone(),
        inserted: object.inserted,
        // A version's life is never empty, whatever the clock did.
        deactivated: now.max(ServerTime(object.inserted.0 + 1)),
        body: page::encode(&[object]),
    }
}

fn divide(
    key: &PageKey,
    mut objects: Vec<Object>,
    pages: Vec<(Vec<u8>, Option<DirectoryDigest>)>,
    changed: &mut Changed,
) -> Result<(), Unfit> {
    let in_order = pages.is_sorted_by(|a, b| a.0 < b.0);
    if !in_order || pages.first().is_none_or(|(first, _)| *first != key.first) {
        return Err(Unfit::Pages);
    }
    for (first, digest) in pages.into_iter().rev() {
        let rest = match Name::new(&first) {
            Ok(name) => objects.split_off(objects.partition_point(|object| object.name < name)),
            Err(_) if first.is_empty() => std::mem::take(&mut objects),
            Err(_) => return Err(Unfit::Pages),
        };
        let key = PageKey { directory: key.directory.clone(), first };
        if rest.is_empty() && !key.first.is_empty() {
            changed.removed.push(key);
            continue;
        }
        if rest.len() > PAGE_OBJECTS_LIMIT {
            return Err(Unfit::TooLarge);
        }
        let object_count = u32::try_from(rest.len()).expect("bounded just above");
        changed
            .pages
            .push(PageRow { key, object_count, digest, body: page::encode(&rest) });
    }
    changed.pages.reverse();
    if objects.is_empty() { Ok(()) } else { Err(Unfit::Pages) }
}

/// The payload of an update as it travels: extents are not used but must be there for a file of a
/// size.
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
