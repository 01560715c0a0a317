//! `dsmmigrate`, `dsmrecall`, `dsmls` and the other commands of space management.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dsm::lines::{
    SpaceFile, SpaceFilesystem, filesystem_heading, filesystem_line, space_heading, space_line,
};
use dsm::space::{self, COMMANDS, SpaceCommand, SpaceForm, SpacePlan};
use serde_json::Value;

use super::child::{self, Child, Event, Outcome};
use super::files::{self, Places};
use super::folders;
use super::local_files;
use super::sending::shown_path;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::output;
use crate::path::bytes;

pub(super) fn run(
    command: SpaceCommand,
    words: &[Vec<u8>],
    context: &mut Context,
) -> Result<u8, CommandError> {
    let (given, _) = space::parse(words).map_err(wrong)?;
    let places = Places::of_command(&given)?;
    let site = files::load(&places, &given)?;
    let plan = space::plan(command, words, &site.options).map_err(wrong)?;
    if plan.form == SpaceForm::Help {
        for (name, _, does) in COMMANDS {
            context.output.line(&format!("{name:<16} {does}"));
        }
        return Ok(DONE);
    }
    let is_named = site.options.has("PASSWORDDIR") || site.options.has("NODENAME");
    let home = folders::folder(&site, context)?;
    let is_json = given.iter().any(|entry| entry.definition.name() == "JSON");
    // Without option files a user's own request goes to the public socket, as without TSM.
    let home = if is_named { home } else { context.home()? };
    execute(&plan, &home, is_json, context)
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
    let (mut paths, mut input) = (plan.paths.clone(), Vec::new());
    if let Some(list) = &plan.filelist {
        for path in local_files::filelist(list, false)? {
            input.extend_from_slice(&path);
            input.push(0);
        }
    } else if plan.is_flat {
        paths = flat(&paths)?;
    }
    let is_listed = !input.is_empty();
    if is_listed {
        line.extend(["--filelist", "-", "--null"].map(OsString::from));
    }
    let shows_documents = is_json || !matches!(plan.form, SpaceForm::Plain);
    if shows_documents {
        line.push("--json".into());
    }
    let takes_paths = plan.form != SpaceForm::Filesystems && !is_listed && !paths.is_empty();
    if takes_paths {
        line.extend(paths.iter().map(|path| OsStr::from_bytes(path).to_owned()));
    }
    let mut writer = Writer { plan, is_json, is_headed: false };
    let child = Child { home, words: &line, input, tells_objects: false };
    let mut is_told = false;
    let outcome = child::run(child, &mut |event| match event {
        Event::Document(document) => writer.document(&document, context),
        Event::Object { path, .. } => output::say(&path),
        Event::Note(note) if plan.form == SpaceForm::Plain => {
            is_told = true;
            context.output.line(&note);
        }
        Event::Note(note) => output::say(&note),
    })?;
    // In the plain form the reason of an end stands among the lines of the process.
    if is_told && outcome.error.is_none() {
        return Ok(outcome.code);
    }
    Outcome::checked(outcome)
}

/// Puts the files of a directory in its place. A directory that is the only name, and empty, stays.
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
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                files.push(bytes(&entry.path()));
            }
        }
    }
    if files.is_empty() {
        return Err(wrong("no file is there; -recursive goes through directories".to_owned()));
    }
    files.sort();
    Ok(files)
}

/// Writer of the documents of a command.
struct Writer<'a> {
    plan: &'a SpacePlan,
    is_json: bool,
    is_headed: bool,
}

impl Writer<'_> {
    fn document(&mut self, document: &Value, context: &mut Context) {
        if self.is_json {
            context.output.json(document);
            return;
        }
        match self.plan.form {
            SpaceForm::Files { details } => file(document, details, context),
            SpaceForm::List { heading, recursive } => {
                self.head(heading, &[space_heading()], context);
                self.listed(document, recursive, context);
            }
            SpaceForm::Filesystems => self.filesystem(document, context),
            SpaceForm::Sizes => {
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

    fn head(&mut self, heading: bool, lines: &[String], context: &mut Context) {
        if heading && !self.is_headed {
            lines.iter().for_each(|line| context.output.line(line));
        }
        self.is_headed = true;
    }

    /// Writes a file of a list. Without -recursive, files in directories below are left out.
    fn listed(&self, document: &Value, recursive: bool, context: &mut Context) {
        let path = shown_path(&document["path"]);
        let within = self.plan.paths.iter().find_map(|top| {
            let top = crate::path::absolute(Path::new(OsStr::from_bytes(top))).ok()?;
            let top = model::escaped(&top);
            let top = top.strip_suffix("/.").unwrap_or(&top);
            let top = top.strip_suffix('/').unwrap_or(top).to_owned();
            path.strip_prefix(&top)?.strip_prefix('/').map(str::to_owned)
        });
        let name = within.unwrap_or_else(|| path.clone());
        if !recursive && name.contains('/') && name != path {
            return;
        }
        let resident = document["resident_bytes"].as_u64().unwrap_or(0);
        let state = document["state"].as_str().unwrap_or("-");
        let state = if state == "m" && resident > 0 { "m (p)" } else { state };
        let shown = SpaceFile {
            bytes: document["size"].as_u64().unwrap_or(0),
            resident_bytes: resident,
            allocated_bytes: resident,
            state,
            name: &name,
        };
        context.output.line(&space_line(&shown));
    }

    fn filesystem(&mut self, document: &Value, context: &mut Context) {
        let name = shown_path(&document["mount_point"]);
        let wanted = &self.plan.paths;
        if !wanted.is_empty() && !wanted.iter().any(|path| model::escaped(path) == name) {
            return;
        }
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

/// Writes the outcome of a file.
fn file(document: &Value, details: bool, context: &mut Context) {
    let path = shown_path(&document["path"]);
    if let Some(error) = document["error"].as_str() {
        output::say(&format!("{path}: {error}"));
    } else if details {
        let state = document["state"].as_str().unwrap_or_default();
        let bytes = crate::quantity::count(document["bytes"].as_u64().unwrap_or(0));
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
        assert_eq!(flat(std::slice::from_ref(&file)).expect("a file"), [file]);
        let empty = folder.path().join("below");
        std::fs::remove_file(empty.join("c")).expect("removed");
        assert!(flat(&[bytes(&empty)]).is_err());
    }
}
