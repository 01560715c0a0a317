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
        let is_locked = |spec: &&PoolSpec| {
            let is_folder = !matches!(spec.storage, Storage::Bucket(_));
            spec.role == Role::Primary && is_folder && pool::is_marked(spec)
        };
        let specs: Vec<&PoolSpec> = specs.iter().filter(is_locked).collect();
        // The lock on a disk that is not available ends, because another server may use that disk.
        self.0.retain(|folder, _| specs.iter().any(|spec| spec.folder == *folder));
        for spec in &specs {
            if self.0.contains_key(&spec.folder) {
                continue;
            }
            let failed = |source| OpenError::Pool { place: spec.place(), source };
            match pool::lock(&spec.folder) {
                // A read-only disk needs no lock, because nobody writes to it.
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
                Err(error) => return Err(failed(error)),
                Ok(Some(lock)) => drop(self.0.insert(spec.folder.clone(), lock)),
                Ok(None) => {
                    let what = format!("the pool in {}", spec.place().display());
                    return Err(OpenError::InUse { what });
                }
            }
        }
        assert!(self.0.len() <= specs.len(), "no other pool is locked");
        Ok(())
    }
}
