//! Tests of work by hand: files are written to volumes and read back.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use format::volume::VolumeName;
use sys::Dir;
use tape::depot::{Depot, DepotError, OpenError};
use tape::inventory::{self, FileContent};
use tape::manual::{
    self, Extraction, ExtractionReport, FileError, Meter, PieceError, Selection, Verification,
    WritingReport, WritingSession,
};
use tape::site::Site;
use tape::volume::{Overwrite, VolumeReader};

use crate::library::labelling;
use crate::scenario::content;

const GROUP_BYTES: u64 = 1 << 30;
const FILE_BYTES: usize = 3_000_000;

/// A meter that stops the work after a number of bytes.
struct ByteLimit {
    bytes_left: Cell<u64>,
}

impl ByteLimit {
    fn none() -> Self {
        Self { bytes_left: Cell::new(u64::MAX) }
    }
}

impl Meter for ByteLimit {
    fn is_stopped(&self) -> bool {
        self.bytes_left.get() == 0
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes_left.set(self.bytes_left.get().saturating_sub(bytes));
    }

    fn add_object(&self) {}

    fn add_failure(&self) {}
}

/// Two labelled volumes of 5 MB, and three files of 3 MB.
struct Desk {
    depot: Depot,
    volumes: [VolumeName; 2],
    files: Vec<PathBuf>,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tapes = folder.path().join("tapes");
        fs::create_dir(&tapes).expect("the folder is new");
        let site = Site::Folder { path: tapes, capacity_bytes: Some(5_000_000) };
        let mut depot = Depot::open(&site).expect("the folder is free");
        assert!(matches!(Depot::open(&site), Err(OpenError::FolderInUse(_))));
        let volumes = ["T001", "T002"].map(|name| VolumeName::new(name).expect("a name"));
        for name in &volumes {
            depot.label(name, &labelling(Overwrite::Nothing)).expect("the volume is new");
        }
        let files = (1..=3).map(|number| {
            let path = folder.path().join(format!("file-{number}"));
            fs::write(&path, content(number, FILE_BYTES)).expect("room");
            path
        });
        Self { depot, volumes, files: files.collect(), folder }
    }

    fn write(&mut self, meter: &ByteLimit) -> WritingReport {
        let mut session = WritingSession::new(&self.files, GROUP_BYTES, meter);
        for name in &self.volumes {
            let filled = self.depot.with_volume(name, |medium, label| session.fill(medium, label));
            filled.expect("a volume that can be written");
        }
        session.finish()
    }

    fn extract(&mut self, volumes: &[usize], to: &Path, names: &[&str]) -> ExtractionReport {
        fs::create_dir(to).expect("the folder is new");
        let folder = Dir::open(to.as_os_str().as_encoded_bytes()).expect("the folder exists");
        let meter = ByteLimit::none();
        let mut extraction = Extraction::new(Arc::new(folder), &meter);
        let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let selection = Selection { names, numbers: BTreeSet::new() };
        for (rank, index) in volumes.iter().enumerate() {
            let done = self.depot.with_volume(&self.volumes[*index], |medium, _| {
                let mut reader = VolumeReader::open(medium, None)?;
                let pieces = manual::pieces(&reader.list()?);
                for piece in selection.choose(&pieces, rank + 1 < volumes.len()) {
                    extraction.take(&mut reader, piece)?;
                }
                Ok(())
            });
            done.expect("a volume that can be read");
        }
        extraction.finish()
    }
}

#[test]
fn files_continue_on_the_next_volume_and_come_back() {
    let mut desk = Desk::new();
    let report = desk.write(&ByteLimit::none());
    let on: Vec<usize> = report.written.iter().map(|file| file.volumes.len()).collect();
    assert_eq!((on, report.failures.len(), report.changed.len()), (vec![1, 2, 1], 0, 0));
    assert!(report.uses[0].is_full && !report.uses[1].is_full);
    let to = desk.folder.path().join("all");
    let ExtractionReport { files, failures } = desk.extract(&[0, 1], &to, &[]);
    assert_eq!((files.len(), failures.len()), (3, 0));
    for number in 1..=3 {
        let found = fs::read(to.join(format!("file-{number}"))).expect("the file was extracted");
        assert!(found == content(number, FILE_BYTES), "file-{number}");
    }
    let first = desk.folder.path().join("first");
    let failures = desk.extract(&[0], &first, &[]).failures;
    assert!(matches!(failures[0].error, PieceError::EndsElsewhere));
    let second = desk.folder.path().join("second");
    let failures = desk.extract(&[1], &second, &["file-2"]).failures;
    assert!(matches!(failures[0].error, PieceError::BeganElsewhere));
}

#[test]
fn whole_volumes_are_verified_and_shown() {
    let mut desk = Desk::new();
    let report = desk.write(&ByteLimit::none());
    let mut verification = Verification::default();
    let mut expected = 0;
    for name in &desk.volumes {
        let verified = desk.depot.with_volume(name, |medium, _| {
            verification.read_all(medium, &ByteLimit::none(), |bytes| expected += bytes)
        });
        verified.expect("the volume is whole");
    }
    assert_eq!((verification.objects, verification.failures.len()), (4, 0));
    assert_eq!((verification.bytes, expected), (3 * FILE_BYTES as u64, 3 * FILE_BYTES as u64));
    let tape::depot::DepotVolumes::Folder { volumes, .. } = desk.depot.volumes() else {
        panic!("the depot is a folder");
    };
    let entries = inventory::of_folder(volumes).expect("the folder exists");
    let used = entries.iter().map(|entry| match &entry.content {
        FileContent::Labelled { used_bytes, .. } => used_bytes.expect("the volume has an end"),
        other => panic!("{other:?}"),
    });
    let written: u64 = report.uses.iter().map(|used| used.bytes).sum();
    assert!(used.sum::<u64>() > written, "labels and headers take room too");
}

#[test]
fn work_that_is_stopped_says_so() {
    let mut desk = Desk::new();
    let meter = ByteLimit { bytes_left: Cell::new(FILE_BYTES as u64 + 1_000_000) };
    let report = desk.write(&meter);
    assert_eq!(report.written.len(), 1);
    let errors: Vec<&FileError> = report.failures.iter().map(|failure| &failure.error).collect();
    assert!(matches!(errors[..], [FileError::Stopped, FileError::Stopped]), "{errors:?}");
}

#[test]
fn a_folder_is_no_library_and_has_the_volumes_that_it_has() {
    let mut desk = Desk::new();
    assert!(matches!(desk.depot.mount(&desk.volumes[0]), Err(DepotError::NoLibrary(_))));
    let missing = VolumeName::new("T009").expect("a name");
    let refused = desk.depot.with_volume(&missing, |_, _| Ok(()));
    assert!(matches!(refused, Err(DepotError::NotInFolder { name, .. }) if name == missing));
    desk.files.push(desk.files[0].clone());
    desk.files.push(desk.folder.path().to_owned());
    let report = desk.write(&ByteLimit::none());
    let is_unsuitable = |error: &FileError| matches!(error, FileError::Unsuitable(_));
    assert_eq!(report.failures.iter().filter(|f| is_unsuitable(&f.error)).count(), 2);
}
