//! Bounds on what the client takes from a server.
//!
//! A server may be damaged, or in wrong hands. Then each number, length and name that it sends may
//! be anything. `wire` bounds the size of a message and the number of its fields before a message
//! is decoded. The bounds here hold for what a message is decoded to, because compressed pages and
//! lengths of chunks take much more memory than room on the wire. They are several times as large
//! as anything that a server without fault sends. More is refused as [`ErrorKind::Bug`], and bytes
//! that make no sense are refused as [`ErrorKind::Damaged`].

use std::sync::Arc;

use model::{Attributes, DirPath, Extent, Object, Payload, Xattr};

use super::versions::Entry;
use crate::error::{ClientError, ErrorKind};

/// Limits of the entries of one message.
const MESSAGE_ROOM: Room = Room { entries: 1 << 19, bytes: 320 << 20 };
/// Limits of the entries of all windows of a restore that are not complete: enough for two files
/// whose chunks lie apart, of the largest size that a message can describe.
const WINDOWS_ROOM: Room = Room { entries: 1 << 20, bytes: 512 << 20 };
/// Limits of the documents of all kept baselines.
const BASELINES_ROOM: Room = Room { entries: 1 << 10, bytes: 512 << 20 };
/// Bytes that a file takes while it waits for its data, besides its entry, in lists that grow by
/// doubling.
const FILE_BYTES: u64 = 1024;

/// Room that is left for entries: their number, and the memory that they take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    entries: u64,
    bytes: u64,
}

impl Room {
    pub(crate) fn of_a_message() -> Self {
        MESSAGE_ROOM
    }

    pub(crate) fn of_all_windows() -> Self {
        WINDOWS_ROOM
    }

    pub(crate) fn of_all_baselines() -> Self {
        BASELINES_ROOM
    }

    /// Takes the room that `taken` needs.
    pub(crate) fn take(&mut self, taken: Size) -> Result<(), ClientError> {
        let left = self.entries.checked_sub(taken.entries).zip(self.bytes.checked_sub(taken.bytes));
        let (entries, bytes) = left.ok_or_else(|| {
            let message = "the server sent more entries at once than a server without fault sends";
            ClientError::new(ErrorKind::Bug, message)
        })?;
        *self = Self { entries, bytes };
        Ok(())
    }

    /// Gives back the room that was taken for `taken`.
    pub(crate) fn give_back(&mut self, taken: Size) {
        self.entries += taken.entries;
        self.bytes += taken.bytes;
        assert!(self.entries <= WINDOWS_ROOM.entries, "only room that was taken is given back");
    }
}

/// Size of entries in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Size {
    entries: u64,
    bytes: u64,
}

impl Size {
    /// Returns the size of the entries of `directory`, which share its path.
    pub(crate) fn of(directory: &DirPath, entries: &[Entry]) -> Self {
        let bytes = entries.iter().map(entry_bytes).fold(0, u64::saturating_add);
        let bytes = bytes.saturating_add(directory.as_bytes().len() as u64);
        Self { entries: entries.len() as u64, bytes }
    }

    /// Returns the size of one document.
    pub(crate) fn of_document(document: &[u8]) -> Self {
        Self { entries: 1, bytes: document.len() as u64 }
    }

    /// Returns the size of the entries while they wait for their data.
    #[must_use]
    pub(crate) fn waiting(self) -> Self {
        let files = self.entries.saturating_mul(FILE_BYTES);
        Self { bytes: self.bytes.saturating_add(files), ..self }
    }

    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries.saturating_add(other.entries),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

fn entry_bytes(entry: &Entry) -> u64 {
    let Object { name, attributes, payload, .. } = &entry.object;
    let payload = match payload {
        Payload::Nothing => 0,
        Payload::Extents(extents) => extents.len() * size_of::<Extent>(),
        Payload::Target(target) => target.len(),
    };
    let lengths = entry.chunk_lengths.len() * size_of::<u32>();
    let fixed = size_of::<Entry>() + name.as_bytes().len();
    (fixed + payload + lengths) as u64 + attributes_share(attributes)
}

/// Returns the bytes of `attributes`, divided by the number of objects that share them.
fn attributes_share(attributes: &Arc<Attributes>) -> u64 {
    let bytes = |xattr: &Xattr| size_of::<Xattr>() + xattr.name.len() + xattr.value.len();
    let bytes: usize = attributes.xattrs.iter().map(bytes).sum();
    (bytes / Arc::strong_count(attributes)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_and_given_back() {
        let mut room = Room { entries: 2, bytes: 10 };
        let size = Size { entries: 1, bytes: 6 };
        room.take(size).expect("there is room");
        let error = room.take(size).expect_err("there is no room for the bytes");
        assert_eq!(error.kind, ErrorKind::Bug);
        room.give_back(size);
        assert_eq!(room, Room { entries: 2, bytes: 10 });
        assert!(room.take(Size { entries: 3, bytes: 0 }).is_err());
        assert!(room.take(size.waiting()).is_err(), "a file takes more while it waits");
        assert!(room.take(size.plus(Size { entries: u64::MAX, bytes: u64::MAX })).is_err());
    }
}
