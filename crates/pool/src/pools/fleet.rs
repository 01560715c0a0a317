//! Pools that several servers use at once. A server learns later of the packs that other servers
//! write.
//!
//! Only packs in object stores are shared. News of another server's pack may be late, and the pack
//! may have moved to another pool meanwhile: a server that does not know a pack asks the stores for
//! it.

use std::io;
use std::sync::Arc;

use model::PackNumber;

use super::Pools;
use crate::bucket::Bucket;
use crate::member::Member;

/// Limits of the packs of this server that other servers may not know yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackLimits {
    /// Lower limit of the packs that are open, or sealed and not reported yet. If there are none,
    /// lower limit of the next pack; `None` if the number of the next pack is not taken yet.
    pub horizon: Option<PackNumber>,
    /// Exclusive end of all numbers that this server has ever taken.
    pub numbers_end: PackNumber,
}

impl Pools {
    /// Returns the limits of this server's packs. If the server is `idle` and has no open pack, it
    /// discards its numbers: its next pack gets a number above the numbers of all packs that other
    /// servers know by then.
    pub fn standing(&self, idle: bool) -> PackLimits {
        let mut state = self.state();
        let untold = state.first_untold();
        let numbers = &mut state.numbers;
        let numbers_end = numbers.taken_end();
        if !numbers.is_shared() {
            return PackLimits { horizon: untold, numbers_end };
        }
        if idle && untold.is_none() {
            numbers.give_up();
        }
        // Other servers do not learn when the next pack is begun, so its number counts now.
        let horizon = untold.or(numbers.next_taken());
        assert!(horizon.is_none_or(|pack| pack <= numbers_end), "a number in use was taken");
        PackLimits { horizon, numbers_end }
    }

    /// Returns the lower limit of the packs that receive data from now on: the lowest pack that is
    /// open or not reported yet, otherwise the next pack.
    pub fn horizon(&self) -> PackNumber {
        let state = self.state();
        state.first_untold().unwrap_or(state.numbers.next())
    }

    /// Takes numbers if few are left, before anybody has to wait for a number.
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

    /// Takes note that another server has removed a pack, or that no server has it.
    pub fn forget(&self, pack: PackNumber) {
        let mut state = self.state();
        state.tables.pop(&pack);
        state.early.remove(&pack);
        // A copy pool keeps a pack until it has the packs that replace it.
        let primaries = state.members.values_mut().filter(|member| member.is_primary());
        for member in primaries.filter(|member| member.has(pack) && member.storage.is_shared()) {
            member.remove(pack);
            member.storage.forget(pack);
        }
    }

    /// Returns the bucket of the first available primary pool in an object store.
    pub fn first_bucket(&self) -> Option<Arc<Bucket>> {
        let storages = self.state().storages_there(Member::is_primary);
        storages.iter().find_map(|(_, storage)| storage.shared_files().cloned())
    }

    /// Asks the object stores of the available primary pools for all packs. Some may be packs that
    /// other servers have not reported yet.
    pub fn list_objects(&self) -> io::Result<Vec<(PackNumber, u64)>> {
        let is_asked = |member: &Member| member.is_primary() && member.storage.is_shared();
        let storages = self.state().storages_there(is_asked);
        let mut all = Vec::new();
        for (_, storage) in storages {
            all.extend(storage.list(&|_| None)?);
        }
        Ok(all)
    }

    /// Ends uploads to object stores that nobody continues: all uploads, or only uploads of packs
    /// below a number.
    pub fn end_orphans(&self, below: Option<PackNumber>) {
        let storages = self.state().storages_there(|_| true);
        for (pool, storage) in storages {
            match storage.end_orphans(below) {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, %pool, "ended unfinished uploads"),
                Err(error) => tracing::warn!(%error, %pool, "cannot end unfinished uploads"),
            }
        }
    }
}
