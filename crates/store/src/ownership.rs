//! The right to use a server's folder, its catalogue and its pools. Two servers that use the same
//! folder would give the same numbers to different packs, and each would seal and remove the packs
//! of the other.
//!
//! ```text
//!   server's folder   server.lock      locked by the process that uses the folder
//!                     instance.toml    the identities of this folder and of server.lock
//!   each pool         holdfast-pool    locked by that process, if the pool is a primary folder
//!                     holdfast-owner   the identity of the folder whose server writes there
//!                     holdfast-lease   the lease of that server, if the pool is a bucket
//! ```
//!
//! 1. The locks keep other processes away while a server runs. They are on files that nobody
//!    replaces, and are taken before any pack is opened. A bucket has a lease instead, which the
//!    server renews.
//! 2. A copy of the folder has the same identity, but its lock is another file. The copy is refused
//!    until somebody declares that the original is lost ([`crate::lifecycle::recovery::adopt`]).
//!    Then the copy gets an identity of its own.
//! 3. A pool whose owner is another identity is refused. The folder that was recovered or adopted
//!    last is the owner. The server of a folder that lost its pools in this way stops, and it does
//!    not start again.
//!
//! A catalogue in a database has a list of its servers, which keeps other servers away: see
//! [`crate::fleet`]. With such a catalogue the owners of pools are not checked.

mod folder_lock;
mod instance;
mod pool_locks;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use pool::{Owner, PoolSpec, Storage};
use sys::lock::Mutex;

use self::folder_lock::FolderLock;
use self::instance::Instance;
use self::pool_locks::PoolLocks;
use crate::folder::error::OpenError;

/// The right to use a folder and the pools of its server, until it is dropped.
pub struct Ownership {
    lock: FolderLock,
    instance: Instance,
    pools: Mutex<PoolLocks>,
}

/// Reason why a process may no longer use the folder or a pool.
#[derive(Debug, thiserror::Error)]
pub enum LostOwnership {
    #[error("{path} was replaced; another server may use the folder")]
    Lock { path: PathBuf },
    #[error("the pool in {place} belongs to another server now")]
    Pool { place: PathBuf },
}

impl Ownership {
    /// Takes the right to use the folder of a server. Fails if another process uses the folder, or
    /// if the folder is a copy.
    pub fn take(folder: &Path) -> Result<Self, OpenError> {
        let lock = FolderLock::take(folder)?;
        let instance = Instance::of(folder, &lock)?;
        Ok(Self { lock, instance, pools: Mutex::default() })
    }

    /// Takes the right to use a folder and the available pools of `specs`, whose owners are lost.
    /// The folder gets a new identity. Fails if another process uses a pool.
    pub(crate) fn succeed(folder: &Path, specs: &[PoolSpec]) -> Result<Self, OpenError> {
        let lock = FolderLock::take(folder)?;
        let mut pools = PoolLocks::default();
        pools.take(specs)?;
        let mut owners = BTreeSet::new();
        for spec in owned(specs) {
            match spec.read_owner() {
                // The file with the owner is damaged. The owner is lost in any case.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                read => owners.extend(read.map_err(unusable(spec))?),
            }
        }
        let instance = Instance::renewed(folder, &lock, owners)?;
        let taken = Self { lock, instance, pools: Mutex::new(pools) };
        for spec in owned(specs) {
            spec.take_lease(taken.instance.id).map_err(unusable(spec))?;
            taken.become_owner(spec)?;
        }
        Ok(taken)
    }

    /// Locks the folders of the available pools of `specs`, and unlocks all others.
    pub(crate) fn lock(&self, specs: &[PoolSpec]) -> Result<(), OpenError> {
        self.pools.lock().take(specs)
    }

    /// Locks the pools as [`Self::lock`] does, and becomes their owner. Fails if another server is
    /// the owner of a pool.
    pub(crate) fn claim(&self, specs: &[PoolSpec]) -> Result<(), OpenError> {
        self.lock(specs)?;
        for spec in owned(specs) {
            self.claim_one(spec)?;
        }
        Ok(())
    }

    /// Unlocks all pools except the available pools of `specs`.
    pub(crate) fn unlock_others(&self, specs: &[PoolSpec]) {
        self.pools.lock().release_others(specs);
    }

    /// Locks one more pool, if it is available.
    pub(crate) fn lock_more(&self, spec: &PoolSpec) -> Result<(), OpenError> {
        self.pools.lock().add(spec).map(drop)
    }

    /// Locks one more pool, if it is available, and becomes its owner. Fails if another server is
    /// the owner.
    pub(crate) fn claim_more(&self, spec: &PoolSpec) -> Result<(), OpenError> {
        let is_new = self.pools.lock().add(spec)?;
        let claimed = owned(std::slice::from_ref(spec)).try_for_each(|spec| self.claim_one(spec));
        if claimed.is_err() && is_new {
            // The lock would keep the pool's owner away.
            self.pools.lock().release(spec);
        }
        claimed
    }

    /// Fails if another server has taken the folder or a pool of `specs`.
    pub(crate) fn check(&self, specs: &[PoolSpec]) -> Result<(), LostOwnership> {
        if self.lock.is_replaced() {
            return Err(LostOwnership::Lock { path: self.lock.path().to_owned() });
        }
        let own = self.instance.id;
        // A pool that does not answer is no proof of another owner.
        let is_lost = |spec: &&PoolSpec| {
            spec.read_owner().is_ok_and(|found| found.is_some_and(|owner| owner != own))
        };
        let has_no_lease = |spec: &&PoolSpec| spec.renew_lease().is_ok_and(|is_own| !is_own);
        match owned(specs).find(|spec| is_lost(spec) || has_no_lease(spec)) {
            Some(spec) => Err(LostOwnership::Pool { place: spec.place() }),
            None => Ok(()),
        }
    }

    /// Gives back the leases of the pools of `specs`, so that another server need not wait for
    /// their ends.
    pub(crate) fn release(&self, specs: &[PoolSpec]) {
        for spec in owned(specs) {
            if let Err(error) = spec.release_lease() {
                let (place, error) = (spec.place(), model::chain(&error));
                tracing::warn!(place = %place.display(), error, "a lease was not given back");
            }
        }
    }

    /// Releases all locks, as the kernel does for a process that dies.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self.lock.release();
        *self.pools.lock() = PoolLocks::default();
    }

    fn claim_one(&self, spec: &PoolSpec) -> Result<(), OpenError> {
        let instance = &self.instance;
        let owner = spec.read_owner().map_err(unusable(spec))?;
        if owner.is_some_and(|owner| owner != instance.id && !instance.may_succeed(owner)) {
            return Err(OpenError::Owned { place: spec.place() });
        }
        // The lock on the folder says that an earlier process of this machine with the same
        // identity is dead.
        check_lease(spec, Some(instance.id))?;
        spec.take_lease(instance.id).map_err(unusable(spec))?;
        if owner == Some(instance.id) { Ok(()) } else { self.become_owner(spec) }
    }

    fn become_owner(&self, spec: &PoolSpec) -> Result<(), OpenError> {
        match spec.put_owner(self.instance.id) {
            // A read-only disk needs no owner, because nobody writes to it.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            put => put.map_err(unusable(spec)),
        }
    }
}

/// Fails if another process uses a pool of `specs`. Takes a minute if a bucket has the lease of a
/// server that died.
pub(crate) fn check_unused(specs: &[PoolSpec]) -> Result<(), OpenError> {
    PoolLocks::default().take(specs)?;
    owned(specs).try_for_each(|spec| check_lease(spec, None))
}

/// Fails if another process uses the pool's bucket. The caller has the lock on the folder of `own`.
fn check_lease(spec: &PoolSpec, own: Option<Owner>) -> Result<(), OpenError> {
    if spec.is_leased_by_another(own).map_err(unusable(spec))? {
        let what = format!("the pool in {}", spec.place().display());
        return Err(OpenError::InUse { what });
    }
    Ok(())
}

/// Returns the available pools that can have an owner. A pool on volumes has none: its files are in
/// the server's folder.
fn owned(specs: &[PoolSpec]) -> impl Iterator<Item = &PoolSpec> {
    let has_owner = |spec: &&PoolSpec| !matches!(spec.storage, Storage::Shelf(_));
    specs.iter().filter(has_owner).filter(|spec| pool::is_marked(spec))
}

fn unusable(spec: &PoolSpec) -> impl Fn(io::Error) -> OpenError {
    let place = spec.place();
    move |source| OpenError::Pool { place: place.clone(), source }
}

#[cfg(test)]
mod tests;
