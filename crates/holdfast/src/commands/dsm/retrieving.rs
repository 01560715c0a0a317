//! `dsmc retrieve`: objects of archives, of each the newest that the command names.

use std::collections::BTreeMap;

use client::{Class, Client};
use dsm::client::{self as plan, Preservation, Spec, TimeRange};
use dsm::lines::{archive_heading, archive_line};
use policy::Limit;

use super::clock;
use super::joining;
use super::links;
use super::questions;
use super::restoring::{self, Batch, Tally, Target};
use super::session::Session;
use super::stored::{self, Filter, StoredObject};
use crate::error::{CommandError, NOT_DONE};

const DAY_SECS: i64 = 24 * 3600;

/// Archived objects of one kind that come from one archive.
struct Group {
    archive: u64,
    /// True for directories without what is in them.
    is_of_directories: bool,
    paths: Vec<Vec<u8>>,
}

/// Objects that the names of a command stand for: each from the newest archive that has it.
#[derive(Default)]
struct NewestObjects {
    /// Archive of each path, and whether it is a directory.
    from: BTreeMap<Vec<u8>, (u64, bool)>,
}

impl NewestObjects {
    /// Returns the only archive of the objects.
    fn only_archive(&self) -> Option<u64> {
        let (first, _) = self.from.values().next()?;
        self.from.values().all(|(archive, _)| archive == first).then_some(*first)
    }

    /// Divides the objects by kind and archive. Directories come first, those at the top before
    /// what is in them, whichever archives they come from: so each is made as it was.
    fn groups(self, filter: &Filter, preservation: Preservation) -> Vec<Group> {
        let mut groups: BTreeMap<(Step, u64), Vec<Vec<u8>>> = BTreeMap::new();
        for (path, (archive, is_directory)) in self.from {
            let is_wanted = match is_directory {
                true => !filter.files_only && preservation != Preservation::None,
                false => !filter.only_directories(),
            };
            let step = match is_directory {
                true => Step::Directories(path.iter().filter(|&&byte| byte == b'/').count()),
                false => Step::Files,
            };
            if is_wanted {
                groups.entry((step, archive)).or_default().push(path);
            }
        }
        groups
            .into_iter()
            .map(|((step, archive), paths)| Group {
                archive,
                is_of_directories: step != Step::Files,
                paths,
            })
            .collect()
    }
}

/// Step in which objects come back, in the order of the steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    /// Directories at this depth.
    Directories(usize),
    Files,
}

pub(super) fn retrieve(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let client = joining::connect(session)?;
    let is_listed = session.options().has("FILELIST");
    let (written, destination) = match is_listed {
        true => (stored::named(session)?, session.command.operands.first().cloned()),
        false => {
            let (spec, destination) = restoring::places(session)?;
            (vec![spec], destination)
        }
    };
    let specs = links::follow_all(session, &client, &written, &Filter::default())?;
    if session.command.has("PICK") {
        let batches = picked_batches(session, &client, &specs, destination)?;
        return run_all(session, &batches);
    }
    let (found, is_found) = newest(session, &client, &specs)?;
    let is_whole = stored::tell_absent(session, &written, &is_found);
    let batches = match is_listed {
        true => listed(session, found, destination.as_deref())?,
        false => placed(session, &client, &specs[0], found, destination)?,
    };
    if batches.is_empty() {
        return Err(stored::nothing());
    }
    let code = run_all(session, &batches)?;
    Ok(if is_whole { code } else { NOT_DONE })
}

/// Runs the command lines of the batches, each from one archive.
fn run_all(session: &mut Session<'_>, batches: &[(u64, Batch)]) -> Result<u8, CommandError> {
    let replaces = session.command.prompts(session.options())
        && questions::is_agreed_if_asked(session, "Replace objects that exist and differ?")?;
    let mut tally = Tally::default();
    for (archive, batch) in batches {
        run(session, *archive, batch, replaces, &mut tally)?;
    }
    Ok(tally.end(session, true))
}

/// Runs the command line of a batch from one archive.
fn run(
    session: &mut Session<'_>,
    archive: u64,
    batch: &Batch,
    replaces: bool,
    tally: &mut Tally,
) -> Result<(), CommandError> {
    let target = Target::make(batch)?;
    let to = target.folder.as_deref();
    let mut line = plan::retrieve(&session.command, session.options(), archive, to);
    if replaces && let Some(last) = line.last_mut() {
        *last = "all".into();
    }
    line.extend(batch.directories.map(|which| format!("--directories={which}").into()));
    tally.run(session, &line, restoring::listed(&batch.paths))?;
    tally.take_end(target.finish(batch, &line)?);
    Ok(())
}

/// Returns the batches of the objects of a list.
fn listed(
    session: &Session<'_>,
    found: NewestObjects,
    destination: Option<&[u8]>,
) -> Result<Vec<(u64, Batch)>, CommandError> {
    let groups = found.groups(&Filter::of(session)?, Preservation::Subtree);
    let paths = groups.iter().flat_map(|group| group.paths.iter().map(Vec::as_slice));
    let layout = restoring::layout(destination, paths)?;
    let mut batches = Vec::new();
    for Group { archive, is_of_directories, paths } in groups {
        let directories = is_of_directories.then_some("named");
        let of_group = |batch| (archive, Batch { directories, ..batch });
        batches.extend(restoring::in_layout(&layout, paths).map(of_group));
    }
    Ok(batches)
}

/// Returns the batches of the objects that an operand names.
fn placed(
    session: &Session<'_>,
    client: &Client,
    spec: &Spec,
    found: NewestObjects,
    destination: Option<Vec<u8>>,
) -> Result<Vec<(u64, Batch)>, CommandError> {
    // The times of the command choose archives.
    let filter = Filter { range: TimeRange::default(), ..Filter::of(session)? };
    let preservation =
        Preservation::of(&session.options().text("PRESERVEPATH").unwrap_or_default());
    let is_directory = found.from.get(&spec.path()).is_some_and(|(_, is_directory)| *is_directory);
    let spec = match is_directory && session.descends() {
        true => restoring::content_of(spec),
        false => spec.clone(),
    };
    let of_tree = restoring::whole_tree(&spec, session.descends(), &filter, preservation);
    if let (Some(tree), Some(archive)) = (of_tree, found.only_archive()) {
        // A tree of one archive comes back as a whole, with the times of its directories.
        let batches = restoring::placed(&spec, vec![tree], client, destination, preservation)?;
        return Ok(batches.into_iter().map(|batch| (archive, batch)).collect());
    }
    let mut batches = Vec::new();
    for Group { archive, is_of_directories, paths } in found.groups(&filter, preservation) {
        let placed = match (is_of_directories, &destination) {
            (true, Some(to)) => restoring::in_folders(client, &spec, paths, to, preservation)?,
            _ => restoring::placed(&spec, paths, client, destination.clone(), preservation)?,
        };
        let directories = is_of_directories.then_some("named");
        batches.extend(placed.into_iter().map(|batch| (archive, Batch { directories, ..batch })));
    }
    Ok(batches)
}

/// An archived file that a person has picked.
pub(super) struct PickedFile {
    pub(super) archive: u64,
    pub(super) path: Vec<u8>,
    /// File space of the file, if braces name it.
    pub(super) filespace: Option<Vec<u8>>,
}

/// Shows the archived files that the operands name, and returns those that a person picks.
pub(super) fn pick(
    session: &mut Session<'_>,
    client: &Client,
    specs: &[Spec],
) -> Result<Vec<PickedFile>, CommandError> {
    let (mut files, mut lines) = (Vec::new(), Vec::new());
    let (descends, all) = (session.descends(), Filter::default());
    for archive in stored::archives(session, client)? {
        let mut take = |index: usize, object: StoredObject| {
            if !object.is_directory() {
                let path = model::escaped(&object.path);
                let expires = expires(session, client, &object);
                let (version, text) = (object.shown(&path), &archive.description);
                lines.push(archive_line(&version, &expires, text, session.forms));
                let filespace = specs[index].filespace.clone();
                files.push(PickedFile { archive: archive.number, path: object.path, filespace });
            }
            true
        };
        stored::select_in_archive(client, &archive, specs, descends, &all, &mut take)?;
    }
    if files.is_empty() {
        return Err(stored::nothing());
    }
    let picked = questions::choose(session, &archive_heading(), &lines)?;
    let mut files: Vec<Option<PickedFile>> = files.into_iter().map(Some).collect();
    Ok(picked.into_iter().filter_map(|index| files[index].take()).collect())
}

/// Returns the batches of the files that a person picks.
fn picked_batches(
    session: &mut Session<'_>,
    client: &Client,
    specs: &[Spec],
    destination: Option<Vec<u8>>,
) -> Result<Vec<(u64, Batch)>, CommandError> {
    let mut by_archive: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    for file in pick(session, client, specs)? {
        by_archive.entry(file.archive).or_default().push(file.path);
    }
    let preservation =
        Preservation::of(&session.options().text("PRESERVEPATH").unwrap_or_default());
    let all = by_archive.values().flatten().map(Vec::as_slice);
    let layout = restoring::layout(destination.as_deref(), all)?;
    let mut batches = Vec::new();
    for (archive, paths) in by_archive {
        let placed = match session.options().has("FILELIST") {
            true => restoring::in_layout(&layout, paths).collect(),
            false => {
                let destination = destination.clone();
                restoring::placed(&specs[0], paths, client, destination, preservation)?
            }
        };
        batches.extend(placed.into_iter().map(|batch| (archive, batch)));
    }
    Ok(batches)
}

/// Returns the day on which an archived object expires, or `Never`.
pub(super) fn expires(session: &Session<'_>, client: &Client, object: &StoredObject) -> String {
    let is_class = |class: &&Class| class.name == object.class;
    let group = client.hello().classes.values().find(is_class).and_then(|class| class.archive);
    match group.map(|group| group.keep_days) {
        Some(Limit::AtMost(days)) => {
            let end = object.stored.secs() + i64::from(days) * DAY_SECS;
            session.forms.date(clock::moment(model::ServerTime::from_secs(end)))
        }
        _ => "Never".to_owned(),
    }
}

/// Finds the objects that the names of a command stand for, and whether there are any of each name.
fn newest(
    session: &Session<'_>,
    client: &Client,
    specs: &[Spec],
) -> Result<(NewestObjects, Vec<bool>), CommandError> {
    let mut found = NewestObjects::default();
    let mut is_found = vec![false; specs.len()];
    let takes_directories = session.descends() || session.command.has("DIRSONLY");
    for archive in stored::archives(session, client)? {
        let mut take = |index: usize, object: StoredObject| {
            is_found[index] = true;
            if takes_directories || !object.is_directory() {
                let of = (archive.number, object.is_directory());
                found.from.entry(object.path).or_insert(of);
            }
            true
        };
        let (descends, all) = (session.descends(), Filter::default());
        stored::select_in_archive(client, &archive, specs, descends, &all, &mut take)?;
    }
    Ok((found, is_found))
}
