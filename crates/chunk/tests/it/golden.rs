//! Golden files: data that an earlier release compressed or encrypted must decode for ever. They
//! are not compared with the bytes that are written today, because another release of zstd writes
//! other bytes.

use std::path::PathBuf;

use chunk::{Compression, Compressor, Decompressor, RawQuantum, SealKey, Sealer, Unsealer};

const CHUNKS: [&[u8]; 2] = [&[7; 5000], b"the second chunk"];

/// Returns the content of `testdata/format-v1/NAME`; `HOLDFAST_GOLDEN=write` makes files that do
/// not exist.
#[track_caller]
fn golden(name: &str, write: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/format-v1").join(name);
    if std::env::var_os("HOLDFAST_GOLDEN").is_some_and(|value| value == "write")
        && !path.try_exists().expect("a folder")
    {
        std::fs::write(&path, write()).expect("golden file");
    }
    std::fs::read(&path).expect("golden file")
}

fn raw_quantum() -> RawQuantum {
    let mut raw = RawQuantum::default();
    for chunk in CHUNKS {
        raw.push(chunk);
    }
    raw
}

#[test]
fn compressed_quanta() {
    let record = golden("quantum-zstd", || {
        Compressor::new(Compression::Standard).expect("context").encode(&raw_quantum())
    });
    let header = format::quantum::Header::decode(&record).expect("version 1 is read for ever");
    assert_eq!(header.codec, format::quantum::Codec::Zstd);
    let raw = Decompressor::new().expect("context").decode(&record).expect("as above");
    assert_eq!(raw.chunks().collect::<Vec<_>>(), CHUNKS);
}

#[test]
fn sealed_chunks() {
    let keys = [SealKey::new([7; 32])];
    for (name, chunk) in ["sealed-zstd", "sealed-stored"].into_iter().zip(CHUNKS) {
        let sealed =
            golden(name, || Sealer::new(keys[0].clone()).expect("context").seal(chunk, true));
        let opened = Unsealer::new(&keys).expect("context").unseal(&sealed, chunk.len());
        assert_eq!(opened.as_deref(), Ok(chunk), "{name}");
    }
}
