//! Pools that several servers use at once: what one of them writes, the others hear of later.
//!
//! Only packs in object stores are shared. News of another server's pack may be late, and the pack
//! may have moved on to another pool since: a server that does not find a pack looks for it.

use std::io;
use std::sync::Arc;

use model::PackNumber;

use super::Pools;
use crate::bucket::Bucket;
use crate::member::Member;

/// Limits that tell other servers which packs of this server they do not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Lower limit of the packs that are open, or sealed and told to nobody. `None` if there are
    /// none and the next pack will have a number that is not taken yet.
    pub horizon: Option<PackNumber>,
    /// End of all numbers that were ever taken.
    pub numbers_end: PackNumber,
}

impl Pools {
    /// Returns the standing of this server. If it is `idle` and fills no pack, it gives up its
    /// numbers: the pack that it fills next comes after all packs that the others know by then.
    pub fn standing(&self, idle: bool) -> Standing {
        let mut state = self.state();
        let untold = state.first_untold();
        let numbers = &mut state.numbers;
        let numbers_end = numbers.taken_end();
        if !numbers.is_shared() {
            return Standing { horizon: untold, numbers_end };
        }
        if idle && untold.is_none() {
            numbers.give_up();
        }
        // The next pack may have a number that others do not hear of when it is begun.
        let horizon = untold.or(numbers.next_taken());
        assert!(horizon.is_none_or(|pack| pack <= numbers_end), "a number in use was taken");
        Standing { horizon, numbers_end }
    }

    /// Lower limit of the packs that anything appended from now on goes to: open packs, packs that
    /// nobody was told of, or the next one.
    pub fn horizon(&self) -> PackNumber {
        let state = self.state();
        state.first_untold().unwrap_or(state.numbers.next())
    }

    /// Takes numbers if few are left, while nobody waits for one.
    pub fn stock_up(&self) -> io::Result<()> {
        let Some(source) = self.state().numbers.low_source() else { return Ok(()) };
        let taken = source()?;
        let mut state = self.state();
        state.numbers.keep(taken);
        state.numbers.fill()
    }

    /// Takes note of a pack that another server has sealed in an object store. Returns true if this
    /// server did not know it.
    pub fn learn(&self, pack: PackNumber, bytes: u64) -> bool {
        let mut state = self.state();
        let was_early = state.early.remove(&pack);
        if !state.homes(pack).is_empty() || state.open_pack(pack).is_some() {
            return was_early;
        }
        let is_shared = |pool: &_| state.members[pool].storage.is_shared();
        // If the pack is in another pool, the first reader looks for it.
        let pool = state.chain().into_iter().find(is_shared);
        pool.inspect(|pool| state.set_bytes(*pool, pack, bytes)).is_some()
    }

    /// Takes note that another server has removed a pack, or that it is nobody's.
    pub fn forget(&self, pack: PackNumber) {
        let mut state = self.state();
        state.tables.pop(&pack);
        state.early.remove(&pack);
        // A copy pool keeps its packs until it has those that replace them.
        let primaries = state.members.values_mut().filter(|member| member.is_primary());
        for member in primaries.filter(|member| member.has(pack) && member.storage.is_shared()) {
            member.remove(pack);
            member.storage.forget(pack);
        }
    }

    /// The bucket of the first primary pool in an object store that is there.
    pub fn first_bucket(&self) -> Option<Arc<Bucket>> {
        let storages = self.state().storages_there(Member::is_primary);
        storages.iter().find_map(|(_, storage)| storage.shared_files().cloned())
    }

    /// Lists all packs in the object stores of primary pools that are there, as they are now.
    /// Other servers may be sending some of them.
    pub fn list_objects(&self) -> io::Result<Vec<(PackNumber, u64)>> {
        let is_asked = |member: &Member| member.is_primary() && member.storage.is_shared();
        let storages = self.state().storages_there(is_asked);
        let mut all = Vec::new();
        for (_, storage) in storages {
            all.extend(storage.list(&|_| None)?);
        }
        Ok(all)
    }

    /// Ends uploads to object stores that nobody continues: all, or those of packs below a number.
    pub fn end_orphans(&self, below: Option<PackNumber>) {
        let storages = self.state().storages_there(|_| true);
        for (pool, storage) in storages {
            match storage.end_orphans(below) {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, %pool, "unfinished uploads were ended"),
                Err(error) => tracing::warn!(%error, %pool, "unfinished uploads stay"),
            }
        }
    }
}
