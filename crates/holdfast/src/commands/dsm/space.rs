//! `dsmmigrate`, `dsmrecall`, `dsmls` and the other commands of space management.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dsm::configuration::identity;
use dsm::lines::{
    SpaceFile, SpaceFilesystem, SpaceSettings, filesystem_heading, filesystem_line,
    settings_details, settings_heading, settings_line, space_heading, space_line,
};
use dsm::space::{self, COMMANDS, Extent, SpaceCommand, SpaceForm, SpacePlan};
use serde_json::Value;

use super::child::{self, Child, Event, Outcome};
use super::errors::ended;
use super::files::{self, Places};
use super::folders;
use super::local_files;
use super::sending::shown_path;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, NOT_DONE};
use crate::output;
use crate::path::bytes;

/// Unit in which the system counts allocated space.
const BLOCK_BYTES: u64 = 512;

pub(super) fn run(
    command: SpaceCommand,
    words: &[Vec<u8>],
    context: &mut Context,
) -> Result<u8, CommandError> {
    if space::asks_for_help(command, words) {
        space::help(command).iter().for_each(|line| context.output.line(line));
        return Ok(DONE);
    }
    let (given, _) = space::parse(command, words).map_err(wrong)?;
    let places = Places::of_command(&given)?;
    let site = files::load_for_space(&places, &given)?;
    let plan = space::plan(command, words, &site.options).map_err(wrong)?;
    if plan.form == SpaceForm::Help {
        for (name, _, does) in COMMANDS {
            context.output.line(&format!("{name:<16} {does}"));
        }
        return Ok(DONE);
    }
    let home = folders::folder(&site, context)?;
    folders::check_server(&home, identity(&site.options).server.as_deref())?;
    let is_json = given.iter().any(|entry| entry.definition.name() == "JSON");
    let parts = plan.parts();
    if let [only] = &parts[..] {
        return execute(only, &home, is_json, context);
    }
    let mut code = DONE;
    // A part that fails stops no other.
    for part in &parts {
        code = code.max(ended(execute(part, &home, is_json, context)));
        if child::is_interrupted() {
            break;
        }
    }
    Ok(code)
}

fn wrong(reason: String) -> CommandError {
    CommandError::new(format!("ANS1107E {reason}"))
}

fn execute(
    plan: &SpacePlan,
    home: &Path,
    is_json: bool,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut line: Vec<OsString> = plan.line.clone();
    let (paths, is_listed) = (subjects(plan)?, takes_list(plan));
    let mut input = Vec::new();
    if is_listed {
        // A list could have quotes around a path; an absolute path begins with none.
        for path in crate::path::from_root(paths.clone())? {
            input.extend_from_slice(&path);
            input.push(0);
        }
        line.extend(["--filelist", "-", "--null"].map(OsString::from));
    }
    let shows_documents = is_json || !matches!(plan.form, SpaceForm::Plain);
    if shows_documents {
        line.push("--json".into());
    }
    let is_filtered = matches!(plan.form, SpaceForm::Filesystems | SpaceForm::Queue);
    let takes_paths = !is_filtered && !is_listed && !paths.is_empty();
    if takes_paths {
        line.extend(paths.iter().map(|path| OsStr::from_bytes(path).to_owned()));
    }
    let (tops, wanted) = (tops(plan), wanted(plan)?);
    let mut writer = Writer { plan, is_json, is_headed: false, tops, wanted };
    if is_listed && paths.is_empty() {
        return writer.end(context);
    }
    let child = Child { home, words: &line, input, tells_objects: false };
    let mut notes = Vec::new();
    let is_plain = plan.form == SpaceForm::Plain;
    let outcome = child::run(child, &mut |event| match event {
        Event::Document(document) => writer.document(&document, context),
        Event::Object { path, .. } => output::say(&path),
        Event::Note { line, is_result: true } if is_plain => context.output.line(&line),
        Event::Note { line, .. } if is_plain => notes.push(line),
        Event::Note { line, .. } => output::say(&own_words(&line)),
    })?;
    // In the plain form the reason of an end stands among the messages of the process.
    let reason = error_among(notes);
    if let (Some(reason), None) = (reason, &outcome.error) {
        return Err(reason);
    }
    if plan.form == SpaceForm::Plain && outcome.error.is_none() {
        return Ok(outcome.code);
    }
    let code = Outcome::checked(outcome).map_err(in_own_words)?;
    Ok(code.max(writer.end(context)?))
}

/// Returns the paths that a list of files is about, as the list shows them. Names of files stand
/// for what is below a path.
fn tops(plan: &SpacePlan) -> HashSet<String> {
    if !matches!(plan.form, SpaceForm::List { .. }) {
        return HashSet::new();
    }
    let shown = |path: &Vec<u8>| {
        let top = crate::path::absolute(Path::new(OsStr::from_bytes(path))).ok()?;
        let top = model::escaped(&top);
        let top = top.strip_suffix("/.").unwrap_or(&top);
        Some(top.strip_suffix('/').unwrap_or(top).to_owned())
    };
    plan.paths.iter().filter_map(shown).collect()
}

/// Returns the name of a file within the innermost of `tops` that has it. A path that is in none of
/// them stays as it is.
fn name_within<'a>(tops: &HashSet<String>, path: &'a str) -> &'a str {
    let innermost = path.rmatch_indices('/').find(|(end, _)| tops.contains(&path[..*end]));
    innermost.map_or(path, |(end, _)| &path[end + 1..])
}

/// Returns the file systems that a list of them is about; none stand for all.
fn wanted(plan: &SpacePlan) -> Result<Vec<Vec<u8>>, CommandError> {
    if plan.form != SpaceForm::Filesystems {
        return Ok(Vec::new());
    }
    let absolute = |path: &Vec<u8>| crate::path::absolute(Path::new(OsStr::from_bytes(path)));
    plan.paths.iter().map(absolute).collect()
}

/// Beginning of the line with which a command of Holdfast tells its error. A hint may follow.
const ERROR_PREFIX: &str = "holdfast: ";

/// Passes on the messages of a command. Returns its error, which stands among them.
fn error_among(notes: Vec<String>) -> Option<CommandError> {
    let mut notes = notes.into_iter();
    while let Some(note) = notes.next() {
        let Some(message) = note.strip_prefix(ERROR_PREFIX) else {
            output::say(&own_words(&note));
            continue;
        };
        let error = CommandError::new(message);
        let hint: Vec<String> = notes.collect();
        return Some(in_own_words(match hint.is_empty() {
            true => error,
            false => error.with_hint(hint.join(" ")),
        }));
    }
    None
}

/// Commands of Holdfast that messages name, with those that a person of TSM knows. The quotes keep
/// `hsm reconcile --confirm`, because dsmreconcile has no such option.
const OWN_WORDS: [(&str, &str); 7] = [
    ("holdfast hsm add", "dsmmigfs add"),
    ("holdfast hsm remove", "dsmmigfs remove"),
    ("holdfast hsm list", "dsmmigfs query"),
    ("holdfast hsm status", "dsmq"),
    ("holdfast hsm cancel", "dsmrm"),
    ("holdfast hsm recall", "dsmrecall"),
    ("'holdfast hsm reconcile'", "'dsmreconcile'"),
];

fn own_words(text: &str) -> String {
    OWN_WORDS
        .iter()
        .fold(text.to_owned(), |text, (holdfast, tsm)| text.replace(holdfast, tsm))
}

fn in_own_words(error: CommandError) -> CommandError {
    let hint = error.hint.map(|hint| own_words(&hint));
    CommandError { message: own_words(&error.message), hint, ..error }
}

/// Returns true if the paths go to the command in a list, which may be longer than a command line.
fn takes_list(plan: &SpacePlan) -> bool {
    let is_long = matches!(plan.form, SpaceForm::List { .. } | SpaceForm::Sizes(_));
    plan.filelist.is_some() || plan.is_flat || is_long
}

/// Returns the files of a list. A directory in it stands for itself, and nothing in it is meant.
fn without_directories(paths: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    paths.into_iter().filter(|path| !local_files::is_directory(path)).collect()
}

/// Returns the paths that the command is about. The files directly in a directory stand in its
/// place, unless the command goes through directories.
fn subjects(plan: &SpacePlan) -> Result<Vec<Vec<u8>>, CommandError> {
    let paths = match &plan.filelist {
        Some(list) => local_files::filelist(list, false)?,
        None => plan.paths.clone(),
    };
    match plan.form {
        SpaceForm::List { recursive: false, .. } if plan.filelist.is_none() => return flat(&paths),
        SpaceForm::List { recursive: false, .. } => return Ok(without_directories(paths)),
        SpaceForm::Sizes(extent) if extent != Extent::Named => {
            let mut found = Vec::new();
            let has_files = extent == Extent::Files;
            for path in &paths {
                descend(&PathBuf::from(OsStr::from_bytes(path)), has_files, &mut found);
            }
            return Ok(found);
        }
        _ => {}
    }
    if !plan.is_flat {
        return Ok(paths);
    }
    let files: Vec<Vec<u8>> = match &plan.filelist {
        Some(_) => without_directories(paths),
        None => flat(&paths)?,
    };
    if files.is_empty() {
        return Err(wrong("no file is there; -recursive goes through directories".to_owned()));
    }
    Ok(files)
}

/// Collects the directories below `top`, and the files if `has_files` is true, each after what is
/// in it. The last one is `top`, whatever it is.
fn descend(top: &Path, has_files: bool, found: &mut Vec<Vec<u8>>) {
    let is_folder = std::fs::symlink_metadata(top).is_ok_and(|own| own.is_dir());
    // The process tells which folders cannot be read.
    let entries = is_folder.then(|| std::fs::read_dir(top).ok()).flatten();
    let mut entries: Vec<_> = entries.into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            descend(&entry.path(), has_files, found);
        } else if has_files && kind.is_file() {
            found.push(bytes(&entry.path()));
        }
    }
    found.push(bytes(top));
}

/// Puts the files directly in a directory in its place.
fn flat(paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        let folder = PathBuf::from(OsStr::from_bytes(path));
        let is_folder = std::fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir());
        if !is_folder {
            files.push(path.clone());
            continue;
        }
        let failed = |error: std::io::Error| {
            CommandError::new(format!("cannot read {}: {error}", folder.display()))
        };
        let mut within = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                within.push(bytes(&entry.path()));
            }
        }
        within.sort();
        files.append(&mut within);
    }
    Ok(files)
}

/// Writer of the documents of a command.
struct Writer<'a> {
    plan: &'a SpacePlan,
    is_json: bool,
    is_headed: bool,
    /// Paths that a list of files is about.
    tops: HashSet<String>,
    /// File systems that were asked for and were not told yet.
    wanted: Vec<Vec<u8>>,
}

impl Writer<'_> {
    fn document(&mut self, document: &Value, context: &mut Context) {
        let is_left_out = match self.plan.form {
            SpaceForm::Filesystems => !self.is_wanted(document),
            SpaceForm::Queue => !self.is_below(document),
            _ => false,
        };
        if is_left_out {
            return;
        }
        if self.is_json {
            context.output.json(document);
            return;
        }
        match self.plan.form {
            SpaceForm::Files { details } => file(document, details, context),
            SpaceForm::List { heading, .. } => {
                self.head(heading, &[space_heading()], context);
                self.listed(document, context);
            }
            SpaceForm::Filesystems => self.filesystem(document, context),
            SpaceForm::Settings { details } => self.settings(document, details, context),
            SpaceForm::Sizes(_) => {
                let kib = document["bytes"].as_u64().unwrap_or(0).div_ceil(1 << 10);
                context.output.line(&format!("{kib:<12} {}", shown_path(&document["path"])));
            }
            SpaceForm::Queue => {
                let heading =
                    ["ID       State      Elapsed              Owner      File".to_owned()];
                self.head(true, &heading, context);
                context.output.line(&format!(
                    "{:<8} {:<10} {:<20} {:<10} {}",
                    document["number"],
                    document["state"].as_str().unwrap_or_default(),
                    document["since"].as_str().unwrap_or_default(),
                    document["uid"],
                    shown_path(&document["path"])
                ));
            }
            SpaceForm::Plain | SpaceForm::Help => context.output.json(document),
        }
    }

    /// Returns true if a file system was asked for, by its name or because all are.
    fn is_wanted(&mut self, document: &Value) -> bool {
        if self.plan.paths.is_empty() {
            return true;
        }
        let name = crate::path::from_json(&document["mount_point"]).unwrap_or_default();
        let before = self.wanted.len();
        self.wanted.retain(|wanted| *wanted != name);
        self.wanted.len() < before
    }

    /// Returns true if the file of a recall is one of the paths or below one, or if there are none.
    fn is_below(&self, document: &Value) -> bool {
        let path = crate::path::from_json(&document["path"]).unwrap_or_default();
        let has_it = |top: &Vec<u8>| {
            let top = crate::path::absolute(Path::new(OsStr::from_bytes(top))).unwrap_or_default();
            model::is_at_or_below(&path, &top)
        };
        self.plan.paths.is_empty() || self.plan.paths.iter().any(has_it)
    }

    /// Writes what the process has not told: what is no file, file systems that are not managed,
    /// and that none is. Returns the exit code.
    fn end(&mut self, context: &mut Context) -> Result<u8, CommandError> {
        if let SpaceForm::List { heading, recursive } = self.plan.form
            && !self.is_json
        {
            for (name, found) in others(&self.plan.paths, recursive)? {
                self.head(heading, &[space_heading()], context);
                let (bytes, allocated_bytes) = (found.len(), found.blocks() * BLOCK_BYTES);
                let name = model::escaped(&name);
                let resident_bytes = bytes;
                let shown =
                    SpaceFile { bytes, resident_bytes, allocated_bytes, state: "-", name: &name };
                context.output.line(&space_line(&shown));
            }
        }
        let is_of_settings = matches!(self.plan.form, SpaceForm::Settings { .. });
        if is_of_settings && !self.is_headed && !self.is_json {
            output::say("No file system is managed; 'dsmmigfs add' adds one.");
        }
        for path in &self.wanted {
            let path = model::escaped(path);
            output::say(&format!(
                "ANS9085E dsmdf: file system {path} is not managed by space management"
            ));
        }
        Ok(match self.wanted.len() {
            0 => DONE,
            absent if absent < self.plan.paths.len() => FAILED,
            _ => NOT_DONE,
        })
    }

    fn head(&mut self, heading: bool, lines: &[String], context: &mut Context) {
        if heading && !self.is_headed {
            lines.iter().for_each(|line| context.output.line(line));
        }
        self.is_headed = true;
    }

    /// Writes a file of a list.
    fn listed(&self, document: &Value, context: &mut Context) {
        let path = shown_path(&document["path"]);
        let resident = document["resident_bytes"].as_u64().unwrap_or(0);
        let state = document["state"].as_str().unwrap_or("-");
        let state = if state == "m" && resident > 0 { "m (p)" } else { state };
        let shown = SpaceFile {
            bytes: document["size"].as_u64().unwrap_or(0),
            resident_bytes: resident,
            allocated_bytes: resident,
            state,
            name: name_within(&self.tops, &path),
        };
        context.output.line(&space_line(&shown));
    }

    /// Writes TSM's settings of a file system. `holdfast hsm list` shows the others.
    fn settings(&mut self, document: &Value, details: bool, context: &mut Context) {
        let name = shown_path(&document["mount_point"]);
        self.head(!details, &settings_heading(), context);
        let count = |key: &str| document[key].as_u64().unwrap_or(0);
        let shown = SpaceSettings {
            name: &name,
            state: if document["state"] == "managed" { "a" } else { "i" },
            high_percent: count("high_percent"),
            low_percent: count("low_percent"),
            premigrated_percent: count("premigrated_percent"),
            file_bytes_min: count("min_size"),
            // By default every file comes back as a whole.
            whole_bytes_max: Some(count("whole")).filter(|bytes| *bytes < i64::MAX.unsigned_abs()),
        };
        match details {
            true => settings_details(&shown).iter().for_each(|line| context.output.line(line)),
            false => context.output.line(&settings_line(&shown)),
        }
    }

    fn filesystem(&mut self, document: &Value, context: &mut Context) {
        let name = shown_path(&document["mount_point"]);
        self.head(true, &filesystem_heading(), context);
        let count = |key: &str| document[key].as_u64().unwrap_or(0);
        let is_mounted = document["mounted"].as_bool().unwrap_or(false);
        let shown = SpaceFilesystem {
            name: &name,
            state: if is_mounted { "a" } else { "i" },
            migrated_bytes: count("migrated_bytes"),
            premigrated_bytes: count("premigrated_bytes"),
            migrated_files: count("migrated_files"),
            premigrated_files: count("premigrated_files"),
            free_inodes: document["free_files"].as_u64(),
            free_bytes: count("free_bytes"),
        };
        context.output.line(&filesystem_line(&shown));
    }
}

/// Returns what is no regular file in the directories `paths`: directories, symbolic links and
/// others, by their names within them.
fn others(paths: &[Vec<u8>], recursive: bool) -> Result<Vec<(Vec<u8>, Metadata)>, CommandError> {
    let mut found = Vec::new();
    for path in paths {
        let top = crate::path::absolute(Path::new(OsStr::from_bytes(path)))?;
        let top = PathBuf::from(OsStr::from_bytes(&top));
        let mut waiting = vec![top.clone()];
        while let Some(folder) = waiting.pop() {
            // A folder that cannot be read was told with the files.
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (Ok(own), path) = (entry.metadata(), entry.path()) else { continue };
                let within = bytes(path.strip_prefix(&top).unwrap_or(&path));
                if own.is_file() {
                    continue;
                }
                if recursive && own.is_dir() {
                    waiting.push(path);
                }
                found.push((within, own));
            }
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Writes the outcome of a file.
fn file(document: &Value, details: bool, context: &mut Context) {
    let path = shown_path(&document["path"]);
    if let Some(error) = document["error"].as_str() {
        output::say(&format!("{path}: {error}"));
    } else if details {
        let state = document["state"].as_str().unwrap_or_default();
        // A stub that was made again has the size of its file, and nothing was moved.
        let moved = document["bytes"].as_u64().filter(|bytes| *bytes > 0);
        let own = || {
            let path = crate::path::from_json(&document["path"]).unwrap_or_default();
            std::fs::symlink_metadata(OsStr::from_bytes(&path)).map_or(0, |found| found.len())
        };
        let bytes = crate::quantity::count(moved.unwrap_or_else(own));
        context.output.line(&format!("{state} {bytes:>17} {path}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("below")).expect("made");
        for name in ["b", "a", "below/c"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        let top = bytes(folder.path());
        let found = flat(std::slice::from_ref(&top)).expect("files");
        assert_eq!(found, [[&top[..], b"/a"].concat(), [&top[..], b"/b"].concat()]);
        let file = [&top[..], b"/a"].concat();
        assert_eq!(flat(std::slice::from_ref(&file)).expect("a file"), std::slice::from_ref(&file));
        let empty = folder.path().join("below");
        std::fs::remove_file(empty.join("c")).expect("removed");
        assert!(flat(&[bytes(&empty)]).expect("no files").is_empty());
        // The order of a list stays.
        let paths = [[&top[..], b"/b"].concat(), file];
        assert_eq!(flat(&paths).expect("files"), paths);
    }

    #[test]
    fn recalls_are_those_of_the_named_file_system() {
        let shown = |paths: &[&str], path: &str| {
            let paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
            let (line, form) = (Vec::new(), SpaceForm::Queue);
            let plan = SpacePlan { line, paths, filelist: None, is_flat: false, form };
            let (tops, wanted) = (HashSet::new(), Vec::new());
            let writer = Writer { plan: &plan, is_json: false, is_headed: false, tops, wanted };
            writer.is_below(&serde_json::json!({ "path": path }))
        };
        assert!(shown(&[], "/fs/a") && shown(&["/fs"], "/fs/a") && shown(&["/o", "/fs/"], "/fs/a"));
        assert!(!shown(&["/f"], "/fs/a") && shown(&["/"], "/fs/a"));
    }

    #[test]
    fn messages_name_the_commands_of_tsm() {
        let message = "No file system is managed; 'holdfast hsm add' adds one.";
        assert_eq!(own_words(message), "No file system is managed; 'dsmmigfs add' adds one.");
        assert_eq!(own_words("'holdfast hsm reconcile' is next"), "'dsmreconcile' is next");
        // There is no such option of dsmreconcile.
        let message = "'holdfast hsm reconcile --confirm' releases the copies";
        assert_eq!(own_words(message), message);
    }

    #[test]
    fn a_listed_file_is_named_within_the_innermost_directory() {
        let name = |tops: &[&str], path: &str| {
            let paths = tops.iter().map(|path| path.as_bytes().to_vec()).collect();
            let form = SpaceForm::List { heading: true, recursive: true };
            let plan = SpacePlan { line: Vec::new(), paths, filelist: None, is_flat: false, form };
            name_within(&super::tops(&plan), path).to_owned()
        };
        assert_eq!(name(&["/fs", "/fs/a/", "/f"], "/fs/a/b/c"), "b/c");
        assert_eq!(name(&["/fs/a/."], "/fs/a/b"), "b");
        assert_eq!(name(&["/"], "/fs/a"), "fs/a");
        // A file that is named itself is below no path. Compared with each path of a long list,
        // this would take minutes.
        let files: Vec<String> = (0..100_000).map(|number| format!("/fs/{number}")).collect();
        let paths = files.iter().map(|file| file.as_bytes().to_vec()).collect();
        let form = SpaceForm::List { heading: true, recursive: false };
        let plan = SpacePlan { line: Vec::new(), paths, filelist: None, is_flat: false, form };
        let all = tops(&plan);
        assert!(files.iter().all(|file| name_within(&all, file) == file));
    }

    #[test]
    fn links_are_listed_beside_directories() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("below")).expect("made");
        std::fs::write(folder.path().join("below/file"), "").expect("written");
        std::os::unix::fs::symlink("below", folder.path().join("link")).expect("made");
        let names = |recursive| {
            let found = others(&[bytes(folder.path())], recursive).expect("names");
            found.into_iter().map(|(name, _)| model::escaped(&name)).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["below", "link"]);
        assert_eq!(names(true), ["below", "link"], "a link is not followed");
    }

    #[test]
    fn a_migration_needs_a_file_and_a_list_of_files_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |form, is_flat| SpacePlan {
            line: Vec::new(),
            paths: vec![bytes(folder.path())],
            filelist: None,
            is_flat,
            form,
        };
        let migration = of(SpaceForm::Files { details: false }, true);
        assert!(takes_list(&migration) && subjects(&migration).is_err());
        let list = of(SpaceForm::List { heading: true, recursive: false }, false);
        assert!(takes_list(&list) && subjects(&list).expect("no files").is_empty());
        let listed = tempfile::NamedTempFile::new().expect("a list");
        std::fs::write(listed.path(), format!("{}\n/no/file\n", folder.path().display()))
            .expect("written");
        let filelist = Some(bytes(listed.path()));
        let of_list = SpacePlan { filelist, ..of(SpaceForm::Files { details: false }, true) };
        assert_eq!(subjects(&of_list).expect("a file"), [b"/no/file"]);
        std::fs::create_dir_all(folder.path().join("a/b")).expect("made");
        std::fs::write(folder.path().join("a/c"), "").expect("written");
        let within = |extent| {
            let found = subjects(&of(SpaceForm::Sizes(extent), false)).expect("paths");
            let names = found.iter().map(|path| {
                let name = Path::new(OsStr::from_bytes(path)).strip_prefix(folder.path());
                name.expect("a path below it").display().to_string()
            });
            names.collect::<Vec<_>>()
        };
        assert_eq!(within(Extent::Files), ["a/b", "a/c", "a", ""]);
        assert_eq!(within(Extent::Directories), ["a/b", "a", ""]);
        assert_eq!(within(Extent::Named), [""]);
        let whole = of(SpaceForm::Files { details: false }, false);
        assert!(!takes_list(&whole));
        assert_eq!(subjects(&whole).expect("the folder"), whole.paths);
    }
}
