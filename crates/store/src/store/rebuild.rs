//! Rebuilding the chunk index from the tables of the packs.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use catalog::PackRow;
use model::PackNumber;
use pool::{Purpose, ReadError};

use super::Store;
use crate::counts::counted;

/// Ratio of the size of packs to the free space that a rebuild of their index needs. The index has
/// 32 bytes for a chunk, and twice that while runs are merged; chunks are much larger than 64 KB on
/// average.
const PACKS_PER_INDEX: u64 = 1000;

impl Store {
    /// Records in the audit trail that the chunk index was lost, and rebuilds an absent index if
    /// there is room. The server calls this from time to time. A rebuild that fails leaves the
    /// index absent.
    pub fn tend_index(&self) {
        if let Some(reason) = self.index.take_loss() {
            let details = format!("{reason}; the server runs without it until it is rebuilt");
            self.record_index("chunk index lost", details);
        }
        if !self.index.may_be_rebuilt(sys::clock::monotonic()) || !self.has_room_for_index() {
            return;
        }
        // The rows are read first: a pack that is made later is in the list of a pool.
        let rows = match self.catalog.packs() {
            Ok(rows) => rows,
            Err(error) => {
                let error = model::chain(&error);
                tracing::warn!(error, "the chunk index cannot be rebuilt without the catalogue");
                return;
            }
        };
        let complete_to = match self.index.begin_again() {
            Ok(complete_to) => complete_to,
            Err(error) => {
                // The loss is in the log already.
                let error = model::chain(&error);
                tracing::debug!(error, "the chunk index cannot be rebuilt yet");
                return;
            }
        };
        // Chunks that the files of the index name in packs that are gone are offered to nobody.
        let mut packs = self.pools.primary_packs();
        packs.retain(|pack| *pack > complete_to);
        let count = packs.len() as u64;
        packs.extend(self.in_primaries(&rows, complete_to));
        if self.index_all(&packs) {
            let kept = if complete_to == PackNumber(0) { "" } else { "its files and " };
            let details = format!("from {kept}{}", counted(count, "pack"));
            tracing::info!(packs = count, "the chunk index was rebuilt");
            self.record_index("chunk index rebuilt", details);
        } else {
            self.index.postpone_rebuild(sys::clock::monotonic());
        }
    }

    /// Adds all `packs` to the index. Returns false if the server stops or the index is lost
    /// again.
    fn index_all(&self, packs: &BTreeSet<PackNumber>) -> bool {
        // A pack that is open now takes more chunks, which are not durable in the index.
        let end = self.pools.horizon();
        for pack in packs {
            if self.stopping.load(Ordering::Relaxed) || self.index.is_absent() {
                return false;
            }
            if !self.condemned().holds(*pack) {
                self.index_or_note(*pack);
            }
        }
        self.index.end_rebuild();
        let last = packs.last().map_or(0, |last| last.0).min(end.0.saturating_sub(1));
        self.index.flush(self.index_limit(PackNumber(last)));
        !self.index.is_absent()
    }

    /// Returns the packs after `complete` that a primary pool has, or may have because that pool is
    /// away.
    pub(super) fn in_primaries(
        &self,
        rows: &[PackRow],
        complete: PackNumber,
    ) -> BTreeSet<PackNumber> {
        let packs = rows.iter().map(|row| row.number).filter(|pack| *pack > complete);
        packs.filter(|pack| self.pools.has_primary(*pack)).collect()
    }

    /// Adds the chunks of a pack to the index. A pack that cannot be read now, and is not lost, is
    /// noted: the index is not complete up to this pack until it is added.
    pub(super) fn index_or_note(&self, pack: PackNumber) {
        // The last quanta of a killed server may not be durable, so nobody may refer to them. The
        // next start recovers the pack.
        if self.unrecovered.contains(&pack) {
            self.unread.lock().insert(pack);
            return;
        }
        let error = match self.pools.table(pack) {
            Ok(table) => {
                self.index_table(&table);
                self.unread.lock().remove(&pack);
                return;
            }
            Err(error) => error,
        };
        if !error.is_loss() {
            self.unread.lock().insert(pack);
        }
        // Each pool that is away is in the log already.
        if !matches!(error, ReadError::Away { .. }) {
            let error = model::chain(&error);
            tracing::error!(%pack, error, "a pack was not added to the chunk index");
        }
    }

    fn has_room_for_index(&self) -> bool {
        let bytes = self.pools.primary_bytes();
        let room = self.config.reserve().room(&self.folder, Purpose::Data);
        room.is_ok_and(|room| room > bytes / PACKS_PER_INDEX)
    }

    fn record_index(&self, what: &str, details: String) {
        if let Err(error) = self.record(what, details) {
            tracing::warn!(%error, "cannot record the state of the chunk index");
        }
    }
}
