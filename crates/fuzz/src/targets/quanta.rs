//! Quanta and sealed chunks.

use chunk::{Compression, Compressor, Decompressor, SEAL_BYTES, SealKey, Sealer, Unsealer};
use format::quantum::{HEADER_BYTES, Header, Record, encode};
use model::CHUNK_BYTES_MAX;
use xxhash_rust::xxh3::xxh3_64;

use crate::Target;
use crate::seeds::golden;

const CHECKED_BYTES: usize = 24;
/// Limit for a quantum of 2 MiB, its record, and the copies that the check makes.
const QUANTUM_ALLOCATION_BYTES_MAX: u64 = 32 << 20;
/// Limit for a chunk and the copies that the check makes.
const SEAL_ALLOCATION_BYTES_MAX: u64 = 4 * CHUNK_BYTES_MAX as u64;
/// Key of the golden files.
const KEY: [u8; SealKey::BYTES] = [7; 32];
/// Length of the chunk in the golden file that is compressed.
const GOLDEN_CHUNK_BYTES: usize = 5000;

pub(super) const QUANTUM: Target = Target {
    name: "quantum",
    allocation_bytes_max: QUANTUM_ALLOCATION_BYTES_MAX,
    seeds: || [golden("format", &["quantum-stored"]), golden("chunk", &["quantum-zstd"])].concat(),
    check: check_quantum,
};

pub(super) const SEAL: Target = Target {
    name: "seal",
    allocation_bytes_max: SEAL_ALLOCATION_BYTES_MAX,
    seeds: || golden("chunk", &["sealed-stored", "sealed-zstd"]),
    check: check_seal,
};

fn check_quantum(input: &[u8]) {
    check_record(input);
    if let Some((head, body)) = input.split_first_chunk::<HEADER_BYTES>() {
        let mut record = [&head[..], body].concat();
        let checked = [&head[..CHECKED_BYTES], body].concat();
        record[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&xxh3_64(&checked).to_le_bytes());
        check_record(&record);
    }
}

fn check_record(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        let header = Header::decode(bytes).expect("a record begins with a header");
        assert_eq!(header.record_bytes(), bytes.len());
        let again = encode(record.codec, &record.lengths, record.payload);
        assert_eq!(again, bytes, "a quantum has one record for each codec and payload");
    }
    let mut decompressor = Decompressor::new().expect("a context can be made");
    let Ok(quantum) = decompressor.decode(bytes) else { return };
    let mut compressor = Compressor::new(Compression::Stored).expect("a context can be made");
    assert_eq!(decompressor.decode(&compressor.encode(&quantum)), Ok(quantum));
}

fn check_seal(input: &[u8]) {
    let keys = [SealKey::new(KEY)];
    let mut unsealer = Unsealer::new(&keys).expect("a context can be made");
    for bytes in [0, input.len().saturating_sub(SEAL_BYTES), GOLDEN_CHUNK_BYTES, CHUNK_BYTES_MAX] {
        if let Ok(chunk) = unsealer.unseal(input, bytes) {
            assert_eq!(chunk.len(), bytes, "a chunk has the length that was asked for");
        }
    }
    if input.is_empty() {
        return;
    }
    let mut sealer = Sealer::new(keys[0].clone()).expect("a context can be made");
    for compresses in [false, true] {
        let sealed = sealer.seal(input, compresses);
        assert_eq!(unsealer.unseal(&sealed, input.len()).as_deref(), Ok(input));
    }
}
