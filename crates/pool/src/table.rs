//! Reading the tables and records of packs.
//!
//! The footer of a sealed pack holds its table. The records contain the same facts, and each has a
//! checksum. So the table of a pack without a footer can be computed from the records, up to the
//! first bad record.

use std::io;

use chunk::Decompressor;
use format::DamageError;
use format::pack::{HEADER_BYTES, Header, QuantumEntry, TRAILER_BYTES, Table, Trailer};
use format::quantum;
use model::{ChunkDigest, DomainId, PackNumber};

use crate::error::ReadError;
use crate::source::Source;

/// Function that computes a chunk's digest in a domain.
pub(crate) type DigestOf = Box<dyn Fn(DomainId, &[u8]) -> ChunkDigest + Send + Sync>;

/// Reads the trailer, if the pack has a valid one.
pub(crate) fn read_trailer(source: &dyn Source) -> io::Result<Option<Trailer>> {
    let bytes = source.bytes()?;
    let Some(at) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    source.read_exact_at(&mut trailer, at)?;
    Ok(Trailer::decode(&trailer, bytes).ok())
}

/// Reads the footer of a sealed pack.
pub(crate) fn read_table(source: &dyn Source, pack: PackNumber) -> Result<Table, ReadError> {
    let disk = |source| ReadError::Disk { pack, source };
    match read_footer(source).map_err(disk)? {
        Ok(table) if table.pack == pack => Ok(table),
        Ok(_) => Err(ReadError::damaged(pack, "it has another pack's number")),
        Err(source) => Err(ReadError::Damaged { pack, source }),
    }
}

fn read_footer(source: &dyn Source) -> io::Result<Result<Table, DamageError>> {
    match read_trailer(source)? {
        Some(trailer) => open_footer(source, &trailer),
        None => Ok(Err(DamageError { what: "pack", why: "it has no trailer" })),
    }
}

fn open_footer(source: &dyn Source, trailer: &Trailer) -> io::Result<Result<Table, DamageError>> {
    let mut footer = vec![0; trailer.footer_bytes as usize];
    source.read_exact_at(&mut footer, trailer.footer_offset)?;
    Ok(trailer.open(&footer))
}

/// Reads the trailer, if the pack has a whole footer. A power cut may leave the trailer, and tear
/// the rest of the footer.
pub(crate) fn trailer_of_whole_footer(source: &dyn Source) -> io::Result<Option<Trailer>> {
    let Some(trailer) = read_trailer(source)? else { return Ok(None) };
    Ok(open_footer(source, &trailer)?.is_ok().then_some(trailer))
}

/// Computes the table from the records, up to the first bad record.
pub(crate) fn scan_table(
    source: &dyn Source,
    pack: PackNumber,
    digest_of: &DigestOf,
) -> Result<Table, ReadError> {
    let scanned = scan(source, pack, digest_of);
    let scanned = scanned.map_err(|source| ReadError::Disk { pack, source })?;
    scanned.ok_or_else(|| ReadError::damaged(pack, "it has no header"))
}

/// Reads records from the front up to the first bad record. Returns `None` if the pack has no valid
/// header.
pub(crate) fn scan(
    source: &dyn Source,
    pack: PackNumber,
    digest_of: &DigestOf,
) -> io::Result<Option<Table>> {
    let mut head = [0; HEADER_BYTES];
    if source.read_exact_at(&mut head, 0).is_err() {
        return Ok(None);
    }
    let Some(header) = Header::decode(&head).ok().filter(|header| header.pack == pack) else {
        return Ok(None);
    };
    let mut table = Table::new(pack, header.domain);
    let mut decompressor = Decompressor::new()?;
    while let Some(record) = next_record(source, table.end())? {
        let Ok(opened) = decompressor.decode(&record) else { break };
        let digests: Vec<_> =
            opened.chunks().map(|chunk| digest_of(header.domain, chunk)).collect();
        assert_eq!(digests.len(), opened.lengths().len(), "one digest for each chunk");
        table.push(record.len(), opened.lengths(), &digests);
    }
    Ok(Some(table))
}

/// Reads the record at `offset`, whose header contains its length. Returns `None` if there is no
/// complete record.
fn next_record(source: &dyn Source, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; quantum::HEADER_BYTES];
    let short = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    match source.read_exact_at(&mut head, offset) {
        Err(error) if short(&error) => return Ok(None),
        other => other?,
    }
    let Ok(header) = quantum::Header::decode(&head) else { return Ok(None) };
    let mut record = vec![0; header.record_bytes()];
    match source.read_exact_at(&mut record, offset) {
        Err(error) if short(&error) => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(Some(record)),
    }
}

/// Reads the record of `quantum` and verifies its checksum.
pub(crate) fn read_record(
    source: &dyn Source,
    pack: PackNumber,
    quantum: &QuantumEntry,
) -> Result<Vec<u8>, ReadError> {
    let mut record = vec![0; quantum.record_bytes as usize];
    source
        .read_exact_at(&mut record, quantum.offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::damaged(pack, "it ends too early"),
            _ => ReadError::Disk { pack, source: error },
        })?;
    match quantum::Record::decode(&record) {
        Ok(_) => Ok(record),
        Err(source) => Err(ReadError::Damaged { pack, source }),
    }
}

#[cfg(test)]
mod tests;
