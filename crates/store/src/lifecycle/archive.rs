//! Archives, which keep the objects of one command by time, and the deletion of a node's versions.
//!
//! A deletion of images takes their heads. Their parts are dropped by expiration when the deletion
//! can no longer be undone, if no other image needs them.
//!
//! An archive has one filespace for each mount point. Such a filespace is filled once and never
//! compared. Lists and retrieval read it as they read filespaces of backups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::change::deactivate;
use catalog::{
    ArchiveChange, ArchiveRow, DeletionRow, EventRow, Filespace, Growth, Node, PageKey, PageRow,
    PageSpan, VersionKey, VersionRow, Write,
};
use format::page;
use model::{ClassId, DirPath, FilespaceId, Kind, Name, Object, ServerTime, archive_number};
use model::{image_name, is_backup_filespace, is_space_filespace};
use policy::PolicySet;

use crate::counts::counted;
use crate::error::StoreError;
use crate::lifecycle::clock;
use crate::lifecycle::images::{self, Heads};
use crate::pages::{decode_page, rewritten};
use crate::selection::select::{Choice, Part, Selection, Unreadable, VersionBatch};
use crate::store::{CommitFailure, Store};

/// Maximum length of a description.
const DESCRIPTION_BYTES_MAX: usize = 4096;
/// Number of versions that an undo puts back in one batch.
const UNDO_BATCH: usize = 1000;
/// Number of pages of a directory that are read at once.
const PAGES_BATCH: usize = 64;
const DAY_MICROS: i64 = 86_400_000_000;

/// An archive with the names of its filespaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveSummary {
    pub row: ArchiveRow,
    pub filespaces: Vec<Vec<u8>>,
}

/// A change of an archive that its node orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchiveOrder {
    pub number: u64,
    /// True if all objects have arrived, so that nothing more may go into the archive.
    pub completes: bool,
    /// True if the archive's event happens now. Some classes count their days from this event.
    pub activates_event: bool,
    /// True to hold the archive, false to release it; `None` leaves the hold as it is.
    pub held: Option<bool>,
}

/// An order to delete versions of one filespace.
pub struct DeletionOrder {
    pub selection: Selection,
    /// Versions of the selection that are deleted. In an archive, all versions are deleted.
    pub chosen: ChosenVersions,
    /// True if the versions are only counted.
    pub is_dry: bool,
}

/// Names of objects, by the directories that hold them.
pub type NamedObjects = BTreeMap<DirPath, BTreeSet<Name>>;

/// Versions of a selection that a deletion takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChosenVersions {
    States(States),
    /// Versions of these objects, and of nothing below them.
    Objects(NamedObjects, States),
    /// Heads of images, by the times at which they were inserted.
    Images(BTreeSet<ServerTime>),
}

impl ChosenVersions {
    /// Returns true if this version of an object of `directory` is taken.
    fn include(&self, directory: &DirPath, version: &model::Version) -> bool {
        match self {
            Self::States(states) => states.include(version),
            Self::Objects(objects, states) => {
                let names = objects.get(directory);
                names.is_some_and(|names| names.contains(&version.object.name))
                    && states.include(version)
            }
            Self::Images(taken) => taken.contains(&version.object.inserted),
        }
    }

    /// Returns the same choice in an archive, of which all versions are taken.
    fn in_archive(self) -> Self {
        let all = States { active: true, inactive: true };
        match self {
            Self::Objects(objects, _) => Self::Objects(objects, all),
            Self::States(_) | Self::Images(_) => Self::States(all),
        }
    }
}

/// States of the versions that a deletion takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct States {
    pub active: bool,
    pub inactive: bool,
}

impl States {
    fn include(self, version: &model::Version) -> bool {
        if version.deactivated.is_none() { self.active } else { self.inactive }
    }
}

impl DeletionOrder {
    /// Returns the order to delete the images of `filespace` that were taken at the times `taken`.
    pub fn of_images(filespace: FilespaceId, taken: BTreeSet<ServerTime>, is_dry: bool) -> Self {
        let span = PageSpan::Directory(DirPath::root());
        let parts = vec![Part { span, name: Some(images::head()) }];
        let choice = Choice::All;
        let selection = Selection { filespace, choice, parts, range: 0..u64::MAX, sample: None };
        Self { selection, chosen: ChosenVersions::Images(taken), is_dry }
    }

    /// Returns the order to delete versions in these `states` of the named `objects`.
    pub fn of_objects(
        filespace: FilespaceId,
        objects: NamedObjects,
        states: States,
        is_dry: bool,
    ) -> Self {
        let part = |directory: &DirPath| {
            let span = PageSpan::Directory(directory.clone());
            Part { span, name: None }
        };
        let parts = objects.keys().map(part).collect();
        let choice = Choice::All;
        let selection = Selection { filespace, choice, parts, range: 0..u64::MAX, sample: None };
        Self { selection, chosen: ChosenVersions::Objects(objects, states), is_dry }
    }
}

/// A deletion that can be undone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deletion {
    pub row: DeletionRow,
    /// End of the time in which the deletion can be undone.
    pub until: ServerTime,
}

/// Result of an order to delete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeletionResult {
    /// Nothing was deleted: the order was a dry run, or it selected no version.
    Counted {
        versions: u64,
    },
    Done(Deletion),
}

/// Result of an order to delete, with the damage of the catalogue that was passed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletionReport {
    pub result: DeletionResult,
    /// Objects with such versions, if the order names objects.
    pub found: NamedObjects,
    /// Rows that cannot be read. Their versions stay.
    pub unreadable: Option<Unreadable>,
}

/// Selected versions that can be read.
struct Count {
    versions: u64,
    /// Objects that have them, of those that an order names.
    found: NamedObjects,
    unreadable: Option<Unreadable>,
}

/// Returns the number of the archive that has the filespace `name`. Fails if the archive is
/// complete. Returns `None` for a filespace of backups or of migrated files.
pub fn open_for_filespace(
    store: &Store,
    node: &Node,
    name: &[u8],
) -> Result<Option<u64>, StoreError> {
    if is_backup_filespace(name) || is_space_filespace(name) {
        return Ok(None);
    }
    let number = archive_number(name).ok_or_else(|| StoreError::malformed("a filespace's name"))?;
    let row = find(store, node, number)?;
    if row.complete {
        let text = format!("archive {number} is complete; no more objects can be added to it");
        return Err(StoreError::conflict(text));
    }
    Ok(Some(number))
}

fn find(store: &Store, node: &Node, number: u64) -> Result<ArchiveRow, StoreError> {
    let mut next = store.catalog.archives_from(node.id, Some(number), 1)?;
    let known = next.pop().filter(|row| row.number == number);
    known.ok_or_else(|| {
        StoreError::not_found(format!(
            "node {} has no archive {number}; 'holdfast archives' shows all",
            node.name
        ))
    })
}

fn file_bytes(object: &Object) -> i64 {
    let bytes = if object.stat.kind == Kind::File { object.stat.size } else { 0 };
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Adds the number and the sizes of the objects `new` to `change`. These objects replace objects of
/// the same names in the page `current`.
pub fn grow(change: &mut ArchiveChange, current: &[Object], new: &[Object]) {
    for object in new {
        change.objects_added += 1;
        // The sizes are those of a node. Their sum may be impossible.
        change.bytes_added = change.bytes_added.saturating_add(file_bytes(object));
        if let Some(old) = current.iter().find(|old| old.name == object.name) {
            change.objects_added -= 1;
            change.bytes_added = change.bytes_added.saturating_sub(file_bytes(old));
        }
    }
}

/// Returns the growth of what is stored between two changes of an archive.
pub(crate) fn growth(before: ArchiveChange, after: ArchiveChange) -> Growth {
    Growth {
        objects: after.objects_added - before.objects_added,
        bytes: after.bytes_added.saturating_sub(before.bytes_added),
    }
}

/// Creates an empty archive.
pub fn add(store: &Store, node: &Node, description: &str) -> Result<ArchiveSummary, StoreError> {
    if description.len() > DESCRIPTION_BYTES_MAX {
        let text = format!("a description must have at most {DESCRIPTION_BYTES_MAX} bytes");
        return Err(StoreError::usage(text));
    }
    let row = store.catalog.add_archive(node.id, description, clock::time_of_change(store)?)?;
    Ok(ArchiveSummary { row, filespaces: Vec::new() })
}

fn with_filespaces(
    store: &Store,
    node: &Node,
    rows: Vec<ArchiveRow>,
) -> Result<Vec<ArchiveSummary>, StoreError> {
    let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
    let filespaces = store.catalog.archive_filespaces(node.id, &numbers)?;
    assert_eq!(rows.len(), filespaces.len(), "each archive has a list of filespaces");
    let summary = |(row, filespaces): (ArchiveRow, Vec<Filespace>)| ArchiveSummary {
        row,
        filespaces: filespaces.into_iter().map(|filespace| filespace.name).collect(),
    };
    Ok(rows.into_iter().zip(filespaces).map(summary).collect())
}

/// Lists at most `limit` of the node's archives, newest first. Begins with the archive number
/// `from`, or with the newest archive if `from` is `None`.
pub fn list(
    store: &Store,
    node: &Node,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<ArchiveSummary>, StoreError> {
    let rows = store.catalog.archives_from(node.id, from, limit)?;
    with_filespaces(store, node, rows)
}

/// Changes an archive. The log has what is changed, and not what is so already.
pub fn set(store: &Store, node: &Node, order: ArchiveOrder) -> Result<ArchiveSummary, StoreError> {
    let number = order.number;
    let row = find(store, node, number)?;
    let now = clock::time_of_change(store)?;
    if order.activates_event && row.event.is_some() {
        let text = format!("the event of archive {number} was already activated");
        return Err(StoreError::conflict(text));
    }
    let held = order.held.filter(|held| *held != row.held);
    let change = ArchiveChange {
        event: order.activates_event.then_some(now),
        held,
        complete: order.completes.then_some(true),
        due: Some(None),
        ..ArchiveChange::default()
    };
    let mut writes = vec![Write::SetArchive { number, change }];
    let what = match (order.activates_event, held) {
        (true, _) => Some("archive's event activated"),
        (_, Some(true)) => Some("archive held"),
        (_, Some(false)) => Some("archive released"),
        _ => None,
    };
    let details = archive_described(node, &row);
    writes.extend(what.map(|what| Write::AddEvent(event(node, now, what, &details))));
    store.catalog.commit(writes)?;
    let mut changed = with_filespaces(store, node, vec![find(store, node, number)?])?;
    Ok(changed.pop().expect("one archive has one summary"))
}

/// Returns the number, the node and the description of an archive, for the log.
fn archive_described(node: &Node, row: &ArchiveRow) -> String {
    let archive = format!("archive {} of node {}", row.number, node.name);
    match row.description.as_str() {
        "" => archive,
        description => format!("{archive}: {}", model::escaped(description.as_bytes())),
    }
}

fn event(node: &Node, time: ServerTime, what: &str, details: &str) -> EventRow {
    EventRow {
        time,
        actor: format!("node {}", node.name),
        what: what.to_owned(),
        details: details.to_owned(),
    }
}

/// Deletes the versions that the node selects. They can be brought back for some days. A damaged
/// row of the catalogue stays as it is.
pub fn delete(
    store: &Arc<Store>,
    node: &Node,
    filespace: &Filespace,
    order: DeletionOrder,
) -> Result<DeletionReport, StoreError> {
    assert_eq!(order.selection.filespace, filespace.id, "an order selects in its own filespace");
    let archive = archive_number(&filespace.name);
    let chosen = match archive {
        Some(_) => order.chosen.in_archive(),
        None => order.chosen,
    };
    check_not_held(store, node, archive)?;
    check_kind(filespace, &chosen)?;
    let path = order.selection.path();
    let selection = Selection { choice: Choice::All, ..order.selection };
    let Count { versions, found, unreadable } = check_unlocked(store, node, &selection, &chosen)?;
    if versions == 0 || order.is_dry {
        let result = DeletionResult::Counted { versions };
        return Ok(DeletionReport { result, found, unreadable });
    }
    let _claim = store.claim(filespace.id)?;
    let now = clock::time_of_change(store)?;
    let details = describe(filespace, &path, &found, versions);
    let number = store.catalog.add_deletion(node.id, &details, now)?;
    let row = DeletionRow { number, node: node.id, time: now, details, versions };
    // The event is written first, so that the audit trail also has a deletion that a crash
    // interrupts.
    let noted = Write::AddEvent(event(node, now, "versions deleted", &row.details));
    store.catalog.commit(vec![noted])?;
    // Active versions end at this time.
    let now = images::time_of_change(store, filespace, now)?;
    if let ChosenVersions::Images(taken) = &chosen {
        // The parts end before the heads go, so that a crash leaves whole images.
        store.until_current(|| Ok(end_parts(store, filespace, taken, now)?.then_some(())))?;
    }
    let removal = Removal { store, filespace: filespace.id, deletion: number, now, chosen };
    store.until_current(|| Ok(removal.run(&selection, archive)?.then_some(())))?;
    tracing::info!(node = %node.name, versions, "versions deleted");
    Ok(DeletionReport { result: DeletionResult::Done(deletion(store, row)), found, unreadable })
}

/// Returns the text about a deletion of what is at and below `path`, or of the `objects`.
fn describe(filespace: &Filespace, path: &[u8], objects: &NamedObjects, versions: u64) -> String {
    if let Some(name) = image_name(&filespace.name) {
        return format!("{} of {}", counted(versions, "image"), model::escaped(name));
    }
    let mount_point = model::escaped(model::mount_point(&filespace.name));
    let of = match archive_number(&filespace.name) {
        Some(number) => format!("archive {number}"),
        None => "backups".to_owned(),
    };
    let versions = counted(versions, "version");
    let mut named = objects.iter().flat_map(|(directory, names)| {
        names.iter().map(move |name| model::escaped(&directory.join(name)))
    });
    if let Some(first) = named.next() {
        let objects = counted(1 + named.count() as u64, "object");
        return format!("{versions} of {of} of {objects} in {mount_point}, such as {first}");
    }
    let path = if path.is_empty() { &b"/"[..] } else { path };
    format!("{versions} of {of} at and below {} in {mount_point}", model::escaped(path))
}

fn check_not_held(store: &Store, node: &Node, archive: Option<u64>) -> Result<(), StoreError> {
    match archive {
        Some(number) if find(store, node, number)?.held => Err(StoreError::conflict(format!(
            "archive {number} is held; 'holdfast archives release {number}' ends the hold"
        ))),
        _ => Ok(()),
    }
}

/// Fails if versions of files are to be deleted from images, or images from files.
fn check_kind(filespace: &Filespace, chosen: &ChosenVersions) -> Result<(), StoreError> {
    let name = model::escaped(&filespace.name);
    match (image_name(&filespace.name), chosen) {
        (Some(_), ChosenVersions::States(_) | ChosenVersions::Objects(..)) => {
            Err(StoreError::usage(format!(
                "{name} holds images, which 'holdfast image delete' deletes"
            )))
        }
        (None, ChosenVersions::Images(_)) => {
            Err(StoreError::usage(format!("{name} does not hold images")))
        }
        _ => Ok(()),
    }
}

/// Counts the selected versions. Fails if a locked class holds one of them.
fn check_unlocked(
    store: &Store,
    node: &Node,
    selection: &Selection,
    chosen: &ChosenVersions,
) -> Result<Count, StoreError> {
    let all = store.catalog.domains()?;
    let domain = all.into_iter().find(|domain| domain.id == node.domain);
    let policy = domain
        .ok_or_else(|| StoreError::damaged("the node's policy domain is missing"))?
        .active;
    let now = sys::clock::now();
    let (mut versions, mut found) = (0, NamedObjects::new());
    let unreadable = selection.walk_readable(&*store.catalog, |batch| {
        let VersionBatch { directory, versions: selected } = &batch;
        for version in selected.iter().filter(|version| chosen.include(directory, version)) {
            versions += 1;
            if let ChosenVersions::Objects(..) = chosen {
                let names = found.entry(directory.clone()).or_default();
                names.insert(version.object.name.clone());
            }
            if let Some((class, until)) = lock_of(&policy, version.object.class, now) {
                let path = model::escaped(&directory.join(&version.object.name));
                return Err(StoreError::conflict(format!(
                    "{path} is held by class {class}, which is locked until {until}"
                )));
            }
        }
        Ok(())
    })?;
    Ok(Count { versions, found, unreadable })
}

/// Returns the name of the class and the last day of its lock; `None` if the class is not locked.
fn lock_of(policy: &PolicySet, class: ClassId, now: ServerTime) -> Option<(String, String)> {
    let class = policy.class(class).or_else(|| policy.class(policy.default_class))?;
    let until = class.locked_until.filter(|_| class.is_locked(now))?;
    Some((class.name.clone(), policy::review::day(until)))
}

/// A deletion that moves versions to its trash.
struct Removal<'a> {
    store: &'a Store,
    filespace: FilespaceId,
    deletion: u64,
    now: ServerTime,
    chosen: ChosenVersions,
}

impl Removal<'_> {
    /// Moves the selected versions. Returns false if packs were condemned meanwhile. Then some of
    /// the versions have not been moved.
    fn run(&self, selection: &Selection, archive: Option<u64>) -> Result<bool, StoreError> {
        let store = self.store;
        let mut is_over = true;
        // A moved version names the same places as before. So no pack may be condemned in between.
        let generation = store.condemned().generation;
        selection.walk_readable(&*store.catalog, |batch| {
            // Expiration looks at the archive again, which may be empty now.
            let mut change = ArchiveChange { due: Some(None), ..ArchiveChange::default() };
            let mut writes = self.trash(batch, &mut change)?;
            writes.extend(archive.map(|number| Write::SetArchive { number, change }));
            is_over &= commit_moves(store, generation, writes)?;
            Ok(())
        })?;
        Ok(is_over)
    }

    /// Returns the writes that move the versions of one batch. Counts the active objects that are
    /// removed in `change`.
    fn trash(
        &self,
        batch: VersionBatch,
        change: &mut ArchiveChange,
    ) -> Result<Vec<Write>, StoreError> {
        let VersionBatch { directory, versions } = batch;
        let (filespace, deletion) = (self.filespace, self.deletion);
        let mut writes = Vec::new();
        let mut names: Vec<Name> = Vec::new();
        let mut dropped: Vec<VersionKey> = Vec::new();
        for version in
            versions.into_iter().filter(|version| self.chosen.include(&directory, version))
        {
            let object = version.object;
            let (name, inserted) = (object.name.clone(), object.inserted);
            let ends_now = self.now.max(ServerTime(inserted.0 + 1));
            let deactivated = version.deactivated.unwrap_or(ends_now);
            debug_assert!(inserted < deactivated, "a version begins before it ends");
            if version.deactivated.is_some() {
                dropped.push(VersionKey { name: name.clone(), inserted, deactivated });
            } else {
                change.objects_added -= 1;
                change.bytes_added -= file_bytes(&object);
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
            debug_assert!(names.is_sorted(), "a batch is sorted by name");
            for row in pages(self.store, filespace, &directory)? {
                let mut objects = match decode_page(&row) {
                    // None of the selected versions was read from a damaged page.
                    Err(StoreError::Damaged(_)) => continue,
                    objects => objects?,
                };
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

/// Commits writes that move versions within the catalogue. Returns false, and moves nothing, if
/// packs were condemned after `generation`.
fn commit_moves(store: &Store, generation: u64, writes: Vec<Write>) -> Result<bool, StoreError> {
    // No pack is condemned while this guard lives.
    let condemned = store.condemned();
    if condemned.generation != generation {
        return Ok(false);
    }
    match store.commit_known(generation, writes) {
        // Another server has condemned packs.
        Err(CommitFailure::Stale) => Ok(false),
        Err(CommitFailure::Failed(error)) => Err(error),
        Ok(()) => Ok(true),
    }
}

/// Ends the active parts of images if the newest image is deleted. Expiration does not drop active
/// versions. A damaged page stays as it is. Returns false if packs were condemned meanwhile. Then
/// some of the parts have not ended.
fn end_parts(
    store: &Store,
    filespace: &Filespace,
    deleted: &BTreeSet<ServerTime>,
    now: ServerTime,
) -> Result<bool, StoreError> {
    let heads = Heads::read(store, filespace)?;
    if heads.is_none_or(|heads| heads.without(deleted).has_active()) {
        return Ok(true);
    }
    let generation = store.condemned().generation;
    let span = PageSpan::Subtree(DirPath::above_root());
    let mut after: Option<PageKey> = None;
    loop {
        let rows = store.catalog.pages(filespace.id, &span, after.as_ref(), PAGES_BATCH)?;
        let Some(last) = rows.last().map(|row| row.key.clone()) else { return Ok(true) };
        for row in rows {
            let writes = ended_parts(filespace.id, row, now)?;
            if !writes.is_empty() && !commit_moves(store, generation, writes)? {
                return Ok(false);
            }
        }
        after = Some(last);
    }
}

/// Returns the writes that end all objects of a page but the head of images.
fn ended_parts(
    filespace: FilespaceId,
    row: PageRow,
    now: ServerTime,
) -> Result<Vec<Write>, StoreError> {
    let objects = match decode_page(&row) {
        Err(StoreError::Damaged(reason)) => {
            tracing::error!(%filespace, reason, "parts of images are not ended");
            return Ok(Vec::new());
        }
        objects => objects?,
    };
    let directory = &row.key.directory;
    let is_head = |object: &Object| images::is_head(directory, &object.name);
    let (heads, parts): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_head);
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let end = |part| Write::AddVersion { filespace, version: deactivate(directory, part, now) };
    let mut writes: Vec<Write> = parts.into_iter().map(end).collect();
    writes.push(rewritten(filespace, row.key, &heads));
    Ok(writes)
}

fn pages(
    store: &Store,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<Vec<PageRow>, StoreError> {
    let span = PageSpan::Directory(directory.clone());
    let mut all: Vec<PageRow> = Vec::new();
    loop {
        let after = all.last().map(|row| row.key.clone());
        let rows = store.catalog.pages(filespace, &span, after.as_ref(), PAGES_BATCH)?;
        if rows.is_empty() {
            return Ok(all);
        }
        all.extend(rows);
    }
}

fn deletion(store: &Store, row: DeletionRow) -> Deletion {
    let until = ServerTime(row.time.0 + i64::from(store.config.undo_days) * DAY_MICROS);
    Deletion { row, until }
}

/// Lists at most `limit` of the node's deletions that can be undone, newest first. Begins with the
/// deletion number `from`, or with the newest deletion if `from` is `None`.
pub fn deletions(
    store: &Store,
    node: &Node,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<Deletion>, StoreError> {
    let rows = store.catalog.deletions_from(node.id, from, limit)?;
    Ok(rows.into_iter().map(|row| deletion(store, row)).collect())
}

/// Puts back the versions of a deletion. An active version of a backup comes back as an inactive
/// version, because the object may have another active version by now.
pub fn undelete(store: &Arc<Store>, node: &Node, number: u64) -> Result<Deletion, StoreError> {
    let rows = store.catalog.deletions(Some(node.id))?;
    let row = rows.into_iter().find(|row| row.number == number).ok_or_else(|| {
        StoreError::not_found(format!(
            "there is no deletion {number} that can be undone; 'holdfast undelete' shows all"
        ))
    })?;
    // Reclamation would not see a version that moves to a part of the catalogue that it has already
    // read.
    let _pause = store.pause_reclamation()?;
    let filespaces = store.catalog.filespaces(node.id)?;
    let mut skip = 0;
    loop {
        let batch = store.catalog.trash(number, skip, UNDO_BATCH)?;
        if batch.is_empty() {
            break;
        }
        skip += batch.len();
        for of_filespace in batch.chunk_by(|a, b| a.filespace == b.filespace) {
            let id = of_filespace[0].filespace;
            let archive = filespaces
                .iter()
                .find(|filespace| filespace.id == id)
                .and_then(|filespace| archive_number(&filespace.name));
            let _claim = store.claim(id)?;
            for of_directory in
                of_filespace.chunk_by(|a, b| a.version.directory == b.version.directory)
            {
                let rows = of_directory.iter().map(|trashed| trashed.version.clone());
                put_back(store, id, archive, rows.collect())?;
            }
        }
    }
    let now = sys::clock::now();
    let writes = vec![
        Write::EmptyTrash { deletion: number },
        Write::AddEvent(event(node, now, "deletion undone", &row.details)),
    ];
    store.catalog.commit(writes)?;
    Ok(deletion(store, row))
}

/// Puts back versions of one directory: into the pages of an archive, or as inactive versions of
/// a backup.
fn put_back(
    store: &Store,
    filespace: FilespaceId,
    archive: Option<u64>,
    versions: Vec<VersionRow>,
) -> Result<(), StoreError> {
    let Some(number) = archive else {
        let add = |version| Write::AddVersion { filespace, version };
        return Ok(store.catalog.commit(versions.into_iter().map(add).collect())?);
    };
    let Some(directory) = versions.first().map(|row| row.directory.clone()) else { return Ok(()) };
    debug_assert!(
        versions.iter().all(|row| row.directory == directory),
        "all are of one directory"
    );
    let mut pages = pages(store, filespace, &directory)?;
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
    let (mut writes, mut lost) = (Vec::new(), Growth::default());
    for (at, row) in pages.iter().enumerate() {
        let next = pages.get(at + 1).map(|next| &next.key.first[..]);
        let is_here = |version: &&VersionRow| {
            let name = version.name.as_bytes();
            name >= &row.key.first[..] && next.is_none_or(|next| name < next)
        };
        let mut objects = decode_page(row)?;
        for version in versions.iter().filter(is_here) {
            let mut back: Vec<Object> = page::decode(&version.body)
                .map_err(|_| StoreError::damaged("a deleted version is damaged"))?;
            let Some(object) = back.pop() else { continue };
            match objects.binary_search_by(|known| known.name.cmp(&object.name)) {
                Err(at) => {
                    change.objects_added += 1;
                    change.bytes_added += file_bytes(&object);
                    objects.insert(at, object);
                }
                // An interrupted run has put it back.
                Ok(at) if objects[at] == object => {}
                // Another object has its name: this one is gone for good.
                Ok(_) => lost = lost.plus(Growth::of(&object)),
            }
        }
        writes.push(rewritten(filespace, row.key.clone(), &objects));
    }
    writes.push(Write::SetArchive { number, change });
    if !lost.is_nothing() {
        writes.push(Write::Grow { filespace, growth: lost.undone() });
    }
    Ok(store.catalog.commit(writes)?)
}

/// Empties the trash of deletions that can no longer be undone.
pub fn purge(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    let keeps = i64::from(store.config.undo_days) * DAY_MICROS;
    for row in store.catalog.deletions(None)? {
        if row.time.0 + keeps <= now.0 {
            let deletion = row.number;
            store.catalog.commit(vec![Write::PurgeTrash { deletion }])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
