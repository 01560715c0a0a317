//! `dsmc expire`: a backup that leaves objects out, so that their active versions end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use client::Client;
use dsm::client::{self as plan, Last, PathSource, Spec};
use dsm::lines::session_report;
use policy::Pattern;

use super::child::{self, Child, Event, Outcome};
use super::joining;
use super::links;
use super::listed::ListedPaths;
use super::sending::{List, Origin, PATHS_BYTES_MAX, Part, Run};
use super::session::Session;
use super::stored::{self, Filter};
use crate::error::{CommandError, NOT_DONE};

/// Bytes that a pattern needs on a command line beside its own: its option, a NUL, and a pointer.
const OPTION_BYTES: usize = "--exclude=".len() + 1 + size_of::<usize>();

/// Directories to be backed up, each with the patterns of what the backup leaves out.
type Folders = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Objects that the names of an expiration stand for.
#[derive(Default)]
struct Expiration {
    /// Names of objects that are stored. A backup of the directory of any other name would do more
    /// than it is asked for.
    specs: Vec<Spec>,
    /// Number of active versions.
    versions: u64,
    /// For each name of the command, whether something is stored under it.
    is_found: Vec<bool>,
    /// Directories that are named, and stay.
    directories: BTreeSet<Vec<u8>>,
}

pub(super) fn expire(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let written = stored::named(session)?;
    let client = joining::connect(session)?;
    let specs = links::follow_all(session, &client, &written, &Filter::default())?;
    specs.iter().try_for_each(|spec| check_filespace(&client, spec))?;
    let mounts: Vec<Vec<u8>> = stored::filespaces(&client)?
        .into_iter()
        .map(|filespace| filespace.name)
        .collect();
    let ends_search = |folder: &[u8]| {
        mounts.iter().any(|mount| mount == folder)
            || std::fs::symlink_metadata(OsStr::from_bytes(folder)).is_ok()
    };
    let found = match session.descends() {
        true => Expiration::with_content(&client, &specs)?,
        false => Expiration::files(&client, &specs)?,
    };
    let is_whole = found.tell(session, &written)?;
    let folders = by_folder(&found.specs, session.descends(), &ends_search)?;
    if !super::questions::is_agreed(session, "End the active versions of these objects?")? {
        return Ok(NOT_DONE);
    }
    let code = end_versions(session, folders, found.versions)?;
    Ok(if is_whole { code } else { NOT_DONE })
}

/// Ends the active versions of what the patterns of the directories match. `named` is their number.
fn end_versions(
    session: &mut Session<'_>,
    folders: Folders,
    named: u64,
) -> Result<u8, CommandError> {
    let list = List::write(session, &session.site.translation.list())?;
    let lines: Vec<_> = folders
        .into_iter()
        .map(|(folder, patterns)| (command_line(session, &list, patterns), folder))
        .collect();
    let mut expected = 0_u64;
    for (line, folder) in &lines {
        expected = expected.saturating_add(count_expected(session, line, folder)?);
    }
    let mut run = Run::default();
    for (mut line, folder) in lines {
        // If others than the named objects would expire, the guard against mass expiry decides.
        if expected <= named {
            line.push("--confirm".into());
        }
        let part = Part { sending: PathSource::Trees, origin: Origin::Named };
        run.part(session, line, part, &[folder])?;
    }
    drop(list);
    let totals = run.totals;
    session.say("");
    let lines = session_report(&totals, session.forms);
    session.say_all(lines);
    Ok(run.code)
}

impl Expiration {
    /// Finds the objects, with those in directories.
    fn with_content(client: &Client, specs: &[Spec]) -> Result<Self, CommandError> {
        let mut found = Self::default();
        for spec in specs {
            let before = found.versions;
            stored::select(client, spec, true, &Filter::default(), &mut |_| {
                found.versions += 1;
                true
            })?;
            let is_found = found.versions > before;
            found.is_found.push(is_found);
            found.specs.extend(is_found.then(|| spec.clone()));
        }
        Ok(found)
    }

    /// Finds the objects that are no directories. A backup that leaves a directory out ends the
    /// versions of everything in it, and that needs -subdir=yes.
    fn files(client: &Client, specs: &[Spec]) -> Result<Self, CommandError> {
        let is_named = |spec: &&Spec| matches!(spec.last, Last::Named(_));
        let named: Vec<Spec> = specs.iter().filter(is_named).cloned().collect();
        let listed = ListedPaths::of(client, &named, &Filter::default())?;
        let files: BTreeSet<Vec<u8>> = listed.others.into_iter().collect();
        let directories: BTreeSet<Vec<u8>> = listed.directories.into_iter().collect();
        let mut found = Self { versions: files.len() as u64, directories, ..Self::default() };
        for spec in specs {
            if !is_named(&spec) {
                found.add_pattern(client, spec)?;
                continue;
            }
            let path = spec.path();
            let is_file = files.contains(&path);
            found.is_found.push(is_file || found.directories.contains(&path));
            found.specs.extend(is_file.then(|| spec.clone()));
        }
        Ok(found)
    }

    /// Adds the pattern, or the names of the files that it stands for if a directory has such a
    /// name, too.
    fn add_pattern(&mut self, client: &Client, pattern: &Spec) -> Result<(), CommandError> {
        let (mut files, mut has_directory) = (Vec::new(), false);
        stored::select(client, pattern, false, &Filter::default(), &mut |object| {
            let name = object.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            match object.is_directory() {
                true => has_directory = true,
                false => files.push(Last::Named(name.to_vec())),
            }
            true
        })?;
        self.versions += files.len() as u64;
        self.is_found.push(has_directory || !files.is_empty());
        let of_file = |last| Spec { last, ..pattern.clone() };
        match has_directory || files.is_empty() {
            true => self.specs.extend(files.into_iter().map(of_file)),
            false => self.specs.push(pattern.clone()),
        }
        Ok(())
    }

    /// Tells what does not expire of the names as they are `written`. Returns true if something is
    /// stored under each. Fails if nothing expires.
    fn tell(&self, session: &Session<'_>, written: &[Spec]) -> Result<bool, CommandError> {
        let is_whole = stored::tell_absent(session, written, &self.is_found);
        if self.versions > 0 {
            stored::tell_directories(session, self.directories.len());
            return Ok(is_whole);
        }
        Err(match self.directories.first() {
            Some(directory) => stored::only_directories(session, directory),
            None => stored::nothing(),
        })
    }
}

/// Fails if braces name another filespace than the one that a backup of the objects looks at.
fn check_filespace(client: &Client, spec: &Spec) -> Result<(), CommandError> {
    let Some(named) = &spec.filespace else { return Ok(()) };
    let path = spec.path();
    let own = stored::filespace_of(client, &path)?;
    if own == *named {
        return Ok(());
    }
    let (named, own, path) = (model::escaped(named), model::escaped(&own), model::escaped(&path));
    let message = format!(
        "ANS1107E expire ends versions of the filespace '{own}', which has '{path}'; 'delete \
         backup' with braces is for those of '{named}'"
    );
    Err(CommandError::new(message))
}

/// Returns the command line of a backup that leaves out what the patterns match, without its path.
fn command_line(session: &Session<'_>, list: &List, patterns: Vec<Vec<u8>>) -> Vec<OsString> {
    let list = list.path.as_deref();
    let (command, options) = (&session.command, session.options());
    let mut line = plan::backup(command, options, list, PathSource::Trees, false);
    line.push("--partial".into());
    for pattern in patterns {
        line.push(OsString::from_vec([b"--exclude=", &pattern[..]].concat()));
    }
    line
}

/// Returns the number of versions that the backup of a directory would end: those that it leaves
/// out, and those of objects that are gone.
fn count_expected(
    session: &Session<'_>,
    line: &[OsString],
    folder: &[u8],
) -> Result<u64, CommandError> {
    let mut words = line.to_vec();
    words.extend(["--dry-run", "--"].map(OsString::from));
    words.push(OsString::from_vec(folder.to_vec()));
    let input = Vec::new();
    let child = Child { home: &session.home, words: &words, input, tells_objects: false };
    let mut expected = None;
    let outcome = child::run(child, &mut |event| {
        if let Event::Document(document) = event {
            expected = document["estimate"]["expired"].as_u64();
        }
    })?;
    Outcome::checked(outcome)?;
    Ok(expected.unwrap_or(u64::MAX))
}

/// Returns the directories of the objects. A backup of one brings back what it does not leave out,
/// so it has the patterns of all that descend into it. `ends_search` is true for a directory that
/// is there, and for a mount point: one that is gone stands for the nearest above it.
fn by_folder(
    specs: &[Spec],
    descends: bool,
    ends_search: &dyn Fn(&[u8]) -> bool,
) -> Result<Folders, CommandError> {
    let mut folders = Folders::new();
    let mut tops = Vec::with_capacity(specs.len());
    for spec in specs {
        let top = nearest(spec.folder(), ends_search);
        folders.entry(top.clone()).or_default();
        tops.push(top);
    }
    for (spec, top) in specs.iter().zip(&tops) {
        let pattern = excluded(spec, descends);
        let is_meant = |folder: &[u8]| folder == top || (descends && folder.starts_with(top));
        let meant = folders
            .range_mut(top.clone()..)
            .take_while(|(folder, _)| is_meant(folder.as_slice()));
        meant.for_each(|(_, patterns)| patterns.push(pattern.clone()));
    }
    for (folder, patterns) in &folders {
        let bytes: usize = patterns.iter().map(|pattern| pattern.len() + OPTION_BYTES).sum();
        if bytes > PATHS_BYTES_MAX {
            let folder = model::escaped(folder);
            let message =
                format!("ANS1107E too many objects of '{folder}' are named; name fewer at once");
            return Err(CommandError::new(message));
        }
    }
    Ok(folders)
}

/// Returns the directory, or the nearest one above it that `ends_search`; `/` at the end.
fn nearest(mut folder: Vec<u8>, ends_search: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    while folder.len() > 1 && !ends_search(&folder) {
        let end = folder.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        folder.truncate(end.max(1));
    }
    folder
}

/// Returns the pattern of the objects that an operand names.
fn excluded(spec: &Spec, descends: bool) -> Vec<u8> {
    let last = match &spec.last {
        Last::Everything => b"*".to_vec(),
        Last::Matching(pattern) => pattern.as_bytes().to_vec(),
        Last::Named(name) => literal(name),
    };
    let between: &[u8] = if descends { b"/.../" } else { b"/" };
    [&literal(&spec.directory)[..], between, &last[..]].concat()
}

/// Returns the pattern of a name or a path.
fn literal(path: &[u8]) -> Vec<u8> {
    // The root has no pattern, and needs none.
    Pattern::of_path(path).map_or_else(|_| path.to_vec(), |pattern| pattern.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiration_leaves_out_what_is_named() {
        let patterns = |operand: &str, descends| {
            let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
            String::from_utf8(excluded(&spec, descends)).expect("is text")
        };
        assert_eq!(patterns("/home/ann/a", false), "/home/ann/a");
        assert_eq!(patterns("/home/ann/*.c", true), "/home/ann/.../*.c");
        assert_eq!(patterns("/home/ann/", false), "/home/ann/*");
        assert_eq!(patterns("/srv/[ann]/a[1]", false), r"/srv/\[ann]/a\[1]");
        assert_eq!(patterns("/a", false), "/a");
    }

    #[test]
    fn an_expiration_takes_each_directory_once() {
        let specs = |operands: &[&str]| -> Vec<Spec> {
            let parse = |operand: &&str| Spec::parse(operand.as_bytes(), b"/").expect("an operand");
            operands.iter().map(parse).collect()
        };
        let folders =
            by_folder(&specs(&["/b/x", "/a/y", "/b/z"]), false, &|_| true).expect("are few");
        let expected = [
            (b"/a".to_vec(), vec![b"/a/y".to_vec()]),
            (b"/b".to_vec(), vec![b"/b/x".to_vec(), b"/b/z".to_vec()]),
        ];
        assert_eq!(folders, BTreeMap::from(expected));
        let long = format!("/b/{}", "x".repeat(200));
        let many = vec![long.as_str(); PATHS_BYTES_MAX / 200];
        assert!(by_folder(&specs(&many), false, &|_| true).is_err());
        let below = by_folder(&specs(&["/a/b/y", "/a/x"]), true, &|_| true).expect("are few");
        assert_eq!(below[&b"/a/b"[..]], [b"/a/b/.../y".to_vec(), b"/a/.../x".to_vec()]);
        let gone = by_folder(&specs(&["/a/b/y"]), false, &|folder| folder == b"/a");
        assert_eq!(gone.expect("are few")[&b"/a"[..]], [b"/a/b/y".to_vec()]);
    }
}
