//! A file of FUSE that stands for a disk: it logs what is written and flushed.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::fuse::{self, MESSAGE_BYTES_MAX, Question, Request};
use super::log::{Entry, Log, Position, Write};
use super::replay::copy;

/// A disk with a file for a loop device. A thread of this process is the disk: a file system on it
/// must be unmounted before the process ends.
#[derive(Debug)]
pub struct Disk {
    file: PathBuf,
    log: Arc<Mutex<Log>>,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    /// Makes the new file `file`, which stands for a disk with the content of `image`. Writes go to
    /// a copy of the image beside the file, and to the log. `None` if this machine does not have
    /// FUSE, or does not allow it.
    pub fn attach(image: &Path, file: &Path) -> Option<Self> {
        let medium = file.with_extension("medium");
        copy(image, &medium).expect("room for a copy of the image");
        let image = File::options().read(true).write(true).open(&medium).expect("the copy");
        let bytes = image.metadata().expect("the image is open").len();
        File::create_new(file).expect("a new file");
        let kernel = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let options = format!("fd={},rootmode=100600,user_id=0,group_id=0", kernel.as_raw_fd());
        let options = CString::new(options).expect("the options have no zero byte");
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("holdfast-e2e", file, "fuse", flags, options.as_c_str()).ok()?;
        let log = Arc::new(Mutex::default());
        let medium = Medium { image, bytes, log: Arc::clone(&log) };
        let thread = std::thread::spawn(move || serve(kernel, &medium));
        Some(Self { file: file.to_owned(), log, thread: Some(thread) })
    }

    /// The file for a loop device.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the present moment in the log.
    pub fn position(&self) -> Position {
        lock(&self.log).end()
    }

    /// Takes the disk away, after its file system has been unmounted. Returns the log.
    pub fn detach(mut self) -> Log {
        self.unmount();
        let thread = self.thread.take().expect("the disk is attached");
        thread.join().expect("the disk has served all requests");
        std::mem::take(&mut lock(&self.log))
    }

    fn unmount(&self) {
        // The loop device may release the file a moment later. The disk ends with that.
        let _unmounted = unmount(&self.file, UnmountFlags::DETACH);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().expect("the disk has not panicked")
}

struct Medium {
    image: File,
    bytes: u64,
    log: Arc<Mutex<Log>>,
}

impl Medium {
    /// Returns the message that answers the question; `None` if the kernel expects no answer.
    fn answer(&self, question: &Question<'_>) -> io::Result<Option<Vec<u8>>> {
        let body = match question.request {
            Request::Init { readahead_bytes } => fuse::init(readahead_bytes),
            Request::Attributes => fuse::attributes(self.bytes),
            Request::Open => fuse::opened(),
            Request::Read { offset, bytes } => self.read(offset, bytes)?,
            Request::Write { offset, data } => {
                self.image.write_all_at(data, offset)?;
                let write = Write { offset, data: data.to_vec() };
                lock(&self.log).push(Entry::Write(write));
                fuse::written(data.len())
            }
            Request::Sync => {
                lock(&self.log).push(Entry::Flush);
                Vec::new()
            }
            Request::Close => Vec::new(),
            Request::Notice => return Ok(None),
            Request::Other => return Ok(Some(fuse::unknown(question.id))),
        };
        Ok(Some(fuse::answer(question.id, &body)))
    }

    fn read(&self, offset: u64, bytes: u32) -> io::Result<Vec<u8>> {
        let bytes = u64::from(bytes).min(self.bytes.saturating_sub(offset));
        let mut data = vec![0; usize::try_from(bytes).expect("a read fits into memory")];
        self.image.read_exact_at(&mut data, offset)?;
        Ok(data)
    }
}

/// Answers the kernel until the file is unmounted.
fn serve(mut kernel: File, medium: &Medium) {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    loop {
        let bytes = match kernel.read(&mut buffer) {
            Ok(bytes) => bytes,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENODEV) => return,
                // A request was taken back before it was read.
                Some(libc::ENOENT | libc::EINTR | libc::EAGAIN) => continue,
                _ => panic!("cannot read from FUSE: {error}"),
            },
        };
        let question = fuse::decode(&buffer[..bytes]).expect("the kernel sends whole messages");
        let answer = medium.answer(&question).expect("the image can be read and written");
        if let Some(answer) = answer {
            // The kernel refuses an answer to a request that it has taken back.
            drop(kernel.write(&answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scratch::Scratch;

    /// Returns the writes of a log as text, with `|` for each flush.
    fn shown(log: &Log) -> String {
        let show = |entry: &Entry| match entry {
            Entry::Write(write) => format!("{}@{}", write.data.escape_ascii(), write.offset),
            Entry::Flush => "|".to_owned(),
        };
        log.entries().iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_disk_logs_writes_and_flushes_in_their_order() {
        if !crate::harness::is_root() {
            crate::skip::say("a disk of FUSE needs root");
            return;
        }
        let scratch = Scratch::new();
        let (image, file) = (scratch.join("image"), scratch.join("disk"));
        fs::write(&image, [b'.'; 8192]).unwrap();
        let Some(disk) = Disk::attach(&image, &file) else {
            crate::skip::say("this machine has no FUSE");
            return;
        };
        let open = File::options().read(true).write(true).open(disk.file()).unwrap();
        open.write_all_at(b"one", 0).unwrap();
        let position = disk.position();
        open.sync_all().unwrap();
        open.write_all_at(b"two", 5000).unwrap();
        let mut read = [0; 8];
        open.read_exact_at(&mut read, 4998).unwrap();
        assert_eq!(&read, b"..two...");
        drop(open);
        let log = disk.detach();
        assert_eq!(shown(&log), "one@0 | two@5000");
        assert_eq!(position, Position(1));
        assert_eq!(&fs::read(file.with_extension("medium")).unwrap()[..4], b"one.");
    }
}
