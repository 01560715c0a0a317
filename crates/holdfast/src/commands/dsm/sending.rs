//! `dsmc incremental`, `selective` and `archive`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use client::VirtualFilespaces;
use dsm::client::{self as plan, Action, Last, PathSource, Spec};
use dsm::configuration::{Domain, domain, virtual_points};
use dsm::forms::Forms;
use dsm::lines::{Totals, session_report};
use policy::local::{self, Standing};
use serde_json::{Value, json};

use super::child::{self, Child, Event, Outcome};
use super::joining;
use super::local_files::{self, Target};
use super::session::Session;
use super::stored;
use crate::error::{CommandError, FAILED, NOT_DONE, WARNED};
use crate::output;
use crate::path::JsonPath;

/// Maximum number of paths, and of their bytes, on one command line.
const PATHS_MAX: usize = 5_000;
const PATHS_BYTES_MAX: usize = 1 << 20;
/// Number of objects between two lines about the progress.
const PROGRESS_OBJECTS: u64 = 500;
/// Name of the file with the translated statements.
const LIST_NAME: &str = "dsm.statements";

/// Paths of a command, for its command lines.
#[derive(Default)]
struct Sources {
    trees: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    /// Files that operands name without wildcards. Statements on directories have no effect on
    /// them, as in TSM.
    named: Vec<Vec<u8>>,
    /// Paths of operands that are not there, each with the reason.
    absent: Vec<(String, String)>,
    /// True if the operands name only directories without files directly in them.
    is_done: bool,
    /// True if the operands, of which at least one is a pattern, name no files.
    is_without_files: bool,
    /// Directories that are filespaces of their own.
    virtual_filespaces: VirtualFilespaces,
}

impl Sources {
    /// Returns true if a filespace begins at `path`.
    fn is_filespace(&self, path: &[u8]) -> bool {
        local_files::is_mount_point(path) || self.virtual_filespaces.is_filespace(path)
    }

    fn is_empty(&self) -> bool {
        self.trees.is_empty() && self.files.is_empty() && self.named.is_empty()
    }
}

pub(super) fn incremental(session: &mut Session<'_>) -> Result<u8, CommandError> {
    send(session, "Incremental backup", "ANS1802E")
}

pub(super) fn selective(session: &mut Session<'_>) -> Result<u8, CommandError> {
    need_operands(session)?;
    send(session, "Selective backup", "ANS1804E")
}

pub(super) fn archive(session: &mut Session<'_>) -> Result<u8, CommandError> {
    need_operands(session)?;
    send(session, "Archive", "ANS1803E")
}

fn need_operands(session: &Session<'_>) -> Result<(), CommandError> {
    if session.command.has("FILELIST") {
        return Ok(());
    }
    stored::operands(session).map(drop)
}

/// Sends what the command names. `title` is the name of the operation, and `number` that of the
/// message that it has failed in part.
fn send(session: &mut Session<'_>, title: &str, number: &str) -> Result<u8, CommandError> {
    session.heading();
    joining::connect(session)?;
    let mut sources = sources(session)?;
    if sources.is_without_files {
        // In TSM the exit code is that of a warning.
        session.complain("ANS1092W No file on this machine has such a name");
        return Ok(WARNED);
    }
    let mut run = Run::default();
    run.fail(session, std::mem::take(&mut sources.absent));
    if !run.failures.is_empty() && sources.is_empty() && !sources.is_done {
        return Ok(NOT_DONE);
    }
    let list = List::write(session, &session.site.translation.list())?;
    let shown = shown_volumes(session, &sources)?;
    for volume in &shown {
        session.say(&format!("{title} of volume '{volume}'"));
    }
    for (part, paths) in parts(session, &sources) {
        let line = command_line(session, &list, part);
        run.try_part(session, line, part, paths)?;
    }
    drop(list);
    if !sources.named.is_empty() {
        let list = List::write(session, &session.site.translation.list_of_named())?;
        let part = Part { sending: PathSource::Trees, origin: Origin::NamedFile };
        let line = command_line(session, &list, part);
        run.try_part(session, line, part, sources.named)?;
    }
    run.tell_refused(session)?;
    run.end(session, title, number, &shown)
}

/// Returns the paths that the operands, the list, or the domain name.
fn sources(session: &Session<'_>) -> Result<Sources, CommandError> {
    let virtual_filespaces = session.virtual_filespaces()?;
    let mut sources = Sources { virtual_filespaces, ..Sources::default() };
    if let Some(list) = session.options().get("FILELIST") {
        let literal = session.options().yes("QUOTESARELITERAL").unwrap_or(false);
        let listed = local_files::filelist(&list.value, literal)?;
        let listed = listed.into_iter().map(without_braces).collect();
        sources.files = crate::path::from_root(listed)?;
        return Ok(sources);
    }
    if session.command.operands.is_empty() {
        if let Some(domain) = domain(session.options())? {
            sources.trees = domain_paths(&domain, &sources)?;
        }
        return Ok(sources);
    }
    let (descends, mut virtual_points) = (session.descends(), virtual_points(session.options()));
    virtual_points.extend(sources.virtual_filespaces.below(b"/").map(<[u8]>::to_vec));
    let mut without_files = Vec::new();
    for spec in local_specs(session)? {
        // A name that stands for nothing does not keep the others from being sent.
        if let Some(failure) = absence(&spec) {
            sources.absent.push(failure);
            continue;
        }
        match local_files::find(&spec, descends, &virtual_points)? {
            Target::Tree(path) if is_named(session, &path) => sources.named.push(path),
            Target::Tree(path) => sources.trees.push(path),
            Target::Files(files) => {
                if files.is_empty() && matches!(spec.last, Last::Matching(_)) {
                    let pattern = model::escaped(&stored::full_name(&spec));
                    without_files.push((pattern, "no file has such a name".to_owned()));
                }
                sources.files.extend(files);
            }
        }
    }
    if sources.is_empty() {
        sources.is_done = names_directories_only(session)?;
        sources.is_without_files = !sources.is_done && sources.absent.is_empty();
    } else {
        sources.absent.append(&mut without_files);
    }
    Ok(sources)
}

/// Returns the path of a line of a list without braces: a backup finds the file space by itself.
fn without_braces(line: Vec<u8>) -> Vec<u8> {
    match line.starts_with(b"{/") && line.contains(&b'}') {
        true => Spec::parse_listed(&line, b"/").map_or(line, |spec| spec.path()),
        false => line,
    }
}

/// Returns true if the operands that are there are directories. There is one at least.
fn names_directories_only(session: &Session<'_>) -> Result<bool, CommandError> {
    let specs = local_specs(session)?;
    let mut there = specs.iter().filter(|spec| absence(spec).is_none()).peekable();
    let is_directory = |spec: &Spec| {
        let folder = if let Last::Named(_) = spec.last { spec.path() } else { spec.folder() };
        !matches!(spec.last, Last::Matching(_)) && local_files::is_directory(&folder)
    };
    Ok(there.peek().is_some() && there.all(is_directory))
}

/// Returns the operands of a command about local files. A script may leave blanks after a name,
/// which count only if a file has them.
fn local_specs(session: &Session<'_>) -> Result<Vec<Spec>, CommandError> {
    stored::operands(session)?;
    let operands = session.command.operands.iter();
    operands.map(|operand| stored::spec(local_files::named(operand))).collect()
}

/// Returns the path that an operand needs and that is not there, with the reason.
fn absence(spec: &Spec) -> Option<(String, String)> {
    let path = if let Last::Named(_) = spec.last { spec.path() } else { spec.folder() };
    let found = std::fs::symlink_metadata(OsStr::from_bytes(&path));
    found.err().map(|error| (model::escaped(&path), error.to_string()))
}

/// Returns true for a file of a backup. Statements on directories are not about archives.
fn is_named(session: &Session<'_>, path: &[u8]) -> bool {
    session.action() != Action::Archive && !local_files::is_directory(path)
}

/// Returns the filespaces of a domain.
fn domain_paths(domain: &Domain, sources: &Sources) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut paths = Vec::new();
    if domain.all_local {
        let table = sys::mount::table().map_err(|error| {
            CommandError::new(format!("cannot read the table of mounts: {error}"))
        })?;
        let is_directory = |point: &[u8]| {
            std::fs::metadata(OsStr::from_bytes(point)).is_ok_and(|found| found.is_dir())
        };
        let mut mounts =
            local::decide(&local::parse_mounts(&table), is_directory, &domain.left_out);
        mounts.extend(sources.virtual_filespaces.standings(&mounts, &domain.left_out));
        let mounts = mounts.into_iter().filter(|mount| mount.standing == Standing::Local);
        paths.extend(mounts.map(|mount| mount.point));
    }
    paths.extend(domain.paths.iter().filter(|path| !domain.left_out.contains(path)).cloned());
    check_left_out(domain, &paths, sources)?;
    if paths.is_empty() {
        return Err(CommandError::new("ANS1149E the domain has no file system on this machine"));
    }
    Ok(paths)
}

/// Fails for a directory of the domain that it leaves out and that is no filespace, because a
/// backup would take it with what is around it.
fn check_left_out(
    domain: &Domain,
    paths: &[Vec<u8>],
    sources: &Sources,
) -> Result<(), CommandError> {
    let is_inside = |left_out: &[u8]| {
        let mut within = paths.iter().filter_map(|path| model::within(left_out, path));
        within.any(|rest| !rest.is_empty())
    };
    let wrong = domain.left_out.iter().find(|left_out| {
        is_inside(left_out)
            && local_files::is_directory(left_out)
            && !sources.is_filespace(left_out)
    });
    let Some(path) = wrong else { return Ok(()) };
    let shown = model::escaped(path);
    Err(CommandError::new(format!(
        "ANS1149E -{shown} of the domain is a directory, no file system"
    ))
    .with_hint(format!("leave it out by the statement 'exclude.dir {shown}'")))
}

/// Returns the names for the lines around the work: the operands, or the file systems.
fn shown_volumes(session: &Session<'_>, sources: &Sources) -> Result<Vec<String>, CommandError> {
    let escaped = |path: &Vec<u8>| model::escaped(path);
    if let Some(list) = session.options().get("FILELIST") {
        return Ok(vec![model::escaped(&list.value)]);
    }
    if session.command.operands.is_empty() {
        return Ok(sources.trees.iter().map(escaped).collect());
    }
    let specs = local_specs(session)?;
    let operands = session.command.operands.iter().map(|operand| local_files::named(operand));
    let operands = operands.zip(specs);
    Ok(operands
        .map(|(operand, spec)| {
            let is_plain = operand.starts_with(b"/");
            model::escaped(if is_plain { operand } else { return escaped(&spec.path()) })
        })
        .collect())
}

/// Origin of the paths of a command line. It decides what is said about a path that a statement
/// leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A file that an operand names. Statements on directories have no effect on it.
    NamedFile,
    /// Paths that an operand or a list names.
    Named,
    /// Whole file systems that operands name.
    NamedFileSystem,
    /// Files that fit an operand.
    Found,
    /// File systems of the domain.
    Domain,
    /// Directories of the domain that are no file systems.
    DomainDirectory,
}

impl Origin {
    /// Returns true if TSM tells a path that a statement leaves out.
    fn is_told(self) -> bool {
        matches!(self, Self::NamedFile | Self::Named | Self::NamedFileSystem)
    }

    /// Returns true for a part of a file system. Only a backup of the whole file system moves the
    /// date of its last backup.
    fn is_partial(self) -> bool {
        !matches!(self, Self::NamedFileSystem | Self::Domain)
    }
}

/// Way of the paths of a command line, and their origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) sending: PathSource,
    pub(super) origin: Origin,
}

/// Divides the paths into command lines.
fn parts(session: &Session<'_>, sources: &Sources) -> Vec<(Part, Vec<Vec<u8>>)> {
    let is_selective = session.action() != Action::Incremental;
    let is_listed = session.options().has("FILELIST");
    let of_files = if is_listed { Origin::Named } else { Origin::Found };
    let of_files = |sending| Part { sending, origin: of_files };
    let mut parts = Vec::new();
    if sources.is_done {
        return parts;
    }
    let has_files = !sources.files.is_empty();
    if !sources.trees.is_empty() || sources.is_empty() {
        let sending = PathSource::Trees;
        let is_whole = |path: &Vec<u8>| sources.is_filespace(path);
        let (whole, partial): (Vec<_>, Vec<_>) = sources.trees.iter().cloned().partition(is_whole);
        let (of_whole, of_partial) = match session.command.operands.is_empty() {
            true => (Origin::Domain, Origin::DomainDirectory),
            false => (Origin::NamedFileSystem, Origin::Named),
        };
        // Without a domain in the option files, the node's own settings name the paths.
        let is_by_settings = sources.is_empty() && session.command.operands.is_empty();
        let both = [(of_whole, whole, is_by_settings), (of_partial, partial, false)];
        let both = both.into_iter().filter(|(_, paths, is_needed)| *is_needed || !paths.is_empty());
        parts.extend(both.map(|(origin, paths, _)| (Part { sending, origin }, paths)));
    }
    if has_files && is_selective {
        parts.push((of_files(PathSource::Listed), sources.files.clone()));
        return parts;
    }
    // An incremental of single files compares each, and a list would send all of them.
    let (mut part, mut bytes) = (Vec::new(), 0);
    for file in &sources.files {
        if part.len() == PATHS_MAX || bytes + file.len() > PATHS_BYTES_MAX {
            parts.push((of_files(PathSource::Trees), std::mem::take(&mut part)));
            bytes = 0;
        }
        bytes += file.len();
        part.push(file.clone());
    }
    if !part.is_empty() {
        parts.push((of_files(PathSource::Trees), part));
    }
    parts
}

fn command_line(session: &Session<'_>, list: &List, part: Part) -> Vec<OsString> {
    let Part { sending, origin } = part;
    let mut line = plain_command_line(session, list, sending);
    if origin.is_partial() && session.action() == Action::Incremental {
        line.push("--partial".into());
    }
    // A directory of a list stands for itself, as in TSM.
    if session.options().has("FILELIST") {
        line.push("--without-content".into());
    }
    line
}

fn plain_command_line(session: &Session<'_>, list: &List, sending: PathSource) -> Vec<OsString> {
    let (command, options) = (&session.command, session.options());
    let list = list.path.as_deref();
    match session.action() {
        Action::Archive => {
            let today = super::clock::moment(sys::clock::now());
            let usual = || format!("Archive Date: {}", session.forms.date(today));
            let description = options.text("DESCRIPTION").unwrap_or_else(usual);
            plan::archive(command, options, list, sending, &description)
        }
        action => plan::backup(command, options, list, sending, action == Action::Selective),
    }
}

/// File with the translated statements, which lives as long as the command.
pub(super) struct List {
    pub(super) path: Option<PathBuf>,
}

impl List {
    /// Writes statements of the option files. Without option files, the node's own list counts.
    pub(super) fn write(session: &Session<'_>, statements: &[u8]) -> Result<Self, CommandError> {
        if session.site.files.is_empty() {
            return Ok(Self { path: None });
        }
        let path = list_path();
        sys::durable::write(&path, statements, 0o600).map_err(|error| {
            CommandError::new(format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(Self { path: Some(path) })
    }
}

fn list_path() -> PathBuf {
    std::env::temp_dir().join(format!("holdfast-{LIST_NAME}-{}", std::process::id()))
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A file that stays is of no use to anybody, and does no harm.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Work of a command, over all its parts.
#[derive(Default)]
pub(super) struct Run {
    pub(super) totals: Totals,
    pub(super) code: u8,
    failures: Vec<(String, String)>,
    /// True if a command line has done its work, in part at least.
    is_any_done: bool,
    /// Paths of command lines that have done nothing, each with the reason.
    refused: Vec<(Vec<Vec<u8>>, CommandError)>,
    /// File spaces of a backup whose paths come from the node's settings.
    filespaces: Vec<String>,
    told: u64,
}

impl Run {
    /// Runs one command line of the work, for `paths`.
    pub(super) fn part(
        &mut self,
        session: &mut Session<'_>,
        mut line: Vec<OsString>,
        part: Part,
        paths: &[Vec<u8>],
    ) -> Result<(), CommandError> {
        let mut input = Vec::new();
        match part.sending {
            PathSource::Trees => {
                line.push("--".into());
                line.extend(paths.iter().map(|path| OsString::from_vec(path.clone())));
            }
            PathSource::Listed => {
                for path in paths {
                    input.extend_from_slice(path);
                    input.push(0);
                }
            }
        }
        let home = session.home.clone();
        let child = Child { home: &home, words: &line, input, tells_objects: true };
        let outcome = child::run(child, &mut |event| self.take(session, part.origin, event))?;
        let code = Outcome::checked(outcome).map_err(|error| CommandError {
            message: with_places(session, &error.message, part.origin),
            ..error
        })?;
        self.code = self.code.max(code);
        self.is_any_done = true;
        Ok(())
    }

    /// Runs one command line of the work. If it can do nothing for its paths, it does not keep the
    /// others from being sent.
    fn try_part(
        &mut self,
        session: &mut Session<'_>,
        line: Vec<OsString>,
        part: Part,
        paths: Vec<Vec<u8>>,
    ) -> Result<(), CommandError> {
        match self.part(session, line, part, &paths) {
            Err(error) if !error.is_loss && !child::is_interrupted() => {
                self.refused.push((paths, error));
                Ok(())
            }
            done => done,
        }
    }

    /// Tells the paths for which nothing could be done. Fails with the first reason if nothing was
    /// done at all.
    fn tell_refused(&mut self, session: &mut Session<'_>) -> Result<(), CommandError> {
        let refused = std::mem::take(&mut self.refused);
        for (paths, error) in refused {
            if !self.is_any_done {
                return Err(error);
            }
            let failure = |path: &Vec<u8>| {
                let path = model::escaped(path);
                let begin = format!("cannot back up {path}: ");
                let reason = error.message.strip_prefix(&begin).unwrap_or(&error.message);
                (path, reason.to_owned())
            };
            self.fail(session, paths.iter().map(failure).collect());
        }
        Ok(())
    }

    fn take(&mut self, session: &mut Session<'_>, origin: Origin, event: Event) {
        match event {
            Event::Document(document) => {
                self.heed_excluded(session, origin, &document);
                if session.is_json() {
                    self.totals.add(&totals(&document));
                    session.context.output.json(&document);
                } else {
                    self.read(session, origin, &document);
                }
            }
            Event::Object { verb, path } => self.tell(session, &verb, &path),
            Event::Note { line: note, .. } => output::say(&with_places(session, &note, origin)),
        }
        session.context.output.flush();
    }

    /// Tells the named paths that a statement leaves out, as TSM does, and the file systems of the
    /// domain. Files that were found are left out without a word.
    fn heed_excluded(&mut self, session: &Session<'_>, origin: Origin, document: &Value) {
        let excluded = document["excluded"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_of_domain = matches!(origin, Origin::Domain | Origin::DomainDirectory);
        if !origin.is_told() && !is_of_domain || excluded.is_empty() {
            return;
        }
        if !is_of_domain {
            self.code = self.code.max(FAILED);
        }
        for one in excluded {
            let path = shown_path(&one["path"]);
            let statement = one["statement"].as_str().unwrap_or("-");
            let source = one["source"].as_str().unwrap_or("-");
            let source = with_places(session, source, origin);
            if is_of_domain {
                output::say(&format!(
                    "The file system '{path}' of the domain is left out: '{statement}' ({source})"
                ));
                continue;
            }
            session.complain(&format!(
                "ANS1115W File '{path}' excluded by Include/Exclude list: '{statement}' ({source})"
            ));
        }
    }

    /// Tells the paths of operands that are not there.
    fn fail(&mut self, session: &mut Session<'_>, absent: Vec<(String, String)>) {
        if absent.is_empty() {
            return;
        }
        let document = |(path, error): &(String, String)| {
            let path = model::unescaped(path);
            json!({"path": JsonPath(&path), "error": error})
        };
        let documents: Vec<Value> = absent.iter().map(document).collect();
        session.document(&json!({"failed": absent.len(), "failures": documents}));
        for (path, error) in &absent {
            session.complain(&format!("ANS1228E Sending of object '{path}' failed: {error}"));
        }
        self.totals.failed += absent.len() as u64;
        self.failures.extend(absent);
        self.code = FAILED;
    }

    /// Writes the line of an object, and the number of objects from time to time.
    fn tell(&mut self, session: &mut Session<'_>, verb: &str, path: &str) {
        self.told += 1;
        if !session.is_quiet() {
            let line = object_line(verb, path, session.forms);
            session.say(&line);
        }
        if self.told.is_multiple_of(PROGRESS_OBJECTS) {
            let count = session.forms.count(self.told);
            session.say(&format!("ANS1898I ***** Processed {count:>9} files *****"));
        }
    }

    fn read(&mut self, session: &Session<'_>, origin: Origin, document: &Value) {
        self.totals.add(&totals(document));
        let filespaces = document["filespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
        self.filespaces.extend(filespaces.iter().map(shown_path));
        for (path, error) in failures(document) {
            session.complain(&format!("ANS1228E Sending of object '{path}' failed: {error}"));
            self.failures.push((path, error));
        }
        // The process has written its warnings itself.
        for warning in strings(&document["warnings"]) {
            let warning = with_places(session, warning, origin);
            session.log.add(&format!("Warning: {warning}"));
        }
    }

    /// Writes the end of each volume, and the report.
    fn end(
        self,
        session: &mut Session<'_>,
        title: &str,
        number: &str,
        volumes: &[String],
    ) -> Result<u8, CommandError> {
        let volumes = if volumes.is_empty() { &self.filespaces } else { volumes };
        for volume in volumes {
            let within = |path: &str| {
                let top = volume.trim_end_matches(['*', '/']);
                model::is_at_or_below(path.as_bytes(), top.as_bytes())
            };
            let failed = match volumes.len() {
                1 => self.totals.failed,
                _ => self.failures.iter().filter(|(path, _)| within(path)).count() as u64,
            };
            let is_incremental = session.action() == Action::Incremental;
            let line = end_line(title, volume, failed, is_incremental);
            match failed {
                0 => session.say(&line),
                _ => session.complain(&format!("{number} {line}")),
            }
        }
        let totals = Totals { is_archive: session.action() == Action::Archive, ..self.totals };
        session.say("");
        let lines = session_report(&totals, session.forms);
        session.say_all(lines);
        Ok(self.code)
    }
}

/// Returns the line about the end of a volume, as scripts look for it.
fn end_line(title: &str, volume: &str, failed: u64, is_incremental: bool) -> String {
    match (is_incremental, failed) {
        (true, 0) => format!("Successful {} of '{volume}'", title.to_ascii_lowercase()),
        (true, _) => format!("{title} of '{volume}' finished with {failed} failure(s)"),
        (false, 0) => format!("{title} processing of '{volume}' finished without failure."),
        (false, _) => {
            format!("{title} processing of '{volume}' finished with failures: {failed}")
        }
    }
}

/// Column at which the size of an object ends, after its kind.
const SIZE_END: usize = 31;

/// Returns the line of an object that is sent or expired.
fn object_line(verb: &str, path: &str, forms: Forms) -> String {
    let bytes = model::unescaped(path);
    let found = std::fs::symlink_metadata(OsStr::from_bytes(&bytes)).ok();
    let kind = match found.as_ref().map(std::fs::Metadata::file_type) {
        Some(kind) if kind.is_dir() => "Directory-->",
        Some(kind) if kind.is_symlink() => "Symbolic Link-->",
        Some(kind) if !kind.is_file() => "Special File-->",
        _ => "Normal File-->",
    };
    let bytes = found.filter(|found| !found.is_dir()).map_or(0, |found| found.len());
    let (bytes, columns) = (forms.count(bytes), SIZE_END - kind.len());
    match verb {
        "expire" => format!("{:<14}{:>17} {path} [Sent]", "Expiring-->", ""),
        "update" => format!("{:<14}{:>17} {path} [Sent]", "Updating-->", ""),
        _ => format!("{kind}{bytes:>columns$} {path} [Sent]"),
    }
}

/// Returns the figures of the report of a backup or an archive.
pub(super) fn totals(document: &Value) -> Totals {
    let count = |key: &str| document[key].as_u64().unwrap_or(0);
    let number = |key: &str| document[key].as_f64().unwrap_or(0.0);
    Totals {
        inspected: count("inspected"),
        backed_up: count("backed_up"),
        updated: count("updated"),
        rebound: count("rebound"),
        deleted: count("deleted"),
        expired: count("expired"),
        failed: count("failed"),
        encrypted: count("encrypted"),
        deduplicated: count("deduplicated"),
        grew: count("grew"),
        retries: count("retries"),
        bytes_inspected: count("bytes_inspected"),
        bytes_processed: count("bytes_processed"),
        bytes_before_dedup: count("bytes_before_dedup"),
        bytes_after_dedup: count("bytes_after_dedup"),
        bytes_transferred: count("bytes_transferred"),
        transfer_secs: number("data_transfer_secs"),
        elapsed_secs: number("elapsed_secs"),
        compressed_percent: number("compressed_percent"),
        is_archive: false,
    }
}

/// Returns the failures of a report: each path with its error.
pub(super) fn failures(document: &Value) -> Vec<(String, String)> {
    let failures = document["failures"].as_array().map(Vec::as_slice).unwrap_or_default();
    failures
        .iter()
        .map(|failure| {
            let error = failure["error"].as_str().unwrap_or_default().to_owned();
            (shown_path(&failure["path"]), error)
        })
        .collect()
}

/// Returns a path of a document in escaped form.
pub(super) fn shown_path(path: &Value) -> String {
    model::escaped(&crate::path::from_json(path).unwrap_or_default())
}

/// Returns the strings of a list in a document.
pub(super) fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns a text with the places of statements in the option files: the translated list, in which
/// the process has found them, is gone after the command.
pub(super) fn with_places(session: &Session<'_>, text: &str, origin: Origin) -> String {
    let list = list_path();
    let translation = &session.site.translation;
    places_replaced(text, &list.to_string_lossy(), |line| match origin {
        Origin::NamedFile => translation.place_of_named(line).map(ToString::to_string),
        _ => translation.place_of(line).map(ToString::to_string),
    })
}

/// Replaces each place `list line N` by that which `place_of` finds for N.
fn places_replaced(text: &str, list: &str, place_of: impl Fn(usize) -> Option<String>) -> String {
    let mark = format!("{list} line ");
    let mut parts = text.split(mark.as_str());
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        match part[..end].parse().ok().and_then(&place_of) {
            Some(place) => shown.push_str(&(place + &part[end..])),
            None => shown.push_str(&(mark.clone() + part)),
        }
    }
    shown
}

#[cfg(test)]
mod tests;
