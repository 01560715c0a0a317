//! Space that pools have taken, and the size of what domains have stored, day by day.

use model::{DomainId, PoolId};

use crate::{CatalogError, Day};

/// Pool that takes the space, or domain that has stored something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum UsageSubject {
    Pool(PoolId),
    /// The versions that the nodes of a domain have stored.
    Domain(DomainId),
}

/// Space on a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageDay {
    pub subject: UsageSubject,
    pub day: Day,
    pub bytes: u64,
    /// Number of bytes that fit; 0 if unknown.
    pub bytes_max: u64,
}

/// The space of each day.
pub trait UsageDays {
    /// Keeps the space of days. A day that is known is replaced.
    fn put_usage_days(&self, days: &[UsageDay]) -> Result<(), CatalogError>;

    /// The days of `subject` from the first to the last of `span`, in their order.
    fn usage_days(
        &self,
        subject: UsageSubject,
        span: (Day, Day),
    ) -> Result<Vec<UsageDay>, CatalogError>;

    /// Removes the days before `before`.
    fn forget_usage_days(&self, before: Day) -> Result<(), CatalogError>;
}
