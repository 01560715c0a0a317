//! Confirmation of copies: before a file loses content because of a record, the server is asked
//! whether it has the copy that the record names, for a file of this file system.
//!
//! A record alone does not prove it: programs copy records together with files, also to other file
//! systems, and copies are released.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use client::{Client, ClientError, ListedCopy};
use format::stub::Stub;
use model::BatchId;

/// A file, with the record that names its copy.
pub(crate) struct Claim<'a> {
    pub(crate) stub: &'a Stub,
    pub(crate) inode: u64,
    /// Absolute path on the node.
    pub(crate) path: Vec<u8>,
}

impl Claim<'_> {
    /// True if `copy` is the copy of this file.
    ///
    /// A record without a bearer may be the record of another file of the file system. Then the
    /// copy must have been made of a file with this inode number or with this path.
    fn is_met_by(&self, copy: &ListedCopy) -> bool {
        let is_named = copy.id == self.stub.copy
            && copy.stat.size == self.stub.size
            && copy.stat.mtime == self.stub.mtime;
        let is_of_file =
            self.stub.bearer.is_some() || copy.stat.inode == self.inode || copy.path == self.path;
        is_named && is_of_file && !copy.is_released
    }
}

/// Returns, for each of `claims` on files of `mount_point`, whether the server has the copy.
pub(crate) fn confirmed(
    client: &Client,
    mount_point: &[u8],
    claims: &[Claim<'_>],
) -> Result<Vec<bool>, ClientError> {
    let mut copies: HashMap<BatchId, Vec<ListedCopy>> = HashMap::new();
    for claim in claims {
        let batch = claim.stub.copy.batch;
        if let Entry::Vacant(entry) = copies.entry(batch) {
            entry.insert(client.copies_of_batch(mount_point, batch)?);
        }
    }
    let is_met = |claim: &Claim<'_>| {
        let of_batch = copies.get(&claim.stub.copy.batch);
        of_batch.is_some_and(|copies| copies.iter().any(|copy| claim.is_met_by(copy)))
    };
    Ok(claims.iter().map(is_met).collect())
}

#[cfg(test)]
mod tests {
    use format::stub::{Bearer, State};
    use model::{CopyId, Kind, ServerTime, Stat, Timestamp};

    use super::*;

    const COPY: CopyId = CopyId { batch: BatchId(7), index: 3 };
    const MTIME: Timestamp = Timestamp { secs: 5, nanos: 7 };

    fn listed() -> ListedCopy {
        let stat = Stat {
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 10,
            mtime: MTIME,
            ctime: Timestamp::default(),
            inode: 12,
            linked: false,
            device: 0,
        };
        let path = b"/data/file".to_vec();
        ListedCopy { id: COPY, since: ServerTime(0), is_released: false, stat, path }
    }

    fn record(bearer: Option<Bearer>) -> Stub {
        let (size, mtime) = (10, MTIME);
        let (state, was_recalled, content) = (State::Premigrated, false, [0; 16]);
        Stub { state, was_recalled, copy: COPY, size, mtime, content, bearer, unsynced: None }
    }

    #[test]
    fn a_copy_of_the_named_file_confirms_its_record() {
        #[track_caller]
        fn check(bearer: Option<Bearer>, inode: u64, path: &str, expected: bool) {
            let stub = record(bearer);
            let claim = Claim { stub: &stub, inode, path: path.as_bytes().to_vec() };
            assert_eq!(claim.is_met_by(&listed()), expected);
        }
        let own = Some(Bearer::of(&[1; 16], b"handle"));
        check(own, 99, "/data/renamed", true);
        check(None, 12, "/data/renamed", true);
        check(None, 99, "/data/file", true);
        check(None, 99, "/data/copied", false);
    }

    #[test]
    fn a_copy_that_is_released_or_of_another_state_confirms_nothing() {
        let stub = record(Some(Bearer::of(&[1; 16], b"handle")));
        let claim = Claim { stub: &stub, inode: 12, path: b"/data/file".to_vec() };
        assert!(!claim.is_met_by(&ListedCopy { is_released: true, ..listed() }));
        let other = CopyId { index: 4, ..COPY };
        assert!(!claim.is_met_by(&ListedCopy { id: other, ..listed() }));
        let stat = Stat { size: 11, ..listed().stat };
        assert!(!claim.is_met_by(&ListedCopy { stat, ..listed() }));
    }
}
