//! Plan of a restore: the objects that it would make, replace or leave. Nothing is changed.
//!
//! The versions come as a list, in path order. One directory of the target is open at a time, and
//! it is reached by one name after the other, without following symbolic links.

use std::collections::BTreeSet;
use std::io;

use model::{DirPath, Kind, Name, Object};
use sys::Dir;

use super::failure_of;
use super::layout::{Layout, above, is_absence};
use super::links::{Group, MetInodes, may_have_lost_names};
use super::make::FORMER_NAMES_MAX;
use super::parts::{Coverage, Parts};
use super::presence::{NameState, Presence};
use super::several::{below, distinct, divide};
use crate::error::ClientError;
use crate::link::Link;
use crate::link::versions::Entry;
use crate::options::{ReplaceRule, RestoreOptions};
use crate::path::{Place, absolute, components, normalise, places};
use crate::progress::Progress;
use crate::remains::has_any;
use crate::report::{Amount, FAILURES_LISTED, Failure, RestorePlan};

/// File system of all objects of a plan.
const ANY_DEVICE: u64 = 0;

/// Plans the restore of the paths of `options`. The plan says what the restore would do now.
pub(crate) fn plan(
    link: &Link,
    options: &RestoreOptions,
    progress: &Progress,
) -> Result<RestorePlan, ClientError> {
    let sources = link.filespaces_from(&options.origin)?;
    let paths: Result<Vec<_>, _> = options.paths.iter().map(|path| normalise(path)).collect();
    let paths = distinct(paths?);
    let layout = Layout::new(options.to.as_deref(), &paths, &sources.parts.concat());
    let node = link.hello().node.clone();
    let mut draft =
        Draft { plan: RestorePlan { node, ..RestorePlan::default() }, ..Draft::default() };
    let parts = Parts::new(sources.incomplete);
    let planner = Planner { link, options, layout, progress, parts };
    let missing =
        planner
            .parts
            .bring(options, &sources.parts, paths, |filespaces, paths, wanted| {
                planner.plan_all(filespaces, paths, wanted, &mut draft)
            })?;
    draft.plan.warnings = planner.parts.warnings();
    for path in missing {
        let error = failure_of(link, &sources.parts, options, &path)?;
        draft.plan.fail(Failure { path, error });
    }
    Ok(draft.plan)
}

/// Planner of a restore.
struct Planner<'a> {
    link: &'a Link,
    options: &'a RestoreOptions,
    layout: Layout,
    progress: &'a Progress,
    parts: Parts,
}

impl Planner<'_> {
    /// Plans the restore of those of `paths` that `filespaces` have. What comes with another path
    /// is planned there. Returns the other paths.
    fn plan_all(
        &self,
        filespaces: &[Vec<u8>],
        paths: Vec<Vec<u8>>,
        wanted: Coverage,
        draft: &mut Draft,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        let (alone, others) = match self.options.joins_paths() {
            true => divide(filespaces, paths),
            false => (paths, Vec::new()),
        };
        let mut missing = Vec::new();
        for path in alone {
            if !self.plan_path(filespaces, &path, wanted, draft)? {
                missing.push(path);
            }
        }
        let (waiting, covered) = below(&missing, others);
        for path in covered {
            if !self.is_stored(filespaces, &path)? {
                missing.push(path);
            }
        }
        if wanted == Coverage::Any && !waiting.is_empty() {
            missing.extend(self.plan_all(filespaces, waiting, wanted, draft)?);
        } else {
            missing.extend(waiting);
        }
        Ok(missing)
    }

    /// Returns true if one of `filespaces` has the path.
    fn is_stored(&self, filespaces: &[Vec<u8>], path: &[u8]) -> Result<bool, ClientError> {
        for place in places(filespaces.iter().map(Vec::as_slice), path) {
            if has_any(self.link, &self.options.selection(&place))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Plans the restore of one path from the first filespace that has it. Returns true if a
    /// filespace has what is wanted of it.
    fn plan_path(
        &self,
        filespaces: &[Vec<u8>],
        path: &[u8],
        wanted: Coverage,
        draft: &mut Draft,
    ) -> Result<bool, ClientError> {
        let Self { link, options, layout, progress, parts } = self;
        for place in places(filespaces.iter().map(Vec::as_slice), path) {
            if wanted == Coverage::Whole && parts.meet(link, options, path, &place)? {
                return Ok(false);
            }
            let base = layout.base(path, &place);
            let folder = match base.make_later() {
                Err(error) if base.is_obstructed() => {
                    // Symbolic links may lead to the path: its resolved name is in another place.
                    if !has_any(link, &options.selection(&place))? {
                        continue;
                    }
                    draft.plan.fail(Failure { path: path.to_vec(), error: error.message });
                    return Ok(true);
                }
                folder => folder?,
            };
            if plan_place(link, options, (&place, folder), progress, draft)? {
                parts.note_use(&place);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Plans the restore of one place. Returns true if the server has versions of it.
fn plan_place(
    link: &Link,
    options: &RestoreOptions,
    (place, folder): (&Place, Option<Dir>),
    progress: &Progress,
    draft: &mut Draft,
) -> Result<bool, ClientError> {
    let (filespace, is_past) = (&place.filespace[..], options.which.at.is_some());
    let presence = Presence { replace: options.replace, owner: sys::process::is_root() };
    let mut target = Target::new(folder, above(place), presence);
    let mut listing = link.list(&options.selection(place))?;
    let mut is_found = false;
    while let Some(entries) = listing.next()? {
        if progress.is_stopped() {
            return Err(ClientError::interrupted());
        }
        for entry in entries {
            is_found = true;
            if *entry.directory == DirPath::above_root()
                || options.part.leaves_out(&entry.object.stat)
            {
                continue;
            }
            let path = absolute(filespace, &entry.directory.join(&entry.object.name));
            match target.state(&entry) {
                Ok(state) => draft.note(state, &entry.object, (filespace, path), is_past),
                Err(error) => draft.plan.fail(Failure { path, error: error.to_string() }),
            }
        }
    }
    Ok(is_found)
}

/// Plan that is being made.
#[derive(Default)]
struct Draft {
    plan: RestorePlan,
    /// Inodes that have a name in the stored state, after the restore.
    made: MetInodes,
    /// Inodes of which another object keeps a name.
    kept: MetInodes,
    /// Number of objects with one name among the names of inodes.
    former_names: usize,
}

impl Draft {
    fn note(
        &mut self,
        state: NameState,
        object: &Object,
        (filespace, path): (&[u8], Vec<u8>),
        is_past: bool,
    ) {
        let bytes = self.bytes(state, object, filespace, is_past);
        let RestorePlan { new, replaced, kept, right, planned, .. } = &mut self.plan;
        let (amount, verb): (&mut Amount, _) = match state {
            NameState::Absent => (new, "restore"),
            NameState::Replace => (replaced, "replace"),
            NameState::Keep => (kept, "keep"),
            NameState::Right => (right, "exists"),
        };
        amount.add(bytes);
        if planned.len() < FAILURES_LISTED {
            planned.push((verb, path));
        }
    }

    /// Returns the number of bytes that the object adds. A further name of a file adds nothing: the
    /// restore links it. Several file systems in the target are not told apart.
    fn bytes(&mut self, state: NameState, object: &Object, filespace: &[u8], is_past: bool) -> u64 {
        if object.stat.kind != Kind::File {
            return 0;
        }
        let is_former =
            is_past && self.former_names < FORMER_NAMES_MAX && may_have_lost_names(object);
        self.former_names += usize::from(is_former);
        let has_names = object.stat.linked || is_former;
        let group = if has_names { Group::of(object, ANY_DEVICE) } else { None };
        let met = if state == NameState::Keep { &mut self.kept } else { &mut self.made };
        let is_first = group.is_none_or(|group| met.meet(filespace, group));
        if is_first { object.stat.size } else { 0 }
    }
}

/// Target of a restore that is only planned.
struct Target {
    /// Folder of the target; `None` if it does not exist.
    base: Option<Dir>,
    /// Directory of the filespace that `base` stands for.
    above: DirPath,
    presence: Presence,
    /// The directory that was opened last; `None` in place of a directory that will be made.
    at: Option<(DirPath, Option<Dir>)>,
    /// Directories that will replace other objects.
    replacing: BTreeSet<DirPath>,
}

impl Target {
    fn new(base: Option<Dir>, above: DirPath, presence: Presence) -> Self {
        Self { base, above, presence, at: None, replacing: BTreeSet::new() }
    }

    /// Returns the state of the name of the object in the target. Fails if the restore of the
    /// object would fail.
    fn state(&mut self, entry: &Entry) -> io::Result<NameState> {
        let at = match self.at.take().filter(|(at, _)| *at == *entry.directory) {
            Some(at) => at,
            None => (DirPath::clone(&entry.directory), self.open(&entry.directory)?),
        };
        let (_, directory) = self.at.insert(at);
        let Some(directory) = directory else { return Ok(NameState::Absent) };
        let (object, presence) = (&entry.object, self.presence);
        let is_directory = object.stat.kind == Kind::Directory;
        let state = match is_directory {
            true => state_of_directory(directory, object, presence)?,
            false => presence.state(directory, object)?,
        };
        if matches!(state, NameState::Absent | NameState::Replace) {
            directory.check_writable()?;
        }
        match (state, is_directory) {
            (NameState::Replace, true) => {
                self.replacing.insert(entry.directory.child(&object.name));
            }
            (NameState::Replace, false) => check_replaceable(directory, object)?,
            _ => {}
        }
        Ok(state)
    }

    /// Opens the directory of the target that stands for `directory`; `None` if it will be made.
    fn open(&self, directory: &DirPath) -> io::Result<Option<Dir>> {
        let Some(base) = &self.base else { return Ok(None) };
        let mut dir = base.try_clone()?;
        let mut path = self.above.clone();
        let rest = directory.as_bytes().strip_prefix(self.above.as_bytes()).unwrap_or_default();
        for part in components(rest) {
            path = path.child(&Name::new(part).map_err(io::Error::other)?);
            dir = match dir.open_dir(part) {
                Ok(below) => below,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return dir.check_writable().map(|()| None);
                }
                Err(error) if is_absence(&error) && self.replacing.contains(&path) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
        }
        Ok(Some(dir))
    }
}

/// Returns the state of the name of a directory. Fails if another object keeps the name, so that
/// the directory cannot be made.
fn state_of_directory(dir: &Dir, object: &Object, presence: Presence) -> io::Result<NameState> {
    match dir.stat(object.name.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(NameState::Absent),
        Err(error) => Err(error),
        Ok(Some(found)) if found.stat.kind == Kind::Directory => Ok(NameState::Right),
        Ok(_) if presence.replace == ReplaceRule::All => Ok(NameState::Replace),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Fails if a directory with objects in it has the name of `object`, because it is not replaced.
fn check_replaceable(dir: &Dir, object: &Object) -> io::Result<()> {
    match dir.open_dir(object.name.as_bytes()) {
        Ok(found) if !found.names()?.is_empty() => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        // The object is no directory.
        _ => Ok(()),
    }
}
