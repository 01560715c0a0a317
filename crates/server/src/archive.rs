//! Archives: what a node archives at once, kept by time; and the deletion of what a node holds.
//!
//! What an archive has of a mount point is a filespace of its own, filled once and never compared:
//! listing and retrieving it are those of backups.

use catalog::{
    ArchiveChange, ArchiveRow, DeletionRow, EventRow, Filespace, Node, PageKey, PageRow, PageSpan,
    VersionKey, VersionRow, Write,
};
use format::page;
use model::{ClassId, DirPath, Kind, Name, Object, ServerTime, archive_number};
use model::{is_backup_filespace, is_space_filespace};
use policy::PolicySet;
use tonic::Status;
use wire::proto;

use crate::backup::decode_page;
use crate::core::{Core, Uncommitted};
use crate::reclaim;
use crate::refusal;
use crate::select::{Found, Selection, Which};

/// Bytes in a description at most.
const DESCRIPTION_BYTES_MAX: usize = 4096;
/// Versions that an undo puts back in one batch.
const UNDO_BATCH: usize = 1000;
/// Pages of a directory read at once.
const PAGES_BATCH: usize = 64;
const DAY_MICROS: i64 = 86_400_000_000;

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

/// The archive that the filespace `name` is a part of, which must be open for more; `None` for a
/// filespace of backups or of what was migrated.
pub(crate) fn opened(core: &Core, node: &Node, name: &[u8]) -> Result<Option<u64>, Status> {
    if is_backup_filespace(name) || is_space_filespace(name) {
        return Ok(None);
    }
    let number = archive_number(name).ok_or_else(|| refusal::malformed("a filespace's name"))?;
    let row = find(core, node, number)?;
    if row.complete {
        let text = format!("archive {number} is complete; nothing more can go into it");
        return Err(Status::failed_precondition(text));
    }
    Ok(Some(number))
}

fn find(core: &Core, node: &Node, number: u64) -> Result<ArchiveRow, Status> {
    let all = core.catalog.archives(node.id).map_err(failed)?;
    let known = all.into_iter().find(|row| row.number == number);
    known.ok_or_else(|| {
        Status::not_found(format!(
            "node {} has no archive {number}; 'holdfast archives' shows all",
            node.name
        ))
    })
}

fn file_bytes(object: &Object) -> i64 {
    let bytes = if object.stat.kind == Kind::File { object.stat.size } else { 0 };
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Adds to `change` what `new` objects make of a page that holds `current`.
pub(crate) fn grow(change: &mut ArchiveChange, current: &[Object], new: &[Object]) {
    for object in new {
        change.objects_added += 1;
        change.bytes_added += file_bytes(object);
        if let Some(old) = current.iter().find(|old| old.name == object.name) {
            change.objects_added -= 1;
            change.bytes_added -= file_bytes(old);
        }
    }
}

pub(crate) fn open(
    core: &Core,
    node: &Node,
    request: &proto::OpenArchiveRequest,
) -> Result<proto::Archive, Status> {
    if request.description.len() > DESCRIPTION_BYTES_MAX {
        let text = format!("a description has {DESCRIPTION_BYTES_MAX} bytes at most");
        return Err(Status::invalid_argument(text));
    }
    let now = sys::clock::now();
    let row = core.catalog.add_archive(node.id, &request.description, now).map_err(failed)?;
    Ok(message(&row, &[]))
}

fn message(row: &ArchiveRow, filespaces: &[Filespace]) -> proto::Archive {
    let own = filespaces
        .iter()
        .filter(|known| archive_number(&known.name) == Some(row.number));
    proto::Archive {
        number: row.number,
        description: row.description.clone(),
        created: row.created.0,
        event: row.event.map_or(0, |event| event.0),
        held: row.held,
        complete: row.complete,
        objects: row.objects,
        bytes: row.bytes,
        filespaces: own.map(|known| known.name.clone().into()).collect(),
    }
}

pub(crate) fn list(core: &Core, node: &Node) -> Result<proto::ArchivesReply, Status> {
    let filespaces = core.catalog.filespaces(node.id).map_err(failed)?;
    let rows = core.catalog.archives(node.id).map_err(failed)?;
    let archives = rows.iter().map(|row| message(row, &filespaces)).collect();
    Ok(proto::ArchivesReply { archives })
}

pub(crate) fn set(
    core: &Core,
    node: &Node,
    request: &proto::SetArchiveRequest,
) -> Result<proto::Archive, Status> {
    let number = request.number;
    let row = find(core, node, number)?;
    let now = sys::clock::now();
    if request.event && row.event.is_some() {
        let text = format!("the event of archive {number} has been activated already");
        return Err(Status::failed_precondition(text));
    }
    let change = ArchiveChange {
        event: request.event.then_some(now),
        held: request.held,
        complete: request.complete.then_some(true),
        due: Some(None),
        ..ArchiveChange::default()
    };
    let mut writes = vec![Write::SetArchive { number, change }];
    let what = match (request.event, request.held) {
        (true, _) => Some("archive's event activated"),
        (_, Some(true)) => Some("archive held"),
        (_, Some(false)) => Some("archive released"),
        _ => None,
    };
    writes.extend(what.map(|what| Write::AddEvent(event(node, now, what, &number.to_string()))));
    core.catalog.commit(writes).map_err(failed)?;
    let filespaces = core.catalog.filespaces(node.id).map_err(failed)?;
    Ok(message(&find(core, node, number)?, &filespaces))
}

fn event(node: &Node, time: ServerTime, what: &str, details: &str) -> EventRow {
    EventRow {
        time,
        actor: format!("node {}", node.name),
        what: what.to_owned(),
        details: details.to_owned(),
    }
}

/// What of a selection is to go.
struct Wanted {
    active: bool,
    inactive: bool,
}

impl Wanted {
    fn picks(&self, version: &model::Version) -> bool {
        if version.deactivated.is_none() { self.active } else { self.inactive }
    }
}

/// Deletes what the node asks for, if it may; everything can be had back for some days.
pub(crate) fn delete(
    core: &std::sync::Arc<Core>,
    node: &Node,
    filespace: &Filespace,
    request: &proto::DeleteRequest,
) -> Result<proto::Deletion, Status> {
    let selection = request.selection.clone().unwrap_or_default();
    let archive = archive_number(&filespace.name);
    let wanted = match archive {
        Some(_) => Wanted { active: true, inactive: true },
        None => Wanted { active: request.active, inactive: request.inactive },
    };
    check_right(core, node, archive)?;
    let selected = Selection::parse(&selection, filespace.id)?;
    let selected = Selection { which: Which::All, ..selected };
    let versions = check_unlocked(core, node, &selected, &wanted)?;
    if versions == 0 || request.dry_run {
        return Ok(proto::Deletion { versions, ..proto::Deletion::default() });
    }
    let _claim = core.claim(filespace.id)?;
    let now = sys::clock::now();
    let details = describe(filespace, &selection, versions);
    let number = core.catalog.add_deletion(node.id, &details, now).map_err(failed)?;
    let taking = Taking { core, filespace: filespace.id, deletion: number, now, wanted: &wanted };
    // Said first: what a crash cuts off is in the audit trail too.
    let said = Write::AddEvent(event(node, now, "versions deleted", &details));
    core.catalog.commit(vec![said]).map_err(failed)?;
    let mut is_over = false;
    while !is_over {
        is_over = true;
        // What is moved names what it named when it was looked at.
        let generation = core.condemned().generation;
        selected.walk(&*core.catalog, |found| {
            let mut gone = ArchiveChange::default();
            let mut writes = taking.take(found, &mut gone)?;
            writes.extend(archive.map(|number| Write::SetArchive { number, change: gone }));
            // Nothing is condemned until it is done.
            let condemned = core.condemned();
            if condemned.generation != generation {
                is_over = false;
                return Ok(());
            }
            match core.commit_known(generation, writes) {
                // Another server has condemned packs: what is left is looked at anew.
                Err(Uncommitted::Stale) => is_over = false,
                Err(Uncommitted::Failed(status)) => return Err(status),
                Ok(()) => {}
            }
            Ok(())
        })?;
        if !is_over {
            core.catch_up().map_err(failed)?;
        }
    }
    tracing::info!(node = %node.name, versions, "versions deleted");
    let row = DeletionRow { number, node: node.id, time: now, details, versions };
    Ok(deletion_message(core, &row))
}

fn describe(filespace: &Filespace, selection: &proto::Selection, versions: u64) -> String {
    let path = [&selection.directory[..], &selection.name].concat();
    let path = if path.is_empty() { b"/".to_vec() } else { path };
    let mount_point = model::escaped(model::mount_point(&filespace.name));
    let of = match archive_number(&filespace.name) {
        Some(number) => format!("archive {number}"),
        None => "backups".to_owned(),
    };
    format!("{versions} versions of {of} at and below {} in {mount_point}", model::escaped(&path))
}

fn check_right(core: &Core, node: &Node, archive: Option<u64>) -> Result<(), Status> {
    let refused = |what: &str, option: &str| {
        Status::permission_denied(format!(
            "node {0} may not delete {what}; the administrator can allow it with 'node set {0} \
             {option} yes'",
            node.name
        ))
    };
    match archive {
        None if !node.deletes_backups => Err(refused("backups", "--backdelete")),
        Some(_) if !node.deletes_archives => Err(refused("archives", "--archdelete")),
        Some(number) if find(core, node, number)?.held => Err(Status::failed_precondition(
            format!("archive {number} is held; 'holdfast archives --release {number}' ends that"),
        )),
        _ => Ok(()),
    }
}

/// Counts what is selected; fails where a locked class holds any of it.
fn check_unlocked(
    core: &Core,
    node: &Node,
    selected: &Selection,
    wanted: &Wanted,
) -> Result<u64, Status> {
    let all = core.catalog.domains().map_err(failed)?;
    let domain = all.into_iter().find(|domain| domain.id == node.domain);
    let policy = domain
        .ok_or_else(|| Status::data_loss("the node's policy domain is gone"))?
        .active;
    let now = sys::clock::now();
    let mut versions = 0;
    selected.walk(&*core.catalog, |found| {
        for version in found.versions.iter().filter(|version| wanted.picks(version)) {
            versions += 1;
            if let Some((class, until)) = locked(&policy, version.object.class, now) {
                let path = model::escaped(&found.directory.join(&version.object.name));
                return Err(Status::failed_precondition(format!(
                    "{path} is held by class {class}, which is locked until {until}"
                )));
            }
        }
        Ok(())
    })?;
    Ok(versions)
}

fn locked(policy: &PolicySet, class: ClassId, now: ServerTime) -> Option<(String, String)> {
    let class = policy.class(class).or_else(|| policy.class(policy.default_class))?;
    let until = class.locked_until.filter(|_| class.is_locked(now))?;
    Some((class.name.clone(), policy::review::day(until)))
}

/// A deletion while it takes versions aside.
struct Taking<'a> {
    core: &'a Core,
    filespace: model::FilespaceId,
    deletion: u64,
    now: ServerTime,
    wanted: &'a Wanted,
}

impl Taking<'_> {
    /// Takes what is wanted of one page's worth of versions; `gone` hears of active objects.
    fn take(&self, found: Found, gone: &mut ArchiveChange) -> Result<Vec<Write>, Status> {
        let Found { directory, versions } = found;
        let (filespace, deletion) = (self.filespace, self.deletion);
        let mut writes = Vec::new();
        let mut names: Vec<Name> = Vec::new();
        let mut dropped: Vec<VersionKey> = Vec::new();
        for version in versions.into_iter().filter(|version| self.wanted.picks(version)) {
            let object = version.object;
            let (name, inserted) = (object.name.clone(), object.inserted);
            let ends_now = self.now.max(ServerTime(inserted.0 + 1));
            let deactivated = version.deactivated.unwrap_or(ends_now);
            if version.deactivated.is_some() {
                dropped.push(VersionKey { name: name.clone(), inserted, deactivated });
            } else {
                gone.objects_added -= 1;
                gone.bytes_added -= file_bytes(&object);
                names.push(name.clone());
            }
            let body = page::encode(&[object]);
            let directory = directory.clone();
            let version = VersionRow { directory, name, inserted, deactivated, body };
            writes.push(Write::Trash { deletion, filespace, version });
        }
        if !dropped.is_empty() {
            let directory = directory.clone();
            writes.push(Write::DropVersions { filespace, directory, versions: dropped });
        }
        if !names.is_empty() {
            for row in pages(self.core, filespace, &directory)? {
                let mut objects = decode_page(&row)?;
                let before = objects.len();
                objects.retain(|object| names.binary_search(&object.name).is_err());
                if objects.len() < before {
                    writes.push(rewritten(filespace, row.key, &objects));
                }
            }
        }
        Ok(writes)
    }
}

/// The page with other objects, or none: no digest, so that the next backup looks at it.
pub(crate) fn rewritten(filespace: model::FilespaceId, key: PageKey, objects: &[Object]) -> Write {
    if objects.is_empty() && !key.first.is_empty() {
        return Write::RemovePage { filespace, key };
    }
    let object_count = u32::try_from(objects.len()).unwrap_or(u32::MAX);
    let page = PageRow { key, object_count, digest: None, body: page::encode(objects) };
    Write::PutPage { filespace, page }
}

fn pages(
    core: &Core,
    filespace: model::FilespaceId,
    directory: &DirPath,
) -> Result<Vec<PageRow>, Status> {
    let span = PageSpan::Directory(directory.clone());
    let mut all: Vec<PageRow> = Vec::new();
    loop {
        let after = all.last().map(|row| row.key.clone());
        let found = core
            .catalog
            .pages(filespace, &span, after.as_ref(), PAGES_BATCH)
            .map_err(failed)?;
        if found.is_empty() {
            return Ok(all);
        }
        all.extend(found);
    }
}

fn deletion_message(core: &Core, row: &DeletionRow) -> proto::Deletion {
    proto::Deletion {
        number: row.number,
        time: row.time.0,
        versions: row.versions,
        details: row.details.clone(),
        until: row.time.0 + i64::from(core.config.undo_days) * DAY_MICROS,
    }
}

pub(crate) fn deletions(core: &Core, node: &Node) -> Result<proto::DeletionsReply, Status> {
    let rows = core.catalog.deletions(Some(node.id)).map_err(failed)?;
    let deletions = rows.iter().map(|row| deletion_message(core, row)).collect();
    Ok(proto::DeletionsReply { deletions })
}

/// Puts back what a deletion took. What was active in a backup comes back as an inactive version,
/// because another state may be active by now.
pub(crate) fn undelete(
    core: &std::sync::Arc<Core>,
    node: &Node,
    number: u64,
) -> Result<proto::Deletion, Status> {
    let rows = core.catalog.deletions(Some(node.id)).map_err(failed)?;
    let row = rows.into_iter().find(|row| row.number == number).ok_or_else(|| {
        Status::not_found(format!(
            "there is no deletion {number} that could be undone; 'holdfast undelete' shows all"
        ))
    })?;
    // What moves to where reclamation has looked already must not be missed by it.
    let _still = reclaim::pause(core)?;
    let filespaces = core.catalog.filespaces(node.id).map_err(failed)?;
    let mut skip = 0;
    loop {
        let batch = core.catalog.trash(number, skip, UNDO_BATCH).map_err(failed)?;
        if batch.is_empty() {
            break;
        }
        skip += batch.len();
        for of_filespace in batch.chunk_by(|a, b| a.0 == b.0) {
            let id = of_filespace[0].0;
            let archive = filespaces
                .iter()
                .find(|known| known.id == id)
                .and_then(|known| archive_number(&known.name));
            let _claim = core.claim(id)?;
            for of_directory in of_filespace.chunk_by(|a, b| a.1.directory == b.1.directory) {
                let rows = of_directory.iter().map(|(_, version)| version.clone());
                put_back(core, id, archive, rows.collect())?;
            }
        }
    }
    let now = sys::clock::now();
    let writes = vec![
        Write::EmptyTrash { deletion: number },
        Write::AddEvent(event(node, now, "deletion undone", &row.details)),
    ];
    core.catalog.commit(writes).map_err(failed)?;
    Ok(deletion_message(core, &row))
}

/// Puts back versions of one directory.
fn put_back(
    core: &Core,
    filespace: model::FilespaceId,
    archive: Option<u64>,
    versions: Vec<VersionRow>,
) -> Result<(), Status> {
    let Some(number) = archive else {
        let add = |version| Write::AddVersion { filespace, version };
        return core.catalog.commit(versions.into_iter().map(add).collect()).map_err(failed);
    };
    let Some(directory) = versions.first().map(|row| row.directory.clone()) else { return Ok(()) };
    let mut pages = pages(core, filespace, &directory)?;
    if pages.is_empty() {
        let key = PageKey::first_of(directory);
        pages.push(PageRow {
            key,
            object_count: 0,
            digest: None,
            body: page::encode::<model::Place>(&[]),
        });
    }
    let mut change = ArchiveChange { due: Some(None), ..ArchiveChange::default() };
    let mut writes = Vec::new();
    for (at, row) in pages.iter().enumerate() {
        let next = pages.get(at + 1).map(|next| &next.key.first[..]);
        let is_here = |version: &&VersionRow| {
            let name = version.name.as_bytes();
            name >= &row.key.first[..] && next.is_none_or(|next| name < next)
        };
        let mut objects = decode_page(row)?;
        for version in versions.iter().filter(is_here) {
            let mut back: Vec<Object> = page::decode(&version.body)
                .map_err(|_| Status::data_loss("a deleted version is damaged"))?;
            let Some(object) = back.pop() else { continue };
            if let Err(at) = objects.binary_search_by(|known| known.name.cmp(&object.name)) {
                change.objects_added += 1;
                change.bytes_added += file_bytes(&object);
                objects.insert(at, object);
            }
        }
        writes.push(rewritten(filespace, row.key.clone(), &objects));
    }
    writes.push(Write::SetArchive { number, change });
    core.catalog.commit(writes).map_err(failed)
}

/// Forgets deletions that can no longer be undone, and archives that they left empty.
pub(crate) fn purge(core: &Core, now: ServerTime) -> Result<(), Status> {
    let keeps = i64::from(core.config.undo_days) * DAY_MICROS;
    for row in core.catalog.deletions(None).map_err(failed)? {
        if row.time.0 + keeps <= now.0 {
            let deletion = row.number;
            core.catalog.commit(vec![Write::EmptyTrash { deletion }]).map_err(failed)?;
        }
    }
    Ok(())
}
