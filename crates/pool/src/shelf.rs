//! Pools whose packs lie on volumes: on tape, or in files that stand for tapes.
//!
//! What of a pack is needed without its data, its table, is kept in the pool's folder: a sparse
//! file with the pack's footer where the pack has it. It can be computed again from the pack.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use format::pack::{Header, Table};
use model::{PackNumber, PoolId};

use crate::read::read_record;
use crate::{Pools, ReadError, folder, recover};

/// What holds the packs of a pool.
pub trait Shelf: Send + Sync {
    /// All packs, with their bytes.
    fn packs(&self) -> io::Result<BTreeMap<PackNumber, u64>>;

    /// The whole pack, brought to a disk. It may take as long as a volume takes to come.
    fn open(&self, pack: PackNumber) -> Result<File, ReadError>;

    /// Nothing needs the pack here any more.
    fn forget(&self, pack: PackNumber) -> io::Result<()>;

    /// When the pack came.
    fn arrival(&self, pack: PackNumber) -> Option<SystemTime>;
}

/// A shelf of a pool; the same one is equal.
#[derive(Clone)]
pub struct Shelved(pub Arc<dyn Shelf>);

impl PartialEq for Shelved {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Shelved {}

impl std::fmt::Debug for Shelved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shelved")
    }
}

fn table_path(folder: &Path, pack: PackNumber) -> PathBuf {
    folder::path(folder, pack).with_extension("table")
}

/// Keeps the table of a pack.
pub(crate) fn keep_table(folder: &Path, table: &Table) -> io::Result<()> {
    let path = folder::make_for(folder, table.pack)?.with_extension("table");
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all_at(&table.encode_footer(), table.end())
}

/// A table that was kept; damaged ones count as lost.
pub(crate) fn kept_table(folder: &Path, pack: PackNumber) -> Option<Table> {
    let file = File::open(table_path(folder, pack)).ok()?;
    recover::read_table(&file.into(), pack).ok()
}

/// The table of a pack on a shelf, from what is kept, else from the pack.
pub(crate) fn table(
    folder: &Path,
    shelf: &dyn Shelf,
    pack: PackNumber,
) -> Result<Table, ReadError> {
    if let Some(table) = kept_table(folder, pack) {
        return Ok(table);
    }
    let table = recover::read_table(&shelf.open(pack)?.into(), pack)?;
    if let Err(error) = keep_table(folder, &table) {
        // It is read from the pack again.
        tracing::warn!(%pack, %error, "the table of a pack cannot be kept");
    }
    Ok(table)
}

/// A pack that nothing needs on its shelf any more.
pub(crate) fn forget(folder: &Path, shelf: &dyn Shelf, pack: PackNumber) -> io::Result<()> {
    shelf.forget(pack)?;
    match std::fs::remove_file(table_path(folder, pack)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Pools {
    /// The sealed `pack` as it is to be written elsewhere, each quantum checked, and taken from
    /// whichever pool has it whole.
    pub fn reader(&self, pack: PackNumber) -> Result<PackReader<'_>, ReadError> {
        let table = self.whole_table(pack)?;
        let header = Header { pack, domain: table.domain }.encode().to_vec();
        let footer = table.encode_footer();
        let bytes = table.end() + footer.len() as u64;
        Ok(PackReader { pools: self, table, footer, next: 0, piece: header, at: 0, bytes })
    }

    /// The shelf of `pool` has a pack that nobody knew of.
    pub fn admit_shelved(&self, pack: PackNumber, pool: PoolId, bytes: u64) {
        self.arrived(pack, pool, bytes);
        let mut state = self.state();
        state.numbers.pass(pack);
    }

    /// `pack` is on the shelf of `pool` now, for good.
    pub fn shelved(&self, pack: PackNumber, pool: PoolId) -> Result<(), ReadError> {
        let table = self.whole_table(pack)?;
        let bytes = table.end() + table.encode_footer().len() as u64;
        let folder = self.state().members.get(&pool).map(|member| member.spec.folder.clone());
        if let Some(folder) = folder
            && let Err(error) = keep_table(&folder, &table)
        {
            tracing::warn!(%pack, %error, "the table of a pack cannot be kept");
        }
        self.arrived(pack, pool, bytes);
        Ok(())
    }

    /// Whether `file` has all of the pack as it was written.
    pub fn check_file(&self, file: File, pack: PackNumber) -> Result<(), ReadError> {
        let source = file.into();
        let table = recover::read_table(&source, pack)?;
        for quantum in table.quanta() {
            read_record(&source, pack, quantum)?;
        }
        Ok(())
    }

    /// Whether the packs of `pool` lie on volumes.
    pub fn is_shelf(&self, pool: PoolId) -> bool {
        self.state()
            .members
            .get(&pool)
            .is_some_and(|member| member.spec.shelf().is_some())
    }

    /// Whether any pool's packs do.
    pub fn has_shelves(&self) -> bool {
        self.state().members.values().any(|member| member.spec.shelf().is_some())
    }

    /// As many bytes as the pack has, as far as is known.
    pub fn bytes_of(&self, pack: PackNumber) -> u64 {
        self.state().bytes_of(pack).unwrap_or(0)
    }

    /// Whether `pack` lies on volumes and nowhere else.
    pub fn is_only_shelved(&self, pack: PackNumber) -> bool {
        let state = self.state();
        let homes = state.homes(pack);
        let is_shelf = |pool: &PoolId| state.members[pool].spec.shelf().is_some();
        !homes.is_empty() && homes.iter().all(is_shelf)
    }
}

/// Reads a pack from its first byte to its last.
pub struct PackReader<'a> {
    pools: &'a Pools,
    table: Table,
    footer: Vec<u8>,
    /// The quantum that comes behind `piece`; one behind the last stands for the footer.
    next: usize,
    piece: Vec<u8>,
    at: usize,
    bytes: u64,
}

impl PackReader<'_> {
    /// Of the whole pack.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Goes to `offset`, which is not behind the end, from the front.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let skipped = io::copy(&mut Read::by_ref(self).take(offset), &mut io::sink())?;
        if skipped == offset { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Takes the next piece; returns whether there is one.
    fn advance(&mut self) -> io::Result<bool> {
        let quanta = self.table.quanta();
        if let Some(quantum) = quanta.get(self.next) {
            self.piece = self.pools.read(self.table.pack, quantum).map_err(io::Error::other)?;
        } else if self.next == quanta.len() {
            self.piece = std::mem::take(&mut self.footer);
        } else {
            return Ok(false);
        }
        self.next += 1;
        self.at = 0;
        Ok(true)
    }
}

impl Read for PackReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
