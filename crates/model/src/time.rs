//! Two kinds of time that must not be mixed: the server's clock, which policy trusts, and the file
//! times of a node, which are data.

/// A file time as the node's kernel gave it. Earlier times sort first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds after `secs`: 0 to 999,999,999.
    pub nanos: u32,
}

impl Timestamp {
    /// Whole microseconds since 1970.
    pub fn micros(self) -> i64 {
        self.secs.saturating_mul(1_000_000).saturating_add(i64::from(self.nanos / 1000))
    }
}

/// A moment by the server's clock, in microseconds since 1970 (UTC).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerTime(pub i64);

impl ServerTime {
    /// A moment after every moment that a server will see.
    pub const MAX: Self = Self(i64::MAX);

    pub fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Whole seconds since 1970.
    pub fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
}
