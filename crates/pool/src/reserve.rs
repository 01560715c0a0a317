//! The reserve of a file system: space that stays free while new data is refused, so that a full
//! file system can become empty again.
//!
//! ```text
//!   |<----------- data ----------->|<------ reserve ------>|
//!   0                              | upkeep    | deletion  | size
//! ```
//!
//! New data stops before the reserve. Work without which no space becomes free (commits of data
//! that has arrived, packs that reclamation writes again, copies of the catalogue) may use the
//! first half. The second half is for deletion alone: it removes rows of the catalogue before it
//! removes files.
//!
//! Other programs on the same file system know nothing of the reserve and may use it up.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Size of the reserve of each file system: the smaller one of two limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reserve {
    /// Share of the file system, in per cent.
    pub percent: u8,
    /// Maximum size of the reserve, in bytes.
    pub bytes_max: u64,
}

/// Purpose of a write, which decides how much of the reserve the write may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// New data uses nothing of the reserve.
    Data,
    /// Work that keeps the server going uses the first half of the reserve.
    Upkeep,
}

impl Reserve {
    /// Returns the number of bytes that a write for `purpose` leaves free on a file system of
    /// `bytes`.
    fn left(self, bytes: u64, purpose: Purpose) -> u64 {
        let share = u128::from(bytes) * u128::from(self.percent) / 100;
        let whole = u64::try_from(share).unwrap_or(u64::MAX).min(self.bytes_max);
        match purpose {
            Purpose::Data => whole,
            Purpose::Upkeep => whole / 2,
        }
    }

    /// Returns the number of bytes that may be written for `purpose` to the file system of `file`.
    /// A file system that reports no size has room: the write itself finds out.
    pub(crate) fn room_at(self, file: &impl AsFd, purpose: Purpose) -> io::Result<u64> {
        let room = sys::space::room(file)?;
        if room.bytes == 0 {
            return Ok(u64::MAX);
        }
        Ok(room.free_bytes.saturating_sub(self.left(room.bytes, purpose)))
    }

    /// Returns the number of bytes that may be written for `purpose` to the file system of
    /// `folder`.
    pub fn room(self, folder: &Path, purpose: Purpose) -> io::Result<u64> {
        self.room_at(&File::open(folder)?, purpose)
    }
}

/// A reserve, and the purpose of the writes that have to respect it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Margin {
    pub(crate) reserve: Reserve,
    pub(crate) purpose: Purpose,
}

impl Margin {
    /// Returns the number of bytes that may be written to the file system of `file`. A file system
    /// that does not say how much is free has room: the write itself finds out.
    pub(crate) fn room(self, file: &impl AsFd) -> u64 {
        self.reserve.room_at(file, self.purpose).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(percent: u8, bytes_max: u64, size: u64, data: u64, upkeep: u64) {
        let reserve = Reserve { percent, bytes_max };
        assert_eq!(reserve.left(size, Purpose::Data), data);
        assert_eq!(reserve.left(size, Purpose::Upkeep), upkeep);
    }

    #[test]
    fn the_smaller_limit_counts_and_upkeep_may_use_half() {
        check(2, 1 << 30, 10 << 30, (10 << 30) / 50, (10 << 30) / 100);
        check(2, 1 << 30, 100 << 40, 1 << 30, 1 << 29);
        check(100, 5000, 1 << 40, 5000, 2500);
        check(0, 1 << 30, 1 << 40, 0, 0);
        check(2, 0, 1 << 40, 0, 0);
        check(2, 1 << 30, 0, 0, 0);
        check(200, u64::MAX, u64::MAX, u64::MAX, u64::MAX / 2);
    }

    #[test]
    fn room_ends_before_the_reserve() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = Reserve { percent: 100, bytes_max: u64::MAX };
        assert_eq!(all.room(folder.path(), Purpose::Data).expect("it is a folder"), 0);
        let none = Reserve::default();
        assert!(none.room(folder.path(), Purpose::Data).expect("it is a folder") > 0);
        assert!(none.room(&folder.path().join("absent"), Purpose::Data).is_err());
    }
}
