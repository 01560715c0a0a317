//! Locks on the folders of pools.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use pool::{PoolSpec, Role, Storage};
use sys::durable::Lock;

use crate::folder::error::OpenError;

/// Locks on the folders of the primary pools that are there, so that no other server uses them.
///
/// Copy pools have no lock: nothing stays open on a disk that somebody may take away.
#[derive(Default)]
pub(super) struct PoolLocks(BTreeMap<PathBuf, Lock>);

impl PoolLocks {
    /// Locks those of `specs` that are not locked yet, and lets go of all others. Fails if another
    /// process has the lock of one.
    pub(super) fn take(&mut self, specs: &[PoolSpec]) -> Result<(), OpenError> {
        let is_locked = |spec: &&PoolSpec| {
            let is_folder = !matches!(spec.storage, Storage::Bucket(_));
            spec.role == Role::Primary && is_folder && pool::is_marked(spec)
        };
        let specs: Vec<&PoolSpec> = specs.iter().filter(is_locked).collect();
        // The lock of a disk that is away ends: another server may use the disk.
        self.0.retain(|folder, _| specs.iter().any(|spec| spec.folder == *folder));
        for spec in &specs {
            if self.0.contains_key(&spec.folder) {
                continue;
            }
            let failed = |source| OpenError::Pool { place: spec.place(), source };
            match pool::lock(&spec.folder) {
                // Nobody writes to a read-only disk.
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
                Err(error) => return Err(failed(error)),
                Ok(Some(lock)) => drop(self.0.insert(spec.folder.clone(), lock)),
                Ok(None) => {
                    let what = format!("the pool in {}", spec.place().display());
                    return Err(OpenError::InUse { what });
                }
            }
        }
        assert!(self.0.len() <= specs.len(), "only these are locked");
        Ok(())
    }
}
