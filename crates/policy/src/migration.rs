//! Automatic migration: the files that may migrate, and their order.

use model::{ServerTime, Timestamp};

const DAY_SECS: i64 = 86_400;
const MIB: u64 = 1 << 20;

/// Facts about a file on which its migration depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileFacts {
    pub bytes: u64,
    pub modified: Timestamp,
    pub accessed: Timestamp,
    /// True if the server has the file's content already.
    pub is_premigrated: bool,
}

/// Conditions for the automatic migration of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eligibility {
    /// MINMIGFILESIZE: minimum size of the file, in bytes.
    pub file_bytes_min: u64,
    /// AUTOMIGNONUSE: minimum number of days since the file was used or changed.
    pub unused_days_min: u32,
}

impl FileFacts {
    /// Days since the file was used or changed; 0 if its times are after `now`.
    fn unused_days(&self, now: ServerTime) -> u64 {
        let last = self.modified.secs.max(self.accessed.secs);
        u64::try_from((now.secs() - last) / DAY_SECS).unwrap_or(0)
    }

    /// Returns the priority of the file, or `None` if it must not migrate. A day without use counts
    /// as much as 1 MiB of size. A premigrated file has priority over all others, because nothing
    /// has to be sent.
    pub fn score(&self, rule: &Eligibility, now: ServerTime) -> Option<u64> {
        let days = self.unused_days(now);
        if self.bytes < rule.file_bytes_min.max(1) || days < u64::from(rule.unused_days_min) {
            return None;
        }
        let score = days.saturating_add(self.bytes / MIB);
        Some(if self.is_premigrated { score.saturating_add(1 << 62) } else { score })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ServerTime = ServerTime(1_000 * DAY_SECS * 1_000_000);

    fn file(bytes: u64, modified_days: i64, accessed_days: i64) -> FileFacts {
        let ago = |days| Timestamp { secs: (1_000 - days) * DAY_SECS, nanos: 0 };
        FileFacts {
            bytes,
            modified: ago(modified_days),
            accessed: ago(accessed_days),
            is_premigrated: false,
        }
    }

    #[test]
    fn small_and_used_files_stay() {
        let rule = Eligibility { file_bytes_min: 4096, unused_days_min: 30 };
        assert_eq!(file(4095, 100, 100).score(&rule, NOW), None);
        assert_eq!(file(4096, 100, 29).score(&rule, NOW), None);
        assert_eq!(file(4096, 29, 100).score(&rule, NOW), None);
        assert_eq!(file(4096, 30, 30).score(&rule, NOW), Some(30));
        assert_eq!(file(4096, -5, -5).score(&rule, NOW), None);
        let any = Eligibility { file_bytes_min: 0, unused_days_min: 0 };
        assert_eq!(file(0, 30, 30).score(&any, NOW), None);
        assert_eq!(file(1, -5, -5).score(&any, NOW), Some(0));
    }

    #[test]
    fn old_large_and_premigrated_files_go_first() {
        let rule = Eligibility { file_bytes_min: 0, unused_days_min: 0 };
        let score = |file: FileFacts| file.score(&rule, NOW);
        assert!(score(file(1, 200, 200)) > score(file(1, 100, 100)));
        assert!(score(file(300 * MIB, 1, 1)) > score(file(1, 200, 200)));
        let premigrated = FileFacts { is_premigrated: true, ..file(1, 1, 1) };
        assert!(score(premigrated) > score(file(1 << 50, 900, 900)));
    }
}
