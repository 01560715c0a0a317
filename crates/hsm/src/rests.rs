//! Rests between searches of a file system that stays too full, because none of its files may
//! migrate: without them the monitor would read all directories again and again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Ratio of a rest to the search before it.
const RATIO: u32 = 20;
const REST_MAX: Duration = Duration::from_secs(600);

/// The file systems that rest.
#[derive(Default)]
pub(crate) struct Rests {
    /// Number of changes of file systems and settings that were seen.
    changes: u64,
    /// Ends of the rests, by mount point.
    ends: HashMap<Vec<u8>, Instant>,
}

impl Rests {
    /// Ends all rests if file systems or settings have changed.
    pub(crate) fn note_changes(&mut self, changes: u64) {
        if self.changes != changes {
            self.ends.clear();
        }
        self.changes = changes;
    }

    pub(crate) fn has(&self, mount_point: &[u8], now: Instant) -> bool {
        self.ends.get(mount_point).is_some_and(|end| now < *end)
    }

    /// Notes the end of a search that took `length`. The file system rests if the search was in
    /// vain: it is too full, and nothing has migrated.
    pub(crate) fn note_search(
        &mut self,
        mount_point: &[u8],
        length: Duration,
        is_in_vain: bool,
        now: Instant,
    ) {
        if is_in_vain {
            let rest = length.saturating_mul(RATIO).min(REST_MAX);
            self.ends.insert(mount_point.to_vec(), now + rest);
        } else {
            self.ends.remove(mount_point);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_stays_too_full_is_not_searched_all_the_time() {
        let start = sys::clock::monotonic();
        let at = |secs| start + Duration::from_secs(secs);
        let mut rests = Rests::default();
        let second = Duration::from_secs(1);
        rests.note_search(b"/a", second, true, at(0));
        rests.note_search(b"/b", second, false, at(0));
        assert!(rests.has(b"/a", at(19)) && !rests.has(b"/a", at(20)));
        assert!(!rests.has(b"/b", at(0)), "it has room");
        rests.note_search(b"/a", 100 * second, true, at(20));
        assert!(rests.has(b"/a", at(619)) && !rests.has(b"/a", at(620)), "a rest has its limit");
        rests.note_changes(1);
        assert!(!rests.has(b"/a", at(21)), "new settings may let files migrate");
        rests.note_search(b"/a", second, true, at(21));
        rests.note_changes(1);
        assert!(rests.has(b"/a", at(22)), "nothing has changed");
        rests.note_search(b"/a", second, false, at(23));
        assert!(!rests.has(b"/a", at(23)));
    }
}
