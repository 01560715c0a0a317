//! Verification: reads and checks everything that a restore would read, and writes nothing.
//!
//! A restore drill verifies a random sample of everything that the node has. The server draws it,
//! sends only its versions, and keeps the result. An attempt that loses its connection leaves no
//! trace: the next one begins a drill of its own with the same seed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{DirPath, Name, archive_number};
use sys::lock::Mutex;
use wire::proto;

use super::destination::Destination;
use super::receive::receive;
use super::tally::Tally;
use crate::attempts::VerifiedPart;
use crate::error::{ClientError, shortened};
use crate::link::stage::Purpose;
use crate::link::versions::{Entry, Scope, Selection, has_data};
use crate::link::{FilespaceSummary, Link};
use crate::options::{Sample, VerifyOptions};
use crate::path::{absolute, normalise, places};
use crate::progress::{Phase, Progress};
use crate::remains::Absence;
use crate::report::{DrillReport, VerifyReport};

/// Checks all versions, active and inactive. An attempt that loses its connection leaves its report
/// to the next one, which goes on after the windows that are complete.
pub(crate) fn verify(
    link: &Link,
    options: &VerifyOptions,
    progress: &Arc<Progress>,
) -> Result<VerifyReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    if let Some(sample) = options.sample {
        return drill(link, sample, progress);
    }
    let tally = Tally::new(Arc::clone(progress));
    progress.enter(Phase::Running);
    let checked = SoundFiles::default();
    let requests = requests(link, options)?;
    let verified = verify_all(link, requests, options.data, &tally, &checked);
    let mut report = tally.into_report();
    report.bytes_restored = checked.bytes.into_inner();
    let Verification { versions, missing } = match verified {
        Ok(found) => found,
        Err(error) => {
            progress.attempts.keep_restore(report);
            return Err(error);
        }
    };
    let report = progress.attempts.join_verification(report);
    Ok(VerifyReport {
        node: link.hello().node.clone(),
        versions,
        damaged: report.failed.saturating_sub(missing),
        missing,
        bytes_verified: report.bytes_restored,
        bytes_transferred: progress.bytes_transferred.load(Relaxed),
        elapsed: progress.attempts.elapsed(),
        interruptions: progress.interruptions(),
        failures: report.failures,
        drill: None,
    })
}

/// Restores a sample of everything that the node has to nowhere, and gives the result to the
/// server.
fn drill(
    link: &Link,
    sample: Sample,
    progress: &Arc<Progress>,
) -> Result<VerifyReport, ClientError> {
    let tally = Tally::new(Arc::clone(progress));
    let number = link.begin_drill(sample)?;
    progress.enter(Phase::Running);
    let checked = SoundFiles::default();
    let filespaces = link.filespaces(true)?.into_iter();
    let of_sample = |filespace: FilespaceSummary| Selection {
        drill: Some(number),
        ..Selection::of_filespace(&filespace.name)
    };
    let requests = vec![Request { path: None, selections: filespaces.map(of_sample).collect() }];
    let Verification { versions, .. } = verify_all(link, requests, true, &tally, &checked)?;
    let report = tally.into_report();
    let first = report.failures.first().map(|failure| {
        let path = model::escaped(&failure.path);
        shortened(format!("{path}: {}", failure.error))
    });
    let result = link.end_drill(proto::EndDrillRequest {
        number,
        checked: checked.files.into_inner(),
        damaged: report.failed,
        reason: first.unwrap_or_default(),
    })?;
    Ok(VerifyReport {
        node: link.hello().node.clone(),
        versions,
        damaged: report.failed,
        missing: 0,
        bytes_verified: checked.bytes.into_inner(),
        bytes_transferred: progress.bytes_transferred.load(Relaxed),
        elapsed: progress.attempts.elapsed(),
        interruptions: progress.interruptions(),
        failures: report.failures,
        drill: Some(DrillReport { seed: sample.seed, result }),
    })
}

/// Data that was checked.
#[derive(Default)]
struct SoundFiles {
    /// Number of files that are sound.
    files: AtomicU64,
    bytes: AtomicU64,
}

/// Numbers of a verification, over all its requests.
#[derive(Default)]
struct Verification {
    versions: u64,
    /// Number of paths without any version.
    missing: u64,
}

/// Checks all versions, as far as the connection lasts.
fn verify_all(
    link: &Link,
    requests: Vec<Request>,
    reads: bool,
    tally: &Tally,
    checked: &SoundFiles,
) -> Result<Verification, ClientError> {
    let (mut whole, paths) = (Verification::default(), requests.len());
    for Request { path, selections } in requests {
        let (mut found, mut is_damaged) = (0, false);
        for mut selection in selections {
            selection.all_versions = true;
            let key = key(path.as_deref(), &selection);
            if let Some(versions) = tally.progress.attempts.verified(&key).versions {
                found += versions;
                continue;
            }
            let mut checker = Checker::new(&selection.filespace, &key, tally, checked, reads);
            let received =
                receive(link, &selection, Some(Purpose::reading()), &mut checker, tally)?;
            found += received.versions;
            let versions = Some(received.versions);
            tally.progress.attempts.verify(&key, VerifiedPart { up_to: None, versions });
            if let Some(error) = received.unreadable {
                let place = path.clone().unwrap_or_else(|| selection.filespace.clone());
                tally.fail(place, error.message);
                is_damaged = true;
            }
        }
        if let Some(path) = path.filter(|_| found == 0 && !is_damaged) {
            let missing =
                Absence::new(&path, |subject, _| format!("the server has no version of {subject}"));
            tally.fail(path, missing.one_of_several(paths)?);
            whole.missing += 1;
        }
        whole.versions += found;
    }
    Ok(whole)
}

/// Returns the key of `selection`, which is for `path`, in the record of what was verified. A path
/// through a symbolic link has several selections in one filespace.
fn key(path: Option<&[u8]>, selection: &Selection) -> Vec<u8> {
    let place = match &selection.scope {
        Scope::Subtree(place) => place.below(),
        _ => DirPath::root(),
    };
    let (path, drill) = (path.unwrap_or_default(), selection.drill.unwrap_or(0).to_le_bytes());
    [path, b"\0", place.as_bytes(), b"\0", &drill, &selection.filespace].concat()
}

/// Path to verify, with the selections for it.
struct Request {
    /// Path that the user has named; `None` for everything.
    path: Option<Vec<u8>>,
    selections: Vec<Selection>,
}

fn requests(link: &Link, options: &VerifyOptions) -> Result<Vec<Request>, ClientError> {
    let all = link.filespaces(true)?.into_iter().map(|filespace| filespace.name);
    let is_selected =
        |name: &Vec<u8>| options.archive.is_none_or(|number| archive_number(name) == Some(number));
    let filespaces: Vec<Vec<u8>> = all.filter(is_selected).collect();
    if options.paths.is_empty() {
        let selections = filespaces.iter().map(|name| Selection::of_filespace(name)).collect();
        return Ok(vec![Request { path: None, selections }]);
    }
    let of_path = |path: &Vec<u8>| {
        let path = normalise(path)?;
        let places = places(filespaces.iter().map(Vec::as_slice), &path);
        let selections = places.iter().map(Selection::of_subtree).collect();
        Ok(Request { path: Some(path), selections })
    };
    options.paths.iter().map(of_path).collect()
}

/// Destination that counts data instead of writing it.
struct Checker<'a> {
    filespace: &'a [u8],
    /// Key of the selection in the record of what was verified.
    key: &'a [u8],
    tally: &'a Tally,
    checked: &'a SoundFiles,
    reads: bool,
    /// Directory before which an earlier attempt has verified everything.
    up_to: Option<DirPath>,
    /// Directory of the last entry.
    last: Option<Arc<DirPath>>,
    /// Last directories of the windows that are not complete, oldest first.
    window_ends: Mutex<VecDeque<Option<Arc<DirPath>>>>,
}

impl<'a> Checker<'a> {
    fn new(
        filespace: &'a [u8],
        key: &'a [u8],
        tally: &'a Tally,
        checked: &'a SoundFiles,
        reads: bool,
    ) -> Self {
        let up_to = tally.progress.attempts.verified(key).up_to;
        let window_ends = Mutex::default();
        Self { filespace, key, tally, checked, reads, up_to, last: None, window_ends }
    }
}

/// Version whose data is checked.
struct CheckedFile {
    directory: Arc<DirPath>,
    name: Name,
}

impl Destination for Checker<'_> {
    type File = CheckedFile;

    fn take(&mut self, entry: Entry) -> Option<CheckedFile> {
        if self.last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &entry.directory)) {
            self.last = Some(Arc::clone(&entry.directory));
        }
        if self.up_to.as_ref().is_some_and(|up_to| *entry.directory < *up_to) {
            return None;
        }
        if !has_data(&entry.object.stat) {
            return None;
        }
        let is_whole = entry.has_whole_data();
        let file = CheckedFile { directory: entry.directory, name: entry.object.name };
        if !is_whole {
            self.lose(&file, "the data of the file is lost or damaged at the server");
            return None;
        }
        self.tally.progress.objects.fetch_add(1, Relaxed);
        self.reads.then_some(file)
    }

    fn write(&self, _: &CheckedFile, chunk: &[u8], _: u64) -> io::Result<()> {
        let bytes = chunk.len() as u64;
        self.checked.bytes.fetch_add(bytes, Relaxed);
        self.tally.progress.bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn complete(&self, _: &CheckedFile) {
        self.checked.files.fetch_add(1, Relaxed);
        self.tally.progress.done.fetch_add(1, Relaxed);
    }

    fn lose(&self, CheckedFile { directory, name }: &CheckedFile, reason: &str) {
        let path = absolute(self.filespace, &directory.join(name));
        self.tally.fail(path, reason);
    }

    fn end_window(&mut self) {
        self.window_ends.lock().push_back(self.last.clone());
    }

    /// The directory in which a window ends may go on in the next window.
    fn complete_window(&self) {
        let end = self.window_ends.lock().pop_front().flatten();
        if let Some(end) = end.filter(|end| self.up_to.as_ref().is_none_or(|up_to| **end > *up_to))
        {
            let part = VerifiedPart { up_to: Some(DirPath::clone(&end)), versions: None };
            self.tally.progress.attempts.verify(self.key, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Place;

    /// A path through a symbolic link was not stored: the place of the path as it is written, where
    /// nothing is, counted for the place to which the link leads.
    #[test]
    fn each_place_of_a_path_is_verified() {
        let key_at = |directory: &[u8]| {
            let directory = DirPath::new(directory).expect("a directory");
            let name = Some(Name::new(b"one").expect("a name"));
            let place = Place { filespace: b"/".to_vec(), directory, name };
            key(Some(b"/link/one"), &Selection::of_subtree(&place))
        };
        assert_eq!(key_at(b"/link/"), key_at(b"/link/"));
        assert_ne!(key_at(b"/link/"), key_at(b"/real/"));
        let whole = Selection::of_filespace(b"/");
        assert_ne!(key(None, &whole), key(None, &Selection { drill: Some(1), ..whole }));
    }
}
