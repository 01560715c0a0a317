//! Verification: reads and checks everything that a restore would read, and writes nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{DirPath, Name, archive_number};

use super::destination::Destination;
use super::receive::receive;
use super::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::{Entry, Selection, has_data};
use crate::options::VerifyOptions;
use crate::path::{absolute, normalise, places};
use crate::progress::{Phase, Progress};
use crate::report::VerifyReport;

/// Checks all versions, active and inactive.
pub(crate) fn verify(
    link: &Link,
    options: &VerifyOptions,
    progress: &Arc<Progress>,
) -> Result<VerifyReport, ClientError> {
    let started = sys::clock::monotonic();
    let tally = Tally::new(Arc::clone(progress));
    progress.enter(Phase::Running);
    let bytes = AtomicU64::new(0);
    let mut versions = 0;
    for Request { path, selections } in requests(link, options)? {
        let (mut found, mut is_damaged) = (0, false);
        for mut selection in selections {
            selection.all_versions = true;
            let filespace = selection.filespace.clone();
            let mut checker =
                Checker { filespace, tally: &tally, bytes: &bytes, reads: options.data };
            let received = receive(link, &selection, None, &mut checker, &tally)?;
            found += received.versions;
            if let Some(error) = received.unreadable {
                let place = path.clone().unwrap_or_else(|| selection.filespace.clone());
                tally.fail(place, error.message);
                is_damaged = true;
            }
        }
        if let Some(path) = path.filter(|_| found == 0 && !is_damaged) {
            let message = format!("the server has no version of {}", model::escaped(&path));
            return Err(ClientError::new(ErrorKind::NotFound, message));
        }
        versions += found;
    }
    let report = tally.into_report();
    Ok(VerifyReport {
        node: link.hello().node.clone(),
        versions,
        damaged: report.failed,
        bytes_verified: bytes.load(Relaxed),
        bytes_transferred: progress.bytes_transferred.load(Relaxed),
        elapsed: started.elapsed(),
        failures: report.failures,
    })
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
    filespace: Vec<u8>,
    tally: &'a Tally,
    bytes: &'a AtomicU64,
    reads: bool,
}

/// Version whose data is checked.
struct CheckedFile {
    directory: Arc<DirPath>,
    name: Name,
}

impl Destination for Checker<'_> {
    type File = CheckedFile;

    fn take(&mut self, entry: Entry) -> Option<CheckedFile> {
        if !has_data(&entry.object.stat) {
            return None;
        }
        let is_whole = entry.pieces().is_some();
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
        self.bytes.fetch_add(bytes, Relaxed);
        self.tally.progress.bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn complete(&self, _: &CheckedFile) {
        self.tally.progress.done.fetch_add(1, Relaxed);
    }

    fn lose(&self, CheckedFile { directory, name }: &CheckedFile, reason: &str) {
        let path = absolute(&self.filespace, &directory.join(name));
        self.tally.fail(path, reason);
    }
}
