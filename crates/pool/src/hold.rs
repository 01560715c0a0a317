//! Packs that may not go before a day, where an object store sees to that.

use std::io;

use model::{PackNumber, PoolId, ServerTime};

use crate::Pools;
use crate::bucket::Bucketed;
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
    /// The buckets that lock, and have the pack.
    fn locking(&self, pack: PackNumber) -> Vec<(PoolId, Bucketed)> {
        let state = self.state();
        let members = state.members.iter();
        members
            .filter(|(_, member)| member.is_there && member.packs.contains_key(&pack))
            .filter_map(|(pool, member)| Some((*pool, member.spec.bucket()?.clone())))
            .filter(|(_, bucket)| bucket.0.has_locks())
            .collect()
    }

    fn is_primary(&self, pool: PoolId) -> bool {
        self.state().members.get(&pool).is_some_and(Member::is_primary)
    }

    /// Whether any pool locks what it has.
    pub fn has_locks(&self) -> bool {
        let state = self.state();
        let mut members = state.members.values();
        members.any(|member| member.spec.bucket().is_some_and(|bucket| bucket.0.has_locks()))
    }

    /// Has the pools that lock keep the pack. Returns whether one had to be told.
    pub fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool> {
        let mut was_told = false;
        for (_, bucket) in self.locking(pack) {
            was_told |= bucket.0.hold(pack, hold)?;
        }
        Ok(was_told)
    }

    /// The same for a small file beside the packs, in the pools that have it, and for what says
    /// whose pool it is.
    pub fn hold_file(&self, name: &str, hold: Hold) -> io::Result<bool> {
        let mut was_told = false;
        for pool in self.present() {
            let bucket = self.bucket_of(pool).filter(|bucket| bucket.0.has_locks());
            let Some(bucket) = bucket else { continue };
            was_told |= bucket.0.hold_mark(hold)?;
            match bucket.0.hold_beside(&in_bucket(name), hold) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => was_told |= other?,
            }
        }
        Ok(was_told)
    }

    /// Until when the pack must stay in `pool`, or in any primary one: the latest.
    pub fn locked_until(
        &self,
        pack: PackNumber,
        pool: Option<PoolId>,
    ) -> io::Result<Option<ServerTime>> {
        let mut latest = None;
        for (home, bucket) in self.locking(pack) {
            if pool.map_or_else(|| self.is_primary(home), |pool| pool == home) {
                latest = latest.max(bucket.0.locked_until(pack)?);
            }
        }
        // Stores go by their own clocks, whatever this server's was put ahead by.
        Ok(latest.filter(|until| *until > sys::clock::system()))
    }

    /// Brings back what somebody has deleted or overwritten in a bucket that locks. Returns whether
    /// there was anything.
    pub fn uncover(&self, pack: PackNumber) -> io::Result<bool> {
        let buckets: Vec<(PoolId, Bucketed)> = {
            let state = self.state();
            let there = state.members.iter().filter(|(_, member)| member.is_there);
            let buckets =
                there.filter_map(|(pool, member)| Some((*pool, member.spec.bucket()?.clone())));
            buckets.filter(|(_, bucket)| bucket.0.has_locks()).collect()
        };
        let mut found = false;
        for (pool, bucket) in buckets {
            if !bucket.0.uncover(pack)? {
                continue;
            }
            found = true;
            let bytes = bucket.0.find(pack)?;
            let mut state = self.state();
            state.tables.forget(pack);
            if let (Some(member), Some(bytes)) = (state.members.get_mut(&pool), bytes) {
                member.remove(pack);
                member.put(pack, bytes);
            }
        }
        Ok(found)
    }
}
