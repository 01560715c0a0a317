//! The storage of packs. A pool uses its storage only through these traits. Local folders, buckets
//! of object stores and shelves of volumes implement them, each in a file of its own.
//!
//! Methods may be called from any thread that may block. While the state of the pools is locked,
//! only [`Intake::create`] and the methods whose comments allow it are called.

pub(crate) mod bucket;
pub(crate) mod folder;
pub(crate) mod shelf;
mod side_folder;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use format::pack::Table;
use model::{PackNumber, ServerTime};

use crate::bucket::Bucket;
use crate::error::{AppendError, ReadError};
use crate::hold::Hold;
use crate::mark::Mark;
use crate::open::{NewPackId, OpenPack};
use crate::owner::Owner;
use crate::pack::{PackRecord, SealedPack};
use crate::reserve::{Margin, Purpose, Reserve};
use crate::source::Source;
use crate::table::DigestOf;

/// Distance between a reader and the packs. The nearest storage is tried first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Distance {
    Disk,
    Network,
    Volume,
}

/// Answer of a storage that was asked for one pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    There {
        bytes: u64,
    },
    Gone,
    /// The storage does not look for single packs, because it is told of each change.
    Unasked,
}

/// State of a pack that was found when its pool was opened.
pub(crate) enum Recovery {
    Sealed,
    /// The pack was open when its server died, and has now been sealed.
    Recovered(SealedPack),
    /// The pack never held a quantum, and was removed.
    Empty,
}

/// Result of examining a whole storage.
pub(crate) struct Survey {
    pub(crate) is_there: bool,
    /// All packs with their sizes in bytes.
    pub(crate) packs: BTreeMap<PackNumber, u64>,
}

/// Sizes of packs that are recorded elsewhere, so that the storage need not be asked for each.
pub(crate) type RecordedBytes<'a> = &'a dyn Fn(PackNumber) -> Option<u64>;

/// The storage of one pool.
pub(crate) trait PackStorage: Send + Sync {
    /// Returns the distance between readers and the storage. Never blocks.
    fn distance(&self) -> Distance;

    /// Returns true if other servers may have packs in the same storage. Never blocks.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the interface for new packs. A storage without it is filled by another crate. Never
    /// blocks.
    fn intake(&self) -> Option<&dyn Intake> {
        None
    }

    /// Returns the interface for locks, if the storage locks packs. Never blocks.
    fn locks(&self) -> Option<&dyn ObjectLocks> {
        None
    }

    /// Returns the interface for the mark of the pool and the files beside its packs. Never blocks.
    fn files(&self) -> &dyn SideFiles;

    /// Returns the bucket in which servers share files beside the packs, if the storage is a
    /// bucket. Never blocks.
    fn shared_files(&self) -> Option<&Arc<Bucket>> {
        None
    }

    /// Checks whether the storage is available, and lists its packs.
    fn survey(&self, mark: Mark, recorded: RecordedBytes<'_>) -> io::Result<Survey> {
        let is_there = self.files().is_marked(mark);
        let packs = if is_there { self.list(recorded)? } else { BTreeMap::new() };
        Ok(Survey { is_there, packs })
    }

    fn list(&self, recorded: RecordedBytes<'_>) -> io::Result<BTreeMap<PackNumber, u64>>;

    fn find(&self, pack: PackNumber) -> io::Result<Presence>;

    /// Seals a pack that its server left open.
    fn recover(
        &self,
        _pack: PackNumber,
        _record: PackRecord,
        _digest_of: &DigestOf,
    ) -> Result<Recovery, ReadError> {
        Ok(Recovery::Sealed)
    }

    /// Closes a pack of which a write has failed, at the end of its `durable` table.
    fn close_failed(&self, _durable: &Arc<Table>) -> io::Result<Recovery> {
        Ok(Recovery::Sealed)
    }

    /// Opens a sealed pack. `listed` is its size in bytes from the last listing, if the listing had
    /// the pack.
    fn open(&self, pack: PackNumber, listed: Option<u64>) -> Result<Arc<dyn Source>, ReadError>;

    /// Returns the table of a pack if the storage can do so without opening the pack.
    fn kept_table(&self, _pack: PackNumber) -> Option<Table> {
        None
    }

    /// Keeps the table of a pack where [`PackStorage::kept_table`] finds it.
    fn keep_table(&self, _table: &Table) {}

    /// Begins to read the ends of packs, which contain their tables. `packs` returns the given
    /// number of packs, with their sizes in bytes.
    fn read_ends_ahead(&self, _packs: &dyn Fn(usize) -> Vec<(PackNumber, u64)>) {}

    /// Begins to read a range of a pack that will be needed soon.
    fn read_ahead(&self, _pack: PackNumber, _range: Range<u64>) {}

    /// Returns the local file that holds the pack. Never blocks.
    fn file_of(&self, _pack: PackNumber) -> Option<PathBuf> {
        None
    }

    /// Drops everything that is held in memory or on a local disk for a pack in this storage: the
    /// next read asks the storage. May be called while the state is locked.
    fn forget(&self, _pack: PackNumber) {}

    /// Removes a sealed pack durably, if it exists.
    fn remove(&self, pack: PackNumber) -> io::Result<()>;

    /// Gives the file of a pack a name that no pack has, durably. A storage whose packs are not
    /// files of a folder does not do this.
    fn set_aside(&self, _pack: PackNumber) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the time at which the pack arrived, by the clock of the machine that wrote it.
    fn arrival(&self, pack: PackNumber) -> io::Result<SystemTime>;

    /// Returns the number of bytes that may be written for `purpose`, if the storage knows a limit.
    fn room(&self, _reserve: Reserve, _purpose: Purpose) -> Option<u64> {
        None
    }

    /// Ends uploads of other processes that nobody continues: all uploads, or only uploads of packs
    /// below a number. Returns the number of ended uploads.
    fn end_orphans(&self, _below: Option<PackNumber>) -> io::Result<usize> {
        Ok(0)
    }
}

/// Storage that takes new packs.
pub(crate) trait Intake {
    /// Returns true if the storage, which was available at the last look, still is, as far as that
    /// is known without a wait. May be called while the state is locked.
    fn is_ready(&self, mark: Mark) -> bool;

    /// Creates an open pack. Fails with `AlreadyExists` if the storage has the pack.
    fn create(&self, id: NewPackId, margin: Margin) -> io::Result<OpenPack>;

    /// Makes the names of the packs that were synced or sealed since the last call durable. `pack`
    /// is one of them: an error names it.
    fn sync_names(&self, _mark: Mark, _pack: PackNumber) -> Result<(), AppendError> {
        Ok(())
    }

    /// Returns the folder in which a pack is assembled before [`Intake::put`].
    fn folder(&self) -> &Path;

    /// Makes the complete, sealed pack in the file `new` a pack of the storage, durably. It
    /// replaces a pack with the same number.
    fn put(&self, table: &Arc<Table>, new: &Path) -> io::Result<()>;
}

/// The mark and the owner of a pool, and small files beside its packs.
pub(crate) trait SideFiles {
    /// Returns the place as it is shown to people: a folder or a URL.
    fn place(&self) -> PathBuf;

    fn read_mark(&self) -> io::Result<Option<Mark>>;

    /// Writes the mark. Fails with `AlreadyExists` if the place has the mark of another pool.
    fn write_mark(&self, mark: Mark) -> io::Result<()>;

    /// Removes the mark and the file of the owner.
    fn remove_mark(&self) -> io::Result<()>;

    /// Reads the owner, if one is recorded. Fails with `InvalidData` if the file of the owner is
    /// damaged.
    fn read_owner(&self) -> io::Result<Option<Owner>>;

    fn write_owner(&self, owner: Owner) -> io::Result<()>;

    /// Returns true if the storage answers and has this mark.
    fn is_marked(&self, mark: Mark) -> bool {
        self.read_mark().map_or_else(
            |error| {
                tracing::warn!(%error, place = %self.place().display(), "a pool does not answer");
                false
            },
            |found| found == Some(mark),
        )
    }

    /// Returns the local file with this name. The empty name stands for the folder of the files.
    fn file_of(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Writes a file durably, as a whole or not at all.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Returns the names of all files, in alphabetical order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Reads a file. Fails with `NotFound` if the file does not exist.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Removes a file, if it exists.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Storage that lets nobody remove a locked object before a certain day.
pub(crate) trait ObjectLocks {
    /// Locks a pack for the period `hold`. Returns true if a request had to set the lock.
    fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool>;

    /// Locks the pool's mark and, if it exists, a file beside its packs. Returns true if a request
    /// had to set a lock.
    fn hold_file(&self, name: &str, hold: Hold) -> io::Result<bool>;

    /// Asks the store for the day until which the pack must stay.
    fn locked_until(&self, pack: PackNumber) -> io::Result<Option<ServerTime>>;

    /// Makes readers get the newest complete version of the pack. `is_whole` checks the version
    /// that readers get at that moment. Returns false if no version is complete.
    fn bring_back(&self, pack: PackNumber, is_whole: &mut dyn FnMut() -> bool) -> io::Result<bool>;

    /// Does the same as [`Self::bring_back`] for a file beside the packs.
    fn bring_back_file(&self, name: &str, is_whole: &mut dyn FnMut() -> bool) -> io::Result<bool>;
}
