//! Lists of versions and of copies.

use model::{BatchId, CopyId, Kind, Object, ServerTime, Stat, space_filespace};

use crate::backup::path_of;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::{Entry, Selection};
use crate::options::{ListContent, ListOptions};
use crate::path::{Place, absolute, normalise, only_named, places};
use crate::remains::{self, nothing_stored};

/// Version of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVersion {
    /// Path on the node, from `/`.
    pub path: Vec<u8>,
    pub object: Object,
    /// Name of the version's management class.
    pub class: String,
    /// Time at which the version became inactive; `None` for the active version.
    pub deactivated: Option<ServerTime>,
}

/// Lists the versions that `options` select, and the content that they name. The list ends when
/// `visit` returns false.
pub(crate) fn run(
    link: &Link,
    options: &ListOptions,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<(), ClientError> {
    let filespaces = link.filespaces_of(options.archive)?;
    let filespaces = only_named(filespaces, options.filespace.as_deref())?;
    let Some(path) = &options.path else {
        let mut unreadable = None;
        for filespace in filespaces {
            let directory = model::DirPath::above_root();
            let place = Place { filespace, directory, name: None };
            let summary = list(link, &select(&place, options), visit)?;
            unreadable = unreadable.or(summary.unreadable);
            if summary.is_stopped {
                break;
            }
        }
        return unreadable.map_or(Ok(()), Err);
    };
    let path = normalise(path)?;
    for place in places(filespaces.iter().map(Vec::as_slice), &path) {
        if list_place(link, &place, options, visit)? {
            return Ok(());
        }
    }
    Err(match options.archive {
        None => nothing_stored(link, &filespaces, &path, &options.which).error(),
        Some(number) => {
            let shown = model::escaped(&path);
            let message = format!(
                "archive {number} does not have {shown}; 'holdfast archives' shows all archives"
            );
            ClientError::new(ErrorKind::NotFound, message)
        }
    })
}

/// Returns the filespaces that have versions of the path for the options, too, beside the one whose
/// versions a list shows.
pub(crate) fn elsewhere(link: &Link, options: &ListOptions) -> Result<Vec<Vec<u8>>, ClientError> {
    let (Some(path), None, None) = (&options.path, options.archive, &options.filespace) else {
        return Ok(Vec::new());
    };
    let path = normalise(path)?;
    let filespaces = link.filespaces_of(None)?;
    let places = places(filespaces.iter().map(Vec::as_slice), &path);
    let select = |place: &Place| with_options(Selection::of_subtree(place), options);
    remains::elsewhere(link, &places, &select)
}

fn select(place: &Place, options: &ListOptions) -> Selection {
    let selection = match options.content {
        ListContent::Everything => Selection::of_subtree(place),
        ListContent::None | ListContent::Direct => Selection::of_object(place),
    };
    with_options(selection, options)
}

fn with_options(selection: Selection, options: &ListOptions) -> Selection {
    Selection { all_versions: options.all_versions, ..selection.with_versions(&options.which) }
}

/// Lists one place. Returns true if the server has any version there.
fn list_place(
    link: &Link,
    place: &Place,
    options: &ListOptions,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<bool, ClientError> {
    let own = list(link, &select(place, options), visit)?;
    if let Some(error) = own.unreadable {
        return Err(error);
    }
    if options.content != ListContent::Direct {
        return Ok(own.versions > 0);
    }
    let is_other = own.versions > 0 && !own.has_directory;
    if is_other || own.is_stopped {
        return Ok(true);
    }
    // Objects in a directory may be stored although the directory itself is not stored.
    let selection = Selection::of_directory(&place.filespace, place.below());
    let below = list(link, &with_options(selection, options), visit)?;
    if let Some(error) = below.unreadable {
        return Err(error);
    }
    Ok(own.versions + below.versions > 0)
}

/// Copy of a migrated file at the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedCopy {
    pub id: CopyId,
    /// Time at which the file was migrated.
    pub since: ServerTime,
    /// True if the copy was released, and is kept for a limited time only.
    pub is_released: bool,
    /// Stat of the file when it was migrated.
    pub stat: Stat,
    /// Path of the file when it was migrated.
    pub path: Vec<u8>,
}

/// Lists the copies of files of `mount_point`, with released copies if `released` is set.
pub(crate) fn copies(
    link: &Link,
    mount_point: &[u8],
    released: bool,
) -> Result<Vec<ListedCopy>, ClientError> {
    let filespace = space_filespace(mount_point);
    if !link.filespaces(true)?.iter().any(|known| known.name == filespace) {
        return Ok(Vec::new());
    }
    let selection = Selection { inactive: released, ..Selection::of_filespace(&filespace) };
    let mut listing = link.list(&selection)?;
    let mut copies = Vec::new();
    while let Some(entries) = listing.next()? {
        copies.extend(entries.iter().filter_map(listed_copy));
    }
    Ok(copies)
}

/// Lists the copies of one batch of files of `mount_point`, without released copies.
pub(crate) fn copies_of_batch(
    link: &Link,
    mount_point: &[u8],
    batch: BatchId,
) -> Result<Vec<ListedCopy>, ClientError> {
    let filespace = space_filespace(mount_point);
    let listed = link.list(&Selection::of_directory(&filespace, batch.directory())).and_then(
        |mut listing| {
            let mut copies = Vec::new();
            while let Some(entries) = listing.next()? {
                copies.extend(entries.iter().filter_map(listed_copy));
            }
            Ok(copies)
        },
    );
    match listed {
        // The node has no copy of any file of this mount point.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

fn listed_copy(entry: &Entry) -> Option<ListedCopy> {
    let batch = BatchId::of_directory(&entry.directory)?;
    let index = CopyId::index_of(&entry.object.name)?;
    Some(ListedCopy {
        id: CopyId { batch, index },
        since: entry.object.inserted,
        is_released: entry.deactivated.is_some(),
        stat: entry.object.stat,
        path: path_of(&entry.object)?.to_vec(),
    })
}

/// Summary of the versions that were listed.
#[derive(Default)]
struct ListSummary {
    versions: u64,
    has_directory: bool,
    is_stopped: bool,
    /// Reason why the server could not list all versions.
    unreadable: Option<ClientError>,
}

fn list(
    link: &Link,
    selection: &Selection,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<ListSummary, ClientError> {
    let mut listing = link.list(selection)?;
    let mut summary = ListSummary::default();
    loop {
        let entries = match listing.next() {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(summary),
            Err(error) if error.kind == ErrorKind::Damaged => {
                summary.unreadable = Some(error);
                return Ok(summary);
            }
            Err(error) => return Err(error),
        };
        for listed in versions(link, &selection.filespace, entries) {
            summary.versions += 1;
            summary.has_directory |= listed.object.stat.kind == Kind::Directory;
            if !visit(&listed) {
                summary.is_stopped = true;
                return Ok(summary);
            }
        }
    }
}

/// Sorts the versions of a message by path, and the versions of one path from the newest to the
/// oldest. The server sends the versions of a directory in rounds: the newest version of each name,
/// then the next version of each name.
///
/// The path of each version is made when the version is listed, because the entries of a directory
/// share its path, which may be long.
pub(crate) fn versions(
    link: &Link,
    filespace: &[u8],
    mut entries: Vec<Entry>,
) -> impl Iterator<Item = ListedVersion> {
    entries.sort_by(|a, b| path(a).cmp(path(b)).then(b.object.inserted.cmp(&a.object.inserted)));
    entries.into_iter().map(move |entry: Entry| ListedVersion {
        path: absolute(filespace, &entry.directory.join(&entry.object.name)),
        class: link.hello().class_name(entry.object.class).to_owned(),
        object: entry.object,
        deactivated: entry.deactivated,
    })
}

/// Returns the bytes of the path of `entry` in its filespace.
fn path(entry: &Entry) -> impl Iterator<Item = &u8> {
    entry.directory.as_bytes().iter().chain(entry.object.name.as_bytes())
}
