//! Packs of which a write has failed. Each is closed as soon as its disk takes writes again, at the
//! end of what was durable before, so that it is a sealed pack like any other.
//!
//! Nobody was told that anything after that end is stored: every session that had appended was
//! refused its commit. So nothing names what is cut off.

use std::sync::Arc;

use format::pack::Table;
use model::{PackNumber, PoolId};

use super::Pools;
use crate::disk;
use crate::state::FailedPack;
use crate::storage::Recovery;

impl Pools {
    /// True if a write of `pack` has failed, and the pack is not closed yet.
    pub fn has_failed(&self, pack: PackNumber) -> bool {
        self.state().failed.contains_key(&pack)
    }

    /// Closes the packs that have failed, if their disks take writes. The caller calls this again
    /// from time to time.
    pub fn close_failed(&self) {
        let failed: Vec<FailedPack> = self.state().failed.values().cloned().collect();
        if failed.is_empty() {
            return;
        }
        let _turn = self.syncing.lock();
        for FailedPack { pool, durable } in failed {
            self.close_one(pool, &durable);
        }
    }

    fn close_one(&self, pool: PoolId, durable: &Arc<Table>) {
        let pack = durable.pack;
        let Ok(storage) = self.storage_there(pool) else { return };
        let closed = storage.close_failed(durable);
        let mut state = self.state();
        match closed {
            Ok(Recovery::Sealed) => {}
            Ok(Recovery::Recovered(sealed)) => {
                tracing::info!(%pack, chunks = durable.chunk_count(), "a failed pack was closed");
                state.note_sealed(pool, &sealed);
            }
            Ok(Recovery::Empty) => {
                if let Some(member) = state.members.get_mut(&pool) {
                    member.remove(pack);
                }
            }
            Err(error) => {
                disk::note_pack(&*storage, pack, "close", &error);
                if error.kind() != std::io::ErrorKind::NotFound {
                    return;
                }
            }
        }
        state.failed.remove(&pack);
        state.forget(pool, pack);
    }
}
