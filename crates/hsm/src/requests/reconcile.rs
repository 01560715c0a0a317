//! Requests that compare the records of a file system with the server's copies.

use std::collections::HashSet;
use std::io;

use client::{ClientError, ErrorKind, ListedCopy};
use model::{CopyId, ServerTime};

use crate::control::{PathText, Reply};
use crate::desk::{Desk, RequestError};
use crate::mount::Mount;
use crate::record::FileState;
use crate::tree;

/// Age in microseconds below which a copy that no file names is kept, because a record that names
/// it may be about to be written.
const ORPHAN_AGE_MICROS: i64 = 3600 * 1_000_000;

/// Treatment of the copies that no file names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Treatment {
    /// They are counted.
    Count,
    /// They are released, unless they are so many that this looks like a mistake: another file
    /// system may be mounted there.
    Release,
    /// They are released, however many they are.
    ReleaseAny,
}

impl Treatment {
    /// Returns the treatment for the options of a request.
    pub(super) fn of(dry_run: bool, is_confirmed: bool) -> Self {
        match (dry_run, is_confirmed) {
            (true, _) => Self::Count,
            (false, false) => Self::Release,
            (false, true) => Self::ReleaseAny,
        }
    }

    /// True if `orphans` copies stay although no file names them. Files name `named` copies.
    fn refuses(self, orphans: u64, named: u64) -> bool {
        self == Self::Release && policy::expiry_guard::refuses(orphans, named)
    }
}

/// Treats the copies that no file names, and reports the stubs without a copy.
pub(super) fn reconcile(
    desk: &Desk<'_>,
    mount: &Mount,
    treatment: Treatment,
) -> Result<Reply, RequestError> {
    let client = desk.connection.client()?;
    let disconnect = |error: ClientError| {
        if error.kind == ErrorKind::Retry {
            desk.connection.disconnect();
        }
        error
    };
    // The ages of copies follow the server's clock. Its time at the last greeting is earlier than
    // now, which is on the safe side.
    let before = ServerTime(client.hello().now.0 - ORPHAN_AGE_MICROS);
    let copies = client.copies(mount.mount_point(), false).map_err(disconnect)?;
    let mut collect = || NamedCopies::collect(desk, mount);
    let named = collect()?;
    let orphans = certain_orphans(named.orphans(&copies, before), &mut collect)?;
    let count = orphans.len() as u64;
    let kept = copies.len() as u64 - count;
    // Young copies that no file names prove nothing.
    let named_count = copies.iter().filter(|copy| named.contains(copy.id)).count() as u64;
    // Files that have migrated since the first list name newer copies.
    let now = client.copies(mount.mount_point(), true).map_err(disconnect)?;
    let (released, newer): (Vec<_>, Vec<_>) = now.into_iter().partition(|copy| copy.is_released);
    let Risks { lost, expiring } = named.risks(&[copies, newer].concat(), &released);
    if treatment.refuses(count, named_count) {
        let (released, doubtful) = (0, count);
        return Ok(Reply::Reconciled { kept, released, doubtful, lost, expiring });
    }
    if treatment != Treatment::Count && !orphans.is_empty() {
        client.release(mount.mount_point(), &orphans).map_err(disconnect)?;
    }
    let (released, doubtful) = (count, 0);
    Ok(Reply::Reconciled { kept, released, doubtful, lost, expiring })
}

/// A stub, with the copy that its record names.
struct MigratedFile {
    copy: CopyId,
    path: Vec<u8>,
}

/// Paths of the stubs whose copy the server does not keep.
#[derive(PartialEq, Eq, Debug, Default)]
struct Risks {
    /// The server has no copy.
    lost: Vec<PathText>,
    /// The copy was released, so that the server keeps it for a limited time only.
    expiring: Vec<PathText>,
}

/// The copies that the records of a file system name.
#[derive(Default)]
struct NamedCopies {
    copies: HashSet<CopyId>,
    migrated: Vec<MigratedFile>,
}

/// Calls `visit` with each copy that a record of the file system names, and with the file of the
/// record. Fails if a record cannot be read, because it may name any copy, and if the file system
/// is not mounted.
pub(super) fn visit_named(
    desk: &Desk<'_>,
    mount: &Mount,
    visit: &mut dyn FnMut(CopyId, &tree::VisitedFile<'_>),
) -> io::Result<()> {
    desk.recaller.catch_up();
    let mut failure = None;
    let mut visit_file = |visited: tree::VisitedFile<'_>| {
        if let Some(copy) = visited.named_copy {
            visit(copy, &visited);
        }
        true
    };
    let mut fail = |path: &[u8], error: &io::Error| {
        let path = model::escaped(&mount.absolute(path));
        failure = Some(format!("cannot read all records: {path}: {error}"));
    };
    tree::walk_all(mount, &mut visit_file, &mut fail)?;
    failure.map_or(Ok(()), |failure| Err(io::Error::other(failure)))
}

impl NamedCopies {
    /// Reads all records of a file system.
    fn collect(desk: &Desk<'_>, mount: &Mount) -> io::Result<Self> {
        let mut named = Self::default();
        visit_named(desk, mount, &mut |copy, visited| {
            named.copies.insert(copy);
            if let Some(stub) = &visited.stub
                && visited.state() == FileState::Migrated
            {
                let path = mount.absolute(&visited.file_path());
                named.migrated.push(MigratedFile { copy: stub.copy, path });
            }
        })?;
        Ok(named)
    }

    fn contains(&self, copy: CopyId) -> bool {
        self.copies.contains(&copy)
    }

    /// The copies from before `before` that no record names, sorted.
    fn orphans(&self, copies: &[ListedCopy], before: ServerTime) -> Vec<CopyId> {
        let is_orphan = |copy: &&ListedCopy| !self.contains(copy.id) && copy.since < before;
        let mut orphans: Vec<CopyId> =
            copies.iter().filter(is_orphan).map(|copy| copy.id).collect();
        orphans.sort();
        orphans
    }

    /// The copies of `orphans` that no record names.
    fn unnamed(&self, orphans: Vec<CopyId>) -> Vec<CopyId> {
        orphans.into_iter().filter(|copy| !self.contains(*copy)).collect()
    }

    /// The stubs that lose their content, unless somebody recalls it in time.
    fn risks(self, kept: &[ListedCopy], released: &[ListedCopy]) -> Risks {
        let ids = |copies: &[ListedCopy]| copies.iter().map(|copy| copy.id).collect();
        let (kept, released): (HashSet<CopyId>, HashSet<CopyId>) = (ids(kept), ids(released));
        let mut risks = Risks::default();
        for file in self.migrated.into_iter().filter(|file| !kept.contains(&file.copy)) {
            let is_expiring = released.contains(&file.copy);
            let Risks { lost, expiring } = &mut risks;
            if is_expiring { expiring } else { lost }.push(PathText(file.path));
        }
        risks
    }
}

/// The copies of `orphans` that no record names at a second look. The first look misses a file that
/// is moved meanwhile, from a directory that comes later to one that came before.
fn certain_orphans(
    orphans: Vec<CopyId>,
    look_again: &mut dyn FnMut() -> io::Result<NamedCopies>,
) -> io::Result<Vec<CopyId>> {
    if orphans.is_empty() {
        return Ok(orphans);
    }
    Ok(look_again()?.unnamed(orphans))
}

#[cfg(test)]
pub(super) mod tests {
    use model::{BatchId, Kind, Stat, Timestamp};

    use super::*;

    fn id(index: u16) -> CopyId {
        CopyId { batch: BatchId(1), index }
    }

    pub(crate) fn copy(index: u16, since: i64, path: &str) -> ListedCopy {
        let stat = Stat {
            kind: Kind::File,
            mode: 0o600,
            uid: 0,
            gid: 0,
            size: 1,
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            inode: 1,
            linked: false,
            device: 0,
        };
        let path = path.as_bytes().to_vec();
        ListedCopy { id: id(index), since: ServerTime(since), is_released: false, stat, path }
    }

    #[test]
    fn a_young_copy_without_a_name_is_no_orphan() {
        let named = NamedCopies { copies: [id(1)].into(), migrated: Vec::new() };
        let copies = [copy(4, 10, "/d"), copy(1, 10, "/a"), copy(2, 10, "/b"), copy(3, 99, "/c")];
        assert_eq!(named.orphans(&copies, ServerTime(50)), [id(2), id(4)]);
        assert_eq!(named.orphans(&copies, ServerTime(10)), []);
    }

    #[test]
    fn a_copy_of_a_file_that_is_moved_during_the_first_look_is_no_orphan() {
        let named = |copies: &[CopyId]| NamedCopies {
            copies: copies.iter().copied().collect(),
            migrated: Vec::new(),
        };
        let orphans = named(&[id(1)]).orphans(&[copy(1, 0, "/a"), copy(2, 0, "/b")], ServerTime(9));
        assert_eq!(orphans, [id(2)]);
        let moved = certain_orphans(orphans.clone(), &mut || Ok(named(&[id(1), id(2)])));
        assert_eq!(moved.expect("looked"), []);
        let deleted = certain_orphans(orphans, &mut || Ok(named(&[id(1)])));
        assert_eq!(deleted.expect("looked"), [id(2)]);
        let mut failed = || Err(io::Error::other("it was unmounted"));
        assert!(certain_orphans(vec![id(2)], &mut failed).is_err());
        assert_eq!(certain_orphans(Vec::new(), &mut failed).expect("no second look"), []);
    }

    #[test]
    fn most_copies_are_released_only_on_purpose() {
        for (treatment, refuses) in
            [(Treatment::of(false, false), true), (Treatment::of(false, true), false)]
        {
            assert_eq!(treatment.refuses(20, 19), refuses);
            assert!(!treatment.refuses(19, 0), "few copies are released at any time");
            assert!(!treatment.refuses(20, 20));
        }
        for is_confirmed in [false, true] {
            assert_eq!(Treatment::of(true, is_confirmed), Treatment::Count);
        }
        assert!(!Treatment::Count.refuses(20, 0), "all are counted");
    }

    #[test]
    fn stubs_whose_copy_is_lost_or_was_released_are_named() {
        let file = |index, path: &str| MigratedFile { copy: id(index), path: path.into() };
        let named = NamedCopies {
            copies: [id(1), id(2), id(3)].into(),
            migrated: vec![file(1, "/here"), file(2, "/lost"), file(3, "/again")],
        };
        let risks = named.risks(&[copy(1, 0, "/here")], &[copy(3, 0, "/again")]);
        let paths = |path: &str| vec![PathText(path.into())];
        assert_eq!(risks, Risks { lost: paths("/lost"), expiring: paths("/again") });
    }
}
