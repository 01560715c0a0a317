//! The files of the chunk index.

use std::fs;
use std::path::Path;

use index::{ChunkIndex, Config};
use model::{ChunkDigest, PackNumber};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::scratch::with_folder;
use crate::Target;
use crate::seeds::golden;

/// Limit for an index of small files, with the buffers of a scan.
const INDEX_ALLOCATION_BYTES_MAX: u64 = 32 << 20;
const MANIFEST: &str = "manifest";
const RUN: &str = "run-0000000000000001";
const BLOCK_BYTES: usize = 4096;
const CHECKSUM_BYTES: usize = 8;
const TRAILER_BYTES: usize = 56;
const PREFIX_BYTES: usize = 16;
/// Bytes of a run with one block, without its filter.
const LEAST_RUN_BYTES: usize = BLOCK_BYTES + PREFIX_BYTES + TRAILER_BYTES;

pub(super) const INDEX_RUN: Target = Target {
    name: "index_run",
    allocation_bytes_max: INDEX_ALLOCATION_BYTES_MAX,
    seeds: || golden("index", &[RUN]),
    check: check_run,
};

pub(super) const INDEX_MANIFEST: Target = Target {
    name: "index_manifest",
    allocation_bytes_max: INDEX_ALLOCATION_BYTES_MAX,
    seeds: || golden("index", &[MANIFEST]),
    check: check_manifest,
};

fn check_run(input: &[u8]) {
    let [manifest] = &golden("index", &[MANIFEST])[..] else { unreachable!("one file was read") };
    check_index(manifest, input);
    if input.len() >= LEAST_RUN_BYTES {
        check_index(manifest, &with_checksums(input));
    }
}

fn check_manifest(input: &[u8]) {
    let [run] = &golden("index", &[RUN])[..] else { unreachable!("one file was read") };
    check_index(input, run);
    if let Some((content, _)) = input.split_last_chunk::<CHECKSUM_BYTES>() {
        check_index(&[content, &xxh3_64(content).to_le_bytes()].concat(), run);
    }
}

/// Returns the run, whose number is 1 and which has one block, with the checksums that fit.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let mut run = input.to_vec();
    let block = xxh3_64_with_seed(&run[..BLOCK_BYTES - CHECKSUM_BYTES], 1_u64.rotate_left(32));
    run[BLOCK_BYTES - CHECKSUM_BYTES..BLOCK_BYTES].copy_from_slice(&block.to_le_bytes());
    let (content, trailer) = run.split_at_mut(input.len() - TRAILER_BYTES);
    let (fence, filter) = content[BLOCK_BYTES..].split_at(PREFIX_BYTES);
    trailer[32..40].copy_from_slice(&xxh3_64(fence).to_le_bytes());
    trailer[40..48].copy_from_slice(&xxh3_64(filter).to_le_bytes());
    let checksum = xxh3_64(&trailer[..48]);
    trailer[48..].copy_from_slice(&checksum.to_le_bytes());
    run
}

fn check_index(manifest: &[u8], run: &[u8]) {
    with_folder(|folder| {
        let folder = folder.join("index");
        fs::create_dir_all(&folder).expect("the folder is writable");
        fs::write(folder.join(MANIFEST), manifest).expect("the folder is writable");
        fs::write(folder.join(RUN), run).expect("the folder is writable");
        read_index(&folder);
    });
}

fn read_index(folder: &Path) {
    let Ok((index, recovery)) = ChunkIndex::open(folder, Config::default()) else { return };
    let (found, unknown) = (digest_in(folder), ChunkDigest([0xff; 32]));
    drop(index.lookup(&[found, unknown, ChunkDigest([0; 32])]));
    let entries: Result<Vec<_>, _> = index.entries().collect();
    drop(entries);
    assert!(recovery.complete_to <= ChunkIndex::complete_in(folder).max(PackNumber(0)));
}

/// Returns a digest with the first prefix of the run.
fn digest_in(folder: &Path) -> ChunkDigest {
    let mut digest = [0; 32];
    let run = fs::read(folder.join(RUN)).unwrap_or_default();
    for (byte, of_run) in digest.iter_mut().zip(run).take(PREFIX_BYTES) {
        *byte = of_run;
    }
    ChunkDigest(digest)
}
