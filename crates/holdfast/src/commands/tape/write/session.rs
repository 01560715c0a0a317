//! The files that one command writes, and how far they are.
//!
//! ```text
//! queue --fill--> begun on a volume --close--> written
//!   ^                  |
//!   +------------------+   the volume ended, or its drive failed, in front of the filemark
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use ::tape::medium::Medium;
use ::tape::volume::{
    Closed, Continuation, Progress as Room, VolumeError, VolumeWriter, WriterOptions,
};
use client::Progress;
use format::volume::{Label, ObjectId, VolumeName};
use model::Name;
use sys::entropy;

use crate::commands::tape::objects::STOPPED;
use crate::commands::tape::trouble::Failure;
use crate::path;

type Writer<'a> = VolumeWriter<&'a mut dyn Medium>;

/// A file that is to be written, or is.
pub(super) struct WrittenFile {
    pub(super) path: PathBuf,
    pub(super) name: Name,
    pub(super) bytes: u64,
    pub(super) volumes: Vec<VolumeName>,
    modified: Option<SystemTime>,
    /// The volume that failed while or after it was written.
    in_doubt: Option<VolumeName>,
    /// What of it is not on any volume.
    from: Continuation,
}

/// What a volume has got.
pub(super) struct Used {
    pub(super) volume: VolumeName,
    /// That ended on it.
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) is_full: bool,
}

pub(super) struct Session<'a> {
    queue: VecDeque<WrittenFile>,
    options: WriterOptions,
    progress: &'a Progress,
    pub(super) written: Vec<WrittenFile>,
    pub(super) used: Vec<Used>,
    pub(super) failures: Vec<Failure>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Session<'a> {
    /// Looks at all files first; those that cannot be written are failures.
    pub(super) fn new(files: &[PathBuf], group_bytes: u64, progress: &'a Progress) -> Self {
        let mut session = Self {
            queue: VecDeque::new(),
            options: WriterOptions { group_bytes },
            progress,
            written: Vec::new(),
            used: Vec::new(),
            failures: Vec::new(),
            warnings: Vec::new(),
        };
        let mut names = BTreeSet::new();
        for path in files {
            match look(path) {
                Ok(file) if !names.insert(file.name.clone()) => {
                    session.fail(path, "another file of the same name is written in front of it");
                }
                Ok(file) => session.queue.push_back(file),
                Err(why) => session.fail(path, why),
            }
        }
        let expected = session.queue.iter().map(|file| file.bytes).sum();
        progress.bytes_expected.store(expected, Relaxed);
        progress.objects_expected.store(session.queue.len() as u64, Relaxed);
        session
    }

    pub(super) fn is_done(&self) -> bool {
        self.queue.is_empty()
    }

    /// What volumes have confirmed.
    pub(super) fn written_bytes(&self) -> u64 {
        let begun = self.queue.iter().map(|file| file.from.offset);
        begun.chain(self.written.iter().map(|file| file.bytes)).sum()
    }

    fn fail(&mut self, path: &Path, why: impl Into<String>) {
        self.progress.failed.fetch_add(1, Relaxed);
        self.failures.push(Failure::new(&path::bytes(path), why));
    }

    /// Writes as much as the volume takes.
    pub(super) fn fill(
        &mut self,
        medium: &mut dyn Medium,
        label: &Label,
    ) -> Result<(), VolumeError> {
        let mut writer = VolumeWriter::open(medium, label.volume, self.options)?;
        let mut begun = Vec::new();
        let filled = self.write_queue(&mut writer, &mut begun);
        let closed = filled.and_then(|room| Ok((room, writer.close()?.0)));
        match closed {
            Ok((room, closed)) => {
                self.settle(begun, &closed, label, room);
                Ok(())
            }
            Err(error) => {
                // Nobody knows what of it is there: all of it is written again.
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
        begun: &mut Vec<WrittenFile>,
    ) -> Result<Room, VolumeError> {
        while !self.progress.is_stopped()
            && let Some(file) = self.queue.pop_front()
        {
            let source = match Source::open(&file, self.progress) {
                Ok(source) => source,
                Err(why) => {
                    self.fail(&file.path, why);
                    continue;
                }
            };
            let put = put(writer, &file, source);
            match put {
                Err(VolumeError::Handover(error)) => {
                    writer.abandon();
                    let is_stopped = self.progress.is_stopped();
                    let why =
                        if is_stopped { String::new() } else { "cannot read it: ".to_owned() };
                    self.fail(&file.path, format!("{why}{error}"));
                    continue;
                }
                _ => begun.push(file),
            }
            if put? == Room::Full {
                return Ok(Room::Full);
            }
            self.progress.objects.fetch_add(1, Relaxed);
        }
        Ok(Room::Going)
    }

    /// Sorts out what the volume has confirmed of the files that were begun on it.
    fn settle(&mut self, begun: Vec<WrittenFile>, closed: &Closed, label: &Label, room: Room) {
        let (bytes, objects) = (
            closed.parts.iter().map(|part| part.bytes).sum(),
            closed.parts.iter().filter(|part| part.is_last).count() as u64,
        );
        let volume = label.name.clone();
        if bytes > 0 || objects > 0 {
            let is_full = room == Room::Full;
            self.used.push(Used { volume: volume.clone(), objects, bytes, is_full });
        }
        let mut again = Vec::new();
        for mut file in begun {
            let parts = closed.parts.iter().filter(|part| part.object == file.from.object);
            let (mut is_here, mut is_whole) = (false, false);
            for part in parts {
                is_here |= part.bytes > 0 || part.is_last;
                is_whole |= part.is_last;
            }
            file.volumes.extend(is_here.then(|| volume.clone()));
            let continues = closed.continues.filter(|at| at.object == file.from.object);
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

    fn check_unchanged(&mut self, file: &WrittenFile) {
        if std::fs::metadata(&file.path).is_ok_and(|found| !file.is_as(&found)) {
            let path = model::escaped(&path::bytes(&file.path));
            self.warnings.push(format!("{path} changed while it was written"));
        }
    }

    /// What is left in the queue now is not written.
    pub(super) fn finish(&mut self) {
        let is_stopped = self.progress.is_stopped();
        while let Some(file) = self.queue.pop_front() {
            let why = match &file.in_doubt {
                Some(volume) => format!(
                    "nobody knows whether it is on {volume}, which failed: 'holdfast tape read \
                     --list' shows what is; else write it again"
                ),
                None if is_stopped => STOPPED.to_owned(),
                None if file.from.offset > 0 => "only its beginning is on the volumes that were \
                     named; name one more and write the whole file again"
                    .to_owned(),
                None => "it is not written: there was no room on the volumes that were named, or \
                     they could not be used"
                    .to_owned(),
            };
            self.fail(&file.path, why);
        }
    }
}

impl WrittenFile {
    fn is_as(&self, found: &Metadata) -> bool {
        (found.len(), found.modified().ok()) == (self.bytes, self.modified)
    }
}

fn look(path: &Path) -> Result<WrittenFile, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no regular file; write archives of directories".to_owned());
    }
    let name = path.file_name().ok_or("its path does not end with a name")?;
    Ok(WrittenFile {
        path: path.to_owned(),
        name: Name::new(name.as_bytes()).map_err(|error| error.to_string())?,
        bytes: found.len(),
        volumes: Vec::new(),
        modified: found.modified().ok(),
        in_doubt: None,
        from: Continuation::start(ObjectId(entropy::bytes())),
    })
}

fn put(
    writer: &mut Writer<'_>,
    file: &WrittenFile,
    mut source: Source<'_>,
) -> Result<Room, VolumeError> {
    writer.begin_named(file.from, &file.name)?;
    match writer.write_all_of(&mut source)? {
        Room::Going => writer.end(),
        Room::Full => Ok(Room::Full),
    }
}

/// What of a file is still to be written.
struct Source<'a> {
    file: File,
    progress: &'a Progress,
}

impl<'a> Source<'a> {
    fn open(file: &WrittenFile, progress: &'a Progress) -> Result<Self, String> {
        let mut opened = File::open(&file.path).map_err(|error| error.to_string())?;
        let found = opened.metadata().map_err(|error| error.to_string())?;
        if file.from.offset > 0 && !file.is_as(&found) {
            return Err(
                "it changed while it was written over two volumes: write it again".to_owned()
            );
        }
        let sought = opened.seek(SeekFrom::Start(file.from.offset));
        sought.map_err(|error| error.to_string())?;
        Ok(Self { file: opened, progress })
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.progress.is_stopped() {
            return Err(io::Error::other(STOPPED));
        }
        let count = self.file.read(buffer)?;
        self.progress.bytes.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}
