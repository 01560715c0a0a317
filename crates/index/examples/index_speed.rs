//! Prints the time that the chunk index takes for a chunk, with random digests, in batches and on
//! one thread; the merger has a thread of its own. Run it with
//! `cargo run --release -p index --example index_speed`.
#![expect(clippy::print_stdout, reason = "it prints measurements")]
#![expect(clippy::disallowed_methods, reason = "it measures elapsed time itself")]

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use index::{ChunkIndex, Config, IndexError};
use model::{ChunkDigest, PackNumber, Place};

const ENTRIES: u64 = 5_000_000;
const BATCH_ENTRIES: u64 = 4096;
const PACK_CHUNKS: u64 = 1024;

type Chunk = (ChunkDigest, Place);

fn main() -> Result<(), IndexError> {
    let folder = std::env::temp_dir().join(format!("index_speed-{}", std::process::id()));
    let result = measure(&folder);
    if let Err(source) = std::fs::remove_dir_all(&folder) {
        println!("{} cannot be removed: {source}", folder.display());
    }
    result
}

fn measure(folder: &Path) -> Result<(), IndexError> {
    let (index, _) = ChunkIndex::open(folder, Config::default())?;
    time("insert", 0..ENTRIES, |chunks| index.insert(chunks))?;
    time("negative look-up, while merging", ENTRIES..2 * ENTRIES, |chunks| absent(&index, chunks))?;
    index.flush(PackNumber(ENTRIES / PACK_CHUNKS + 1))?;
    drop(index);

    let start = Instant::now();
    let (index, recovery) = ChunkIndex::open(folder, Config::default())?;
    println!("open, complete to pack {}: {:?}", recovery.complete_to, start.elapsed());
    println!("{:?}", index.statistics());
    time("negative look-up", ENTRIES..2 * ENTRIES, |chunks| absent(&index, chunks))?;
    time("hit, in the order of insertion", 0..ENTRIES, |chunks| present(&index, chunks))?;

    let start = Instant::now();
    let scanned = index.entries().try_fold(0, |count: u64, entry| entry.map(|_| count + 1))?;
    assert_eq!(scanned, ENTRIES, "the scan must return every entry once");
    println!("scan: {:.0} ns an entry", per_entry(start.elapsed()));
    Ok(())
}

/// Prints the time that `batch` takes for each chunk. The time for making the chunks does not
/// count.
fn time(
    what: &str,
    seeds: Range<u64>,
    mut batch: impl FnMut(&[Chunk]) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut elapsed = Duration::ZERO;
    let mut first = seeds.start;
    while first < seeds.end {
        let end = seeds.end.min(first + BATCH_ENTRIES);
        let chunks: Vec<_> = (first..end).map(|seed| (digest(seed), place(seed))).collect();
        let start = Instant::now();
        batch(&chunks)?;
        elapsed += start.elapsed();
        first = end;
    }
    println!("{what}: {:.0} ns an entry", per_entry(elapsed));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "printed without decimals")]
fn per_entry(elapsed: Duration) -> f64 {
    elapsed.as_nanos() as f64 / ENTRIES as f64
}

fn absent(index: &ChunkIndex, chunks: &[Chunk]) -> Result<(), IndexError> {
    let places = look_up(index, chunks)?;
    assert!(places.iter().all(Option::is_none), "chunks that were not inserted must not be found");
    Ok(())
}

fn present(index: &ChunkIndex, chunks: &[Chunk]) -> Result<(), IndexError> {
    let places = look_up(index, chunks)?;
    assert!(
        places.iter().copied().eq(chunks.iter().map(|chunk| Some(chunk.1))),
        "chunks that were inserted must be found at their places"
    );
    Ok(())
}

fn look_up(index: &ChunkIndex, chunks: &[Chunk]) -> Result<Vec<Option<Place>>, IndexError> {
    let digests: Vec<_> = chunks.iter().map(|chunk| chunk.0).collect();
    index.lookup(&digests)
}

fn place(seed: u64) -> Place {
    let index = u32::try_from(seed % PACK_CHUNKS).expect("below 1024");
    Place::new(PackNumber(seed / PACK_CHUNKS + 1), index)
}

/// Spreads `seed` over a digest (splitmix64).
fn digest(seed: u64) -> ChunkDigest {
    let mut bytes = [0; 32];
    for (word, bytes) in (0..).zip(bytes.as_chunks_mut().0) {
        let mut mixed = (seed * 4 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        *bytes = (mixed ^ mixed >> 31).to_le_bytes();
    }
    ChunkDigest(bytes)
}
