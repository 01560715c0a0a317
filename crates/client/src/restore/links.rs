//! Hard links: of the names that shared an inode, the first is restored and the others are linked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{DirPath, Name, Stat, Timestamp};

/// What names of one inode have in common. The change time is part of it: an inode number that was
/// used again does not join strangers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Group {
    inode: u64,
    ctime: Timestamp,
    mtime: Timestamp,
    size: u64,
}

impl Group {
    /// The group of an object that had several names.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        let Stat { inode, ctime, mtime, size, linked, .. } = *stat;
        linked.then_some(Self { inode, ctime, mtime, size })
    }
}

/// A name in the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) directory: DirPath,
    pub(super) name: Name,
}

enum State<H> {
    /// The first name is being made; these wait for it.
    Making(Vec<(Spot, H)>),
    Made(Spot),
    Failed,
}

/// What is to be done with a name of a group.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// It is the first: make it, then tell.
    Make,
    Link(Spot),
    /// It will be linked when the first one is made.
    Wait,
    /// The first one could not be made.
    Fail,
}

/// The groups met so far. Who waits keeps hold of an `H` meanwhile.
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
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what to do with `spot`.
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

    /// The first name is there, or cannot be: returns those that waited for it.
    pub(super) fn settle(&self, group: Group, made: Option<Spot>) -> Vec<(Spot, H)> {
        let state = made.map_or(State::Failed, State::Made);
        match self.groups().insert(group, state) {
            Some(State::Making(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(name: &str) -> Spot {
        let name = Name::new(name.as_bytes()).expect("a name");
        Spot { directory: DirPath::root(), name }
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
}
