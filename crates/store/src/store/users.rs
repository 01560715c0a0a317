//! Users of packs: backups, from when they open, and restores, from the start of their selection.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::PackNumber;
use sys::lock::{Mutex, MutexGuard};

/// Users of packs on this server.
#[derive(Default)]
pub(crate) struct Users {
    state: Mutex<UsersState>,
}

#[derive(Default)]
struct UsersState {
    /// Number that was given to the last user.
    last: u64,
    /// Users by their number.
    active: BTreeMap<u64, User>,
    /// Generation of condemned packs that this server knows.
    generation: u64,
}

struct User {
    /// The first pack that a backup may append to; `None` for a reader.
    fills: Option<PackNumber>,
    /// Generation of condemned packs when the use began.
    generation: u64,
}

impl UsersState {
    fn add(&mut self, fills: Option<PackNumber>) -> u64 {
        self.last += 1;
        let user = User { fills, generation: self.generation };
        let before = self.active.insert(self.last, user);
        assert!(before.is_none(), "each number is given once");
        self.last
    }

    fn end(&mut self, number: u64) {
        let user = self.active.remove(&number);
        debug_assert!(user.is_some(), "a use ends once");
    }
}

/// A use of packs. Dropping it ends the use.
pub struct Use {
    users: Arc<Users>,
    number: u64,
    /// Number of packs that had failed when the use began.
    pub(crate) failures: usize,
}

impl Users {
    fn state(&self) -> MutexGuard<'_, UsersState> {
        self.state.lock()
    }

    /// Returns the present moment as a number: users that begin later have higher numbers.
    pub(crate) fn now(&self) -> u64 {
        let mut state = self.state();
        state.last += 1;
        state.last
    }

    /// Returns true while a reader is active that began before `number`.
    pub(crate) fn has_older_reader(&self, number: u64) -> bool {
        let state = self.state();
        state.active.range(..number).any(|(_, user)| user.fills.is_none())
    }

    /// Returns the first pack to which an active backup may have appended.
    pub(crate) fn first_filled(&self) -> Option<PackNumber> {
        self.state().active.values().filter_map(|user| user.fills).min()
    }

    /// Notes that this server knows all condemned packs up to `generation`. Users that begin later
    /// do not read those packs.
    pub(crate) fn know(&self, generation: u64) {
        let mut state = self.state();
        debug_assert!(state.generation <= generation, "condemnations are only added");
        state.generation = generation;
    }

    /// Returns the generation of condemned packs when the oldest active reader began. Without a
    /// reader, returns the present generation.
    pub(crate) fn oldest_generation(&self) -> u64 {
        let state = self.state();
        let readers = state.active.values().filter(|user| user.fills.is_none());
        readers.map(|user| user.generation).min().unwrap_or(state.generation)
    }

    /// Begins a use. `fills` is the first pack to which the user may append. `failures` is the
    /// number of packs that have failed so far.
    pub(crate) fn begin(self: &Arc<Self>, fills: Option<PackNumber>, failures: usize) -> Use {
        let number = self.state().add(fills);
        Use { users: Arc::clone(self), number, failures }
    }

    /// Notes that packs from `first` on are being filled, until the guard is dropped.
    pub(crate) fn fill_from(&self, first: Option<PackNumber>) -> Option<FillGuard<'_>> {
        let first = first?;
        Some(FillGuard { users: self, number: self.state().add(Some(first)) })
    }
}

/// Guard that makes packs count as being filled. Dropping it ends this.
pub(crate) struct FillGuard<'a> {
    users: &'a Users,
    number: u64,
}

impl Drop for FillGuard<'_> {
    fn drop(&mut self) {
        self.users.state().end(self.number);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.users.state().end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_count_from_their_beginning_to_their_end() {
        let users = Arc::new(Users::default());
        let before = users.now();
        let reader = users.begin(None, 0);
        let after = users.now();
        assert!(!users.has_older_reader(before));
        assert!(users.has_older_reader(after));
        drop(reader);
        assert!(!users.has_older_reader(after));
    }

    #[test]
    fn a_backup_is_no_reader_and_has_the_first_pack_that_it_fills() {
        let users = Arc::new(Users::default());
        let later = users.begin(Some(PackNumber(9)), 0);
        let filling = users.fill_from(Some(PackNumber(4)));
        assert!(users.fill_from(None).is_none());
        assert_eq!(users.first_filled(), Some(PackNumber(4)));
        assert!(!users.has_older_reader(users.now()));
        drop(filling);
        assert_eq!(users.first_filled(), Some(PackNumber(9)));
        drop(later);
        assert_eq!(users.first_filled(), None);
    }

    #[test]
    fn the_oldest_reader_holds_the_generation_back() {
        let users = Arc::new(Users::default());
        users.know(3);
        assert_eq!(users.oldest_generation(), 3, "without a reader the present one");
        let reader = users.begin(None, 0);
        let backup = users.begin(Some(PackNumber(1)), 0);
        users.know(5);
        let newer = users.begin(None, 0);
        assert_eq!(users.oldest_generation(), 3);
        drop(reader);
        assert_eq!(users.oldest_generation(), 5, "a backup does not count");
        drop((backup, newer));
    }
}
