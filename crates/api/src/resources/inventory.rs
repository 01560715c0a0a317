//! Stored files of a node by name: browsing at any time, and searching.

use catalog::{Filespace, Node, PageSpan};
use model::{
    BACKUP_FILESPACE_MIN, DirPath, Kind, Name, Object, Payload, ServerTime, Version,
    archive_filespace, archive_number, mount_point,
};
use policy::Pattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::selection::{Choice, Part, Selection, VersionCondition};

use super::found_node::{FoundNode, find_node};
use super::nodes::NodePath;
use crate::call::{Answer, Attention, Call};
use crate::caller::Caller;
use crate::cursor::{ListQuery, Portion};
use crate::desk::Desk;
use crate::fields::{Bytes, Empty, NameText, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Number of versions that a walk keeps before it drops those that are not shown.
const KEPT_MAX: usize = 10_000;

/// A filespace.
#[derive(Serialize, JsonSchema)]
struct FilespaceDocument {
    name: Bytes,
    active_objects: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_backup: Option<Time>,
}

/// A stored version of an object.
#[derive(Serialize, JsonSchema)]
pub(super) struct VersionDocument {
    /// Path in the filespace, from its root.
    path: Bytes,
    kind: &'static str,
    size: u64,
    /// Permission bits.
    mode: u16,
    uid: u32,
    gid: u32,
    modified: Time,
    /// Time at which the server stored the version.
    stored: Time,
    /// Time at which the version became inactive; absent for the active one.
    #[serde(skip_serializing_if = "Option::is_none")]
    inactive_since: Option<Time>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Bytes>,
    /// True if the node has encrypted the content, so that only the node can read it.
    is_encrypted: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BrowseQuery {
    /// Name of the filespace. A name that is not UTF-8 is `base64:` and its bytes in Base64.
    filespace: NameText,
    /// Number of an archive, whose part that comes from the filespace is meant; the backups of the
    /// filespace by default.
    archive: Option<u64>,
    /// Directory in the filespace, from its root, as in /etc/apt; the root by default. A path that
    /// is not UTF-8 is `base64:` and its bytes in Base64.
    path: Option<NameText>,
    /// Only the object with this name in the directory. A name that is not UTF-8 is `base64:` and
    /// its bytes in Base64.
    name: Option<NameText>,
    /// Time at which the versions stood; the present by default.
    at: Option<Time>,
    /// True for all versions of each object.
    all: Option<bool>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchQuery {
    /// Name of the filespace. A name that is not UTF-8 is `base64:` and its bytes in Base64.
    filespace: NameText,
    /// Number of an archive, whose part that comes from the filespace is meant; the backups of the
    /// filespace by default.
    archive: Option<u64>,
    /// Pattern of the path on the node, with the wildcards *, ? and ... A pattern that is not
    /// UTF-8 is `base64:` and its bytes in Base64.
    pattern: NameText,
    /// Time at which the versions stood; the present by default.
    at: Option<Time>,
    /// True for versions that are no longer active, too.
    all: Option<bool>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Inventory;
    let summary = "Lists the filespaces of a node";
    let path = "/v1/nodes/{node}/filespaces";
    routes.add(Operation::read("filespaces.list", path, area, summary), filespaces);
    let summary = "Lists the objects of a directory, as they stood at any time";
    let path = "/v1/nodes/{node}/versions";
    routes.add(Operation::read("versions.list", path, area, summary), browse);
    let summary = "Searches objects by a pattern";
    let path = "/v1/nodes/{node}/search";
    routes.add(Operation::read("versions.search", path, area, summary), search);
}

fn node<Q, B>(call: &Call<NodePath, Q, B>) -> Answer<FoundNode> {
    let rights = (Area::Inventory, Right::Read);
    find_node(&call.desk, &call.caller, &call.path.node, rights)
}

fn filespaces(call: &mut Call<NodePath, ListQuery, Empty>) -> Answer<Page<FilespaceDocument>> {
    let portion = call.query.portion()?;
    let node = node(call)?.node;
    let from = portion.first_bytes().max(BACKUP_FILESPACE_MIN);
    let read_max = portion.read_max();
    let rows = store::nodes::filespaces(call.desk.store(), &node, from, read_max)?;
    let page = portion.page(rows, |one| one.filespace.name.clone());
    let describe = |one: store::nodes::FilespaceSummary| FilespaceDocument {
        name: Bytes(one.filespace.name),
        active_objects: one.active_objects,
        last_backup: one.filespace.last_backup.map(Time),
    };
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}

/// Finds a filespace of a node.
pub(super) fn find_filespace(
    desk: &Desk,
    caller: &Caller,
    (node, name): (&str, &[u8]),
    area: Area,
) -> Answer<Filespace> {
    find_in_node(desk, caller, (node, name), area).map(|(_, filespace)| filespace)
}

/// Finds a filespace of a node, and the node.
pub(super) fn find_in_node(
    desk: &Desk,
    caller: &Caller,
    (node, name): (&str, &[u8]),
    area: Area,
) -> Answer<(Node, Filespace)> {
    let node = find_node(desk, caller, node, (area, Right::Read))?.node;
    let all = desk.store().catalog.filespaces_from(node.id, name, 1)?;
    let found = all.into_iter().find(|filespace| filespace.name == name);
    let missing = || match archive_number(name) {
        Some(number) => no_such(&format!("archive {number} of the filespace"), mount_point(name)),
        None => no_such("filespace", name),
    };
    Ok((node, found.ok_or_else(missing)?))
}

/// Returns the name by which the catalogue knows the backups of a filespace, or the part of an
/// archive that comes from it.
pub(super) fn stored_name(NameText(filespace): &NameText, archive: Option<u64>) -> Vec<u8> {
    match archive {
        Some(number) => archive_filespace(number, filespace),
        None => filespace.clone(),
    }
}

/// Returns the problem that nothing of this kind has the name, which may be any bytes.
pub(super) fn no_such(what: &str, name: &[u8]) -> Problem {
    let text = format!("there is no {what} '{}'", model::escaped(name));
    Problem::new(crate::problem::Kind::NotFound, text)
}

/// Parses the path of a directory: with or without a slash at its end.
pub(super) fn directory(path: Option<&NameText>) -> Answer<DirPath> {
    path.map_or_else(|| Ok(DirPath::root()), |NameText(path)| parse_directory(path))
}

fn parse_directory(path: &[u8]) -> Answer<DirPath> {
    let mut bytes = path.to_vec();
    if bytes.last() != Some(&b'/') {
        bytes.push(b'/');
    }
    DirPath::within_limits(&bytes).map_err(|_| {
        Problem::invalid(format!("'{}' is no path of a directory", model::escaped(path)))
    })
}

pub(super) fn describe(directory: &DirPath, version: &Version) -> VersionDocumentParts {
    VersionDocumentParts { path: directory.join(&version.object.name), version: version.clone() }
}

/// A version with its path.
pub(super) struct VersionDocumentParts {
    path: Vec<u8>,
    version: Version,
}

impl VersionDocumentParts {
    /// Key by which lists of versions are sorted: the path, then the newest first.
    fn key(&self) -> Vec<u8> {
        let age = u64::MAX - self.version.object.inserted.0.cast_unsigned();
        let mut key = self.path.clone();
        key.push(0);
        key.extend_from_slice(&age.to_be_bytes());
        key
    }

    fn document(self) -> VersionDocument {
        document_of(self.path, self.version)
    }
}

/// Describes a version of the object with this path.
pub(super) fn document_of(path: Vec<u8>, version: Version) -> VersionDocument {
    let Version { object, deactivated } = version;
    let Object { stat, payload, inserted, .. } = object;
    let is_encrypted = matches!(&payload, Payload::Extents(extents)
        if extents.iter().any(|extent| matches!(extent, model::Extent::Sealed { .. })));
    VersionDocument {
        path: Bytes(path),
        kind: kind_name(stat.kind),
        size: stat.size,
        mode: stat.mode,
        uid: stat.uid,
        gid: stat.gid,
        modified: Time(ServerTime::from_secs(stat.mtime.secs)),
        stored: Time(inserted),
        inactive_since: deactivated.map(Time),
        target: match payload {
            Payload::Target(target) => Some(Bytes(target)),
            _ => None,
        },
        is_encrypted,
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::CharDevice => "character-device",
        Kind::BlockDevice => "block-device",
    }
}

fn choice(at: Option<Time>, all: Option<bool>) -> Choice {
    match (at, all) {
        (_, Some(true)) => Choice::All,
        (Some(at), _) => Choice::At(at.0),
        (None, _) => Choice::Active,
    }
}

fn browse(call: &mut Call<NodePath, BrowseQuery, Empty>) -> Answer<Page<VersionDocument>> {
    let BrowseQuery { filespace, archive, path, name, at, all, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let stored = stored_name(filespace, *archive);
    let named = (call.path.node.as_str(), &stored[..]);
    let found = find_filespace(&call.desk, &call.caller, named, Area::Inventory)?;
    let directory = directory(path.as_ref())?;
    let name = name.as_ref().map(|name| name_in(&directory, name)).transpose()?;
    let parts = vec![Part { span: PageSpan::Directory(directory), name }];
    let selection = Selection {
        filespace: found.id,
        choice: choice(*at, *all),
        parts,
        range: 0..0,
        sample: None,
    };
    collect((&call.desk, &call.attention), &selection, &portion, |_| true)
}

fn search(call: &mut Call<NodePath, SearchQuery, Empty>) -> Answer<Page<VersionDocument>> {
    let SearchQuery { filespace, archive, pattern, at, all, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let stored = stored_name(filespace, *archive);
    let named = (call.path.node.as_str(), &stored[..]);
    let found = find_filespace(&call.desk, &call.caller, named, Area::Inventory)?;
    let wrong = |error: policy::PatternError| Problem::invalid(error.to_string());
    let pattern = Pattern::parse(&pattern.0).map_err(wrong)?;
    let condition = VersionCondition { pattern: Some(pattern), ..VersionCondition::default() };
    let parts = vec![Part { span: PageSpan::Subtree(DirPath::above_root()), name: None }];
    let choice = choice(*at, *all);
    let selection = Selection { filespace: found.id, choice, parts, range: 0..0, sample: None };
    collect((&call.desk, &call.attention), &selection, &portion, |batch| {
        condition.apply(&found.name, batch);
        true
    })
}

/// Collects the selected versions that `keep` leaves, from the portion's beginning on.
fn collect(
    (desk, attention): (&Desk, &Attention),
    selection: &Selection,
    portion: &Portion,
    mut keep: impl FnMut(&mut store::selection::VersionBatch) -> bool,
) -> Answer<Page<VersionDocument>> {
    let mut found: Vec<VersionDocumentParts> = Vec::new();
    let from = portion.first_bytes();
    let cut = |found: &mut Vec<VersionDocumentParts>| {
        found.sort_by_cached_key(VersionDocumentParts::key);
        found.truncate(portion.read_max());
    };
    let unreadable = selection.walk_readable(&*desk.store().catalog, |mut batch| {
        attention.check()?;
        if keep(&mut batch) {
            let parts = batch.versions.iter().map(|version| describe(&batch.directory, version));
            found.extend(parts.filter(|parts| &parts.key()[..] >= from));
        }
        // Only the first of all are shown, so no more are kept for long.
        if found.len() > KEPT_MAX {
            cut(&mut found);
        }
        Ok(())
    })?;
    if let Some(unreadable) = unreadable {
        return Err(store::StoreError::from(unreadable).into());
    }
    cut(&mut found);
    let page = portion.page(found, VersionDocumentParts::key);
    let items = page.items.into_iter().map(VersionDocumentParts::document).collect();
    Ok(Page { items, next: page.next })
}

/// Returns the name of an object in a directory.
fn name_in(directory: &DirPath, NameText(name): &NameText) -> Answer<Name> {
    let wrong = |_| Problem::invalid(format!("'{}' is no name of an object", model::escaped(name)));
    directory.name(name).map_err(wrong)
}

/// Splits the path of an object into its directory and its name.
pub(super) fn object(NameText(path): &NameText) -> Answer<(DirPath, Name)> {
    let wrong = || Problem::invalid(format!("'{}' is no path of a file", model::escaped(path)));
    let end = path.iter().rposition(|byte| *byte == b'/').ok_or_else(wrong)?;
    let directory = parse_directory(&path[..=end])?;
    let name = directory.name(&path[end + 1..]).map_err(|_| wrong())?;
    Ok((directory, name))
}
