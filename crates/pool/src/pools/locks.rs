//! Packs that must not be removed before a certain day, which an object store enforces.

use std::io;

use model::{PackNumber, PoolId, ServerTime};

use super::Pools;
use crate::bucket::parallel::each_of;
use crate::hold::Hold;
use crate::member::Member;
use crate::storage::Distance;

impl Pools {
    /// Returns true if any pool locks its packs.
    pub fn has_locks(&self) -> bool {
        self.state().members.values().any(|member| member.storage.locks().is_some())
    }

    /// Locks the pack for the period `hold` in all pools that have it and lock packs. Returns true
    /// if a request had to set a lock.
    pub fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool> {
        assert!(hold.least <= hold.most, "a hold is not longer than it may be");
        if self.homes(pack).is_empty() {
            // Another server has just written the pack.
            self.look_for(pack);
        }
        let storages = self.state().storages_there(|member| member.has(pack));
        let mut was_asked = false;
        for locks in storages.iter().filter_map(|(_, storage)| storage.locks()) {
            was_asked |= locks.hold(pack, hold)?;
        }
        Ok(was_asked)
    }

    /// Locks these packs for their periods, several at once. Returns the packs that could not be
    /// locked, with the reason.
    pub fn hold_all(&self, packs: &[(PackNumber, Hold)]) -> Vec<(PackNumber, io::Error)> {
        let failures = each_of(packs, |(pack, hold)| self.hold(*pack, *hold).map(drop));
        failures.into_iter().map(|((pack, _), error)| (*pack, error)).collect()
    }

    /// Locks a small file beside the packs, and the mark of the pool, in all pools that lock packs.
    /// Returns true if a request had to set a lock.
    pub fn hold_file(&self, name: &str, hold: Hold) -> io::Result<bool> {
        let mut was_asked = false;
        for pool in self.present() {
            let Some(storage) = self.storage_of(pool) else { continue };
            if let Some(locks) = storage.locks() {
                was_asked |= locks.hold_file(name, hold)?;
            }
        }
        Ok(was_asked)
    }

    /// Asks the stores for the latest day until which the pack must stay in `pool`, or in any
    /// primary pool if `pool` is not given.
    pub fn locked_until(
        &self,
        pack: PackNumber,
        pool: Option<PoolId>,
    ) -> io::Result<Option<ServerTime>> {
        let is_asked = |member: &Member| {
            let is_chosen = pool.map_or_else(|| member.is_primary(), |pool| pool == member.id());
            is_chosen && member.has(pack)
        };
        let storages = self.state().storages_there(is_asked);
        let mut latest = None;
        for locks in storages.iter().filter_map(|(_, storage)| storage.locks()) {
            latest = latest.max(locks.locked_until(pack)?);
        }
        // Stores use clocks of their own: the server's clock may have been put ahead.
        Ok(latest.filter(|until| *until > sys::clock::system()))
    }

    /// Brings back the complete pack in all pools with object locks, because somebody may have
    /// deleted or overwritten it there. Returns true if a pool has the complete pack again.
    pub fn bring_back(&self, pack: PackNumber) -> io::Result<bool> {
        let storages = self.state().storages_there(|_| true);
        let mut is_back = false;
        for (pool, storage) in &storages {
            let Some(locks) = storage.locks() else { continue };
            if self.homes(pack).contains(pool) && self.is_whole(*pool, pack) {
                continue;
            }
            is_back |= locks.bring_back(pack, &mut || {
                self.look_again(*pool, pack) && self.is_whole(*pool, pack)
            })?;
        }
        Ok(is_back)
    }

    /// Asks the storage of `pool` for the pack again. Returns true if the storage has it.
    fn look_again(&self, pool: PoolId, pack: PackNumber) -> bool {
        let Some(storage) = self.storage_of(pool) else { return false };
        self.state().tables.pop(&pack);
        let found = storage.find(pack);
        let mut state = self.state();
        let Some(member) = state.members.get_mut(&pool) else { return false };
        member.remove(pack);
        let Ok(crate::storage::Presence::There { bytes }) = found else { return false };
        member.put(pack, bytes);
        true
    }

    /// Does the same as [`Pools::bring_back`] for a small file beside the packs of `pool`.
    pub fn bring_back_file(
        &self,
        pool: PoolId,
        name: &str,
        is_whole: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let storage = self.storage_of(pool);
        match storage.as_ref().and_then(|storage| storage.locks()) {
            Some(locks) => locks.bring_back_file(name, is_whole),
            None => Ok(false),
        }
    }

    /// Returns true if `pool` has the whole pack as it was written.
    pub fn is_whole(&self, pool: PoolId, pack: PackNumber) -> bool {
        let Ok(table) = self.table_at(pool, pack) else { return false };
        table.quanta().iter().all(|quantum| self.read_at(pool, pack, quantum).is_ok())
    }

    /// Drops local copies of a pack in object stores: the next read asks the stores.
    pub fn forget_kept(&self, pack: PackNumber) {
        if self.is_open(pack) {
            return;
        }
        let mut state = self.state();
        let members = state.members.values();
        let remote: Vec<PoolId> = members
            .filter(|member| member.storage.distance() == Distance::Network)
            .map(Member::id)
            .collect();
        remote.into_iter().for_each(|pool| state.forget(pool, pack));
    }
}
