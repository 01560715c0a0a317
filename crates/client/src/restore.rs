//! Restore and verification.
//!
//! The server sends windows of entries in path order. The client makes directories, links and empty
//! files as they arrive, compares the objects that exist, and answers with the files that it lacks.
//! Then the server sends the quanta of these files in media order. Threads decompress the quanta,
//! check every chunk, and write it to all files of the window that need it. A file appears under
//! its name only when it is whole.
//!
//! Invariants:
//! 1. No symbolic link is followed below the target. At the old place, that is the mount point.
//! 2. A chunk is written only after its digest has been checked.
//! 3. A directory gets its attributes after everything in it has been made.

mod attributes;
mod batch;
mod batches;
mod copy;
mod destination;
mod image;
mod layout;
mod links;
mod make;
mod opener;
mod parents;
mod parts;
mod plan;
mod presence;
mod ranges;
mod recall;
mod receive;
mod recent;
mod several;
mod tally;
mod tree;
mod verify;
mod window;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) use self::batch::small_files;
pub use self::batch::{Reach, SmallFile, SmallFileSink};
pub(crate) use self::image::restore as restore_image;
pub use self::image::{ImageReader, ImageRestoration, ImageRestoreReport, ImageTarget, LostRange};
use self::layout::{Base, Layout};
use self::links::MadeNames;
use self::make::Maker;
use self::parents::Parents;
use self::parts::{Coverage, Parts};
pub(crate) use self::plan::plan;
pub use self::ranges::{AHEAD_BYTES, RangeReader};
pub use self::recall::{FileFiller, RecallRequest};
pub(crate) use self::recall::{Recent, recall};
use self::receive::{Receipt, receive};
use self::recent::RecentQuanta;
use self::several::{Portion, Siblings, below, by_directory, distinct, divide};
use self::tally::Tally;
pub(crate) use self::verify::verify;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::Selection;
use crate::options::{Origin, RestoreOptions, RestorePart};
use crate::path::{Place, normalise, places};
use crate::progress::{Phase, Progress};
use crate::remains::{Absence, has_any, nothing_stored};
use crate::report::RestoreReport;

/// Restores objects, as `options` say.
pub(crate) fn run(
    link: &Link,
    options: &RestoreOptions,
    progress: &Arc<Progress>,
) -> Result<RestoreReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let tally = Tally::new(Arc::clone(progress));
    let restored = attempt(link, options, &tally);
    if let Err(error) = restored {
        progress.attempts.keep_restore(tally.into_report());
        return Err(error);
    }
    progress.enter(Phase::Finishing);
    let mut report = progress.attempts.join_restore(tally.into_report());
    report.node = link.hello().node.clone();
    report.bytes_transferred = progress.bytes_transferred.load(Relaxed);
    report.elapsed = progress.attempts.elapsed();
    report.interruptions = progress.interruptions();
    Ok(report)
}

/// Restores objects, as far as the connection lasts.
fn attempt(link: &Link, options: &RestoreOptions, tally: &Tally) -> Result<(), ClientError> {
    tally.progress.enter(Phase::Running);
    let sources = link.filespaces_from(&options.origin)?;
    let paths: Result<Vec<_>, _> = options.paths.iter().map(|path| normalise(path)).collect();
    let paths = distinct(paths?);
    let recent = (paths.len() > 1).then(RecentQuanta::default);
    let layout = Layout::new(options.to.as_deref(), &paths, &sources.parts.concat());
    let made = (paths.len() > 1).then(MadeNames::default);
    let (parents, parts) = (Parents::default(), Parts::new(sources.incomplete));
    let restoration = Restoration { link, options, layout, tally, recent, made, parents, parts };
    let missing =
        restoration
            .parts
            .bring(options, &sources.parts, paths, |filespaces, paths, wanted| {
                restoration.restore_all(filespaces, paths, wanted)
            })?;
    restoration.parents.finish(tally);
    tally.warn(restoration.parts.warnings());
    for path in missing {
        let failure = failure_of(link, &sources.parts, options, &path)?;
        tally.fail(path, failure);
    }
    Ok(())
}

impl RestoreOptions {
    /// Returns true if a path below another one comes with it. Below a folder each path has a place
    /// of its own.
    fn joins_paths(&self) -> bool {
        self.to.is_none() && self.part != RestorePart::NamedDirectories
    }

    /// Returns the selection of the versions at a place that may come back.
    fn selection(&self, place: &Place) -> Selection {
        let selection = match self.part {
            RestorePart::NamedDirectories => Selection::of_object(place),
            _ => Selection::of_subtree(place),
        };
        selection.with_versions(&self.which)
    }
}

/// Returns why `path` is not restored: none of `origins` has it. Fails if it is the only path.
fn failure_of(
    link: &Link,
    origins: &[Vec<Vec<u8>>],
    options: &RestoreOptions,
    path: &[u8],
) -> Result<String, ClientError> {
    let absence = match &options.origin {
        Origin::Backups | Origin::Filespace(_) => {
            nothing_stored(link, &origins[0], path, &options.which)
        }
        Origin::Archives(_) => not_archived(path),
    };
    absence.one_of_several(options.paths.len())
}

fn not_archived(path: &[u8]) -> Absence {
    Absence::new(path, |subject, _| {
        format!("these archives do not have {subject}; 'holdfast archives' shows all archives")
    })
}

/// Restore of the paths of a command.
struct Restoration<'a> {
    link: &'a Link,
    options: &'a RestoreOptions,
    layout: Layout,
    tally: &'a Tally,
    /// Quanta that came for the last paths; `None` for one path.
    recent: Option<RecentQuanta>,
    /// Names of inodes, so that hard links of different paths are found; `None` for one path.
    made: Option<MadeNames>,
    parents: Parents,
    parts: Parts,
}

impl Restoration<'_> {
    /// Restores those of `paths` that `filespaces` have, and counts no object twice because paths
    /// overlap. Returns the other paths.
    fn restore_all(
        &self,
        filespaces: &[Vec<u8>],
        paths: Vec<Vec<u8>>,
        wanted: Coverage,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        if !self.options.joins_paths() {
            return self.restore(filespaces, paths, wanted);
        }
        let (alone, others) = divide(filespaces, paths);
        let mut missing = self.restore(filespaces, alone, wanted)?;
        let (waiting, covered) = below(&missing, others);
        let skips = self.tally.skips();
        missing.extend(self.restore(filespaces, covered, wanted)?);
        self.tally.set_skips_back(skips);
        if wanted == Coverage::Any && !waiting.is_empty() {
            missing.extend(self.restore_all(filespaces, waiting, wanted)?);
        } else {
            missing.extend(waiting);
        }
        Ok(missing)
    }

    /// Restores those of `paths` that `filespaces` have. Returns the other paths.
    fn restore(
        &self,
        filespaces: &[Vec<u8>],
        paths: Vec<Vec<u8>>,
        wanted: Coverage,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        let mut missing = Vec::new();
        for paths in by_directory(paths) {
            for path in self.restore_siblings(filespaces, paths)? {
                if !self.restore_path(filespaces, &path, wanted)? {
                    missing.push(path);
                }
            }
        }
        Ok(missing)
    }

    /// Restores those of `paths`, all of one directory, that can be received together. Returns the
    /// other paths.
    fn restore_siblings(
        &self,
        filespaces: &[Vec<u8>],
        paths: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        // Directories come one by one, and the data of files beside them is not wanted.
        let part = self.options.part;
        let has_files = !matches!(part, RestorePart::Directories | RestorePart::NamedDirectories);
        let siblings = Siblings::of(filespaces, &paths).filter(|_| has_files);
        let Some(siblings) = siblings else { return Ok(paths) };
        let place = siblings.place.clone();
        let directories = std::iter::once(place.directory.clone());
        let objects = self.link.count_objects(&place.filespace, directories)?;
        if !siblings.are_many_of(objects) {
            return Ok(paths);
        }
        let (count, expected) = (siblings.count(), &self.tally.progress.objects_expected);
        expected.fetch_add(count, Relaxed);
        let selection = Selection::of_directory(&place.filespace, place.directory.clone());
        let selection = selection.with_versions(&self.options.which);
        let base = self.layout.base(&paths[0], &place);
        // Paths that the server cannot read are received alone, so that each failure is named.
        match self.receive(&place, &base, &selection, Some(siblings)) {
            Ok((_, Some(siblings))) => {
                expected.fetch_sub(siblings.count_rest(), Relaxed);
                Ok(siblings.rest(paths))
            }
            Ok((_, None)) => Ok(paths),
            // Another node may let this one read the paths, but not their directory. In an
            // obstructed folder each path is a failure of its own.
            Err(error) if error.kind == ErrorKind::NotFound || base.is_obstructed() => {
                expected.fetch_sub(count, Relaxed);
                Ok(paths)
            }
            Err(error) => Err(error),
        }
    }

    /// Restores one path from the first filespace that has it, innermost mount point first. Returns
    /// true if a filespace has what is wanted of it.
    fn restore_path(
        &self,
        filespaces: &[Vec<u8>],
        path: &[u8],
        wanted: Coverage,
    ) -> Result<bool, ClientError> {
        for place in places(filespaces.iter().map(Vec::as_slice), path) {
            if wanted == Coverage::Whole
                && self.parts.meet(self.link, self.options, path, &place)?
            {
                return Ok(false);
            }
            let directories = std::iter::once(place.below());
            let objects = self.link.count_objects(&place.filespace, directories)?;
            self.tally.progress.objects_expected.fetch_add(objects, Relaxed);
            let selection = self.options.selection(&place);
            let base = self.layout.base(path, &place);
            let (received, _) = match self.receive(&place, &base, &selection, None) {
                // Symbolic links may lead to the path: then its resolved name is in another place.
                Err(_) if base.is_obstructed() && !has_any(self.link, &selection)? => continue,
                Err(error) if base.is_obstructed() => {
                    self.tally.fail(path.to_vec(), error.message);
                    return Ok(true);
                }
                received => received?,
            };
            let is_here = received.versions > 0 || received.unreadable.is_some();
            if let Some(error) = received.unreadable {
                self.tally.fail(path.to_vec(), error.message);
            }
            if is_here {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Receives what is wanted of `selection`: all of it, or `siblings`, which are returned.
    fn receive(
        &self,
        place: &Place,
        base: &Base,
        selection: &Selection,
        siblings: Option<Siblings>,
    ) -> Result<(Receipt, Option<Siblings>), ClientError> {
        let start = self.parents.start(self.link, self.options, place, base)?;
        let maker = Maker::new(start, self.options, self.tally, self.made.as_ref())?;
        let recent = self.recent.as_ref();
        let mut portion = Portion { maker, link: self.link, siblings, recent };
        let received = receive(self.link, selection, None, &mut portion, self.tally)?;
        let Portion { maker, siblings, .. } = portion;
        // The entries of all objects of the directory come, but only siblings are wanted.
        let has_come = |siblings: &Siblings| siblings.count_rest() < siblings.count();
        if siblings.as_ref().map_or(received.versions > 0, has_come) {
            self.parts.note_use(place);
        }
        maker.finish();
        Ok((received, siblings))
    }
}
