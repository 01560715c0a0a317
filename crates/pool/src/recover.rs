//! Opening packs that are there, and recovering those whose server died.
//!
//! A pack without a good trailer was open. Its records are read from the front; each checks itself.
//! The first that does not is where writing stopped: everything behind was never synced, or it
//! would be whole. The pack is sealed right there, so it never has to be recovered again. But where
//! the catalogue knows of more durable bytes than check, or of a seal that is gone, the disk has
//! damaged the pack: it is left exactly as it is, and what can be read of it is served.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use chunk::Decompressor;
use format::Damaged;
use format::pack::{HEADER_BYTES, Header, TRAILER_BYTES, Table, Trailer};
use format::quantum;
use model::{ChunkDigest, DomainId, PackNumber};

use crate::source::Source;
use crate::{Found, Known, ReadError, folder, open};

pub(crate) type DigestOf = Box<dyn Fn(DomainId, &[u8]) -> ChunkDigest + Send + Sync>;

pub(crate) enum State {
    Sealed,
    Recovered(Found),
    /// It never held a quantum, and has been removed.
    Empty,
}

/// Looks at the pack and recovers it if it was not sealed.
pub(crate) fn examine(
    folder: &Path,
    pack: PackNumber,
    known: Known,
    digest_of: &DigestOf,
) -> Result<State, ReadError> {
    if known.sealed {
        return Ok(State::Sealed);
    }
    let path = folder::path(folder, pack);
    let disk = |source| ReadError::Disk { pack, source };
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(disk)?;
    let file = Arc::new(file);
    let source = Source::File(Arc::clone(&file));
    if read_trailer(&source).map_err(disk)?.is_some() {
        return Ok(State::Sealed);
    }
    let table = scan(&source, pack, digest_of).map_err(disk)?;
    if table.as_ref().map_or(0, Table::end) < known.bytes {
        let source = Damaged { what: "pack", why: "durable quanta do not check any more" };
        return Err(ReadError::Damaged { pack, source });
    }
    match table {
        Some(table) if table.chunk_count() > 0 => {
            open::seal(&file, Arc::new(table)).map(State::Recovered).map_err(disk)
        }
        _ => {
            std::fs::remove_file(&path).map_err(disk)?;
            Ok(State::Empty)
        }
    }
}

/// The trailer, if there is a good one.
fn read_trailer(file: &Source) -> io::Result<Option<Trailer>> {
    let bytes = file.bytes()?;
    let Some(at) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, at)?;
    Ok(Trailer::decode(&trailer, bytes).ok())
}

/// Reads the footer of a sealed pack.
pub(crate) fn read_table(file: &Source, pack: PackNumber) -> Result<Table, ReadError> {
    let disk = |source| ReadError::Disk { pack, source };
    match read_footer(file).map_err(disk)? {
        Ok(table) if table.pack == pack => Ok(table),
        Ok(_) => {
            let source = Damaged { what: "pack", why: "it has another pack's number" };
            Err(ReadError::Damaged { pack, source })
        }
        Err(source) => Err(ReadError::Damaged { pack, source }),
    }
}

/// As much of the table as the records tell from the front.
pub(crate) fn scan_table(
    file: &Source,
    pack: PackNumber,
    digest_of: &DigestOf,
) -> Result<Table, ReadError> {
    let scanned = scan(file, pack, digest_of);
    let scanned = scanned.map_err(|source| ReadError::Disk { pack, source })?;
    let source = Damaged { what: "pack", why: "it has no header" };
    scanned.ok_or(ReadError::Damaged { pack, source })
}

fn read_footer(file: &Source) -> io::Result<Result<Table, Damaged>> {
    let Some(trailer) = read_trailer(file)? else {
        return Ok(Err(Damaged { what: "pack", why: "it has no trailer" }));
    };
    let mut footer = vec![0; trailer.footer_bytes as usize];
    file.read_exact_at(&mut footer, trailer.footer_offset)?;
    Ok(trailer.open(&footer))
}

/// Reads records from the front until one does not check; `None` without a good header.
fn scan(file: &Source, pack: PackNumber, digest_of: &DigestOf) -> io::Result<Option<Table>> {
    let mut head = [0; HEADER_BYTES];
    if file.read_exact_at(&mut head, 0).is_err() {
        return Ok(None);
    }
    let Some(header) = Header::decode(&head).ok().filter(|header| header.pack == pack) else {
        return Ok(None);
    };
    let mut table = Table::new(pack, header.domain);
    let mut decompressor = Decompressor::new()?;
    while let Some(record) = read_record(file, table.end())? {
        let Ok(opened) = decompressor.decode(&record) else { break };
        let digests: Vec<_> =
            opened.chunks().map(|chunk| digest_of(header.domain, chunk)).collect();
        table.push(record.len(), opened.lengths(), &digests);
    }
    Ok(Some(table))
}

fn read_record(file: &Source, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; quantum::HEADER_BYTES];
    let short = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    match file.read_exact_at(&mut head, offset) {
        Err(error) if short(&error) => return Ok(None),
        other => other?,
    }
    let Ok(header) = quantum::Header::decode(&head) else { return Ok(None) };
    let mut record = vec![0; header.record_bytes()];
    match file.read_exact_at(&mut record, offset) {
        Err(error) if short(&error) => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(Some(record)),
    }
}
