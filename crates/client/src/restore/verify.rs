//! Verification: everything that a restore would read is read and checked, and nothing is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::archive_number;
use wire::proto;

use super::window::Entry;
use super::{Destination, Tally, normalise, places, stream};
use crate::link::Link;
use crate::progress::{Phase, Progress};
use crate::report::VerifyReport;
use crate::{ClientError, ErrorKind, VerifyOptions, has_data};

/// Checks versions of all ages.
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
    for (path, selections) in selections(link, options)? {
        let mut found = 0;
        for mut selection in selections {
            selection.all_versions = true;
            let filespace = selection.filespace.to_vec();
            let mut checker =
                Checker { filespace, tally: &tally, bytes: &bytes, reads: options.data };
            found += stream(link, selection, &mut checker, &tally)?;
        }
        if let Some(path) = path.filter(|_| found == 0) {
            let message = format!("nothing of {} is stored", model::escaped(&path));
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

/// Selections by the path that asked for them; `None` for everything.
type Asked = Vec<(Option<Vec<u8>>, Vec<proto::Selection>)>;

fn selections(link: &Link, options: &VerifyOptions) -> Result<Asked, ClientError> {
    let mut filespaces = link.filespaces(true)?;
    if let Some(number) = options.archive {
        filespaces.retain(|filespace| archive_number(&filespace.name) == Some(number));
    }
    if options.paths.is_empty() {
        let everything = |filespace: &crate::FilespaceSummary| proto::Selection {
            filespace: filespace.name.clone().into(),
            ..proto::Selection::default()
        };
        return Ok(vec![(None, filespaces.iter().map(everything).collect())]);
    }
    let of_path = |path: &Vec<u8>| {
        let path = normalise(path)?;
        let places = places(&filespaces, &path);
        let selections = places.iter().map(|place| place.selection(true)).collect();
        Ok((Some(path), selections))
    };
    options.paths.iter().map(of_path).collect()
}

struct Checker<'a> {
    filespace: Vec<u8>,
    tally: &'a Tally,
    bytes: &'a AtomicU64,
    reads: bool,
}

impl Destination for Checker<'_> {
    /// The path of the version.
    type File = Vec<u8>;

    fn take(&mut self, entry: Entry) -> Option<Vec<u8>> {
        if !has_data(entry.object.stat.kind, entry.object.stat.size) {
            return None;
        }
        let path = entry.directory.join(&entry.object.name);
        let path = crate::backup::absolute(&self.filespace, &path);
        if entry.extents().is_none() {
            self.tally.fail(path, "its data is lost or damaged at the server");
            return None;
        }
        self.tally.progress.objects.fetch_add(1, Relaxed);
        self.reads.then_some(path)
    }

    fn write(&self, _: &Vec<u8>, chunk: &[u8], _: u64) -> Result<(), String> {
        let bytes = chunk.len() as u64;
        self.bytes.fetch_add(bytes, Relaxed);
        self.tally.progress.bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    fn complete(&self, _: &Vec<u8>) {
        self.tally.progress.done.fetch_add(1, Relaxed);
    }

    fn lose(&self, path: &Vec<u8>, reason: &str) {
        self.tally.fail(path.clone(), reason);
    }
}
