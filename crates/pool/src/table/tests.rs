//! Packs as bytes: whole, torn at any byte, and damaged at any byte.

use chunk::{Compression, Compressor, DomainKey, RawQuantum};
use proptest::prelude::*;

use super::*;
use crate::table_file;

const PACK: PackNumber = PackNumber(7);
const DOMAIN: DomainId = DomainId(3);

fn digest_of() -> DigestOf {
    Box::new(|domain, chunk| {
        assert_eq!(domain, DOMAIN, "the header names the domain");
        DomainKey::new([1; 32]).digest(chunk)
    })
}

/// Bytes of a pack.
struct Bytes(Vec<u8>);

impl Bytes {
    fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl Source for Bytes {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).expect("small");
        let found = self.0.get(from..from + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

/// Makes the bytes of an open pack of these quanta, and its table.
fn pack(quanta: &[Vec<Vec<u8>>]) -> (Vec<u8>, Table) {
    let mut bytes = Header { pack: PACK, domain: DOMAIN }.encode().to_vec();
    let mut table = Table::new(PACK, DOMAIN);
    let digest_of = digest_of();
    for chunks in quanta {
        let mut raw = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = raw.push(chunk));
        let record = Compressor::new(Compression::Standard).expect("room").encode(&raw);
        let digests: Vec<_> = chunks.iter().map(|chunk| digest_of(DOMAIN, chunk)).collect();
        table.push(record.len(), raw.lengths(), &digests);
        bytes.extend(record);
    }
    (bytes, table)
}

fn sealed(quanta: &[Vec<Vec<u8>>]) -> (Vec<u8>, Table) {
    let (mut bytes, table) = pack(quanta);
    bytes.extend(table.encode_footer());
    (bytes, table)
}

/// Returns the part of `table` whose records end at or before `end`.
fn whole_until(table: &Table, end: u64) -> Table {
    let is_whole = |q: &&QuantumEntry| q.offset + u64::from(q.record_bytes) <= end;
    let chunks = table.quanta().iter().take_while(is_whole).map(|q| q.chunk_count).sum();
    table.until(chunks)
}

#[test]
fn a_footer_tells_what_the_records_tell() {
    let (bytes, table) = sealed(&[vec![b"one".to_vec(), b"two".to_vec()], vec![b"three".to_vec()]]);
    let source = Bytes::new(&bytes);
    assert_eq!(read_table(&source, PACK).expect("a footer"), table);
    assert_eq!(scan_table(&source, PACK, &digest_of()).expect("records"), table);
    for entry in table.quanta() {
        let record = read_record(&source, PACK, entry).expect("undamaged");
        assert_eq!(record.len(), entry.record_bytes as usize);
    }
}

#[test]
fn a_pack_with_another_number_is_not_taken_for_this_one() {
    let (bytes, _) = sealed(&[vec![b"one".to_vec()]]);
    let source = Bytes::new(&bytes);
    let other = PackNumber(8);
    assert!(
        matches!(read_table(&source, other), Err(ReadError::Damaged { pack, .. }) if pack == other)
    );
    assert!(scan_table(&source, other, &digest_of()).is_err());
    assert_eq!(scan(&source, other, &digest_of()).expect("read"), None);
}

#[test]
fn a_table_that_is_kept_elsewhere_is_that_of_its_pack_or_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, table) = pack(&[vec![b"one".to_vec()], vec![vec![7; 900_000]]]);
    assert_eq!(table_file::read(folder.path(), PACK), None);
    table_file::write(folder.path(), &table).expect("written");
    assert_eq!(table_file::read(folder.path(), PACK), Some(table.clone()));
    // A shorter table takes the place of a longer table.
    table_file::write(folder.path(), &table.until(1)).expect("written");
    assert_eq!(table_file::read(folder.path(), PACK), Some(table.until(1)));
    let path = crate::layout::path(folder.path(), PACK).with_extension(table_file::EXTENSION);
    let bytes = std::fs::read(&path).expect("read");
    // The file of another pack, and a file that was cut off, are no table.
    let other = PackNumber(8);
    let of_other = crate::layout::path(folder.path(), other).with_extension("table");
    std::fs::write(of_other, &bytes).expect("written");
    assert_eq!(table_file::read(folder.path(), other), None);
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert_eq!(table_file::read(folder.path(), PACK), None);
    table_file::remove(folder.path(), PACK).expect("removed");
    table_file::remove(folder.path(), PACK).expect("a table that is gone is removed already");
    assert!(path.metadata().is_err());
}

fn quanta() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let chunk = prop::collection::vec(any::<u8>(), 1..60);
    prop::collection::vec(prop::collection::vec(chunk, 1..4), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_torn_pack_tells_its_whole_records(
        quanta in quanta(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (bytes, table) = sealed(&quanta);
        let end = cut.index(bytes.len());
        let source = Bytes::new(&bytes[..end]);
        // A footer without its last byte is not valid.
        prop_assert!(read_table(&source, PACK).is_err());
        match scan(&source, PACK, &digest_of()).expect("read") {
            Some(found) => prop_assert_eq!(found, whole_until(&table, end as u64)),
            None => prop_assert!(end < HEADER_BYTES),
        }
        let is_there = |q: &QuantumEntry| q.offset + u64::from(q.record_bytes) <= end as u64;
        for entry in table.quanta() {
            prop_assert_eq!(read_record(&source, PACK, entry).is_ok(), is_there(entry));
        }
    }

    #[test]
    fn a_damaged_pack_tells_nothing_that_is_not_so(
        quanta in quanta(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let (mut bytes, table) = sealed(&quanta);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let source = Bytes::new(&bytes);
        // A footer is read as it was written, or not at all.
        if let Ok(found) = read_table(&source, PACK) {
            prop_assert_eq!(&found, &table);
            prop_assert!((at as u64) < table.end(), "the damage is not in the footer");
        }
        match scan(&source, PACK, &digest_of()).expect("read") {
            Some(found) => prop_assert_eq!(found, whole_until(&table, at as u64)),
            None => prop_assert!(at < HEADER_BYTES),
        }
        for entry in table.quanta() {
            let own = entry.offset..entry.offset + u64::from(entry.record_bytes);
            let is_damaged = own.contains(&(at as u64));
            prop_assert_eq!(read_record(&source, PACK, entry).is_err(), is_damaged);
        }
    }
}
