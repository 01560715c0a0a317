//! Writes and flushes of a disk, in the order in which the disk has completed them.

/// Maximum number of bytes in a log, which is in memory.
const LOG_BYTES_MAX: u64 = 2 << 30;

/// A moment in a log: the number of entries before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position(pub usize);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    Write(Write),
    /// All writes that were completed before are on the medium.
    Flush,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Position of the data on the disk, in bytes.
    pub offset: u64,
    pub data: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    bytes: u64,
}

impl Log {
    pub fn push(&mut self, entry: Entry) {
        if let Entry::Write(write) = &entry {
            self.bytes += write.data.len() as u64;
            assert!(self.bytes <= LOG_BYTES_MAX, "the log must fit into memory");
        }
        self.entries.push(entry);
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The moment after the last entry.
    pub fn end(&self) -> Position {
        Position(self.entries.len())
    }

    /// Number of bytes in all writes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the moment after the last flush before `position`. Everything before that moment is
    /// on the medium.
    pub fn settled_before(&self, position: Position) -> Position {
        let before = &self.entries[..position.0];
        Position(before.iter().rposition(|entry| *entry == Entry::Flush).map_or(0, |at| at + 1))
    }

    /// Returns the moments just before a flush, where most writes are not on the medium yet.
    pub fn before_flushes(&self) -> impl Iterator<Item = Position> {
        let flushes = self.entries.iter().enumerate();
        flushes.filter(|(_, entry)| **entry == Entry::Flush).map(|(at, _)| Position(at))
    }
}
