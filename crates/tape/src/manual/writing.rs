//! Writing of files to volumes.
//!
//! ```text
//! queue --fill--> begun on a volume --close--> written
//!   ^                  |
//!   +------------------+   the volume ended, or its drive failed, before the filemark
//! ```
//!
//! A file counts as written once a filemark follows it. If a volume ends or a drive fails, files
//! without a filemark after them are written again on the next volume.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use format::volume::{Label, ObjectId, VolumeName};
use model::Name;
use sys::entropy;

use super::meter::{Meter, STOPPED};
use crate::medium::Medium;
use crate::volume::{
    Continuation, Progress, SessionSummary, VolumeError, VolumeWriter, WriterOptions,
};

type Writer<'a> = VolumeWriter<&'a mut dyn Medium>;

/// A file that is to be written, or has been written.
#[derive(Debug)]
pub struct OutgoingFile {
    pub path: PathBuf,
    pub name: Name,
    pub bytes: u64,
    /// Volumes that hold a part of the file, in order.
    pub volumes: Vec<VolumeName>,
    modified: Option<SystemTime>,
    /// The volume that failed while or after the file was written.
    in_doubt: Option<VolumeName>,
    /// Point from which the bytes of the file are on no volume yet.
    from: Continuation,
}

/// Numbers of the objects and bytes that one volume has taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeUse {
    pub volume: VolumeName,
    /// Number of objects that end on the volume.
    pub objects: u64,
    pub bytes: u64,
    pub is_full: bool,
}

/// Reason why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{STOPPED}")]
    Stopped,
    #[error("{0}")]
    Unsuitable(&'static str),
    #[error(transparent)]
    Open(io::Error),
    #[error("cannot read the file")]
    Read(#[source] io::Error),
    /// The user has to write the file again.
    #[error("the file changed while it was written to two volumes: write the file again")]
    Changed,
    /// The user has to list the volume, and to write the file again if it is not on the volume.
    #[error("it is not known whether the file is on {0}, which failed")]
    InDoubt(VolumeName),
    /// The user has to name more volumes.
    #[error(
        "only its beginning is on the named volumes: name one more volume, and write the whole \
         file again"
    )]
    Incomplete,
    /// The user has to name more volumes.
    #[error(
        "the file was not written, because the named volumes had no room or could not be used: \
         name another volume"
    )]
    NoRoom,
}

/// A file that is not written.
#[derive(Debug)]
pub struct FileFailure {
    pub path: PathBuf,
    pub error: FileError,
}

/// Session in which one command writes its files.
pub struct WritingSession<'a> {
    queue: VecDeque<OutgoingFile>,
    options: WriterOptions,
    meter: &'a dyn Meter,
    written: Vec<OutgoingFile>,
    uses: Vec<VolumeUse>,
    failures: Vec<FileFailure>,
    /// Files that changed while they were written.
    changed: Vec<PathBuf>,
}

/// Outcome of a session.
#[derive(Debug)]
pub struct WritingReport {
    pub written: Vec<OutgoingFile>,
    pub uses: Vec<VolumeUse>,
    pub failures: Vec<FileFailure>,
    /// Files that changed while they were written.
    pub changed: Vec<PathBuf>,
}

impl<'a> WritingSession<'a> {
    /// Returns a session for `files`, after a check of each of them: a file that cannot be written
    /// is a failure. A filemark is written after each `group_bytes`.
    pub fn new(files: &[PathBuf], group_bytes: u64, meter: &'a dyn Meter) -> Self {
        let mut session = Self {
            queue: VecDeque::new(),
            options: WriterOptions { group_bytes },
            meter,
            written: Vec::new(),
            uses: Vec::new(),
            failures: Vec::new(),
            changed: Vec::new(),
        };
        let mut names = BTreeSet::new();
        for path in files {
            match look_at(path) {
                Ok(file) if !names.insert(file.name.clone()) => {
                    let why = "another file of the same name is written before this file";
                    session.fail(path, FileError::Unsuitable(why));
                }
                Ok(file) => session.queue.push_back(file),
                Err(error) => session.fail(path, error),
            }
        }
        session
    }

    /// Returns true once no file waits to be written.
    pub fn is_done(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of files that wait.
    pub fn waiting_count(&self) -> usize {
        self.queue.len()
    }

    /// Returns the total size of the files that wait.
    pub fn waiting_bytes(&self) -> u64 {
        self.queue.iter().map(|file| file.bytes).sum()
    }

    /// Returns the number of bytes that are durable on volumes.
    pub fn written_bytes(&self) -> u64 {
        let begun = self.queue.iter().map(|file| file.from.offset);
        begun.chain(self.written.iter().map(|file| file.bytes)).sum()
    }

    fn fail(&mut self, path: &Path, error: FileError) {
        self.meter.add_failure();
        self.failures.push(FileFailure { path: path.to_owned(), error });
    }

    /// Writes files until none waits or the volume is full.
    pub fn fill(&mut self, medium: &mut dyn Medium, label: &Label) -> Result<(), VolumeError> {
        let mut writer = VolumeWriter::open(medium, label.volume, self.options)?;
        let mut begun = Vec::new();
        let filled = self.write_queue(&mut writer, &mut begun);
        let closed = filled.and_then(|room| Ok((room, writer.close()?.0)));
        match closed {
            Ok((room, summary)) => {
                self.settle(begun, &summary, label, room);
                Ok(())
            }
            Err(error) => {
                // It is unknown which bytes the volume has kept: all bytes that it got are written
                // again.
                for mut file in begun.into_iter().rev() {
                    file.in_doubt = Some(label.name.clone());
                    self.queue.push_front(file);
                }
                Err(error)
            }
        }
    }

    fn write_queue(
        &mut self,
        writer: &mut Writer<'_>,
        begun: &mut Vec<OutgoingFile>,
    ) -> Result<Progress, VolumeError> {
        assert!(begun.is_empty(), "no file is begun yet on this volume");
        while !self.meter.is_stopped()
            && let Some(file) = self.queue.pop_front()
        {
            let source = match FileSource::open(&file, self.meter) {
                Ok(source) => source,
                Err(error) => {
                    self.fail(&file.path, error);
                    continue;
                }
            };
            let put = put(writer, &file, source);
            match put {
                Err(VolumeError::Handover(error)) => {
                    writer.abandon();
                    let is_stopped = self.meter.is_stopped();
                    let error =
                        if is_stopped { FileError::Stopped } else { FileError::Read(error) };
                    self.fail(&file.path, error);
                    continue;
                }
                _ => begun.push(file),
            }
            if put? == Progress::Full {
                return Ok(Progress::Full);
            }
            self.meter.add_object();
        }
        Ok(Progress::Going)
    }

    /// Records which of the begun files are durable on the volume. The others wait again.
    fn settle(
        &mut self,
        begun: Vec<OutgoingFile>,
        summary: &SessionSummary,
        label: &Label,
        room: Progress,
    ) {
        let bytes = summary.parts.iter().map(|part| part.bytes).sum();
        let objects = summary.parts.iter().filter(|part| part.is_last).count() as u64;
        assert!(objects <= begun.len() as u64, "only begun objects can end");
        let volume = label.name.clone();
        if bytes > 0 || objects > 0 {
            let is_full = room == Progress::Full;
            self.uses.push(VolumeUse { volume: volume.clone(), objects, bytes, is_full });
        }
        let mut again = Vec::new();
        for mut file in begun {
            let of_file = |part: &&format::volume::Part| part.object == file.from.object;
            let parts: Vec<_> = summary.parts.iter().filter(of_file).collect();
            let is_whole = parts.iter().any(|part| part.is_last);
            if parts.iter().any(|part| part.bytes > 0 || part.is_last) {
                file.volumes.push(volume.clone());
            }
            let continues = summary.continues.filter(|at| at.object == file.from.object);
            if is_whole {
                self.check_unchanged(&file);
                self.written.push(file);
            } else {
                file.from = continues.unwrap_or(file.from);
                again.push(file);
            }
        }
        again.into_iter().rev().for_each(|file| self.queue.push_front(file));
    }

    fn check_unchanged(&mut self, file: &OutgoingFile) {
        if std::fs::metadata(&file.path).is_ok_and(|found| !file.is_as(&found)) {
            self.changed.push(file.path.clone());
        }
    }

    /// Ends the session. Each file that still waits becomes a failure.
    pub fn finish(mut self) -> WritingReport {
        let is_stopped = self.meter.is_stopped();
        while let Some(file) = self.queue.pop_front() {
            let error = match file.in_doubt {
                Some(volume) => FileError::InDoubt(volume),
                None if is_stopped => FileError::Stopped,
                None if file.from.offset > 0 => FileError::Incomplete,
                None => FileError::NoRoom,
            };
            self.fail(&file.path, error);
        }
        let Self { written, uses, failures, changed, .. } = self;
        WritingReport { written, uses, failures, changed }
    }
}

impl OutgoingFile {
    fn is_as(&self, found: &Metadata) -> bool {
        (found.len(), found.modified().ok()) == (self.bytes, self.modified)
    }
}

fn look_at(path: &Path) -> Result<OutgoingFile, FileError> {
    let found = std::fs::metadata(path).map_err(FileError::Open)?;
    if !found.is_file() {
        let why = "it is no regular file; make an archive of a directory and write that";
        return Err(FileError::Unsuitable(why));
    }
    let unnamed = FileError::Unsuitable("the path does not end with the name of a file");
    let name = path.file_name().and_then(|name| Name::new(name.as_bytes()).ok());
    Ok(OutgoingFile {
        path: path.to_owned(),
        name: name.ok_or(unnamed)?,
        bytes: found.len(),
        volumes: Vec::new(),
        modified: found.modified().ok(),
        in_doubt: None,
        from: Continuation::start(ObjectId(entropy::bytes())),
    })
}

fn put(
    writer: &mut Writer<'_>,
    file: &OutgoingFile,
    mut source: FileSource<'_>,
) -> Result<Progress, VolumeError> {
    writer.begin_named(file.from, &file.name)?;
    match writer.write_all_of(&mut source)? {
        Progress::Going => writer.end(),
        Progress::Full => Ok(Progress::Full),
    }
}

/// The part of a file that still has to be written.
struct FileSource<'a> {
    file: File,
    meter: &'a dyn Meter,
}

impl<'a> FileSource<'a> {
    fn open(file: &OutgoingFile, meter: &'a dyn Meter) -> Result<Self, FileError> {
        let mut opened = File::open(&file.path).map_err(FileError::Open)?;
        let found = opened.metadata().map_err(FileError::Open)?;
        if file.from.offset > 0 && !file.is_as(&found) {
            return Err(FileError::Changed);
        }
        opened.seek(SeekFrom::Start(file.from.offset)).map_err(FileError::Open)?;
        Ok(Self { file: opened, meter })
    }
}

impl Read for FileSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.meter.is_stopped() {
            return Err(io::Error::other(STOPPED));
        }
        let count = self.file.read(buffer)?;
        self.meter.add_bytes(count as u64);
        Ok(count)
    }
}
