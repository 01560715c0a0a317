//! Listing versions.

use model::{BatchId, CopyId, DirPath, Kind, Object, ServerTime, Stat, space_filespace};
use wire::proto;

use crate::link::Link;
use crate::restore::{Place, decode, normalise, places};
use crate::{ArchiveFilter, ArchiveSummary, ClientError, ErrorKind, ListOptions};

/// One version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVersion {
    /// On the node, from `/`.
    pub path: Vec<u8>,
    pub object: Object,
    /// The name of its management class.
    pub class: String,
    /// `None` for the active version.
    pub deactivated: Option<ServerTime>,
}

/// Lists what `options` select. A directory is listed with what it holds directly, or with all
/// below it when the listing is recursive.
pub(crate) fn run(
    link: &Link,
    options: &ListOptions,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<(), ClientError> {
    let filespaces = match options.archive {
        Some(number) => {
            let filter = ArchiveFilter { number: Some(number), description: None };
            let found = crate::archive::matching(link, &filter)?;
            found.iter().flat_map(ArchiveSummary::filespaces).collect()
        }
        None => link.filespaces(false)?,
    };
    let Some(path) = &options.path else {
        for filespace in filespaces {
            let directory = DirPath::above_root();
            let place = Place { filespace: filespace.name, directory, name: None };
            let selection = select(place.selection(options.recursive), options);
            list(link, &place.filespace, selection, visit)?;
        }
        return Ok(());
    };
    let path = normalise(path)?;
    for place in places(&filespaces, &path) {
        if list_place(link, &place, options, visit)? {
            return Ok(());
        }
    }
    let message = format!("nothing of {} is stored", model::escaped(&path));
    Err(ClientError::new(ErrorKind::NotFound, message))
}

fn select(selection: proto::Selection, options: &ListOptions) -> proto::Selection {
    proto::Selection {
        at: options.which.at.map_or(0, |time| time.0),
        inactive: options.which.inactive,
        all_versions: options.all_versions,
        ..selection
    }
}

/// Lists one place; whether there was anything.
fn list_place(
    link: &Link,
    place: &Place,
    options: &ListOptions,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<bool, ClientError> {
    if options.recursive {
        let selection = select(place.selection(true), options);
        return Ok(list(link, &place.filespace, selection, visit)?.entries > 0);
    }
    let own = select(place.selection(false), options);
    let seen = list(link, &place.filespace, own, visit)?;
    let is_other = seen.entries > 0 && !seen.has_directory;
    if is_other || seen.is_stopped {
        return Ok(true);
    }
    // What lies in a directory may be stored where the directory itself is not.
    let below = place.below();
    let selection = proto::Selection {
        filespace: place.filespace.clone().into(),
        directory: below.as_bytes().to_vec().into(),
        one_directory: true,
        ..proto::Selection::default()
    };
    let below = list(link, &place.filespace, select(selection, options), visit)?;
    Ok(seen.entries + below.entries > 0)
}

/// What the server has of a file that was migrated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedCopy {
    pub id: CopyId,
    /// Since when.
    pub since: ServerTime,
    /// Whether it was let go of, and is kept for a time.
    pub is_released: bool,
    /// What the file was.
    pub stat: Stat,
    /// Where it was then.
    pub path: Vec<u8>,
}

/// The copies that the server has of what was migrated off `mount_point`; with `released` also
/// those that it keeps for a time only.
pub(crate) fn copies(
    link: &Link,
    mount_point: &[u8],
    released: bool,
) -> Result<Vec<ListedCopy>, ClientError> {
    let filespace = space_filespace(mount_point);
    if !link.filespaces(true)?.iter().any(|known| known.name == filespace) {
        return Ok(Vec::new());
    }
    let selection = proto::Selection {
        filespace: filespace.into(),
        inactive: released,
        ..proto::Selection::default()
    };
    let mut client = link.client();
    let request = proto::ListRequest { selection: Some(selection) };
    let mut stream = link.runtime.block_on(client.list(request))?.into_inner();
    let mut copies = Vec::new();
    while let Some(message) = link.runtime.block_on(stream.message())? {
        for entry in message.directories.iter().map(decode).collect::<Result<Vec<_>, _>>()? {
            copies.extend(entry.iter().filter_map(|entry| {
                let batch = BatchId::of_directory(&entry.directory)?;
                let index = CopyId::index_of(&entry.object.name)?;
                Some(ListedCopy {
                    id: CopyId { batch, index },
                    since: entry.object.inserted,
                    is_released: entry.deactivated.is_some(),
                    stat: entry.object.stat,
                    path: crate::backup::path_of(&entry.object)?.to_vec(),
                })
            }));
        }
    }
    Ok(copies)
}

#[derive(Default)]
struct Seen {
    entries: u64,
    has_directory: bool,
    is_stopped: bool,
}

fn list(
    link: &Link,
    filespace: &[u8],
    selection: proto::Selection,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<Seen, ClientError> {
    let mut client = link.client();
    let request = proto::ListRequest { selection: Some(selection) };
    let mut stream = link.runtime.block_on(client.list(request))?.into_inner();
    let mut seen = Seen::default();
    while let Some(message) = link.runtime.block_on(stream.message())? {
        for listed in versions(link, filespace, &message)? {
            seen.entries += 1;
            seen.has_directory |= listed.object.stat.kind == Kind::Directory;
            if !visit(&listed) {
                seen.is_stopped = true;
                return Ok(seen);
            }
        }
    }
    Ok(seen)
}

/// The versions of a message, by name; of one name newest first.
fn versions(
    link: &Link,
    filespace: &[u8],
    message: &proto::VersionsReply,
) -> Result<Vec<ListedVersion>, ClientError> {
    let mut versions = Vec::new();
    for directory in &message.directories {
        for entry in decode(directory)? {
            let path = entry.directory.join(&entry.object.name);
            let class = link.hello().class_name(entry.object.class).to_owned();
            versions.push(ListedVersion {
                path: crate::backup::absolute(filespace, &path),
                object: entry.object,
                class,
                deactivated: entry.deactivated,
            });
        }
    }
    // Rounds of versions become one list by name.
    versions.sort_by(|a, b| a.path.cmp(&b.path).then(b.object.inserted.cmp(&a.object.inserted)));
    Ok(versions)
}
