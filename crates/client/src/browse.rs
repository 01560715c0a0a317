//! Browsing: the stored objects of one directory, of all directories below it, and the versions of
//! one object, for a program that shows them as files.

use model::{DirPath, Extent, Name, Object, Payload, ServerTime};

use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::{Entry, Selection};
use crate::path::Place;

/// Place of an object in a filespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectPlace {
    pub filespace: Vec<u8>,
    pub directory: DirPath,
    pub name: Name,
}

impl ObjectPlace {
    pub(crate) fn place(&self) -> Place {
        let Self { filespace, directory, name } = self.clone();
        Place { filespace, directory, name: Some(name) }
    }
}

/// Version of an object. Of its extents, one hole of the size of all holes is left: its data is
/// read by its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredVersion {
    pub object: Object,
    /// Time at which the version became inactive; `None` for the active version.
    pub deactivated: Option<ServerTime>,
}

/// Returns the objects directly in `directory` at the time `at`, or now, sorted by name. An unknown
/// directory has none.
pub(crate) fn directory(
    link: &Link,
    filespace: &[u8],
    directory: &DirPath,
    at: Option<ServerTime>,
) -> Result<Vec<Object>, ClientError> {
    let selection = Selection { at, ..Selection::of_directory(filespace, directory.clone()) };
    let mut objects: Vec<Object> = collect(link, &selection)?
        .into_iter()
        .map(|entry| without_places(entry.object))
        .collect();
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(objects)
}

/// Returns all versions of the object at `place`, newest first.
pub(crate) fn versions(
    link: &Link,
    place: &ObjectPlace,
) -> Result<Vec<StoredVersion>, ClientError> {
    let selection = Selection::of_object(&place.place());
    let selection = Selection { all_versions: true, ..selection };
    let version = |entry: Entry| StoredVersion {
        deactivated: entry.deactivated,
        object: without_places(entry.object),
    };
    let mut versions: Vec<StoredVersion> =
        collect(link, &selection)?.into_iter().map(version).collect();
    versions.sort_by_key(|version| std::cmp::Reverse(version.object.inserted));
    Ok(versions)
}

/// Returns all versions of all objects directly in `directory`, sorted by name, newest first.
pub(crate) fn all_versions(
    link: &Link,
    filespace: &[u8],
    directory: &DirPath,
) -> Result<Vec<StoredVersion>, ClientError> {
    let selection = Selection::of_directory(filespace, directory.clone());
    let selection = Selection { all_versions: true, ..selection };
    let version = |entry: Entry| StoredVersion {
        deactivated: entry.deactivated,
        object: without_places(entry.object),
    };
    let mut versions: Vec<StoredVersion> =
        collect(link, &selection)?.into_iter().map(version).collect();
    versions.sort_by(|a, b| {
        let by_name = a.object.name.cmp(&b.object.name);
        by_name.then(b.object.inserted.cmp(&a.object.inserted))
    });
    Ok(versions)
}

/// Calls `visit` with the directories at and below `directory`, in the order of their paths, each
/// with objects of it at the time `at`, or now. A directory with many objects comes several times.
/// Ends when `visit` returns false.
pub(crate) fn subtree(
    link: &Link,
    filespace: &[u8],
    directory: &DirPath,
    at: Option<ServerTime>,
    visit: &mut dyn FnMut(&DirPath, Vec<Object>) -> bool,
) -> Result<(), ClientError> {
    let selection = Selection { at, ..selection_below(filespace, directory) };
    let mut listing = link.list(&selection)?;
    while let Some(entries) = listing.next()? {
        let mut entries = entries.into_iter().peekable();
        while let Some(Entry { directory: path, object, .. }) = entries.next() {
            let mut objects = vec![without_places(object)];
            while let Some(next) = entries.next_if(|next| next.directory == path) {
                objects.push(without_places(next.object));
            }
            // The object that the subtree hangs on is not in it.
            let is_within = directory.contains(&path) || *path == *directory;
            if is_within && !visit(&path, objects) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the selection of all objects in `directory` and below it, and of `directory` itself.
pub(crate) fn selection_below(filespace: &[u8], directory: &DirPath) -> Selection {
    match directory.parent() {
        Some((directory, name)) if *directory.as_bytes() != *b"" => {
            let filespace = filespace.to_vec();
            Selection::of_subtree(&Place { filespace, directory, name: Some(name) })
        }
        _ => Selection::of_filespace(filespace),
    }
}

fn collect(link: &Link, selection: &Selection) -> Result<Vec<Entry>, ClientError> {
    let mut found = Vec::new();
    let mut listing = match link.list(selection) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(found),
        listing => listing?,
    };
    loop {
        match listing.next() {
            Ok(Some(entries)) => found.extend(entries),
            Ok(None) => return Ok(found),
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        }
    }
}

/// Drops the places of an object's data, which may be many. One hole is left, of the size of all
/// holes, so that the space that the file took is known.
fn without_places(mut object: Object) -> Object {
    if matches!(object.payload, Payload::Extents(_)) {
        object.payload = match object.payload.hole_bytes() {
            0 => Payload::Nothing,
            bytes => Payload::Extents(vec![Extent::Hole { bytes }]),
        };
    }
    object
}
