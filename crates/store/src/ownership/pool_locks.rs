//! Locks on the folders of pools.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use pool::{PoolSpec, Role, Storage};
use sys::durable::Lock;

use crate::folder::error::OpenError;

/// Locks on the folders of the available primary pools, so that no other server uses these pools.
///
/// Copy pools are not locked: a lock would keep a file open on a disk that somebody may remove.
#[derive(Default)]
pub(super) struct PoolLocks(BTreeMap<PathBuf, Lock>);

impl PoolLocks {
    /// Locks the available primary pools of `specs`, and unlocks all others. Fails if another
    /// process has locked one of them.
    pub(super) fn take(&mut self, specs: &[PoolSpec]) -> Result<(), OpenError> {
        let lockable = self.keep_only(specs);
        lockable.into_iter().try_for_each(|spec| self.lock(spec).map(drop))?;
        assert!(self.0.len() <= specs.len(), "no other pool is locked");
        Ok(())
    }

    /// Unlocks all pools except the available primary pools of `specs`.
    pub(super) fn release_others(&mut self, specs: &[PoolSpec]) {
        drop(self.keep_only(specs));
    }

    /// Unlocks all pools except the available primary pools of `specs`. Returns these.
    fn keep_only<'a>(&mut self, specs: &'a [PoolSpec]) -> Vec<&'a PoolSpec> {
        let specs: Vec<&PoolSpec> = specs.iter().filter(|spec| is_lockable(spec)).collect();
        // The lock on a disk that is not available ends, because another server may use that disk.
        self.0.retain(|folder, _| specs.iter().any(|spec| spec.folder == *folder));
        specs
    }

    /// Locks one more pool, if it is an available primary pool. Returns true if it was not locked
    /// before. Fails if another process has locked it.
    pub(super) fn add(&mut self, spec: &PoolSpec) -> Result<bool, OpenError> {
        if self.0.contains_key(&spec.folder) || !is_lockable(spec) {
            return Ok(false);
        }
        self.lock(spec)
    }

    /// Locks an available primary pool, as [`Self::add`] does.
    fn lock(&mut self, spec: &PoolSpec) -> Result<bool, OpenError> {
        if self.0.contains_key(&spec.folder) {
            return Ok(false);
        }
        match pool::lock(&spec.folder) {
            // A read-only disk needs no lock, because nobody writes to it.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(false),
            Err(source) => Err(OpenError::Pool { place: spec.place(), source }),
            Ok(Some(lock)) => {
                self.0.insert(spec.folder.clone(), lock);
                Ok(true)
            }
            Ok(None) => {
                let what = format!("the pool in {}", spec.place().display());
                Err(OpenError::InUse { what })
            }
        }
    }

    /// Unlocks one pool.
    pub(super) fn release(&mut self, spec: &PoolSpec) {
        self.0.remove(&spec.folder);
    }
}

/// Returns true for an available primary pool with a folder that can be locked.
fn is_lockable(spec: &PoolSpec) -> bool {
    let is_folder = !matches!(spec.storage, Storage::Bucket(_));
    spec.role == Role::Primary && is_folder && pool::is_marked(spec)
}
