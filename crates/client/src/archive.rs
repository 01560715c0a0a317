//! Deletion of versions at the server, and of archived files on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use model::{Kind, Object, mount_point};
use sys::Dir;
use wire::NAMED_OBJECTS_MAX;

use crate::backup::NO_CHANGE_TIME;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::archives::{DeletionSummary, NamedObjects, ObjectsDeletion};
use crate::link::versions::Selection;
use crate::list;
use crate::options::{DeleteOptions, DeletionScope, ListContent, ListOptions, VerifyOptions};
use crate::path::{Place, candidates, normalise, only_named, paths};
use crate::progress::Progress;
use crate::report::{BackupReport, Failure};
use crate::restore::verify;

/// Maximum number of bytes of the paths that one request names.
const PATHS_BYTES_MAX: usize = 1 << 20;

/// Deletion of what paths stand for, done or planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathDeletion {
    /// Filespace that has the versions.
    pub filespace: Vec<u8>,
    pub summary: DeletionSummary,
}

/// Deletes versions at the server, as `options` say.
pub(crate) fn delete(link: &Link, options: &DeleteOptions) -> Result<PathDeletion, ClientError> {
    delete_from(link, link.filespaces_of(options.archive)?, options)
}

/// Deletes versions at the server, as each of `orders` says, and calls `visit` for each deletion,
/// which may be of many orders. Goes past paths of which the server has no such version.
pub(crate) fn delete_each(
    link: &Link,
    mut orders: &[DeleteOptions],
    visit: &mut dyn FnMut(PathDeletion),
) -> Result<(), ClientError> {
    // The orders may be thousands, and those of one archive follow each other. A filespace that a
    // deletion empties stays in the list: the next order then finds nothing in it.
    let mut listed: Option<(Option<u64>, Vec<Vec<u8>>)> = None;
    while let Some(first) = orders.first() {
        let (together, later) = orders.split_at(count_together(orders));
        orders = later;
        let known = listed.take().filter(|(archive, _)| *archive == first.archive);
        let filespaces = match known {
            Some((_, filespaces)) => Some(filespaces),
            None => if_found(link.filespaces_of(first.archive))?,
        };
        let Some(filespaces) = filespaces else { continue };
        let alone = match together {
            [order] => vec![order],
            orders => delete_together(link, &filespaces, orders, visit)?,
        };
        for order in alone {
            if let Some(deletion) = if_found(delete_from(link, filespaces.clone(), order))? {
                visit(deletion);
            }
        }
        listed = Some((first.archive, filespaces));
    }
    Ok(())
}

/// Returns `None` in place of the error about something that the server does not have.
fn if_found<T>(result: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match result {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Returns the number of the first orders that go to the server together: those for single objects
/// that differ in their paths alone.
fn count_together(orders: &[DeleteOptions]) -> usize {
    let Some(first) = orders.first() else { return 0 };
    let mut bytes = 0;
    let together = orders.iter().take(NAMED_OBJECTS_MAX).take_while(|order| {
        bytes += order.path.len();
        bytes <= PATHS_BYTES_MAX && go_together(first, order)
    });
    together.count().max(1)
}

fn go_together(one: &DeleteOptions, other: &DeleteOptions) -> bool {
    let choice =
        |order: &DeleteOptions| (order.archive, order.active, order.inactive, order.dry_run);
    let scopes = (one.scope, other.scope);
    scopes == (DeletionScope::Object, DeletionScope::Object)
        && one.filespace == other.filespace
        && choice(one) == choice(other)
}

/// Deletes objects with one request for each filespace that may have some of them. The `orders` go
/// together. Returns those that have to be carried out one by one.
fn delete_together<'o>(
    link: &Link,
    filespaces: &[Vec<u8>],
    orders: &'o [DeleteOptions],
    visit: &mut dyn FnMut(PathDeletion),
) -> Result<Vec<&'o DeleteOptions>, ClientError> {
    let options = &orders[0];
    let named = only_named(filespaces.to_vec(), options.filespace.as_deref());
    let Some(filespaces) = if_found(named)? else { return Ok(Vec::new()) };
    let mut alone = Vec::new();
    // For each object the places where it was not looked for yet, the innermost filespace first.
    let mut open: Vec<std::vec::IntoIter<Place>> = Vec::new();
    for order in orders {
        let path = normalise(&order.path)?;
        let places = candidates(filespaces.iter().map(Vec::as_slice), &path);
        // The path of a whole filespace has a rule of its own.
        match places.iter().all(|place| place.name.is_some()) {
            true => open.push(places.into_iter()),
            false => alone.push(order),
        }
    }
    while !open.is_empty() {
        let mut asked: BTreeMap<Vec<u8>, Vec<(Place, std::vec::IntoIter<Place>)>> = BTreeMap::new();
        for mut places in std::mem::take(&mut open) {
            if let Some(place) = places.next() {
                asked.entry(place.filespace.clone()).or_default().push((place, places));
            }
        }
        for (filespace, objects) in asked {
            let mut names = NamedObjects::new();
            for (place, _) in &objects {
                names.entry(place.directory.clone()).or_default().extend(place.name.clone());
            }
            let found = match link.delete_objects(&filespace, &names, options) {
                // A deletion before has emptied the filespace.
                Err(error) if error.kind == ErrorKind::NotFound => BTreeSet::new(),
                deleted => {
                    // A server that does not know the request has done nothing.
                    let Some(deleted) = deleted? else { return Ok(orders.iter().collect()) };
                    let ObjectsDeletion { summary, found } = deleted;
                    if summary.versions > 0 {
                        let filespace = mount_point(&filespace).to_vec();
                        visit(PathDeletion { filespace, summary });
                    }
                    found
                }
            };
            let is_left = |place: &Place| {
                let name = place.name.as_ref();
                name.is_some_and(|name| !found.contains(&place.directory.join(name)))
            };
            let left = objects.into_iter().filter(|(place, _)| is_left(place));
            open.extend(left.map(|(_, places)| places));
        }
    }
    Ok(alone)
}

/// Deletes versions at the server, in those of `filespaces` that `options` mean.
fn delete_from(
    link: &Link,
    filespaces: Vec<Vec<u8>>,
    options: &DeleteOptions,
) -> Result<PathDeletion, ClientError> {
    let path = normalise(&options.path)?;
    let filespaces = only_named(filespaces, options.filespace.as_deref())?;
    // Links are not followed: what they lead to today may be the data of somebody else.
    let places = candidates(filespaces.iter().map(Vec::as_slice), &path);
    let shown = model::escaped(&path);
    for place in &places {
        let selection = match options.scope {
            DeletionScope::Object => Selection::of_object(place),
            DeletionScope::Subtree => Selection::of_subtree(place),
        };
        let summary = link.delete(&selection, options)?;
        if summary.versions > 0 {
            let filespace = mount_point(&place.filespace).to_vec();
            return Ok(PathDeletion { filespace, summary });
        }
        if place.name.is_none() && options.archive.is_some() {
            break;
        }
        if place.name.is_none() && places.len() > 1 {
            // The path names a whole filespace. Once that is empty, the same command must not
            // delete what the filespace around it has.
            let message = format!(
                "the filespace {shown} has no version to delete; --filespace names another \
                 filespace that has versions of {shown}"
            );
            return Err(ClientError::new(ErrorKind::NotFound, message));
        }
    }
    Err(ClientError::new(ErrorKind::NotFound, nothing_to_delete(&path)))
}

/// Returns what is said if no version of `path` is stored, with the path to which links lead.
fn nothing_to_delete(path: &[u8]) -> String {
    let shown = model::escaped(path);
    match paths(path).get(1).map(|resolved| model::escaped(resolved)) {
        Some(resolved) => format!(
            "the server has no version of {shown} to delete; links lead from there to {resolved}: \
             name that path"
        ),
        None => format!("the server has no version of {shown} to delete"),
    }
}

/// Deletes the files of an archive on this machine, after the server has proved that it has them. A
/// file that has changed since it was archived stays.
pub(crate) fn delete_local(
    link: &Link,
    number: u64,
    report: &mut BackupReport,
    progress: &Arc<Progress>,
) -> Result<(), ClientError> {
    let keep = |report: &mut BackupReport, why: &str| {
        report
            .warnings
            .push(format!("no file was deleted on this machine, because {why}"));
    };
    if report.failed > 0 {
        keep(report, "not everything could be archived");
        return Ok(());
    }
    let options = VerifyOptions { data: true, archive: Some(number), ..VerifyOptions::default() };
    if verify(link, &options, progress)?.damaged > 0 {
        keep(report, "the archive could not be verified");
        return Ok(());
    }
    let options = ListOptions {
        content: ListContent::Everything,
        archive: Some(number),
        ..ListOptions::default()
    };
    // Before the server went away, some files may have been deleted.
    let absent = match progress.interruptions().count {
        0 => AbsentFile::Changed,
        _ => AbsentFile::Deleted,
    };
    let mut failures = Vec::new();
    let mut deleted = 0;
    list::run(link, &options, &mut |listed| {
        match remove(&listed.path, &listed.object, absent) {
            Ok(true) => deleted += 1,
            Ok(false) => {}
            Err(failure) => {
                let error = failure.to_string();
                failures.push(Failure { path: listed.path.clone(), error });
            }
        }
        true
    })?;
    report.deleted = deleted;
    failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(())
}

/// Reason why an archived file was not deleted.
#[derive(Debug, thiserror::Error)]
enum RemoveFailure {
    /// The archive does not have the present state of the file, so the file stays.
    #[error("changed since it was archived, so it was not deleted")]
    Changed,
    /// The file is in the archive. The user can delete it by hand.
    #[error("archived, but not deleted: {0}")]
    Failed(#[from] io::Error),
}

/// Meaning of an archived file that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AbsentFile {
    Changed,
    /// An earlier attempt may have deleted the file.
    Deleted,
}

/// Removes an archived object unless it is a directory. Returns true if the object was removed.
fn remove(path: &[u8], object: &Object, absent: AbsentFile) -> Result<bool, RemoveFailure> {
    if object.stat.kind == Kind::Directory {
        return Ok(false);
    }
    let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else { return Ok(false) };
    let dir = Dir::open(&path[..=slash])?;
    let name = &path[slash + 1..];
    let found = match dir.stat(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && absent == AbsentFile::Deleted => {
            return Ok(true);
        }
        found => found?,
    };
    let archived = &object.stat;
    let is_same = found.is_some_and(|found| {
        let stat = found.stat;
        // The change time of a file changes when another name of the file is deleted. So it is not
        // compared for a file with several names.
        let same_ctime =
            archived.linked || archived.ctime == NO_CHANGE_TIME || stat.ctime == archived.ctime;
        (stat.kind, stat.size, stat.mtime, stat.inode)
            == (archived.kind, archived.size, archived.mtime, archived.inode)
            && same_ctime
    });
    if !is_same {
        return Err(RemoveFailure::Changed);
    }
    dir.remove(name, false)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use model::{ClassId, Name, Payload, ServerTime, Stat};

    use super::*;

    fn archived(stat: Stat) -> Object {
        Object {
            name: Name::new(b"file").expect("a name"),
            stat,
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime(0),
            payload: Payload::Nothing,
        }
    }

    #[test]
    fn alike_orders_for_single_objects_go_together() {
        let order = |path: &str, archive| DeleteOptions {
            path: path.as_bytes().to_vec(),
            scope: DeletionScope::Object,
            archive,
            ..DeleteOptions::default()
        };
        let orders = [order("/a", None), order("/b", None), order("/c", Some(1))];
        assert_eq!(count_together(&orders), 2);
        assert_eq!(count_together(&orders[2..]), 1);
        let folder = DeleteOptions { scope: DeletionScope::Subtree, ..order("/a", None) };
        assert_eq!(count_together(&[folder.clone(), folder]), 1);
        let many = vec![order("/a", None); NAMED_OBJECTS_MAX + 1];
        assert_eq!(count_together(&many), NAMED_OBJECTS_MAX);
        let long = order(&"x".repeat(PATHS_BYTES_MAX / 2), None);
        assert_eq!(count_together(&[long.clone(), long.clone(), long]), 2);
        let longer = order(&"x".repeat(PATHS_BYTES_MAX + 1), None);
        assert_eq!(count_together(&[longer, order("/a", None)]), 1);
    }

    #[test]
    fn only_the_archived_state_is_deleted() {
        type Change = fn(&mut Stat);
        let changes: [(Change, bool); 6] = [
            (|_| (), true),
            (|stat| stat.size += 1, false),
            (|stat| stat.mtime.secs += 1, false),
            (|stat| stat.ctime.secs += 1, false),
            (|stat| stat.inode += 1, false),
            // For a file that changed just before it was archived, the archive has no change time.
            (|stat| stat.ctime = NO_CHANGE_TIME, true),
        ];
        for (change, expected) in changes {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("file");
            std::fs::write(&file, b"content").expect("written");
            let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
            let mut stat = dir.stat(b"file").expect("stat").expect("a file").stat;
            change(&mut stat);
            let path = file.as_os_str().as_encoded_bytes();
            let removed = remove(path, &archived(stat), AbsentFile::Changed);
            match expected {
                true => assert!(removed.expect("removed")),
                false => assert!(matches!(removed, Err(RemoveFailure::Changed))),
            }
            let is_left = dir.has(b"file").expect("looked");
            assert_eq!(is_left, !expected);
        }
    }

    #[test]
    fn directories_stay_and_missing_files_fail() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().as_os_str().as_encoded_bytes();
        let stat = Dir::open(path).expect("a folder").stat_self().expect("stat").stat;
        let changed = AbsentFile::Changed;
        assert!(!remove(path, &archived(stat), changed).expect("left"));
        let file = Stat { kind: Kind::File, ..stat };
        let missing = [path, b"/none"].concat();
        let removed = remove(&missing, &archived(file), changed);
        assert!(matches!(removed, Err(RemoveFailure::Failed(_))));
        assert!(remove(&missing, &archived(file), AbsentFile::Deleted).expect("deleted before"));
    }
}
