//! Reading packs from any pool where they are undamaged, the nearest pool first.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use format::pack::{QuantumEntry, Table};
use model::{ChunkDigest, PackNumber, Place, PoolId};

use super::Pools;
use crate::disk;
use crate::error::ReadError;
use crate::pack::pack_bytes;
use crate::source::Source;
use crate::storage::{Distance, PackStorage, Presence};
use crate::table;

/// Maximum number of packs with lost data that are remembered.
const LOST_MAX: usize = 1_000;

impl Pools {
    /// Returns the table of `pack`. The table of an open pack has the quanta appended so far, and
    /// the table of a failed pack has those that were durable before.
    pub fn table(&self, pack: PackNumber) -> Result<Arc<Table>, ReadError> {
        {
            let mut state = self.state();
            if let Some(open) = state.open_pack(pack) {
                return Ok(open.table());
            }
            if let Some(failed) = state.failed.get(&pack) {
                return Ok(Arc::clone(&failed.durable));
            }
            if let Some(table) = state.tables.get(&pack) {
                return Ok(Arc::clone(table));
            }
        }
        let table = match self.ask_pools(pack, |pool| self.table_at(pool, pack)) {
            Ok(table) => table,
            // No copy of the pack has an undamaged footer.
            Err(error) => self.scanned(pack).ok_or(error)?,
        };
        assert_eq!(table.pack, pack, "a table of another pack");
        let durable = self.state().given_up.get(&pack).copied();
        let table = Arc::new(match durable {
            Some(end) => table.until(end),
            None => table,
        });
        assert!(durable.is_none_or(|end| table.chunk_count() <= end), "lost chunks are not served");
        self.state().tables.put(pack, Arc::clone(&table));
        Ok(table)
    }

    /// Computes the table from the records of `pack`, in the pool that has most of the records.
    fn scanned(&self, pack: PackNumber) -> Option<Table> {
        let scan = |pool: &PoolId| {
            let source = self.source(*pool, pack)?;
            table::scan_table(&*source, pack, &self.digest_of)
        };
        let scans = self.homes(pack);
        let scans = scans.iter().filter_map(|pool| scan(pool).ok());
        scans.max_by_key(Table::chunk_count).filter(|table| table.chunk_count() > 0)
    }

    /// Returns the complete table of `pack`: from a footer, or computed if all records are
    /// undamaged.
    pub(super) fn whole_table(&self, pack: PackNumber) -> Result<Table, ReadError> {
        self.ask_pools(pack, |pool| self.table_at(pool, pack)).or_else(|error| {
            let bytes = self.state().bytes_of(pack);
            let is_whole = |table: &Table| Some(pack_bytes(table)) == bytes;
            self.scanned(pack).filter(is_whole).ok_or(error)
        })
    }

    /// Returns the table from the footer of `pack` in `pool`.
    pub fn table_at(&self, pool: PoolId, pack: PackNumber) -> Result<Table, ReadError> {
        let storage = self.storage_of(pool).ok_or(ReadError::Missing { pack, index: 0 })?;
        if let Some(table) = storage.kept_table(pack) {
            return Ok(table);
        }
        storage.read_ends_ahead(&|count| self.sealed_from(pool, pack, count));
        let source = self.source(pool, pack)?;
        let read = table::read_table(&*source, pack);
        let table = read.inspect_err(|error| disk::note_read(&*storage, error))?;
        storage.keep_table(&table);
        Ok(table)
    }

    /// Returns the first `count` sealed packs of `pool` from `pack` on, with their sizes in bytes.
    fn sealed_from(&self, pool: PoolId, pack: PackNumber, count: usize) -> Vec<(PackNumber, u64)> {
        let state = self.state();
        let Some(member) = state.members.get(&pool) else { return Vec::new() };
        let packs = member.packs().range(pack..).map(|(pack, bytes)| (*pack, *bytes));
        let sealed = packs.filter(|(pack, _)| state.open_pack(*pack).is_none());
        sealed.take(count).collect()
    }

    /// Begins to read a range of `pack` that will be needed soon, if the storage supports that.
    pub fn read_ahead(&self, pack: PackNumber, range: Range<u64>) {
        if let Some(storage) = self.nearest(pack) {
            storage.read_ahead(pack, range);
        }
    }

    /// Returns the storage from which `pack` is read, if the pack is sealed.
    fn nearest(&self, pack: PackNumber) -> Option<Arc<dyn PackStorage>> {
        let state = self.state();
        let is_open = state.open_pack(pack).is_some();
        let nearest = state.homes(pack).first().copied().filter(|_| !is_open)?;
        Some(Arc::clone(&state.members[&nearest].storage))
    }

    /// Returns true if `pack` is sealed and is read from an object store.
    pub fn is_object(&self, pack: PackNumber) -> bool {
        self.nearest(pack)
            .is_some_and(|storage| storage.distance() == Distance::Network)
    }

    /// Calls `look` for one pool of the pack after the other until it succeeds. If it failed for a
    /// pool before, the pack becomes a suspect.
    fn ask_pools<T>(
        &self,
        pack: PackNumber,
        look: impl Fn(PoolId) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut was_located = false;
        loop {
            let homes = self.homes(pack);
            let mut failure = None;
            for pool in &homes {
                match look(*pool) {
                    Ok(found) => {
                        if failure.is_some() {
                            self.state().suspects.insert(pack);
                        }
                        return Ok(found);
                    }
                    Err(error) => {
                        tracing::warn!(%pack, %pool, %error, "a pool cannot read its pack");
                        failure = failure.or(Some(error));
                    }
                }
            }
            // The pack may have moved to another pool meanwhile.
            let is_elsewhere = !was_located && self.locate(pack);
            was_located = true;
            if !is_elsewhere && self.homes(pack) == homes {
                return Err(failure.unwrap_or_else(|| self.state().absence(pack)));
            }
        }
    }

    /// Looks for a pack in shared storage, where another server may have put it. Returns true if
    /// the pack is in other pools than this server knew.
    fn locate(&self, pack: PackNumber) -> bool {
        let (before, storages) = {
            let state = self.state();
            if !state.numbers.is_shared() || state.open_pack(pack).is_some() {
                return false;
            }
            let shared = state.storages_there(|member| member.storage.is_shared());
            (state.homes(pack), shared)
        };
        for (pool, storage) in storages {
            let found = storage.find(pack);
            let mut state = self.state();
            if before.is_empty() && matches!(found, Ok(Presence::There { .. })) {
                state.early.insert(pack);
            }
            let Some(member) = state.members.get_mut(&pool) else { continue };
            match found {
                Ok(Presence::There { bytes }) => member.put(pack, bytes),
                Ok(Presence::Gone) => member.remove(pack),
                Ok(Presence::Unasked) => {}
                Err(error) => tracing::warn!(%pack, %pool, %error, "a pool does not answer"),
            }
        }
        self.homes(pack) != before
    }

    fn source(&self, pool: PoolId, pack: PackNumber) -> Result<Arc<dyn Source>, ReadError> {
        let (storage, listed) = {
            let state = self.state();
            if let Some(file) = state.open_file(pack) {
                return Ok(file);
            }
            let member = state.members.get(&pool);
            let member = member.ok_or(ReadError::Missing { pack, index: 0 })?;
            (Arc::clone(&member.storage), member.packs().get(&pack).copied())
        };
        storage
            .open(pack, listed)
            .inspect_err(|error| disk::note_read(&*storage, error))
    }

    /// Returns the length and digest of the chunk at `place`.
    pub fn chunk(&self, place: Place) -> Result<(u32, ChunkDigest), ReadError> {
        let table = self.table(place.pack())?;
        let missing = ReadError::Missing { pack: place.pack(), index: place.index() };
        table.chunk(place.index()).ok_or(missing)
    }

    /// Returns the length and digest of the chunk at `place` if a new page may name it: its pack is
    /// in an available primary pool. A pack that only a copy pool has may soon be removed.
    pub fn offered(&self, place: Place) -> Option<(u32, ChunkDigest)> {
        let is_offered = self.state().is_offered(place.pack());
        is_offered.then(|| self.chunk(place).ok()).flatten()
    }

    /// Reads the record of a quantum of `pack` and verifies its checksum. The record comes from any
    /// pool where it is undamaged.
    pub fn read(&self, pack: PackNumber, quantum: &QuantumEntry) -> Result<Vec<u8>, ReadError> {
        self.ask_pools(pack, |pool| self.read_at(pool, pack, quantum))
    }

    /// Reads the record of a quantum as [`Self::read`] does, but from one pool.
    pub fn read_at(
        &self,
        pool: PoolId,
        pack: PackNumber,
        quantum: &QuantumEntry,
    ) -> Result<Vec<u8>, ReadError> {
        let source = self.source(pool, pack)?;
        table::read_record(&*source, pack, quantum).inspect_err(|error| {
            if let Some(storage) = self.storage_of(pool) {
                disk::note_read(&*storage, error);
            }
        })
    }

    /// Returns the table from the footer of a sealed pack, and the size of the pack in bytes.
    pub fn closed(&self, pack: PackNumber) -> Result<(Table, u64), ReadError> {
        let table = self.ask_pools(pack, |pool| self.table_at(pool, pack))?;
        let bytes = pack_bytes(&table);
        Ok((table, bytes))
    }

    /// Returns the packs that, since the last call, one pool could not read and another could.
    pub fn take_suspects(&self) -> BTreeSet<PackNumber> {
        std::mem::take(&mut self.state().suspects)
    }

    /// Notes a pack of which a reader needed data that no pool could read. Later readers note the
    /// packs again for which there is no room.
    pub fn note_lost(&self, pack: PackNumber) {
        let mut state = self.state();
        if state.lost.len() < LOST_MAX {
            state.lost.insert(pack);
        }
    }

    /// Returns the packs that were noted since the last call.
    pub fn take_lost(&self) -> BTreeSet<PackNumber> {
        std::mem::take(&mut self.state().lost)
    }

    /// Returns the packs that are noted.
    pub fn lost(&self) -> BTreeSet<PackNumber> {
        self.state().lost.clone()
    }

    /// Removes the notes about these packs.
    pub fn forget_lost(&self, packs: &BTreeSet<PackNumber>) {
        self.state().lost.retain(|pack| !packs.contains(pack));
    }
}
