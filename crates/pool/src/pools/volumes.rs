//! Packs on their way to volumes.

use std::fs::File;
use std::io::{self, Read};

use format::pack::{Header, Table};
use model::{PackNumber, PoolId};

use super::Pools;
use crate::error::ReadError;
use crate::pack::pack_bytes;
use crate::storage::Distance;
use crate::table::{read_record, read_table};

impl Pools {
    /// Opens the sealed `pack` to be written to a volume. Each quantum is checked, and read from
    /// any pool where it is undamaged.
    pub fn reader(&self, pack: PackNumber) -> Result<PackReader<'_>, ReadError> {
        let table = self.whole_table(pack)?;
        let header = Header { pack, domain: table.domain }.encode().to_vec();
        let footer = table.encode_footer();
        let bytes = table.end() + footer.len() as u64;
        let (next, at, done) = (0, 0, 0);
        Ok(PackReader { pools: self, table, footer, next, piece: header, at, done, bytes })
    }

    /// Takes note of a pack on the shelf of `pool` that this server did not know.
    pub fn admit_shelved(&self, pack: PackNumber, pool: PoolId, bytes: u64) {
        self.note_arrival(pack, pool, bytes);
        self.state().numbers.pass(pack);
    }

    /// Takes note that `pack` is on the shelf of `pool`, durably. Keeps its table.
    pub fn shelved(&self, pack: PackNumber, pool: PoolId) -> Result<(), ReadError> {
        let table = self.whole_table(pack)?;
        if let Some(storage) = self.storage_of(pool) {
            storage.keep_table(&table);
        }
        self.note_arrival(pack, pool, pack_bytes(&table));
        Ok(())
    }

    /// Checks that `file` has the whole pack as it was written.
    pub fn check_file(&self, file: File, pack: PackNumber) -> Result<(), ReadError> {
        let table = read_table(&file, pack)?;
        for quantum in table.quanta() {
            read_record(&file, pack, quantum)?;
        }
        Ok(())
    }

    /// Returns true if `pack` lies on volumes and nowhere else.
    pub fn is_only_shelved(&self, pack: PackNumber) -> bool {
        let state = self.state();
        let nearest = state.homes(pack).first().map(|pool| &state.members[pool]);
        nearest.is_some_and(|member| member.storage.distance() == Distance::Volume)
    }
}

/// Reads a pack from its first byte to its last.
pub struct PackReader<'a> {
    pools: &'a Pools,
    table: Table,
    footer: Vec<u8>,
    /// Index of the quantum that follows `piece`. An index equal to the number of quanta stands for
    /// the footer.
    next: usize,
    piece: Vec<u8>,
    /// Number of bytes of `piece` that were read. Invariant: at most the length of `piece`.
    at: usize,
    /// Number of bytes that were read of the whole pack.
    done: u64,
    bytes: u64,
}

impl PackReader<'_> {
    /// Returns the size of the whole pack in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Skips to `offset`, before the first read. Fails with `UnexpectedEof` if `offset` lies after
    /// the end.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        assert_eq!(self.done, 0, "a skip begins at the first byte");
        let skipped = io::copy(&mut Read::by_ref(self).take(offset), &mut io::sink())?;
        if skipped == offset { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads the next piece. Returns false after the last piece.
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
                assert_eq!(self.done, self.bytes, "the pack has as many bytes as announced");
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        self.done += count as u64;
        assert!(self.done <= self.bytes, "the pack has as many bytes as announced");
        Ok(count)
    }
}
