//! `dsmc restore`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use client::Client;
use dsm::client::{self as plan, Action, Last, Placement, Preservation, Spec, placements};
use dsm::lines::{Totals, restore_report};
use serde_json::{Value, json};

use super::child::{self, Child, Event, Outcome};
use super::joining;
use super::links;
use super::listed::{ListLayout, ListedPaths};
use super::questions;
use super::sending::{failures, strings};
use super::session::Session;
use super::stored::{self, Filter, StoredObject};
use crate::error::{CommandError, FAILED};
use crate::output;
use crate::path::{JsonPath, bytes};

/// Objects that are restored at once: of one time, into one folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Batch {
    /// Time in RFC 3339, if the versions are not those of the command.
    pub(super) at: Option<String>,
    /// Folder; `None` for the old places.
    pub(super) folder: Option<Vec<u8>>,
    pub(super) paths: Vec<Vec<u8>>,
    /// New name of the only object.
    pub(super) rename: Option<PathBuf>,
    /// Value of `--directories`, if only directories come back.
    pub(super) directories: Option<&'static str>,
    /// File space of the objects, if braces name it.
    pub(super) filespace: Option<Vec<u8>>,
}

pub(super) fn restore(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let client = joining::connect(session)?;
    let filter = Filter::of(session)?;
    let (batches, absent) = match session.options().has("FILELIST") {
        true => of_list(session, &client, &filter)?,
        false => {
            let (spec, destination) = places(session)?;
            let spec = links::follow(session, &client, spec, &filter)?;
            let filespace = spec.filespace.clone();
            let within = |batch| Batch { filespace: filespace.clone(), ..batch };
            let batches = batches(session, &client, &filter, (spec, destination))?;
            (batches.into_iter().map(within).collect(), Vec::new())
        }
    };
    if batches.iter().all(|batch| batch.paths.is_empty()) {
        return Err(stored::nothing());
    }
    let at = filter.which.at.map(crate::moment::rfc3339_to_second);
    let mut tally = Tally::default();
    tally.tell_absent(session, &absent);
    run(session, &batches, at.as_deref(), tally)
}

/// Returns the batches of the objects of a list, and the names under which nothing is stored.
/// Directories come after the objects in them, so that they get their own times.
fn of_list(
    session: &Session<'_>,
    client: &Client,
    filter: &Filter,
) -> Result<(Vec<Batch>, Vec<Vec<u8>>), CommandError> {
    let written = stored::named(session)?;
    let lines = links::follow_all(session, client, &written, filter)?;
    let names: BTreeMap<Vec<u8>, Vec<u8>> =
        lines.iter().map(Spec::path).zip(written.iter().map(Spec::path)).collect();
    let paths: Vec<Vec<u8>> = lines.iter().map(Spec::path).collect();
    let destination = session.command.operands.first().map(Vec::as_slice);
    let layout = layout(destination, paths.iter().map(Vec::as_slice))?;
    let mut by_filespace: BTreeMap<Option<Vec<u8>>, Vec<Spec>> = BTreeMap::new();
    for line in lines {
        by_filespace.entry(line.filespace.clone()).or_default().push(line);
    }
    let (mut batches, mut absent) = (Vec::new(), Vec::new());
    for (filespace, lines) in by_filespace {
        if filter.is_of_versions() {
            for (at, paths) in times(&newest_versions(client, &lines, false, filter)?) {
                let within =
                    |batch| Batch { at: at.clone(), filespace: filespace.clone(), ..batch };
                batches.extend(in_layout(&layout, paths).map(within));
            }
            continue;
        }
        let found = ListedPaths::of(client, &lines, filter)?;
        // With conditions, an absent name may be one that they leave out.
        absent.extend(found.absent.into_iter().filter(|_| filter.is_open()));
        for (paths, directories) in [(found.others, None), (found.directories, Some("named"))] {
            let within = |batch| Batch { directories, filespace: filespace.clone(), ..batch };
            batches.extend(in_layout(&layout, paths).map(within));
        }
    }
    let as_written = |path: Vec<u8>| names.get(&path).cloned().unwrap_or(path);
    Ok((batches, absent.into_iter().map(as_written).collect()))
}

/// Returns the layout of the paths of a list below the destination of a command.
pub(super) fn layout<'p>(
    destination: Option<&[u8]>,
    paths: impl IntoIterator<Item = &'p [u8]>,
) -> Result<ListLayout, CommandError> {
    Ok(ListLayout::new(destination.map(folder).transpose()?, paths))
}

/// Returns the batches of paths of a list.
pub(super) fn in_layout(
    layout: &ListLayout,
    paths: Vec<Vec<u8>>,
) -> impl Iterator<Item = Batch> + use<> {
    let batch = |(folder, paths)| Batch { folder, paths, ..Batch::default() };
    layout.folders(paths).into_iter().map(batch)
}

/// Returns the source and the destination of a command.
pub(super) fn places(session: &Session<'_>) -> Result<(Spec, Option<Vec<u8>>), CommandError> {
    match &session.command.operands[..] {
        [] => Err(CommandError::new("ANS1089E name the objects that come back")),
        [source] => Ok((stored::spec(source)?, None)),
        [source, destination, ..] => Ok((stored::spec(source)?, Some(destination.clone()))),
    }
}

/// Returns the absolute path of a folder.
fn folder(operand: &[u8]) -> Result<Vec<u8>, CommandError> {
    let operand = dsm_folder(operand);
    crate::path::absolute(Path::new(OsStr::from_bytes(operand)))
}

fn dsm_folder(operand: &[u8]) -> &[u8] {
    if operand.len() > 1 { operand.strip_suffix(b"/").unwrap_or(operand) } else { operand }
}

fn batches(
    session: &mut Session<'_>,
    client: &Client,
    filter: &Filter,
    (spec, destination): (Spec, Option<Vec<u8>>),
) -> Result<Vec<Batch>, CommandError> {
    let descends = session.descends();
    if session.command.has("PICK") {
        let picked = questions::pick(session, client, &spec, filter)?;
        return by_time(&picked, &spec, client, session, destination);
    }
    let word = session.options().text("PRESERVEPATH").unwrap_or_default();
    let preservation = Preservation::of(&word);
    let spec = match descends && is_stored_directory(client, &spec, filter)? {
        true => content_of(&spec),
        false => spec,
    };
    if filter.is_of_versions() {
        let newest = newest_versions(client, std::slice::from_ref(&spec), descends, filter)?;
        return by_time(&newest, &spec, client, session, destination);
    }
    if filter.only_directories() {
        return directories(client, &spec, descends, filter, destination, preservation);
    }
    if let Some(tree) = whole_tree(&spec, descends, filter, preservation) {
        let mut has_any = false;
        let own = Filter { which: filter.which.clone(), ..Filter::default() };
        stored::select(client, &spec, true, &own, &mut |_| {
            has_any = true;
            false
        })?;
        let paths = if has_any { vec![tree] } else { Vec::new() };
        return placed(&spec, paths, client, destination, preservation);
    }
    let mut paths = Vec::new();
    let named = spec.path();
    stored::select(client, &spec, descends, filter, &mut |object| {
        // A directory would come with everything in it.
        if !object.is_directory() {
            paths.push(object.path);
        } else if matches!(spec.last, Last::Named(_)) && object.path == named && !descends {
            paths.push(Vec::new());
        }
        true
    })?;
    if paths.iter().any(Vec::is_empty) {
        // A directory that is named without a descent stands for the files directly in it.
        let content = content_of(&spec);
        paths.retain(|path| !path.is_empty());
        stored::select(client, &content, false, filter, &mut |object| {
            if !object.is_directory() {
                paths.push(object.path);
            }
            true
        })?;
        return placed(&content, paths, client, destination, preservation);
    }
    placed(&spec, paths, client, destination, preservation)
}

/// Returns the batches of the directories that the operand names, without files.
fn directories(
    client: &Client,
    spec: &Spec,
    descends: bool,
    filter: &Filter,
    destination: Option<Vec<u8>>,
    preservation: Preservation,
) -> Result<Vec<Batch>, CommandError> {
    let of_any_time = Filter { directories_only: false, ..filter.clone() };
    let tree = whole_tree(spec, descends, &of_any_time, preservation);
    let mut paths = Vec::new();
    stored::select(client, spec, descends, filter, &mut |object| {
        paths.push(object.path);
        tree.is_none()
    })?;
    let which = if tree.is_some() { "all" } else { "named" };
    if let (Some(tree), false) = (tree, paths.is_empty()) {
        paths = vec![tree];
    }
    let batches = match destination {
        None => vec![Batch { paths, ..Batch::default() }],
        Some(destination) => in_folders(client, spec, paths, &destination, preservation)?,
    };
    let marked = |batch| Batch { directories: Some(which), ..batch };
    Ok(batches.into_iter().map(marked).collect())
}

/// Returns the operand for everything in the directory that `spec` names.
pub(super) fn content_of(spec: &Spec) -> Spec {
    Spec { directory: spec.path(), last: Last::Everything, filespace: spec.filespace.clone() }
}

/// Returns true if the operand names a directory, without a slash at its end.
fn is_stored_directory(
    client: &Client,
    spec: &Spec,
    filter: &Filter,
) -> Result<bool, CommandError> {
    if !matches!(spec.last, Last::Named(_)) {
        return Ok(false);
    }
    let own = Filter { which: filter.which.clone(), ..Filter::default() };
    let mut is_directory = false;
    stored::select(client, spec, false, &own, &mut |object| {
        is_directory = object.is_directory();
        !is_directory
    })?;
    Ok(is_directory)
}

/// Returns the operand for the content of the directory that `spec` names, if some of the paths are
/// in it.
fn as_content(spec: &Spec, paths: &[Vec<u8>]) -> Spec {
    let top = [&spec.path()[..], b"/"].concat();
    let is_directory = matches!(spec.last, Last::Named(_));
    match is_directory && paths.iter().any(|path| path.starts_with(&top)) {
        true => content_of(spec),
        false => spec.clone(),
    }
}

/// Returns the path of a tree that comes back as a whole.
pub(super) fn whole_tree(
    spec: &Spec,
    descends: bool,
    filter: &Filter,
    preservation: Preservation,
) -> Option<Vec<u8>> {
    let is_tree = matches!(spec.last, Last::Everything);
    let keeps = matches!(preservation, Preservation::Subtree | Preservation::Complete);
    let has_name = !spec.directory.is_empty();
    (is_tree && descends && keeps && has_name && filter.is_open()).then(|| spec.path())
}

/// Places the objects below the destination.
pub(super) fn placed(
    spec: &Spec,
    paths: Vec<Vec<u8>>,
    client: &Client,
    destination: Option<Vec<u8>>,
    preservation: Preservation,
) -> Result<Vec<Batch>, CommandError> {
    let Some(destination) = destination else {
        return Ok(vec![Batch { paths, ..Batch::default() }]);
    };
    if let [only] = &paths[..]
        && let Some(target) = new_name(spec, only, &destination)?
    {
        let folder = bytes(target.parent().unwrap_or(Path::new("/")));
        let (folder, rename) = (Some(folder), Some(target));
        return Ok(vec![Batch { folder, paths, rename, ..Batch::default() }]);
    }
    in_folders(client, spec, paths, &destination, preservation)
}

/// Places the objects in folders below the destination.
pub(super) fn in_folders(
    client: &Client,
    spec: &Spec,
    paths: Vec<Vec<u8>>,
    destination: &[u8],
    preservation: Preservation,
) -> Result<Vec<Batch>, CommandError> {
    let filespace = match &spec.filespace {
        Some(name) => name.clone(),
        None => stored::filespace_of(client, &spec.path())?,
    };
    let destination = folder(destination)?;
    let spec = as_content(spec, &paths);
    let placed = placements(&spec, &paths, &filespace, &destination, preservation);
    Ok(placed
        .into_iter()
        .map(|Placement { folder, paths }| Batch {
            folder: Some(folder),
            paths,
            ..Batch::default()
        })
        .collect())
}

/// Returns the new name of a single file: the destination, if it is no folder.
fn new_name(spec: &Spec, only: &[u8], destination: &[u8]) -> Result<Option<PathBuf>, CommandError> {
    let is_named = matches!(spec.last, Last::Named(_)) && spec.path() == only;
    let path = PathBuf::from(OsString::from_vec(folder(destination)?));
    let is_folder = destination.ends_with(b"/") || path.is_dir();
    Ok((is_named && !is_folder).then_some(path))
}

/// Divides versions that were picked by their times, so that each comes back as it was.
fn by_time(
    picked: &[StoredObject],
    spec: &Spec,
    client: &Client,
    session: &Session<'_>,
    destination: Option<Vec<u8>>,
) -> Result<Vec<Batch>, CommandError> {
    let word = session.options().text("PRESERVEPATH").unwrap_or_default();
    let mut batches = Vec::new();
    for (at, paths) in times(picked) {
        let placed = placed(spec, paths, client, destination.clone(), Preservation::of(&word))?;
        batches.extend(placed.into_iter().map(|batch| Batch { at: at.clone(), ..batch }));
    }
    Ok(batches)
}

/// Divides the paths of versions by the times at which a restore finds them; `None` for the active
/// versions.
fn times(versions: &[StoredObject]) -> BTreeMap<Option<String>, Vec<Vec<u8>>> {
    let mut times: BTreeMap<Option<String>, Vec<Vec<u8>>> = BTreeMap::new();
    for version in versions {
        // The version that was active at the end of the second in which it was stored.
        let at = (!version.is_active).then(|| crate::moment::rfc3339_to_second(version.stored));
        times.entry(at).or_default().push(version.path.clone());
    }
    times
}

/// Returns the newest version of each file that the operands name and the filter takes.
fn newest_versions(
    client: &Client,
    specs: &[Spec],
    descends: bool,
    filter: &Filter,
) -> Result<Vec<StoredObject>, CommandError> {
    let mut newest: BTreeMap<Vec<u8>, StoredObject> = BTreeMap::new();
    for spec in specs {
        stored::select(client, spec, descends, filter, &mut |object| {
            let known = newest.get(&object.path);
            let is_newer = known.is_none_or(|known| known.stored < object.stored);
            if is_newer && !object.is_directory() {
                newest.insert(object.path.clone(), object);
            }
            true
        })?;
    }
    Ok(newest.into_values().collect())
}

/// Restores the batches. `at` is the time of the command.
fn run(
    session: &mut Session<'_>,
    batches: &[Batch],
    at: Option<&str>,
    mut tally: Tally,
) -> Result<u8, CommandError> {
    let mut replaces = false;
    if session.command.prompts(session.options()) {
        replaces = is_replacing(session, batches, at)?;
    }
    for batch in batches.iter().filter(|batch| !batch.paths.is_empty()) {
        let at = batch.at.as_deref().or(at);
        let target = Target::make(batch)?;
        let line = command_line(session, batch, (at, target.folder.as_deref()), replaces);
        tally.run(session, &line, listed(&batch.paths))?;
        tally.take_end(target.finish(batch, &line)?);
    }
    Ok(tally.end(session, false))
}

/// Asks whether existing objects are replaced, if a restore of the batches would find any.
fn is_replacing(
    session: &mut Session<'_>,
    batches: &[Batch],
    at: Option<&str>,
) -> Result<bool, CommandError> {
    if !questions::has_terminal() {
        return Ok(false);
    }
    let is_taken = |batch: &&Batch| batch.rename.as_deref().is_some_and(is_there);
    let mut differing = batches.iter().filter(is_taken).count() as u64;
    for batch in batches.iter().filter(|batch| batch.rename.is_none() && !batch.paths.is_empty()) {
        let to = batch.folder.as_ref().map(|to| PathBuf::from(OsString::from_vec(to.clone())));
        let at = batch.at.as_deref().or(at);
        let mut line = command_line(session, batch, (at, to.as_deref()), false);
        line.push("--dry-run".into());
        let home = session.home.clone();
        let input = listed(&batch.paths);
        let child = Child { home: &home, words: &line, input, tells_objects: false };
        child::run(child, &mut |event| {
            if let Event::Document(document) = event {
                differing += document["keep"]["objects"].as_u64().unwrap_or(0);
            }
        })?;
    }
    if differing == 0 {
        return Ok(false);
    }
    let count = session.forms.count(differing);
    questions::is_agreed(session, &format!("Objects that exist and differ: {count}. Replace them?"))
}

fn command_line(
    session: &Session<'_>,
    batch: &Batch,
    (at, to): (Option<&str>, Option<&Path>),
    replaces: bool,
) -> Vec<OsString> {
    let mut line = plan::restore(&session.command, session.options(), at, to);
    if replaces && let Some(last) = line.last_mut() {
        *last = "all".into();
    }
    line.extend(batch.directories.map(|which| format!("--directories={which}").into()));
    let of_filespace = |name: &Vec<u8>| OsString::from_vec([b"--filespace=", &name[..]].concat());
    line.extend(batch.filespace.as_ref().map(of_filespace));
    line
}

/// Returns the standard input of a command that reads a list.
pub(super) fn listed(paths: &[Vec<u8>]) -> Vec<u8> {
    paths.iter().flat_map(|path| [&path[..], b"\0"].concat()).collect()
}

/// Makes a destination, as TSM does.
fn make_folder(folder: Option<&Path>) -> Result<(), CommandError> {
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| CommandError::new(format!("cannot make {}: {error}", folder.display())))
}

/// Place of a batch, which is there when its objects come.
pub(super) struct Target {
    /// Folder; `None` for the old places.
    pub(super) folder: Option<PathBuf>,
    staging: Option<Staging>,
}

impl Target {
    pub(super) fn make(batch: &Batch) -> Result<Self, CommandError> {
        let staging = batch.rename.as_deref().map(Staging::make).transpose()?;
        let folder = match &staging {
            Some(staging) => Some(staging.folder.clone()),
            None => batch.folder.as_ref().map(|to| PathBuf::from(OsString::from_vec(to.clone()))),
        };
        make_folder(folder.as_deref())?;
        Ok(Self { folder, staging })
    }

    /// Gives the only object its new name, if it has one, after `line` has run.
    pub(super) fn finish(self, batch: &Batch, line: &[OsString]) -> Result<End, CommandError> {
        let Some(staging) = self.staging else { return Ok(End::Done) };
        let replace = line.iter().skip_while(|word| *word != "--replace").nth(1);
        staging.finish(&batch.paths[0], replace.and_then(|word| word.to_str()).unwrap_or("no"))
    }
}

/// End of an object that comes back under a new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// It has its place, or it has not come at all.
    Done,
    /// The same is there already.
    Same,
    /// Another object has the name, and stays.
    Kept,
}

/// Folder beside a file that comes back under a new name.
struct Staging {
    folder: PathBuf,
    target: PathBuf,
}

impl Staging {
    fn make(target: &Path) -> Result<Self, CommandError> {
        let parent = target.parent().unwrap_or(Path::new("/"));
        make_folder(Some(parent))?;
        let folder = parent.join(format!(".holdfast-restore-{}", std::process::id()));
        make_folder(Some(&folder))?;
        Ok(Self { folder, target: target.to_owned() })
    }

    /// Gives the file its new name. A file that is there stays, unless `replace` is `all`, or
    /// `if-newer` and the stored file is newer.
    fn finish(self, path: &[u8], replace: &str) -> Result<End, CommandError> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let restored = self.folder.join(OsStr::from_bytes(name));
        if !is_there(&restored) {
            return Ok(End::Done);
        }
        let is_replaced = match replace {
            "all" => true,
            "if-newer" => is_newer(&restored, &self.target),
            _ => false,
        };
        if is_there(&self.target) && !is_replaced {
            let is_same = is_same(&restored, &self.target);
            return Ok(if is_same { End::Same } else { End::Kept });
        }
        std::fs::rename(&restored, &self.target).map_err(|error| {
            CommandError::new(format!("cannot name {}: {error}", self.target.display()))
        })?;
        Ok(End::Done)
    }
}

/// Returns true if an object has this name. A link counts, whether or not it leads to something.
fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Returns true if both are files of one size that were changed at the same time.
fn is_same(one: &Path, other: &Path) -> bool {
    let facts = |path: &Path| {
        let found = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file);
        found.map(|found| (found.len(), found.mtime(), found.mtime_nsec()))
    };
    facts(one).is_some() && facts(one) == facts(other)
}

/// Returns true if the first file was changed after the second.
fn is_newer(one: &Path, other: &Path) -> bool {
    let changed = |path: &Path| {
        let found = std::fs::symlink_metadata(path).ok();
        found.map(|found| (found.mtime(), found.mtime_nsec()))
    };
    changed(one) > changed(other)
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A folder that stays has a name that says whose it is.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Figures of a restore or a retrieve, over all its parts.
#[derive(Default)]
pub(super) struct Tally {
    totals: Totals,
    kept: u64,
    code: u8,
}

impl Tally {
    /// Runs one command line.
    pub(super) fn run(
        &mut self,
        session: &mut Session<'_>,
        line: &[OsString],
        input: Vec<u8>,
    ) -> Result<(), CommandError> {
        let home = session.home.clone();
        let child = Child { home: &home, words: line, input, tells_objects: true };
        let verb = match session.action() {
            Action::Retrieve => "Retrieving",
            _ => "Restoring",
        };
        let outcome = child::run(child, &mut |event| match event {
            Event::Document(document) => self.read(session, &document),
            Event::Object { .. } if session.is_quiet() => {}
            Event::Object { path, .. } => session.say(&format!("{verb} {path} [Done]")),
            Event::Note { line: note, .. } => output::say(&note),
        })?;
        self.code = self.code.max(Outcome::checked(outcome)?);
        Ok(())
    }

    fn read(&mut self, session: &mut Session<'_>, document: &Value) {
        self.totals.add(&totals(document));
        self.kept += document["kept"].as_u64().unwrap_or(0);
        if session.is_json() {
            session.context.output.json(document);
            return;
        }
        for (path, error) in failures(document) {
            session.complain(&format!("ANS4005E '{path}' did not come back: {error}"));
        }
        for warning in strings(&document["warnings"]) {
            session.complain(&format!("Warning: {warning}"));
        }
    }

    /// Tells the names of a list under which nothing is stored.
    fn tell_absent(&mut self, session: &mut Session<'_>, absent: &[Vec<u8>]) {
        const ERROR: &str = "nothing is stored under this name";
        if absent.is_empty() {
            return;
        }
        let failure = |path: &Vec<u8>| json!({"path": JsonPath(path), "error": ERROR});
        let failures: Vec<Value> = absent.iter().map(failure).collect();
        session.document(&json!({"failed": absent.len(), "failures": failures}));
        for path in absent {
            let path = model::escaped(path);
            session.complain(&format!("ANS4005E '{path}' did not come back: {ERROR}"));
        }
        self.totals.failed += absent.len() as u64;
        self.code = FAILED;
    }

    /// Counts what has become of an object with a new name. An object that has not got the name is
    /// not restored.
    pub(super) fn take_end(&mut self, end: End) {
        if end == End::Done {
            return;
        }
        self.totals.backed_up = self.totals.backed_up.saturating_sub(1);
        if end == End::Kept {
            self.kept += 1;
            self.code = self.code.max(FAILED);
        }
    }

    /// Writes the report, and returns the exit code.
    pub(super) fn end(self, session: &mut Session<'_>, is_retrieve: bool) -> u8 {
        if self.kept > 0 {
            let kept = session.forms.count(self.kept);
            let without = if session.command.has("IFNEWER") { " without -ifnewer" } else { "" };
            session.say(&format!(
                "Objects that exist and differ, and were left alone: {kept}; \
                 -replace=all{without} replaces them"
            ));
        }
        let title = if is_retrieve { "Retrieve" } else { "Restore" };
        session.say("");
        session.say(&format!("{title} processing finished."));
        session.say("");
        let lines = restore_report(&self.totals, is_retrieve, session.forms);
        session.say_all(lines);
        self.code
    }
}

/// Returns the figures of a report of a restore.
/// Returns the figures of the report of a restore.
pub(super) fn totals(document: &Value) -> Totals {
    let count = |key: &str| document[key].as_u64().unwrap_or(0);
    let secs = |key: &str| document[key].as_f64().unwrap_or(0.0);
    Totals {
        backed_up: count("restored"),
        failed: count("failed"),
        bytes_transferred: count("bytes_transferred"),
        transfer_secs: secs("data_transfer_secs"),
        elapsed_secs: secs("elapsed_secs"),
        ..Totals::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_without_conditions_comes_as_a_whole() {
        let check = |operand: &str, descends, filter: &Filter, preservation| {
            let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
            whole_tree(&spec, descends, filter, preservation).is_some()
        };
        let open = Filter::default();
        assert!(check("/a/b/", true, &open, Preservation::Subtree));
        assert!(check("/a/b/*", true, &open, Preservation::Complete));
        assert!(!check("/a/b/", false, &open, Preservation::Subtree));
        assert!(!check("/a/b/", true, &open, Preservation::NoBase));
        assert!(!check("/a/*.c", true, &open, Preservation::Subtree));
        assert!(!check("/", true, &open, Preservation::Subtree));
        let files = Filter { files_only: true, ..Filter::default() };
        assert!(!check("/a/b/", true, &files, Preservation::Subtree));
    }

    #[test]
    fn the_time_of_the_transfer_is_not_that_of_the_command() {
        let document = json!({"restored": 2, "failed": 1, "bytes_transferred": 2048,
            "data_transfer_secs": 0.5, "elapsed_secs": 4.0});
        let totals = totals(&document);
        assert_eq!((totals.backed_up, totals.failed), (2, 1));
        let lines = restore_report(&totals, false, dsm::forms::Forms::default());
        let has = |label: &str, value: &str| {
            lines.iter().any(|line| line.starts_with(label) && line.contains(value))
        };
        assert!(has("Data transfer time:", " 0.50 sec"), "{lines:?}");
        assert!(has("Network data transfer rate:", " 4.00 KB/sec"), "{lines:?}");
        assert!(has("Aggregate data transfer rate:", " 0.50 KB/sec"), "{lines:?}");
        assert!(has("Elapsed processing time:", "00:00:04"), "{lines:?}");
    }

    #[test]
    fn a_file_gets_its_new_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("new");
        let staging = Staging::make(&target).expect("made");
        std::fs::write(staging.folder.join("old"), "content").expect("written");
        assert_eq!(staging.finish(b"/x/old", "no").expect("named"), End::Done);
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "content");
        let staging = Staging::make(&target).expect("made");
        std::fs::write(staging.folder.join("old"), "other").expect("written");
        assert_eq!(staging.finish(b"/x/old", "no").expect("done"), End::Kept);
        assert_eq!(std::fs::read_to_string(&target).expect("there"), "content");
        let newer = 4_000_000_000;
        for (secs, expected, end) in
            [(1, "content", End::Kept), (newer, "other", End::Done), (newer, "other", End::Same)]
        {
            let staging = Staging::make(&target).expect("made");
            let file = staging.folder.join("old");
            std::fs::write(&file, "other").expect("written");
            let changed = std::time::UNIX_EPOCH + std::time::Duration::from_secs(secs);
            let file = std::fs::File::options().append(true).open(&file).expect("opened");
            file.set_modified(changed).expect("set");
            assert_eq!(staging.finish(b"/x/old", "if-newer").expect("done"), end);
            assert_eq!(std::fs::read_to_string(&target).expect("there"), expected);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    /// A link to a place that is not there was lost, and another one was replaced.
    #[test]
    fn a_link_gets_its_new_name_and_keeps_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("new");
        let link = |to: &str| {
            let staging = Staging::make(&target).expect("made");
            std::os::unix::fs::symlink(to, staging.folder.join("old")).expect("linked");
            staging.finish(b"/x/old", "no")
        };
        assert_eq!(link("nowhere").expect("named"), End::Done);
        assert_eq!(link("elsewhere").expect("done"), End::Kept);
        assert_eq!(std::fs::read_link(&target).expect("a link"), Path::new("nowhere"));
    }
}
