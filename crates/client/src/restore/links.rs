//! Hard links: the first name of an inode is restored, and the other names are linked to it.

use std::collections::HashMap;
use std::sync::Arc;

use model::{DirPath, Kind, Name, Stat, Timestamp};
use sys::lock::{Mutex, MutexGuard};

/// Identity of an inode. The change time is part of it, because inode numbers are used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Group {
    inode: u64,
    ctime: Timestamp,
    mtime: Timestamp,
    size: u64,
}

impl Group {
    /// Returns the group of an object that had several names; `None` if it had only one name.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        let Stat { inode, ctime, mtime, size, linked, .. } = *stat;
        linked.then_some(Self { inode, ctime, mtime, size })
    }

    /// Returns true if an object with the modification time `mtime` is older than the stored
    /// object.
    pub(super) fn is_newer_than(&self, mtime: Timestamp) -> bool {
        mtime < self.mtime
    }

    /// Returns true if an object with this `stat` has the stored content, as far as a stat tells.
    pub(super) fn describes(&self, stat: &Stat) -> bool {
        (stat.kind, stat.size, stat.mtime) == (Kind::File, self.size, self.mtime)
    }
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

/// Names of each inode in the restore. A value of type `H` is kept for each waiting name.
pub(super) struct Links<H> {
    groups: Mutex<HashMap<Group, State<H>>>,
}

impl<H> Default for Links<H> {
    fn default() -> Self {
        Self { groups: Mutex::default() }
    }
}

impl<H: Clone> Links<H> {
    fn groups(&self) -> MutexGuard<'_, HashMap<Group, State<H>>> {
        self.groups.lock()
    }

    /// Returns the next step for the name `spot`.
    pub(super) fn turn(&self, group: Group, spot: &Spot, hold: &H) -> Turn {
        let mut groups = self.groups();
        match groups.get_mut(&group) {
            None => {
                groups.insert(group, State::Making(Vec::new()));
                Turn::Make
            }
            Some(State::Making(waiting)) => {
                waiting.push((spot.clone(), hold.clone()));
                Turn::Wait
            }
            Some(State::Made(first)) => Turn::Link(first.clone()),
            Some(State::Failed) => Turn::Fail,
        }
    }

    /// Notes that another object keeps the first name. The next name then becomes the first.
    ///
    /// One thread takes all names, and calls this directly after [`Self::turn`]. So no name waits
    /// yet.
    pub(super) fn pass_on(&self, group: Group) {
        let passed = self.groups().remove(&group);
        let is_first = matches!(passed, Some(State::Making(waiting)) if waiting.is_empty());
        assert!(is_first, "no name waits for the first name yet");
    }

    /// Notes that the first name was made, or could not be made. Returns the names that waited for
    /// it.
    pub(super) fn settle(&self, group: Group, made: Option<Spot>) -> Vec<(Spot, H)> {
        let state = made.map_or(State::Failed, State::Made);
        let before = self.groups().insert(group, state);
        let Some(State::Making(waiting)) = before else {
            panic!("a first name is settled once, after its turn to be made");
        };
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(name: &str) -> Spot {
        let name = Name::new(name.as_bytes()).expect("a name");
        Spot { directory: Arc::new(DirPath::root()), name }
    }

    #[test]
    fn the_first_name_is_made_and_the_others_linked() {
        let time = Timestamp::default();
        let group = Group { inode: 1, ctime: time, mtime: time, size: 3 };
        let links = Links::default();
        assert_eq!(links.turn(group, &spot("a"), &()), Turn::Make);
        assert_eq!(links.turn(group, &spot("b"), &()), Turn::Wait);
        assert_eq!(links.settle(group, Some(spot("a"))), [(spot("b"), ())]);
        assert_eq!(links.turn(group, &spot("c"), &()), Turn::Link(spot("a")));
        let other = Group { inode: 2, ..group };
        assert_eq!(links.turn(other, &spot("d"), &()), Turn::Make);
        assert_eq!(links.settle(other, None), []);
        assert_eq!(links.turn(other, &spot("e"), &()), Turn::Fail);
    }

    #[test]
    fn the_next_name_is_made_if_another_object_keeps_the_first() {
        let time = Timestamp::default();
        let group = Group { inode: 1, ctime: time, mtime: time, size: 3 };
        let links = Links::default();
        assert_eq!(links.turn(group, &spot("a"), &()), Turn::Make);
        links.pass_on(group);
        assert_eq!(links.turn(group, &spot("b"), &()), Turn::Make);
        assert_eq!(links.turn(group, &spot("c"), &()), Turn::Wait);
    }
}
