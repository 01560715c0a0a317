//! Recall: brings back the content of migrated files.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use model::{BatchId, CopyId, space_filespace};

use super::batches::{BatchKey, Copies, RecentBatches};
use super::destination::Destination;
use super::receive::receive;
use super::recent::RecentQuanta;
use super::tally::Tally;
use crate::error::ClientError;
use crate::link::Link;
use crate::link::stage::Purpose;
use crate::link::versions::{Entry, Piece, Selection};
use crate::path::Place;
use crate::progress::Progress;

/// Files that get their content back. A file is named by the index of its copy.
pub trait FileFiller: Sync {
    /// Returns true if the copy is needed.
    fn wants(&self, index: u16) -> bool;

    /// Writes a checked part of the content. Several threads call it.
    fn write(&self, index: u16, content: &[u8], offset: u64) -> io::Result<()>;

    /// Completes a file after its whole range has been written.
    fn complete(&self, index: u16);

    /// Ends a file that cannot be filled, because of `reason`. It is called at most once, and not
    /// after `complete`.
    fn lose(&self, index: u16, reason: &str);
}

/// Request for copies of a batch.
#[derive(Clone, Debug)]
pub struct RecallRequest {
    pub batch: BatchId,
    /// Index of the copy; `None` for all copies that are wanted.
    pub index: Option<u16>,
    /// Needed range of each file.
    pub range: Range<u64>,
    /// True for a small file. The other small files of its batch will probably be needed soon.
    pub is_small: bool,
    pub purpose: Purpose,
}

/// Memory of what recalls have received.
#[derive(Default)]
pub(crate) struct Recent {
    quanta: RecentQuanta,
    batches: RecentBatches,
}

/// Fetches copies of files of `mount_point`. For a copy that the server does not have, neither
/// `complete` nor `lose` is called.
pub(crate) fn recall(
    link: &Link,
    recent: &Recent,
    mount_point: &[u8],
    request: RecallRequest,
    filling: &dyn FileFiller,
    progress: &Arc<Progress>,
) -> Result<(), ClientError> {
    let range = request.range.clone();
    let mut files = Files { link, recent: &recent.quanta, filling, range, others: None };
    let Some(index) = request.index.filter(|_| request.is_small) else {
        return fetch(mount_point, request, &mut files, progress);
    };
    let key = (space_filespace(mount_point), request.batch);
    if files.is_filled_from_memory(&recent.batches, &key, index) {
        return Ok(());
    }
    let _question = recent.batches.ask(&key);
    if files.is_filled_from_memory(&recent.batches, &key, index) {
        return Ok(());
    }
    files.others = Some(Copies::default());
    fetch(mount_point, RecallRequest { index: None, ..request }, &mut files, progress)?;
    recent.batches.put(key, files.others.take().unwrap_or_default());
    Ok(())
}

/// Asks the server for the copies, and takes in its answer.
fn fetch(
    mount_point: &[u8],
    request: RecallRequest,
    files: &mut Files<'_>,
    progress: &Arc<Progress>,
) -> Result<(), ClientError> {
    let RecallRequest { batch, index, range, purpose, is_small: _ } = request;
    let filespace = space_filespace(mount_point);
    let directory = batch.directory();
    let selection = match index.map(|index| CopyId { batch, index }.name()) {
        None => Selection::of_directory(&filespace, directory),
        name => Selection::of_object(&Place { filespace, directory, name }),
    };
    // The server keeps released copies for a time.
    let selection = Selection { inactive: true, range, ..selection };
    let tally = Tally::new(Arc::clone(progress));
    let received = receive(files.link, &selection, Some(purpose), files, &tally)?;
    received.unreadable.map_or(Ok(()), Err)
}

struct Files<'a> {
    link: &'a Link,
    recent: &'a RecentQuanta,
    filling: &'a dyn FileFiller,
    range: Range<u64>,
    /// The copies of the batch, if they are to be remembered.
    others: Option<Copies>,
}

impl Files<'_> {
    /// Returns the contents of all pieces, if all their quanta arrived recently.
    fn contents(&self, pieces: &[Piece]) -> Option<Vec<Vec<u8>>> {
        self.recent.contents(pieces, &self.link.domain_key, &self.link.seal_keys)
    }

    /// Fills a file whose content is in the memory. Returns false if the content is not there.
    fn is_filled_from_memory(&self, batches: &RecentBatches, key: &BatchKey, index: u16) -> bool {
        let Some(mut pieces) = batches.pieces(key, index) else { return false };
        pieces.retain(|piece| piece.is_within(&self.range));
        let Some(contents) = self.contents(&pieces) else { return false };
        self.fill(index, &pieces, &contents);
        true
    }

    fn fill(&self, index: u16, pieces: &[Piece], contents: &[Vec<u8>]) {
        assert_eq!(pieces.len(), contents.len(), "one content for each piece");
        for (piece, content) in pieces.iter().zip(contents) {
            if let Err(error) = self.write(&index, content, piece.offset) {
                return self.filling.lose(index, &error.to_string());
            }
        }
        self.filling.complete(index);
    }
}

impl Destination for Files<'_> {
    /// Index of the file's copy in its batch.
    type File = u16;

    fn take(&mut self, entry: Entry) -> Option<u16> {
        let index = CopyId::index_of(&entry.object.name)?;
        if let (Some(others), Some(pieces)) = (&mut self.others, entry.pieces()) {
            others.add(index, pieces);
        }
        if !self.filling.wants(index) {
            return None;
        }
        match entry.pieces_within(&self.range) {
            None => self
                .filling
                .lose(index, "the data of the file is lost or damaged at the server"),
            // The range has only holes.
            Some(pieces) if pieces.is_empty() => self.filling.complete(index),
            Some(pieces) => match self.contents(&pieces) {
                Some(contents) => self.fill(index, &pieces, &contents),
                None => return Some(index),
            },
        }
        None
    }

    fn write(&self, index: &u16, chunk: &[u8], offset: u64) -> io::Result<()> {
        let from = self.range.start.saturating_sub(offset).min(chunk.len() as u64);
        let to = self.range.end.saturating_sub(offset).min(chunk.len() as u64);
        let within = |at: u64| usize::try_from(at).expect("at most the chunk's length");
        self.filling.write(*index, &chunk[within(from)..within(to)], offset + from)
    }

    fn complete(&self, index: &u16) {
        self.filling.complete(*index);
    }

    fn lose(&self, index: &u16, reason: &str) {
        self.filling.lose(*index, reason);
    }

    fn recent(&self) -> Option<&RecentQuanta> {
        Some(self.recent)
    }

    fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use sys::lock::Mutex;

    use super::*;
    use crate::link::tests::unanswered;
    use crate::rules::tests::hello;

    /// Filler that notes each call.
    #[derive(Default)]
    struct Calls(Mutex<Vec<String>>);

    impl FileFiller for Calls {
        fn wants(&self, index: u16) -> bool {
            index != 9
        }

        fn write(&self, index: u16, content: &[u8], offset: u64) -> io::Result<()> {
            self.0.lock().push(format!("{index} {offset}:{}", content.escape_ascii()));
            Ok(())
        }

        fn complete(&self, index: u16) {
            self.0.lock().push(format!("{index} whole"));
        }

        fn lose(&self, index: u16, reason: &str) {
            self.0.lock().push(format!("{index} {reason}"));
        }
    }

    /// Writes "abcd" at offset 10 of a file of which only `range` is needed.
    #[track_caller]
    fn check(range: Range<u64>, expected: &str) {
        let (link, recent, filling) =
            (unanswered(hello()), RecentQuanta::default(), Calls::default());
        let files = Files { link: &link, recent: &recent, filling: &filling, range, others: None };
        files.write(&3, b"abcd", 10).expect("written");
        assert_eq!(*filling.0.lock(), [expected]);
    }

    #[test]
    fn only_the_range_that_is_needed_is_written() {
        check(0..u64::MAX, "3 10:abcd");
        check(10..14, "3 10:abcd");
        check(11..13, "3 11:bc");
        check(0..12, "3 10:ab");
        check(13..100, "3 13:d");
    }
}
