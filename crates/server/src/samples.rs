//! Objects for tests.

use std::sync::Arc;

use model::{ClassId, Extent, Kind, Name, Object, Payload, ServerTime, Stat, Timestamp};

/// A file that was inserted at the beginning of time.
pub(crate) fn file(name: Name, class: ClassId, size: u64, extents: Vec<Extent>) -> Object {
    let time = Timestamp { secs: 1, nanos: 0 };
    Object {
        name,
        stat: Stat {
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            size,
            mtime: time,
            ctime: time,
            inode: 1,
            linked: false,
            device: 0,
        },
        attributes: Arc::default(),
        class,
        inserted: ServerTime(0),
        payload: Payload::Extents(extents),
    }
}
