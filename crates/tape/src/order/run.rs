//! Files that one pass over the medium reads.

use crate::geometry::Point;

/// Files that are read in one pass: a range of the stops, sorted by address.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) start: Point,
    pub(super) end: Point,
}
