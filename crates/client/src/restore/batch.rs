//! Reading of the small files of a directory at once, for programs that read one after the other.

use std::io;
use std::sync::Arc;

use model::{DirPath, Name, ServerTime};
use sys::lock::Mutex;

use super::destination::Destination;
use super::receive::receive;
use super::tally::Tally;
use crate::error::ClientError;
use crate::link::Link;
use crate::link::versions::{Entry, Selection, has_data};
use crate::progress::Progress;

/// Content of a small file, and the time at which the server got this version.
pub struct SmallFile {
    pub name: Name,
    pub inserted: ServerTime,
    pub content: Vec<u8>,
}

/// Returns the contents of the files directly in `directory` of at most `bytes_max` bytes each, as
/// they were at the time `at`, or are now. Files that are lost or damaged are left out, and files
/// beyond `total_max` bytes.
pub(crate) fn small_files(
    link: &Link,
    filespace: &[u8],
    directory: &DirPath,
    at: Option<ServerTime>,
    (bytes_max, total_max): (u64, u64),
) -> Result<Vec<SmallFile>, ClientError> {
    let selection = Selection { at, ..Selection::of_directory(filespace, directory.clone()) };
    let mut collector = SmallFiles { bytes_max, left: total_max, complete: Mutex::default() };
    let tally = Tally::new(Arc::new(Progress::default()));
    receive(link, &selection, None, &mut collector, &tally)?;
    Ok(collector.complete.into_inner())
}

struct SmallFiles {
    bytes_max: u64,
    /// Number of bytes that may still be taken.
    left: u64,
    complete: Mutex<Vec<SmallFile>>,
}

/// File whose content is coming.
struct IncomingFile {
    name: Name,
    inserted: ServerTime,
    content: Mutex<Vec<u8>>,
}

impl Destination for SmallFiles {
    type File = IncomingFile;

    fn take(&mut self, entry: Entry) -> Option<IncomingFile> {
        let size = entry.object.stat.size;
        let is_wanted = has_data(&entry.object.stat) && size <= self.bytes_max && size <= self.left;
        if !is_wanted || entry.pieces().is_none_or(|pieces| pieces.is_empty()) {
            return None;
        }
        self.left -= size;
        let content = Mutex::new(vec![0; usize::try_from(size).expect("a small file")]);
        Some(IncomingFile { name: entry.object.name, inserted: entry.object.inserted, content })
    }

    fn write(&self, file: &IncomingFile, chunk: &[u8], offset: u64) -> io::Result<()> {
        let mut content = file.content.lock();
        let start = usize::try_from(offset).expect("pieces add up to the size of the file");
        content[start..start + chunk.len()].copy_from_slice(chunk);
        Ok(())
    }

    fn complete(&self, file: &IncomingFile) {
        let content = std::mem::take(&mut *file.content.lock());
        let (name, inserted) = (file.name.clone(), file.inserted);
        self.complete.lock().push(SmallFile { name, inserted, content });
    }

    fn lose(&self, _: &IncomingFile, _: &str) {}
}
