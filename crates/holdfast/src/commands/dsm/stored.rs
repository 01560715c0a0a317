//! Stored versions that a command of `dsmc` names.

use std::collections::{BTreeMap, BTreeSet};

use client::{
    ArchiveSummary, Client, ErrorKind, FilespaceSummary, ListContent, ListOptions, ListedVersion,
    VersionChoice,
};
use dsm::client::{Last, Spec, TimeRange, point_in_time, range};
use dsm::forms::Day;
use dsm::lines::{Details, Version};
use dsm::words::is_like;
use model::{Kind, ServerTime, Timestamp};

use super::clock;
use super::local_files;
use super::session::Session;
use crate::error::CommandError;
use crate::output;

/// Choice of versions.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) which: VersionChoice,
    pub(super) all_versions: bool,
    pub(super) range: TimeRange,
    pub(super) files_only: bool,
    pub(super) directories_only: bool,
    pub(super) archive: Option<u64>,
}

/// A stored version.
#[derive(Clone, Debug)]
pub(super) struct StoredObject {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) stored: ServerTime,
    pub(super) class: String,
    pub(super) is_active: bool,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) inode: u64,
}

impl StoredObject {
    fn of(version: &ListedVersion) -> Self {
        Self {
            path: version.path.clone(),
            kind: version.object.stat.kind,
            bytes: version.object.stat.size,
            stored: version.object.inserted,
            class: version.class.clone(),
            is_active: version.deactivated.is_none(),
            modified: version.object.stat.mtime,
            changed: version.object.stat.ctime,
            inode: version.object.stat.inode,
        }
    }

    /// Returns the version for a line; `path` is its path in escaped form.
    pub(super) fn shown<'a>(&'a self, path: &'a str) -> Version<'a> {
        Version {
            bytes: self.bytes,
            stored: clock::moment(self.stored),
            class: &self.class,
            is_active: self.is_active,
            path,
        }
    }

    /// Returns what a query with details shows of the version.
    pub(super) fn details(&self) -> Details {
        Details {
            modified: clock::of_file(self.modified),
            changed: clock::of_file(self.changed),
            inode: self.inode,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

impl Filter {
    /// Returns the choice that the options of the command make.
    pub(super) fn of(session: &Session<'_>) -> Result<Self, CommandError> {
        let today = clock::moment(sys::clock::now());
        let today = Day { year: today.year, month: today.month, day: today.day };
        let at = point_in_time(session.options(), session.forms, today)?;
        let at = at.map(clock::server_time).transpose()?;
        let command = &session.command;
        let inactive = command.has("INACTIVE");
        Ok(Self {
            which: VersionChoice { at, inactive: inactive || command.has("LATEST") },
            all_versions: inactive && at.is_none(),
            range: range(session.options(), session.forms)?,
            files_only: command.has("FILESONLY"),
            directories_only: command.has("DIRSONLY"),
            archive: None,
        })
    }

    /// Returns true if every version is taken that is named.
    pub(super) fn is_open(&self) -> bool {
        self.range == TimeRange::default() && !self.files_only && !self.directories_only
    }

    /// Returns true if the times of the command choose among all versions of each file.
    pub(super) fn is_of_versions(&self) -> bool {
        self.all_versions && self.range != TimeRange::default() && !self.only_directories()
    }

    /// Returns true if no files are taken.
    pub(super) fn only_directories(&self) -> bool {
        self.directories_only && !self.files_only
    }

    fn takes(&self, object: &StoredObject) -> bool {
        let is_kind = match (self.files_only, self.directories_only) {
            (true, false) => !object.is_directory(),
            (false, true) => object.is_directory(),
            _ => true,
        };
        is_kind && self.range.has(clock::moment(object.stored))
    }
}

/// Returns the archives that the description and the times of a command choose, newest first.
pub(super) fn archives(
    session: &Session<'_>,
    client: &Client,
) -> Result<Vec<ArchiveSummary>, CommandError> {
    let filter = Filter::of(session)?;
    let wanted = session.options().text("DESCRIPTION");
    let mut archives = client.archives()?;
    archives.retain(|archive| {
        wanted.as_ref().is_none_or(|wanted| is_like(wanted, &archive.description))
            && filter.range.has(clock::moment(archive.created))
    });
    Ok(archives)
}

/// Calls `visit` for each version that the operand names, until it returns false.
pub(super) fn select(
    client: &Client,
    spec: &Spec,
    descends: bool,
    filter: &Filter,
    visit: &mut dyn FnMut(StoredObject) -> bool,
) -> Result<(), CommandError> {
    let mut is_directory = false;
    let mut goes_on = true;
    let named = matches!(spec.last, Last::Named(_));
    let (own, filespace) = (spec.path(), spec.filespace.as_deref());
    if named {
        let mut take = |version: &ListedVersion| {
            let object = StoredObject::of(version);
            is_directory |= object.is_directory();
            goes_on = !filter.takes(&object) || visit(object);
            goes_on
        };
        list(client, own.clone(), ListContent::None, filter, filespace, &mut take)?;
        if !descends || !goes_on {
            return Ok(());
        }
    }
    let content = if descends { ListContent::Everything } else { ListContent::Direct };
    let top = if is_directory { own.clone() } else { spec.folder() };
    let mut take = |version: &ListedVersion| {
        let is_new = version.path != own || !named;
        if !is_new || !spec.names(&version.path, descends) {
            return true;
        }
        let object = StoredObject::of(version);
        !filter.takes(&object) || visit(object)
    };
    list(client, top, content, filter, filespace, &mut take)
}

/// Minimum number of names of a directory for which the whole directory is listed once. For fewer,
/// the server is asked for each name.
const SIBLINGS_MIN: usize = 16;

/// Calls `visit` for each version that the operands name, with the index that comes with the
/// operand. Many names of one directory are looked up together. If `visit` returns false, it needs
/// no more versions of this operand.
pub(super) fn select_each(
    client: &Client,
    specs: &[(usize, &Spec)],
    descends: bool,
    filter: &Filter,
    visit: &mut dyn FnMut(usize, StoredObject) -> bool,
) -> Result<(), CommandError> {
    let mut siblings: BTreeMap<_, Vec<(usize, &Spec)>> = BTreeMap::new();
    for &(index, spec) in specs {
        let directory = (spec.filespace.as_deref(), spec.directory.as_slice());
        siblings.entry(directory).or_default().push((index, spec));
    }
    let is_plain = |spec: &Spec| matches!(spec.last, Last::Named(_)) && !descends;
    for specs in siblings.values() {
        let are_plain = specs.iter().all(|(_, spec)| is_plain(spec));
        let known = match are_plain && specs.len() >= SIBLINGS_MIN {
            true => select_together(client, specs, filter, visit)?,
            false => BTreeSet::new(),
        };
        for &(index, spec) in specs {
            if !known.contains(&index) {
                select(client, spec, descends, filter, &mut |object| visit(index, object))?;
            }
        }
    }
    Ok(())
}

/// Calls `visit` for each version under the names of a list, in the order of the list, with the
/// index of the name, until it returns false. Many names of one directory are looked up together.
pub(super) fn select_in_order(
    client: &Client,
    specs: &[Spec],
    filter: &Filter,
    visit: &mut dyn FnMut(usize, StoredObject) -> bool,
) -> Result<(), CommandError> {
    let names: Vec<(usize, &Spec)> = specs.iter().enumerate().collect();
    let mut found: BTreeMap<usize, Vec<StoredObject>> = BTreeMap::new();
    select_each(client, &names, false, filter, &mut |index, object| {
        found.entry(index).or_default().push(object);
        true
    })?;
    for (index, objects) in found {
        for object in objects {
            if !visit(index, object) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Calls `visit` for each version under names of one directory, which is listed once. Returns the
/// indexes of the names that it has.
fn select_together(
    client: &Client,
    specs: &[(usize, &Spec)],
    filter: &Filter,
    visit: &mut dyn FnMut(usize, StoredObject) -> bool,
) -> Result<BTreeSet<usize>, CommandError> {
    let (_, first) = specs[0];
    let indexes = by_path(specs.iter().copied());
    let mut known = BTreeSet::new();
    let mut take = |version: &ListedVersion| {
        for &index in indexes.get(&version.path).into_iter().flatten() {
            known.insert(index);
            let object = StoredObject::of(version);
            if filter.takes(&object) {
                visit(index, object);
            }
        }
        true
    };
    let filespace = first.filespace.as_deref();
    list(client, first.folder(), ListContent::Direct, filter, filespace, &mut take)?;
    Ok(known)
}

/// Returns the indexes of operands by their paths.
fn by_path<'s>(
    specs: impl IntoIterator<Item = (usize, &'s Spec)>,
) -> BTreeMap<Vec<u8>, Vec<usize>> {
    let mut indexes: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (index, spec) in specs {
        indexes.entry(spec.path()).or_default().push(index);
    }
    indexes
}

/// Minimum number of names for which an archive may be listed as a whole.
const NAMES_MIN: usize = 16;
/// Maximum number of objects of such an archive for each name.
const OBJECTS_PER_NAME_MAX: u64 = 100;

/// Calls `visit` for each object of an archive that the operands name, with the index of the
/// operand, in the order of the operands. If it returns false, it needs no more objects of this
/// operand. The names of a long list are not looked up one by one in each of many archives.
pub(super) fn select_in_archive(
    client: &Client,
    archive: &ArchiveSummary,
    specs: &[Spec],
    descends: bool,
    filter: &Filter,
    visit: &mut dyn FnMut(usize, StoredObject) -> bool,
) -> Result<(), CommandError> {
    let filter = Filter { archive: Some(archive.number), ..filter.clone() };
    if is_listed_whole(archive.objects, specs, descends)
        && let Some(found) = listed_whole(client, archive.number, specs)?
    {
        // A name has one object.
        for (index, object) in found {
            if filter.takes(&object) {
                visit(index, object);
            }
        }
        return Ok(());
    }
    for (index, spec) in specs.iter().enumerate() {
        select(client, spec, descends, &filter, &mut |object| visit(index, object))?;
    }
    Ok(())
}

/// Returns the objects of an archive that the operands name, each with the index of the operand,
/// in the order of the operands. Returns `None` if the server cannot read a part of the archive,
/// which may have none of them.
fn listed_whole(
    client: &Client,
    number: u64,
    specs: &[Spec],
) -> Result<Option<Vec<(usize, StoredObject)>>, CommandError> {
    let indexes = by_path(specs.iter().enumerate());
    let options = ListOptions {
        content: ListContent::Everything,
        archive: Some(number),
        ..ListOptions::default()
    };
    let mut found = Vec::new();
    let listed = client.list(&options, &mut |version| {
        for &index in indexes.get(&version.path).into_iter().flatten() {
            found.push((index, StoredObject::of(version)));
        }
        true
    });
    match listed {
        // Somebody has deleted it.
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Some(Vec::new())),
        Err(error) if error.kind == ErrorKind::Damaged => Ok(None),
        done => {
            done?;
            found.sort_by_key(|(index, _)| *index);
            Ok(Some(found))
        }
    }
}

/// Returns true if all objects of an archive are fewer than the work of a look for each name.
fn is_listed_whole(objects: u64, specs: &[Spec], descends: bool) -> bool {
    let is_plain = |spec: &Spec| matches!(spec.last, Last::Named(_)) && spec.filespace.is_none();
    let most = (specs.len() as u64).saturating_mul(OBJECTS_PER_NAME_MAX);
    specs.len() >= NAMES_MIN && !descends && objects <= most && specs.iter().all(is_plain)
}

/// Returns true if a version of this choice is stored at or below the path of the operand.
pub(super) fn is_stored(
    client: &Client,
    spec: &Spec,
    filter: &Filter,
) -> Result<bool, CommandError> {
    has_any(client, spec.path(), filter, spec.filespace.as_deref())
}

/// Returns true if a version of this choice is stored at or below a path.
fn has_any(
    client: &Client,
    path: Vec<u8>,
    filter: &Filter,
    filespace: Option<&[u8]>,
) -> Result<bool, CommandError> {
    let mut has_any = false;
    list(client, path, ListContent::Everything, filter, filespace, &mut |_| {
        has_any = true;
        false
    })?;
    Ok(has_any)
}

/// Returns true if a version of this choice is stored below the directory of the operand, under the
/// name that the operand gives it.
pub(super) fn is_stored_below(
    client: &Client,
    spec: &Spec,
    filter: &Filter,
) -> Result<bool, CommandError> {
    let mut is_below = false;
    let (folder, filespace) = (spec.folder(), spec.filespace.as_deref());
    list(client, folder, ListContent::Everything, filter, filespace, &mut |version| {
        let within = model::within(&version.path, &spec.directory);
        is_below = within.is_some_and(|within| within.len() > 1);
        // A link that is stored has the name of the directory.
        version.path == spec.directory
    })?;
    Ok(is_below)
}

/// Lists one path. A path that is not stored has no versions. Fails if the server has no filespace
/// of this name.
fn list(
    client: &Client,
    path: Vec<u8>,
    content: ListContent,
    filter: &Filter,
    filespace: Option<&[u8]>,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<(), CommandError> {
    let options = ListOptions {
        path: Some(path),
        which: filter.which.clone(),
        content,
        all_versions: filter.all_versions,
        archive: filter.archive,
        filespace: filespace.map(<[u8]>::to_vec),
    };
    match client.list(&options, visit) {
        Err(error) if error.kind == ErrorKind::NotFound => match filespace {
            Some(name) => check_filespace(client, name),
            None => Ok(()),
        },
        done => Ok(done?),
    }
}

/// Fails if the server has no filespace of this name.
fn check_filespace(client: &Client, name: &[u8]) -> Result<(), CommandError> {
    if filespaces(client)?.iter().any(|known| known.name == name) {
        return Ok(());
    }
    Err(no_filespace(name))
}

/// Returns true if a filespace has versions. The server keeps one whose versions were all deleted,
/// so that the deletion can be undone.
pub(super) fn has_versions(
    client: &Client,
    filespace: &FilespaceSummary,
) -> Result<bool, CommandError> {
    if filespace.active_objects > 0 {
        return Ok(true);
    }
    let which = VersionChoice { at: None, inactive: true };
    let filter = Filter { which, all_versions: true, ..Filter::default() };
    has_any(client, filespace.name.clone(), &filter, Some(&filespace.name))
}

/// The error for a filespace that the server does not have.
pub(super) fn no_filespace(name: &[u8]) -> CommandError {
    let shown = model::escaped(name);
    CommandError::new(format!(
        "ANS1092W no file space is called '{shown}'; 'query filespace' shows all"
    ))
}

/// Returns the operands, in braces, for other file spaces than the one that a command takes, if
/// they have versions at or below the path of the operand.
fn elsewhere(client: &Client, spec: &Spec, filter: &Filter) -> Vec<String> {
    let options = ListOptions {
        path: Some(spec.path()),
        which: filter.which.clone(),
        all_versions: filter.all_versions,
        filespace: spec.filespace.clone(),
        ..ListOptions::default()
    };
    // A server that cannot answer has no effect on the query.
    let others = client.elsewhere(&options).unwrap_or_default();
    others.iter().map(|filespace| in_braces(filespace, spec)).collect()
}

/// Returns the operands, in braces, for the versions that other file spaces have of what a command
/// names. The names of a list may be too many to ask for each.
pub(super) fn elsewhere_of(
    session: &Session<'_>,
    client: &Client,
    specs: &[Spec],
    filter: &Filter,
) -> Vec<String> {
    if session.options().has("FILELIST") {
        return Vec::new();
    }
    specs.iter().flat_map(|spec| elsewhere(client, spec, filter)).collect()
}

/// Returns the absolute path of an operand, with its wildcards.
pub(super) fn full_name(spec: &Spec) -> Vec<u8> {
    match &spec.last {
        Last::Named(_) => spec.path(),
        Last::Everything => [&spec.directory[..], b"/*"].concat(),
        Last::Matching(pattern) => [&spec.directory[..], b"/", pattern.as_bytes()].concat(),
    }
}

/// Returns the operand for the same objects of this file space.
fn in_braces(filespace: &[u8], spec: &Spec) -> String {
    let path = full_name(spec);
    let within = path.strip_prefix(filespace).unwrap_or(&path);
    format!("{{{}}}{}", model::escaped(filespace), model::escaped(within))
}

/// Returns the working directory, for operands that are relative.
pub(super) fn working_directory() -> Result<Vec<u8>, CommandError> {
    let working = std::env::current_dir();
    let working = working
        .map_err(|error| CommandError::new(format!("there is no working directory: {error}")))?;
    Ok(crate::path::bytes(&working))
}

/// Parses the operand of a command.
pub(super) fn spec(operand: &[u8]) -> Result<Spec, CommandError> {
    Spec::parse(operand, &working_directory()?).map_err(wrong_name)
}

fn wrong_name(reason: String) -> CommandError {
    CommandError::new(format!("ANS1081E {reason}"))
}

/// Returns the operands of a command that needs at least one.
pub(super) fn operands(session: &Session<'_>) -> Result<Vec<Spec>, CommandError> {
    let operands = &session.command.operands;
    if operands.is_empty() {
        let name = session.command.definition.name();
        return Err(CommandError::new(format!("ANS1089E '{name}' needs the name of a file")));
    }
    operands.iter().map(|operand| spec(operand)).collect()
}

/// Returns the objects that a list names, or the operands without a list. Wildcards are part of the
/// names of a list.
pub(super) fn named(session: &Session<'_>) -> Result<Vec<Spec>, CommandError> {
    let Some(list) = session.options().get("FILELIST") else { return operands(session) };
    let literal = session.options().yes("QUOTESARELITERAL").unwrap_or(false);
    let listed = local_files::filelist(&list.value, literal)?;
    let working = working_directory()?;
    let parse = |line: &Vec<u8>| Spec::parse_listed(line, &working).map_err(wrong_name);
    listed.iter().map(parse).collect()
}

/// Tells the names under which nothing is stored, as scripts expect it, unless that is so for all
/// names. Returns true if there are none. `is_found` has a value for each of `specs`.
pub(super) fn tell_absent(session: &Session<'_>, specs: &[Spec], is_found: &[bool]) -> bool {
    if is_found.iter().all(|is_found| !is_found) {
        return true;
    }
    let absent = absent_names(specs, is_found);
    for name in &absent {
        session.complain(&format!("ANS1345E Nothing is stored under the name '{name}'"));
    }
    absent.is_empty()
}

/// Returns the names under which nothing is found, as messages show them.
pub(super) fn absent_names(specs: &[Spec], is_found: &[bool]) -> Vec<String> {
    assert_eq!(specs.len(), is_found.len(), "each name is looked up");
    let absent = specs.iter().zip(is_found).filter(|(_, is_found)| !**is_found);
    absent.map(|(spec, _)| model::escaped(&full_name(spec))).collect()
}

/// Tells the number of directories that are named and stay.
pub(super) fn tell_directories(session: &Session<'_>, count: usize) {
    if count == 0 {
        return;
    }
    let command = session.command.definition.name();
    output::say(&format!(
        "Directories that are named, and stay: {count}; '{command} DIRECTORY/ -subdir=yes' is for \
         all in one"
    ));
}

/// The error for a directory, if nothing but directories is named.
pub(super) fn only_directories(session: &Session<'_>, directory: &[u8]) -> CommandError {
    let (shown, command) = (model::escaped(directory), session.command.definition.name());
    CommandError::new(format!(
        "ANS1107E '{shown}' is a directory; '{command} {shown}/ -subdir=yes' is for all in it"
    ))
}

/// The error for a name under which nothing is stored.
pub(super) fn nothing() -> CommandError {
    CommandError::new("ANS1302E No stored object has such a name")
}

/// Returns the node's file spaces with files. Images have file spaces without a mount point.
pub(super) fn filespaces(client: &Client) -> Result<Vec<FilespaceSummary>, CommandError> {
    let mut filespaces = client.filespaces()?;
    filespaces.retain(|filespace| filespace.name.starts_with(b"/"));
    Ok(filespaces)
}

/// Returns the mount point of the stored file system that holds `path`: the longest that fits.
pub(super) fn filespace_of(client: &Client, path: &[u8]) -> Result<Vec<u8>, CommandError> {
    let names = filespaces(client)?.into_iter().map(|filespace| filespace.name);
    Ok(names
        .filter(|name| model::is_at_or_below(path, name))
        .max_by_key(Vec::len)
        .unwrap_or_else(|| b"/".to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_plain_names_is_looked_up_together() {
        let spec = |line: &str| Spec::parse_listed(line.as_bytes(), b"/").expect("a line");
        let many = vec![spec("/a/x"); NAMES_MIN];
        let most = NAMES_MIN as u64 * OBJECTS_PER_NAME_MAX;
        assert!(is_listed_whole(most, &many, false));
        assert!(!is_listed_whole(most + 1, &many, false));
        assert!(!is_listed_whole(most, &many, true));
        assert!(!is_listed_whole(1, &many[1..], false));
        let braced = [&many[..], &[spec("{/a}/x")]].concat();
        assert!(!is_listed_whole(1, &braced, false));
    }

    #[test]
    fn an_operand_in_braces_names_the_same_objects() {
        let check = |filespace: &str, operand: &str, expected: &str| {
            let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
            let found = in_braces(filespace.as_bytes(), &spec);
            assert_eq!(found, expected, "{operand}");
            let again = Spec::parse(found.as_bytes(), b"/").expect("an operand");
            assert_eq!(again.filespace.as_deref(), Some(filespace.as_bytes()));
            assert_eq!((again.path(), again.last), (spec.path(), spec.last));
        };
        check("/", "/srv/own/x", "{/}srv/own/x");
        check("/srv", "/srv/own/", "{/srv}/own/*");
        check("/srv", "/srv/own/*.c", "{/srv}/own/*.c");
    }
}
