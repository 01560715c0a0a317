//! Attributes of restored objects: comparison with the stored attributes, and refusals by the
//! system.

use std::io;

use model::{Kind, Stat};
use sys::{ApplyOutcome, Part};

use super::tally::Tally;

/// Returns true if an object has the stored stat, in those fields that a restore sets. The file
/// system decides the sizes of directories. Owners are compared only if the restore runs as root
/// (`owner`).
pub(super) fn same_stat(found: &Stat, stored: &Stat, owner: bool) -> bool {
    found.kind == stored.kind
        && (stored.kind != Kind::File || found.size == stored.size)
        && found.mtime == stored.mtime
        && (stored.kind == Kind::Symlink || found.mode == stored.mode)
        && (!owner || (found.uid == stored.uid && found.gid == stored.gid))
        && found.device == stored.device
}

/// Counts attributes that could not be set as failures. Attributes that only root may set are
/// failures only if the restore runs as root (`owner`). `path` is called only for a failure.
pub(super) fn note_refusals(
    tally: &Tally,
    path: impl Fn() -> Vec<u8>,
    applied: &ApplyOutcome,
    owner: bool,
) {
    for refusal in &applied.refused {
        let is_for_root = match &refusal.part {
            Part::Owner | Part::Mode | Part::Flags => true,
            Part::Xattr(name) => !name.starts_with(b"user.") && !name.starts_with(b"system."),
            Part::Times => false,
        };
        if !owner && is_for_root && refusal.error.kind() == io::ErrorKind::PermissionDenied {
            continue;
        }
        tally.fail(path(), format!("{:?} not set: {}", refusal.part, refusal.error));
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    fn stat(kind: Kind) -> Stat {
        Stat {
            kind,
            mode: 0o644,
            uid: 1,
            gid: 2,
            size: 3,
            mtime: Timestamp { secs: 4, nanos: 5 },
            ctime: Timestamp { secs: 6, nanos: 7 },
            inode: 8,
            linked: false,
            device: 0,
        }
    }

    #[track_caller]
    fn check(kind: Kind, owner: bool, change: fn(&mut Stat), expected: bool) {
        let mut found = stat(kind);
        change(&mut found);
        assert_eq!(same_stat(&found, &stat(kind), owner), expected);
    }

    #[test]
    fn only_what_a_restore_sets_is_compared() {
        check(Kind::File, true, |_| (), true);
        check(Kind::File, true, |stat| stat.size = 9, false);
        check(Kind::Directory, true, |stat| stat.size = 9, true);
        check(Kind::File, true, |stat| stat.mtime.nanos = 9, false);
        check(Kind::File, true, |stat| stat.ctime.nanos = 9, true);
        check(Kind::File, true, |stat| stat.inode = 9, true);
        check(Kind::File, true, |stat| stat.mode = 0o600, false);
        check(Kind::Symlink, true, |stat| stat.mode = 0o777, true);
        check(Kind::File, true, |stat| stat.uid = 9, false);
        check(Kind::File, false, |stat| stat.uid = 9, true);
        check(Kind::BlockDevice, true, |stat| stat.device = 9, false);
        check(Kind::File, true, |stat| stat.kind = Kind::Fifo, false);
    }
}
