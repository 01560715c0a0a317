//! Division of a batch into groups: writes that few large statements perform together.
//!
//! ```text
//!   batch:   page a, mark a, version b, page b, mark b, page a | end of a task | page c, mark c
//!   group:   pages a b; version b; marks a b                   | by itself     | page c; mark c
//! ```
//!
//! 1. A group performed kind by kind has the same effect as its writes one by one, in the order of
//!    the batch. Of several writes to one row, the last counts: each of them replaces or removes
//!    the whole row. Writes of different kinds touch different tables, except marks.
//! 2. A mark counts if its directory has versions. A group only adds versions. So a mark counts if
//!    the group has added a version before it, or if the catalogue had versions before the group.
//!    The second question is put to the catalogue before anything of the group is written.
//! 3. The other writes of a group touch tables that no page, version or mark touches, and need no
//!    answer. They are performed last, in their order.
//! 4. A write of any other kind is performed by itself, after all writes before it and before all
//!    writes behind it.

use std::collections::{BTreeMap, BTreeSet};

use model::{DirPath, FilespaceId, Name, ServerTime};

use crate::{Day, PageKey, PageRow, VersionRow, Write};

/// Maximum number of writes of a group.
const WRITES_MAX: usize = 4096;
/// Size of the bodies from which on a group takes no other write. The statements of a group are in
/// memory together.
const BYTES_MAX: usize = 16 << 20;

/// Key of a version in its filespace: its directory and name, its end and its beginning.
pub(super) type VersionId<'a> = (&'a DirPath, &'a Name, ServerTime, ServerTime);

/// Part of a batch.
#[derive(Debug)]
pub(super) enum Part<'a> {
    Group(Group<'a>),
    One(&'a Write),
}

/// Consecutive writes to one filespace, and writes that are independent of them.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    /// The filespace of the rows; `None` for a group without rows.
    pub(super) filespace: Option<FilespaceId>,
    /// The pages that are put, and `None` for the pages that are removed.
    pub(super) pages: BTreeMap<&'a PageKey, Option<&'a PageRow>>,
    pub(super) versions: BTreeMap<VersionId<'a>, &'a VersionRow>,
    /// Days on which versions ended in the directories.
    pub(super) endings: BTreeSet<(Day, &'a DirPath)>,
    /// Endings that count if the directory had versions before the group.
    pub(super) marks: BTreeSet<(Day, &'a DirPath)>,
    /// Writes of packs, amounts, finished backups and events, in their order.
    pub(super) others: Vec<&'a Write>,
    /// Directories of the versions.
    versioned: BTreeSet<&'a DirPath>,
    writes: usize,
    bytes: usize,
}

/// Divides a batch into its parts, in their order.
pub(super) fn parts(writes: &[Write]) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for write in writes {
        if let Some(Part::Group(group)) = parts.last_mut()
            && group.join(write)
        {
            continue;
        }
        let mut group = Group::default();
        parts.push(if group.join(write) { Part::Group(group) } else { Part::One(write) });
    }
    let count = |part: &Part<'_>| match part {
        Part::Group(group) => group.writes,
        Part::One(_) => 1,
    };
    assert_eq!(parts.iter().map(count).sum::<usize>(), writes.len(), "no write is lost");
    parts
}

impl<'a> Group<'a> {
    /// Takes the write into the group. Returns false for a write that is not performed together
    /// with those of the group.
    fn join(&mut self, write: &'a Write) -> bool {
        let is_full = self.writes >= WRITES_MAX || self.bytes >= BYTES_MAX;
        if is_full || !self.takes(write) {
            return false;
        }
        match write {
            Write::PutPage { page, .. } => {
                self.pages.insert(&page.key, Some(page));
                self.bytes += page.body.len();
            }
            Write::RemovePage { key, .. } => {
                self.pages.insert(key, None);
            }
            Write::AddVersion { version, .. } => self.add_version(version),
            Write::MarkDirectory { directory, day, .. } => {
                let is_sure = self.versioned.contains(directory);
                let marks = if is_sure { &mut self.endings } else { &mut self.marks };
                marks.insert((*day, directory));
            }
            other => self.others.push(other),
        }
        self.writes += 1;
        true
    }

    /// Returns true for a write of a kind that a group has, to the filespace of the group.
    fn takes(&mut self, write: &Write) -> bool {
        match write {
            Write::PutPage { filespace, .. }
            | Write::RemovePage { filespace, .. }
            | Write::AddVersion { filespace, .. }
            | Write::MarkDirectory { filespace, .. } => {
                *self.filespace.get_or_insert(*filespace) == *filespace
            }
            Write::Grow { .. } | Write::PutPack(_) | Write::AddSession(_) | Write::AddEvent(_) => {
                true
            }
            _ => false,
        }
    }

    fn add_version(&mut self, version: &'a VersionRow) {
        let VersionRow { directory, name, inserted, deactivated, body } = version;
        self.versions.insert((directory, name, *deactivated, *inserted), version);
        self.endings.insert((Day::of(*deactivated), directory));
        self.versioned.insert(directory);
        self.bytes += body.len();
    }
}

#[cfg(test)]
mod tests {
    use model::{DomainId, PackNumber};

    use super::*;
    use crate::{Growth, PackRow, PackState};

    const SPACE: FilespaceId = FilespaceId(1);

    fn dir(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).unwrap()
    }

    fn put(filespace: FilespaceId, path: &str, body: &[u8]) -> Write {
        let (key, body) = (PageKey::first_of(dir(path)), body.to_vec());
        Write::PutPage { filespace, page: PageRow { key, object_count: 1, digest: None, body } }
    }

    fn remove(path: &str) -> Write {
        Write::RemovePage { filespace: SPACE, key: PageKey::first_of(dir(path)) }
    }

    fn mark(path: &str, day: i64) -> Write {
        Write::MarkDirectory { filespace: SPACE, directory: dir(path), day: Day(day) }
    }

    fn version(path: &str, body: &[u8]) -> Write {
        let version = VersionRow {
            directory: dir(path),
            name: Name::new(b"n").unwrap(),
            inserted: ServerTime(1),
            deactivated: ServerTime(2),
            body: body.to_vec(),
        };
        Write::AddVersion { filespace: SPACE, version }
    }

    fn group(writes: &[Write]) -> Group<'_> {
        let mut parts = parts(writes);
        assert_eq!(parts.len(), 1, "{parts:?}");
        match parts.pop() {
            Some(Part::Group(group)) => group,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_changes_of_many_directories_are_one_group() {
        let names: Vec<String> = (0..1000).map(|number| format!("/{number}/")).collect();
        let mut writes: Vec<Write> =
            names.iter().flat_map(|name| [put(SPACE, name, b"x"), mark(name, 7)]).collect();
        writes.push(Write::Grow { filespace: SPACE, growth: Growth::default() });
        let group = group(&writes);
        let counts = (group.pages.len(), group.marks.len(), group.others.len());
        assert_eq!(counts, (1000, 1000, 1));
        assert_eq!((group.filespace, group.endings.len()), (Some(SPACE), 0));
    }

    #[test]
    fn the_last_write_to_a_row_counts() {
        let writes = [
            put(SPACE, "/a/", b"1"),
            remove("/a/"),
            put(SPACE, "/a/", b"2"),
            put(SPACE, "/b/", b"1"),
            remove("/b/"),
            version("/a/", b"old"),
            version("/a/", b"new"),
        ];
        let group = group(&writes);
        let bodies: Vec<_> =
            group.pages.values().map(|page| page.map(|page| &page.body[..])).collect();
        assert_eq!(bodies, [Some(&b"2"[..]), None]);
        let bodies: Vec<_> = group.versions.values().map(|version| &version.body[..]).collect();
        assert_eq!(bodies, [b"new"]);
    }

    #[test]
    fn a_mark_behind_a_version_counts_and_one_before_it_is_asked_for() {
        let writes = [mark("/a/", 5), version("/a/", b""), mark("/a/", 6), mark("/b/", 7)];
        let group = group(&writes);
        let (a, b) = (dir("/a/"), dir("/b/"));
        assert_eq!(group.marks, BTreeSet::from([(Day(5), &a), (Day(7), &b)]));
        // The version ended on the day 0.
        assert_eq!(group.endings, BTreeSet::from([(Day(0), &a), (Day(6), &a)]));
    }

    #[test]
    fn what_depends_on_others_divides_a_batch() {
        let removal =
            Write::DropVersions { filespace: SPACE, directory: dir("/a/"), versions: Vec::new() };
        let pack = PackRow {
            number: PackNumber(1),
            domain: DomainId(1),
            state: PackState::Open,
            bytes: 1,
            node: None,
        };
        let writes = [
            Write::PutPack(pack),
            version("/a/", b""),
            removal,
            version("/a/", b""),
            put(SPACE, "/a/", b""),
            put(FilespaceId(2), "/a/", b""),
        ];
        let parts = parts(&writes);
        let kinds: Vec<Option<usize>> = parts
            .iter()
            .map(|part| match part {
                Part::Group(group) => Some(group.writes),
                Part::One(_) => None,
            })
            .collect();
        assert_eq!(kinds, [Some(2), None, Some(2), Some(1)]);
    }

    #[test]
    fn a_group_is_bounded() {
        let large = vec![0; BYTES_MAX / 2];
        let names = ["/a/", "/b/", "/c/"];
        let writes = names.map(|name| put(SPACE, name, &large));
        assert_eq!(parts(&writes).len(), 2);
        let many: Vec<Write> = (0..=WRITES_MAX).map(|_| remove("/a/")).collect();
        assert_eq!(parts(&many).len(), 2);
    }
}
