//! Progress of expiration, and the days on which versions ended.

use std::ops::RangeInclusive;

use model::{DirPath, FilespaceId, ServerTime};

use crate::CatalogError;

/// Number of a day, counted from 1970 by the server's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Day(pub i64);

impl Day {
    const MICROS: i64 = 86_400_000_000;

    /// Returns the day in which `time` lies.
    pub fn of(time: ServerTime) -> Self {
        Self(time.0.div_euclid(Self::MICROS))
    }
}

/// Progress of expiration in a filespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiryState {
    /// Time up to which all versions that had to expire have been removed; `None` if expiration has
    /// to examine every version.
    pub done_to: Option<ServerTime>,
}

/// A day on which a version in the directory ended.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ending {
    pub day: Day,
    pub directory: DirPath,
}

/// The state of expiration.
pub trait Expiry {
    /// Progress of expiration in the filespace. Fails with `NotFound` for an unknown filespace.
    fn expiry(&self, filespace: FilespaceId) -> Result<ExpiryState, CatalogError>;

    /// At most `limit` endings on `days` after `after`, in order of day and path.
    fn endings(
        &self,
        filespace: FilespaceId,
        days: RangeInclusive<Day>,
        after: Option<&Ending>,
        limit: usize,
    ) -> Result<Vec<Ending>, CatalogError>;
}
