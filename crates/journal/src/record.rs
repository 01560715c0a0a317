//! Record of the changes of one file system: which directories have changed, and since when. The
//! module is pure.
//!
//! Invariants:
//! 1. A change that is noted after [`Record::begin`] has returned a position has a greater
//!    position.
//! 2. For each anchor, and for each backup that has begun, the record holds every directory that
//!    has changed since its position.
//! 3. The record holds at most [`DIRECTORIES_MAX`] directories. A change that does not fit cuts the
//!    record: it loses all directories, all anchors, and all backups that have begun.
//!
//! ```text
//!  begin(key) -> S ----- changes get positions > S -----> complete(S): anchor at S
//!        |                                                     |
//!        +-- anchor at A < S: changes since A                  +-- forgets what no anchor needs
//! ```

use std::collections::HashMap;

use sys::fanotify::changes::DirectoryChange;
use sys::identity::DirectoryHandle;

use crate::anchor::{Anchor, AnchorKey, Continuation};

/// Maximum number of directories: as many as a hash table of 2^19 places holds, which takes 22 MiB.
pub const DIRECTORIES_MAX: usize = (1 << 19) / 8 * 7;
/// Maximum number of anchors. A further anchor replaces the oldest.
pub const ANCHORS_MAX: usize = 16;

/// Number of a moment in the life of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Position(u64);

/// Number of a backup that has begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

/// Changes of one directory since a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangedDirectory {
    pub directory: DirectoryHandle,
    /// True if the entry of the directory in its parent may have changed.
    pub is_own: bool,
    /// True if the directory has another path.
    pub is_moved: bool,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    /// Position of the last change.
    position: Position,
    is_own: bool,
    is_moved: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenBackup {
    ticket: Ticket,
    key: AnchorKey,
    position: Position,
}

/// Record of one file system.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Position of the changes that come now.
    position: Position,
    directories: HashMap<DirectoryHandle, Change>,
    /// Anchors, oldest first, each with its position.
    anchors: Vec<(AnchorKey, Position, Anchor)>,
    open: Vec<OpenBackup>,
    last_ticket: u64,
}

impl Record {
    /// Notes a change. Returns false if the record was full and is cut.
    pub(crate) fn note(&mut self, change: DirectoryChange) -> bool {
        if !self.is_of_use() {
            return true;
        }
        let DirectoryChange { directory, is_own, is_moved } = change;
        if let Some(known) = self.directories.get_mut(&directory) {
            known.position = self.position;
            known.is_own |= is_own;
            known.is_moved |= is_moved;
            return true;
        }
        if self.directories.len() >= DIRECTORIES_MAX {
            self.cut();
            return false;
        }
        let position = self.position;
        self.directories.insert(directory, Change { position, is_own, is_moved });
        true
    }

    /// Returns true if somebody can ask for changes.
    pub(crate) fn is_of_use(&self) -> bool {
        !self.anchors.is_empty() || !self.open.is_empty()
    }

    /// Forgets everything: from here on the record proves nothing about the time before.
    pub(crate) fn cut(&mut self) {
        self.directories = HashMap::new();
        self.anchors.clear();
        self.open.clear();
        self.position.0 += 1;
    }

    /// Begins a backup.
    pub(crate) fn begin(&mut self, key: AnchorKey) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.open.push(OpenBackup { ticket, key, position: self.position });
        self.position.0 += 1;
        ticket
    }

    /// Returns the anchor from which the backup goes on.
    pub(crate) fn anchor(&self, ticket: Ticket) -> Option<&Anchor> {
        let key = self.open(ticket)?.key;
        self.anchored(key).map(|(_, _, anchor)| anchor)
    }

    fn open(&self, ticket: Ticket) -> Option<OpenBackup> {
        self.open.iter().find(|open| open.ticket == ticket).copied()
    }

    fn anchored(&self, key: AnchorKey) -> Option<&(AnchorKey, Position, Anchor)> {
        self.anchors.iter().find(|(known, ..)| *known == key)
    }

    /// Returns the directories that have changed since the anchor of the backup; `None` if it has
    /// no anchor.
    pub(crate) fn since_anchor(&self, ticket: Ticket) -> Option<Vec<ChangedDirectory>> {
        let (_, position, _) = self.anchored(self.open(ticket)?.key)?;
        Some(self.since(*position))
    }

    /// Returns the directories that have changed since the backup began; `None` if the record was
    /// cut since then.
    pub(crate) fn since_begin(&self, ticket: Ticket) -> Option<Vec<ChangedDirectory>> {
        Some(self.since(self.open(ticket)?.position))
    }

    fn since(&self, position: Position) -> Vec<ChangedDirectory> {
        let later = self.directories.iter().filter(|(_, change)| change.position > position);
        let changed = |(directory, change): (&DirectoryHandle, &Change)| ChangedDirectory {
            directory: *directory,
            is_own: change.is_own,
            is_moved: change.is_moved,
        };
        later.map(changed).collect()
    }

    /// Ends a complete backup: the next backup goes on from the moment at which this backup began.
    /// Returns false if the record was cut since then.
    pub(crate) fn complete(&mut self, ticket: Ticket, anchor: Anchor) -> bool {
        let Some(OpenBackup { key, position, .. }) = self.open(ticket) else { return false };
        self.anchors.retain(|(known, ..)| *known != key);
        if self.anchors.len() >= ANCHORS_MAX {
            self.anchors.remove(0);
        }
        self.anchors.push((key, position, anchor));
        self.end(ticket);
        true
    }

    /// Ends a backup that has failed, and that has sent some changes. The next backup goes on from
    /// the same anchor as this backup. Returns false if there is none.
    pub(crate) fn renew(&mut self, ticket: Ticket, continuation: Continuation) -> bool {
        let Some(OpenBackup { key, .. }) = self.open(ticket) else { return false };
        let known = self.anchors.iter_mut().find(|(known, ..)| *known == key);
        let is_known = known.map(|(_, _, anchor)| anchor.continue_with(continuation)).is_some();
        self.end(ticket);
        is_known
    }

    /// Removes the anchor of a backup that has found it wrong. The backup goes on.
    pub(crate) fn distrust(&mut self, ticket: Ticket) {
        if let Some(OpenBackup { key, .. }) = self.open(ticket) {
            self.anchors.retain(|(known, ..)| *known != key);
            self.forget();
        }
    }

    /// Ends a backup, whatever has become of it.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        self.open.retain(|open| open.ticket != ticket);
        self.forget();
    }

    /// Forgets the directories that nobody can ask for.
    fn forget(&mut self) {
        let anchored = self.anchors.iter().map(|(_, position, _)| *position);
        let begun = self.open.iter().map(|open| open.position);
        match anchored.chain(begun).min() {
            Some(oldest) => self.directories.retain(|_, change| change.position > oldest),
            None => self.directories.clear(),
        }
        // The memory of a storm of changes does not stay.
        if self.directories.len() < self.directories.capacity() / 8 {
            self.directories.shrink_to_fit();
        }
    }

    /// Returns the number of directories in the record.
    pub(crate) fn len(&self) -> usize {
        self.directories.len()
    }

    /// Returns the anchors, oldest first.
    pub(crate) fn anchors(&self) -> impl Iterator<Item = &Anchor> {
        self.anchors.iter().map(|(_, _, anchor)| anchor)
    }

    /// Returns the number of backups that have begun and not ended.
    pub(crate) fn backups_under_way(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests;
