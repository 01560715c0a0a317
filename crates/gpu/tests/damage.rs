//! Frames that were damaged, or made to do damage, on a GPU. On a host without one the test prints
//! the reason and does nothing.
//!
//! The test has a process of its own: a GPU that does not end its work is of no use to others.

#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod noise;

use std::collections::BTreeMap;

use chunk::{
    Compression, Compressor, Decompressor, DomainKey, OpenRecord, RawQuantum, Threads, open_all,
};
use format::quantum::{Codec, Record, encode};
use gpu::{Gpu, Settings};
use model::ChunkDigest;

use noise::noise;

const RECORDS: u64 = 1000;

/// Returns records whose checksum is right and whose frames are damaged in one way.
fn damaged(way: u64) -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(Compression::Standard).expect("a context");
    let mut records = Vec::new();
    for (seed, bytes) in (0..RECORDS).zip([3000, 70_000, 300_000].into_iter().cycle()) {
        let text = b"int main(void) { return 0; } // and so on\n".repeat(bytes / 40 + 1);
        let mix = |(text, noise): (&u8, u8)| if noise < 60 { noise } else { *text };
        let data: Vec<u8> = text[..bytes].iter().zip(noise(seed, bytes)).map(mix).collect();
        let mut quantum = RawQuantum::default();
        data.chunks(9000).for_each(|chunk| _ = quantum.push(chunk));
        let record = compressor.encode(&quantum);
        let record = Record::decode(&record).expect("sound");
        let mut payload = record.payload.to_vec();
        let chance = noise(seed ^ way << 32, 16);
        let at = u32::from_le_bytes(chance[..4].try_into().expect("four"));
        let at = usize::try_from(at).expect("32 bits") % payload.len();
        match way {
            0 => payload[at] ^= 1 << (chance[9] % 8),
            1 => payload[at] = chance[9],
            2 => payload.truncate(at.max(1)),
            _ => payload.iter_mut().take(24).zip(&chance[8..]).for_each(|(to, by)| *to ^= by & 1),
        }
        records.push(encode(Codec::Zstd, &record.lengths, &payload));
    }
    records
}

/// Environment variable with the kind of damage that a process of the test tries.
const KIND: &str = "HOLDFAST_TEST_DAMAGE";
const KINDS: u64 = 4;

/// Fate of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// libzstd and we read the same.
    Read,
    /// libzstd reads nothing, and neither do we.
    Refused,
    /// libzstd reads something else.
    Wrong,
}

/// Whatever the GPU does with damaged frames, nobody reads from them what libzstd does not read.
/// The GPU may refuse them, and it may not come back from them: then it is not asked again, and a
/// process of its own tries the next kind of damage.
#[test]
fn nobody_reads_out_of_damaged_frames_what_libzstd_does_not() {
    if let Some(kind) = std::env::var_os(KIND) {
        let kind = kind.to_string_lossy().parse().expect("a number");
        return try_damage(kind);
    }
    let program = std::env::current_exe().expect("this program");
    for kind in 0..KINDS {
        let mut command = std::process::Command::new(&program);
        let status = command.arg("--nocapture").env(KIND, kind.to_string()).status();
        assert!(status.expect("a process").success(), "damage of kind {kind}");
    }
}

fn try_damage(kind: u64) {
    let library = std::env::var_os("HOLDFAST_NVCOMP");
    let key = DomainKey::new([7; 32]);
    let threads = Threads { compression: Compression::Standard, count: 2 };
    let mut decompressor = Decompressor::new().expect("a context");
    let gpu = match Gpu::open(library.as_deref(), Settings::default()) {
        Ok(gpu) => gpu,
        Err(error) => return println!("skipped, for there is no GPU here: {error}"),
    };
    let records = damaged(kind);
    let mut counts = BTreeMap::<Outcome, u32>::new();
    let mut reason = None;
    for batch in records.chunks(Settings::default().quanta) {
        let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        let mut opened: Vec<Option<OpenRecord>> = vec![None; batch.len()];
        let failure = open_all(&gpu, &threads, &key, &batch, &mut |number, record| {
            opened[number] = record.ok();
        });
        reason = reason.or(failure.expect("threads work"));
        for (record, opened) in batch.iter().zip(opened) {
            let truth: Option<Vec<ChunkDigest>> = decompressor
                .decode(record)
                .ok()
                .map(|raw| raw.chunks().map(|chunk| key.digest(chunk)).collect());
            let outcome = match (truth, opened.map(|record| record.digests)) {
                (None, None) => Outcome::Refused,
                (truth, opened) if truth == opened => Outcome::Read,
                _ => Outcome::Wrong,
            };
            *counts.entry(outcome).or_default() += 1;
        }
    }
    println!("damage of kind {kind}: {counts:?}; failure of the GPU: {reason:?}");
    assert_eq!(counts.get(&Outcome::Wrong), None);
}
