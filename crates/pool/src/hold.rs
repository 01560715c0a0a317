//! Packs that may not go before a day, where an object store sees to that.

use std::io;

use model::{PackNumber, PoolId, ServerTime};

use crate::Pools;
use crate::bucket::{Bucketed, MARK, each_of};
use crate::member::Member;
use crate::side::in_bucket;

/// For how long something is to stay. What grows day by day is held for longer than it must, so
/// that the store need not be told each day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// It stays until then at least.
    pub least: ServerTime,
    /// If it does not, it is held until then. Invariant: not before `least`.
    pub most: ServerTime,
}

impl Hold {
    /// For what must stay for either reason.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), most: self.most.max(other.most) }
    }
}

impl Pools {
    /// The buckets that lock, with their pools, and whether they have the pack.
    fn locking(&self, pack: PackNumber) -> Vec<(PoolId, Bucketed, bool)> {
        let state = self.state();
        let there = state.members.iter().filter(|(_, member)| member.is_there);
        there
            .filter_map(|(pool, member)| {
                let bucket = member.spec.bucket().filter(|bucket| bucket.0.has_locks())?;
                Some((*pool, bucket.clone(), member.packs.contains_key(&pack)))
            })
            .collect()
    }

    /// Whether any pool locks what it has.
    pub fn has_locks(&self) -> bool {
        let state = self.state();
        let mut members = state.members.values();
        members.any(|member| member.spec.bucket().is_some_and(|bucket| bucket.0.has_locks()))
    }

    /// Has the pools that lock keep the pack. Returns whether one had to be told.
    pub fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool> {
        if self.homes(pack).is_empty() {
            // Another server has written it just now.
            self.look_for(pack);
        }
        let mut was_told = false;
        for (_, bucket, _) in self.locking(pack).into_iter().filter(|(_, _, has)| *has) {
            was_told |= bucket.0.hold(pack, hold)?;
        }
        Ok(was_told)
    }

    /// The same for several packs at once; returns those that could not be held, and why.
    pub fn hold_all(&self, packs: &[(PackNumber, Hold)]) -> Vec<(PackNumber, io::Error)> {
        let failures = each_of(packs, |(pack, hold)| self.hold(*pack, *hold).map(drop));
        failures.into_iter().map(|((pack, _), error)| (*pack, error)).collect()
    }

    /// The same for a small file beside the packs, in the pools that have it, and for what says
    /// whose pool it is.
    pub fn hold_file(&self, name: &str, hold: Hold) -> io::Result<bool> {
        let mut was_told = false;
        for pool in self.present() {
            let bucket = self.bucket_of(pool).filter(|bucket| bucket.0.has_locks());
            let Some(bucket) = bucket else { continue };
            was_told |= bucket.0.hold_beside(MARK, hold)?;
            match bucket.0.hold_beside(&in_bucket(name), hold) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => was_told |= other?,
            }
        }
        Ok(was_told)
    }

    /// Until when the pack must stay in `pool`, or in any primary one: the latest. The stores are
    /// asked.
    pub fn locked_until(
        &self,
        pack: PackNumber,
        pool: Option<PoolId>,
    ) -> io::Result<Option<ServerTime>> {
        let mut latest = None;
        for (home, bucket, has) in self.locking(pack) {
            if has && pool.map_or_else(|| self.is_primary(home), |pool| pool == home) {
                latest = latest.max(bucket.0.locked_until(pack)?);
            }
        }
        // Stores go by their own clocks, whatever this server's was put ahead by.
        Ok(latest.filter(|until| *until > sys::clock::system()))
    }

    fn is_primary(&self, pool: PoolId) -> bool {
        self.state().members.get(&pool).is_some_and(Member::is_primary)
    }

    /// Brings the pack back whole in the pools that lock and do not have it so: somebody has
    /// deleted it there, or put something above it. Returns whether it was anywhere.
    pub fn bring_back(&self, pack: PackNumber) -> io::Result<bool> {
        let mut is_back = false;
        for (pool, bucket, has) in self.locking(pack) {
            if has && self.is_whole(pool, pack) {
                continue;
            }
            is_back |= bucket.0.bring_back(pack, &mut || {
                self.state().tables.forget(pack);
                let found = bucket.0.find(pack).ok().flatten();
                if let Some(member) = self.state().members.get_mut(&pool) {
                    member.remove(pack);
                    found.inspect(|bytes| member.put(pack, *bytes));
                }
                found.is_some() && self.is_whole(pool, pack)
            })?;
        }
        Ok(is_back)
    }

    /// The same of a small file beside the packs of `pool`.
    pub fn bring_back_file(
        &self,
        pool: PoolId,
        name: &str,
        is_whole: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        match self.bucket_of(pool).filter(|bucket| bucket.0.has_locks()) {
            Some(bucket) => bucket.0.bring_back_beside(&in_bucket(name), is_whole),
            None => Ok(false),
        }
    }

    /// Whether `pool` has all of the pack as it was written.
    pub fn is_whole(&self, pool: PoolId, pack: PackNumber) -> bool {
        let Ok(table) = self.table_at(pool, pack) else { return false };
        table.quanta().iter().all(|quantum| self.read_at(pool, pack, quantum).is_ok())
    }

    /// Keeps nothing of the pack that is in object stores: what is read next is what they have.
    pub fn forget_kept(&self, pack: PackNumber) {
        let buckets: Vec<Bucketed> = {
            let state = self.state();
            state
                .members
                .values()
                .filter_map(|member| member.spec.bucket().cloned())
                .collect()
        };
        if !buckets.is_empty() && !self.is_open(pack) {
            buckets.iter().for_each(|bucket| bucket.0.forget(pack));
            self.state().tables.forget(pack);
        }
    }
}
