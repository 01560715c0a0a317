//! Reading packs: from whichever pool has them whole, the nearest first.

use std::fs::File;
use std::io;
use std::sync::Arc;

use format::Damaged;
use format::pack::{QuantumEntry, Table};
use model::{ChunkDigest, PackNumber, Place, PoolId};

use crate::bucket::Bucketed;
use crate::source::Source;
use crate::{Pools, ReadError, recover, shelf};

/// Tables that are asked of an object store at once.
const ENDS_AHEAD: usize = 8;

impl Pools {
    /// The table of `pack`; of an open pack as it is.
    pub fn table(&self, pack: PackNumber) -> Result<Arc<Table>, ReadError> {
        {
            let state = self.state();
            if let Some(open) = state.open_pack(pack) {
                return Ok(open.table());
            }
            if let Some(table) = state.tables.get(pack) {
                return Ok(table);
            }
        }
        let mut table = self.first(pack, |pool| self.table_at(pool, pack));
        if table.is_err() {
            // No footer is whole.
            table = self.scanned(pack).ok_or(()).or(table);
        }
        let durable = self.state().given_up.get(&pack).copied();
        let table = table.map(|table| durable.map_or(table.clone(), |end| table.until(end)));
        let table = Arc::new(table?);
        self.state().tables.put(pack, Arc::clone(&table));
        Ok(table)
    }

    /// What the records of `pack` tell, of the pool that has most of them.
    pub(crate) fn scanned(&self, pack: PackNumber) -> Option<Table> {
        let homes = self.homes(pack);
        let scans = homes.iter().filter_map(|pool| self.scan_at(*pool, pack).ok());
        scans.max_by_key(Table::chunk_count).filter(|found| found.chunk_count() > 0)
    }

    /// The table of all that was ever in `pack`.
    pub(crate) fn whole_table(&self, pack: PackNumber) -> Result<Table, ReadError> {
        self.first(pack, |pool| self.table_at(pool, pack)).or_else(|error| {
            let bytes = self.state().bytes_of(pack);
            let is_whole =
                |table: &Table| Some(table.end() + table.encode_footer().len() as u64) == bytes;
            self.scanned(pack).filter(is_whole).ok_or(error)
        })
    }

    /// The table as the footer of `pack` in `pool` says.
    pub fn table_at(&self, pool: PoolId, pack: PackNumber) -> Result<Table, ReadError> {
        if let Some((folder, shelf)) = self.shelf_of(pool) {
            return shelf::table(&folder, &*shelf.0, pack);
        }
        let bucket = self.bucket_of(pool);
        if let Some(table) = bucket.as_ref().and_then(|bucket| bucket.0.kept_table(pack)) {
            return Ok(table);
        }
        if bucket.is_some() {
            self.read_ends_ahead(pool, pack);
        }
        let table = recover::read_table(&self.source(pool, pack)?, pack)?;
        bucket.inspect(|bucket| bucket.0.keep_table(&table));
        Ok(table)
    }

    /// Has the ends of `pack`, which has no table here, and of those behind it be on their way: who
    /// wants one table wants others.
    pub(crate) fn read_ends_ahead(&self, pool: PoolId, pack: PackNumber) {
        let ends: Vec<(PackNumber, u64)> = {
            let state = self.state();
            let Some(member) = state.members.get(&pool) else { return };
            let sealed = |pack: &PackNumber| state.open_pack(*pack).is_none();
            let from = member.packs.range(pack..).filter(|(pack, _)| sealed(pack));
            from.take(ENDS_AHEAD).map(|(pack, bytes)| (*pack, *bytes)).collect()
        };
        let Some(bucket) = self.bucket_of(pool) else { return };
        for (pack, bytes) in ends {
            bucket.0.read_end_ahead(pack, bytes);
        }
    }

    /// Says that the bytes of `pack` in `range` will be read soon: who would have to be asked for
    /// them is asked.
    pub fn read_ahead(&self, pack: PackNumber, range: std::ops::Range<u64>) {
        if let Some(bucket) = self.nearest_bucket(pack) {
            bucket.0.read_ahead(pack, range);
        }
    }

    /// The object store that `pack` is read from, if it is sealed and none is nearer.
    fn nearest_bucket(&self, pack: PackNumber) -> Option<Bucketed> {
        let state = self.state();
        let is_open = state.open_pack(pack).is_some();
        let nearest = state.homes(pack).first().copied().filter(|_| !is_open)?;
        state.members[&nearest].spec.bucket().cloned()
    }

    /// Whether `pack` is sealed and read from an object store.
    pub fn is_object(&self, pack: PackNumber) -> bool {
        self.nearest_bucket(pack).is_some()
    }

    pub(crate) fn scan_at(&self, pool: PoolId, pack: PackNumber) -> Result<Table, ReadError> {
        recover::scan_table(&self.source(pool, pack)?, pack, &self.key)
    }

    /// What `look` gives in the first of the pack's pools where it succeeds. A pack that one could
    /// not give is suspect then.
    pub(crate) fn first<T>(
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
                        tracing::warn!(%pack, %pool, %error, "a pool cannot give what it has");
                        failure = failure.or(Some(error));
                    }
                }
            }
            // It may have moved on meanwhile.
            let is_elsewhere = !was_located && self.locate(pack);
            was_located = true;
            if !is_elsewhere && self.homes(pack) == homes {
                return Err(failure.unwrap_or_else(|| self.state().absence(pack)));
            }
        }
    }

    pub(crate) fn source(&self, pool: PoolId, pack: PackNumber) -> Result<Source, ReadError> {
        if let Some((_, shelf)) = self.shelf_of(pool) {
            return shelf.0.open(pack).map(Source::from);
        }
        let (path, is_kept) = {
            let state = self.state();
            if let Some(open) = state.open_pack(pack) {
                return Ok(Source::File(open.file()));
            }
            if let Some(file) = state.files.get((pool, pack)) {
                return Ok(Source::File(file));
            }
            let missing = || ReadError::Missing { pack, index: 0 };
            let member = state.members.get(&pool).ok_or_else(missing)?;
            if let Some(bucket) = member.spec.bucket() {
                let bytes = *member.packs.get(&pack).ok_or_else(missing)?;
                return Ok(Source::Object(bucket.clone(), pack, bytes));
            }
            // A disk with copies may be on its way to a safe: nothing is kept open there.
            (member.path(pack), member.is_primary())
        };
        let file = File::open(path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                ReadError::Missing { pack, index: 0 }
            } else {
                ReadError::Disk { pack, source: error }
            }
        })?;
        let file = Arc::new(file);
        if is_kept {
            self.state().files.put((pool, pack), Arc::clone(&file));
        }
        Ok(Source::File(file))
    }

    /// The length and digest of the chunk at `place`.
    pub fn chunk(&self, place: Place) -> Result<(u32, ChunkDigest), ReadError> {
        let table = self.table(place.pack())?;
        let missing = ReadError::Missing { pack: place.pack(), index: place.index() };
        table.chunk(place.index()).ok_or(missing)
    }

    /// The same of a chunk that something new may come to name: in a primary pool that is there.
    /// What only a copy pool has may be on its way out.
    pub fn offered(&self, place: Place) -> Option<(u32, ChunkDigest)> {
        let is_offered = self.state().is_offered(place.pack());
        is_offered.then(|| self.chunk(place).ok()).flatten()
    }

    /// The record of a quantum of `pack`, its checksum verified, from whichever pool has it whole.
    pub fn read(&self, pack: PackNumber, quantum: &QuantumEntry) -> Result<Vec<u8>, ReadError> {
        self.first(pack, |pool| self.read_at(pool, pack, quantum))
    }

    /// The same from one pool.
    pub fn read_at(
        &self,
        pool: PoolId,
        pack: PackNumber,
        quantum: &QuantumEntry,
    ) -> Result<Vec<u8>, ReadError> {
        read_record(&self.source(pool, pack)?, pack, quantum)
    }

    /// The table of a sealed pack by its footer, and the pack's bytes.
    pub fn closed(&self, pack: PackNumber) -> Result<(Table, u64), ReadError> {
        let table = self.first(pack, |pool| self.table_at(pool, pack))?;
        let bytes = table.end() + table.encode_footer().len() as u64;
        Ok((table, bytes))
    }
}

/// The record of a quantum, its checksum verified.
pub(crate) fn read_record(
    file: &Source,
    pack: PackNumber,
    quantum: &QuantumEntry,
) -> Result<Vec<u8>, ReadError> {
    let mut record = vec![0; quantum.record_bytes as usize];
    file.read_exact_at(&mut record, quantum.offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let source = Damaged { what: "pack", why: "it ends too early" };
                ReadError::Damaged { pack, source }
            }
            _ => ReadError::Disk { pack, source: error },
        })?;
    match format::quantum::Record::decode(&record) {
        Ok(_) => Ok(record),
        Err(source) => Err(ReadError::Damaged { pack, source }),
    }
}
