//! Hard links: the first name of an inode is restored, and the other names are linked to it.
//!
//! Inode numbers are used again. Two names are of one inode if the number, the kind, the size and
//! the modification time are equal, and one of these as well:
//!
//! 1. The change time.
//! 2. Everything else that a restore brings back: content, mode, owner and attributes. The removal
//!    of one name changes the change time of the others, of which the server keeps the last one.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use format::page;
use model::{ClassId, DirPath, Kind, Name, Object, ServerTime, Stat, Timestamp};
use sys::Dir;
use sys::lock::{Mutex, MutexGuard};

use super::layout::Base;
use crate::backup::NO_CHANGE_TIME;
use crate::path::components;

/// Inode of an object, as far as its number tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Inode {
    /// File system of the target. No link leads to another one.
    device_id: u64,
    number: u64,
    kind: Kind,
    mtime: Timestamp,
    size: u64,
}

/// Identity of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    inode: Inode,
    ctime: Timestamp,
    linked: bool,
    /// Digest of everything that a restore brings back.
    content: [u8; 32],
}

impl Group {
    /// Returns the group of an object that had, or may have had, several names. The object goes to
    /// the file system `device_id`.
    pub(super) fn of(object: &Object, device_id: u64) -> Option<Self> {
        let Stat { inode: number, kind, mtime, size, ctime, linked, .. } = object.stat;
        let inode = Inode { device_id, number, kind, mtime, size };
        Some(Self { inode, ctime, linked, content: digest(object)? })
    }

    fn is_one_with(&self, other: &Self) -> bool {
        let same_time = self.ctime == other.ctime && self.ctime != NO_CHANGE_TIME;
        let is_alike = same_time || self.content == other.content;
        // The last name of an inode is the only one without another name.
        let has_names = self.linked || other.linked;
        self == other || self.inode == other.inode && has_names && is_alike
    }

    /// Returns true if an object with the modification time `mtime` is older than the stored
    /// object.
    pub(super) fn is_newer_than(&self, mtime: Timestamp) -> bool {
        mtime < self.inode.mtime
    }

    /// Returns true if an object with this `stat` has the stored content, as far as a stat tells.
    pub(super) fn describes(&self, stat: &Stat) -> bool {
        stat.kind == Kind::File && self.may_be(stat)
    }

    /// Returns true if an object with this `stat` may be the stored object.
    pub(super) fn may_be(&self, stat: &Stat) -> bool {
        let Inode { kind, size, mtime, .. } = self.inode;
        (stat.kind, stat.size, stat.mtime) == (kind, size, mtime)
    }
}

/// Returns true if the inode of an object with one name has changed after the object was stored. It
/// may have had other names before: the server keeps the last number of names.
pub(super) fn may_have_lost_names(object: &Object) -> bool {
    let ctime = object.stat.ctime;
    let is_later = ctime.micros() > object.inserted.0 || ctime == NO_CHANGE_TIME;
    is_later && !object.stat.linked && object.stat.kind != Kind::Directory
}

/// Returns the digest of what all names of an object share, besides the number of names and the
/// change time.
fn digest(object: &Object) -> Option<[u8; 32]> {
    let shared = Object {
        name: Name::new(b"name").ok()?,
        stat: Stat { ctime: NO_CHANGE_TIME, linked: true, ..object.stat },
        class: ClassId(0),
        inserted: ServerTime(0),
        ..object.clone()
    };
    let page = page::try_encode(&[shared]).ok()?;
    Some(*blake3::hash(&page).as_bytes())
}

/// Name in the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) directory: Arc<DirPath>,
    pub(super) name: Name,
}

enum State<H> {
    /// The first name is being made. These names wait for it.
    Making(Vec<(Spot, H)>),
    Made(Spot),
    Failed,
}

/// Next step for a name of a group.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// The name is the first name of the group: make the object, then call [`Links::settle`].
    Make,
    Link(Spot),
    /// The name will be linked when the first name is made.
    Wait,
    /// The first name could not be made.
    Fail,
}

/// State of each group with one inode number.
type Groups<H> = HashMap<Inode, Vec<(Group, State<H>)>>;

/// Names of each inode in the restore. A value of type `H` is kept for each waiting name.
pub(super) struct Links<H> {
    groups: Mutex<Groups<H>>,
}

impl<H> Default for Links<H> {
    fn default() -> Self {
        Self { groups: Mutex::default() }
    }
}

impl<H: Clone> Links<H> {
    fn groups(&self) -> MutexGuard<'_, Groups<H>> {
        self.groups.lock()
    }

    /// Returns the next step for the name `spot`.
    pub(super) fn turn(&self, group: Group, spot: &Spot, hold: &H) -> Turn {
        let mut groups = self.groups();
        let known = groups.entry(group.inode).or_default();
        match known.iter_mut().find(|(one, _)| one.is_one_with(&group)) {
            None => {
                known.push((group, State::Making(Vec::new())));
                Turn::Make
            }
            Some((_, State::Making(waiting))) => {
                waiting.push((spot.clone(), hold.clone()));
                Turn::Wait
            }
            Some((_, State::Made(first))) => Turn::Link(first.clone()),
            Some((_, State::Failed)) => Turn::Fail,
        }
    }

    /// Notes that another object keeps the first name. The next name then becomes the first.
    ///
    /// One thread takes all names, and calls this directly after [`Self::turn`]. So no name waits
    /// yet.
    pub(super) fn pass_on(&self, group: Group) {
        let mut groups = self.groups();
        let known = groups.entry(group.inode).or_default();
        let at = known.iter().position(|(one, _)| *one == group);
        let passed = at.map(|at| known.swap_remove(at).1);
        let is_first = matches!(passed, Some(State::Making(waiting)) if waiting.is_empty());
        assert!(is_first, "no name waits for the first name yet");
    }

    /// Notes that the first name was made, or could not be made. Returns the names that waited for
    /// it.
    pub(super) fn settle(&self, group: Group, made: Option<Spot>) -> Vec<(Spot, H)> {
        let state = made.map_or(State::Failed, State::Made);
        let mut groups = self.groups();
        let known = groups.entry(group.inode).or_default();
        let own = known.iter_mut().find(|(one, _)| *one == group);
        let before = own.map(|(_, own)| std::mem::replace(own, state));
        let Some(State::Making(waiting)) = before else {
            panic!("a first name is settled once, after its turn to be made");
        };
        waiting
    }
}

/// Name that a reception has made, for the receptions after it.
#[derive(Clone)]
pub(super) struct MadeName {
    pub(super) base: Arc<Base>,
    /// Path of the name's directory below the base.
    pub(super) below: Vec<u8>,
    pub(super) name: Name,
}

impl MadeName {
    /// Opens the directory of the name. It is opened anew for each link, because a restore of many
    /// paths makes more names than it may have open directories.
    pub(super) fn open(&self) -> io::Result<Dir> {
        let base = self.base.open().ok().flatten().ok_or(io::ErrorKind::NotFound)?;
        components(&self.below).try_fold(base, |directory, name| directory.open_dir(name))
    }
}

/// Names of the inodes of one filespace.
type NamesByInode = HashMap<Inode, Vec<(Group, MadeName)>>;

/// Maximum number of inodes whose names are kept for later receptions.
const INODES_MAX: usize = 1 << 20;

/// Names that all receptions of a restore have made, by filespace: two filespaces may have the same
/// inode numbers.
#[derive(Default)]
pub(super) struct MadeNames(Mutex<HashMap<Vec<u8>, NamesByInode>>);

impl MadeNames {
    /// Returns false after very many inodes. Names of further ones come back as files of their own.
    pub(super) fn has_room(&self) -> bool {
        self.0.lock().values().map(HashMap::len).sum::<usize>() < INODES_MAX
    }

    /// Returns the last name of `group` in `filespace`.
    pub(super) fn find(&self, filespace: &[u8], group: &Group) -> Option<MadeName> {
        let filespaces = self.0.lock();
        let known = filespaces.get(filespace)?.get(&group.inode)?;
        known
            .iter()
            .find(|(one, _)| one.is_one_with(group))
            .map(|(_, name)| name.clone())
    }

    /// Notes a name of `group` in `filespace`.
    pub(super) fn note(&self, filespace: &[u8], group: Group, made: MadeName) {
        let mut filespaces = self.0.lock();
        let inodes = filespaces.entry(filespace.to_vec()).or_default();
        let known = inodes.entry(group.inode).or_default();
        match known.iter_mut().find(|(one, _)| one.is_one_with(&group)) {
            Some((_, name)) => *name = made,
            None => known.push((group, made)),
        }
    }
}

/// Inodes of which a plan has met a name, by filespace.
#[derive(Default)]
pub(super) struct MetInodes(HashMap<Vec<u8>, HashMap<Inode, Vec<Group>>>);

impl MetInodes {
    /// Notes a name of `group` in `filespace`. Returns true for the first name of an inode.
    pub(super) fn meet(&mut self, filespace: &[u8], group: Group) -> bool {
        let inodes = self.0.entry(filespace.to_vec()).or_default();
        let known = inodes.entry(group.inode).or_default();
        if known.iter().any(|one| one.is_one_with(&group)) {
            return false;
        }
        known.push(group);
        true
    }
}

#[cfg(test)]
mod tests {
    use model::{ChunkRange, Extent, PackNumber, Payload, Place};

    use super::super::layout::Layout;
    use super::*;
    use crate::path::innermost;

    fn spot(name: &str) -> Spot {
        let name = Name::new(name.as_bytes()).expect("a name");
        Spot { directory: Arc::new(DirPath::root()), name }
    }

    /// Returns a file with two names, whose content lies at `place`.
    fn file(place: u32) -> Object {
        let first = Place::new(PackNumber(1), place);
        let mtime = Timestamp { secs: 4, nanos: 0 };
        let ctime = Timestamp { secs: 5, nanos: 0 };
        Object {
            name: Name::new(b"file").expect("a name"),
            stat: Stat {
                kind: Kind::File,
                mode: 0o640,
                uid: 1,
                gid: 2,
                size: 3,
                mtime,
                ctime,
                inode: 1,
                linked: true,
                device: 0,
            },
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime::from_secs(6),
            payload: Payload::Extents(vec![Extent::Chunks(ChunkRange { first, count: 1 })]),
        }
    }

    fn group(object: &Object) -> Group {
        Group::of(object, 7).expect("it fits into a page")
    }

    #[test]
    fn the_first_name_is_made_and_the_others_linked() {
        let first = group(&file(1));
        let links = Links::default();
        assert_eq!(links.turn(first, &spot("a"), &()), Turn::Make);
        assert_eq!(links.turn(first, &spot("b"), &()), Turn::Wait);
        assert_eq!(links.settle(first, Some(spot("a"))), [(spot("b"), ())]);
        assert_eq!(links.turn(first, &spot("c"), &()), Turn::Link(spot("a")));
        let mut other = file(1);
        other.stat.inode = 2;
        let other = group(&other);
        assert_eq!(links.turn(other, &spot("d"), &()), Turn::Make);
        assert_eq!(links.settle(other, None), []);
        assert_eq!(links.turn(other, &spot("e"), &()), Turn::Fail);
    }

    #[test]
    fn the_next_name_is_made_if_another_object_keeps_the_first() {
        let group = group(&file(1));
        let links = Links::default();
        assert_eq!(links.turn(group, &spot("a"), &()), Turn::Make);
        links.pass_on(group);
        assert_eq!(links.turn(group, &spot("b"), &()), Turn::Make);
        assert_eq!(links.turn(group, &spot("c"), &()), Turn::Wait);
    }

    /// Checks whether a name of `object` is linked to a name of [`file`] at the place 1.
    #[track_caller]
    fn check(object: &Object, is_linked: bool) {
        let links = Links::default();
        let first = group(&file(1));
        assert_eq!(links.turn(first, &spot("a"), &()), Turn::Make);
        assert_eq!(links.settle(first, Some(spot("a"))), []);
        let turn = links.turn(group(object), &spot("b"), &());
        assert_eq!(turn == Turn::Link(spot("a")), is_linked, "{object:?}");
    }

    /// Names of an inode did not come back as such, if one of them was backed up after another name
    /// was removed.
    #[test]
    fn names_with_the_same_content_may_have_another_change_time() {
        let later = |place| {
            let mut object = file(place);
            object.stat.ctime.secs = 9;
            object
        };
        check(&file(1), true);
        check(&later(1), true);
        let mut last = later(1);
        last.stat.linked = false;
        check(&last, true);
        // Other content, and then another owner, under a number that is used again.
        check(&later(2), false);
        let mut foreign = later(1);
        foreign.stat.uid = 9;
        check(&foreign, false);
        let mut newer = file(1);
        newer.stat.mtime.secs = 9;
        check(&newer, false);
        assert_ne!(Group::of(&file(1), 7), Group::of(&file(1), 8), "no link leaves a file system");
    }

    #[test]
    fn names_of_other_receptions_are_found_in_their_filespace() {
        let layout = Layout::new(Some(b"/to"), &[], &[]);
        let place = innermost(std::iter::once(&b"/"[..]), b"/a/x").expect("a place");
        let base = Arc::new(layout.base(b"/a/x", &place));
        let made = MadeNames::default();
        let note = |object: &Object, below: &[u8]| {
            let (below, name) = (below.to_vec(), spot("x").name);
            let made_name = MadeName { base: Arc::clone(&base), below, name };
            made.note(b"/home", group(object), made_name);
        };
        note(&file(1), b"a");
        let mut other = file(2);
        other.stat.ctime.secs = 9;
        note(&other, b"b");
        let find = |filespace: &[u8], object: &Object| {
            made.find(filespace, &group(object)).map(|found| found.below)
        };
        assert_eq!(find(b"/home", &file(1)), Some(b"a".to_vec()));
        assert_eq!(find(b"/home", &other), Some(b"b".to_vec()));
        assert_eq!(find(b"/", &file(1)), None);
        note(&file(1), b"c");
        assert_eq!(find(b"/home", &file(1)), Some(b"c".to_vec()), "the last one");
    }

    #[test]
    fn a_plan_meets_an_inode_once_in_each_filespace() {
        let mut met = MetInodes::default();
        let mut other = file(2);
        other.stat.ctime.secs = 9;
        assert!(met.meet(b"/", group(&file(1))));
        assert!(met.meet(b"/home", group(&file(1))));
        assert!(met.meet(b"/", group(&other)));
        for object in [file(1), other] {
            assert!(!met.meet(b"/", group(&object)));
        }
    }

    #[test]
    fn an_unknown_change_time_proves_nothing() {
        let unknown = |place| {
            let mut object = file(place);
            object.stat.ctime = NO_CHANGE_TIME;
            group(&object)
        };
        assert!(unknown(1).is_one_with(&unknown(1)));
        assert!(unknown(1).is_one_with(&group(&file(1))));
        assert!(!unknown(1).is_one_with(&unknown(2)));
        let same_time = group(&file(2));
        assert!(same_time.is_one_with(&group(&file(1))));
    }

    #[test]
    fn only_an_inode_that_has_changed_may_have_lost_names() {
        let mut object = file(1);
        object.stat.linked = false;
        assert!(!may_have_lost_names(&object));
        object.stat.ctime.secs = 7;
        assert!(may_have_lost_names(&object));
        object.stat.linked = true;
        assert!(!may_have_lost_names(&object));
        object.stat.linked = false;
        object.stat.kind = Kind::Directory;
        assert!(!may_have_lost_names(&object));
    }
}
