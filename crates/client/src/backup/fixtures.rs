//! Values that several tests use.

use model::{Kind, Stat, Timestamp};

/// Makes the stat of a file.
pub(super) fn stat() -> Stat {
    Stat {
        kind: Kind::File,
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
