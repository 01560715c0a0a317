//! Tests with a GPU. On a host without one they print the reason and do nothing.
//!
//! The environment variable `HOLDFAST_NVCOMP` names nvCOMP's file, if the system's loader does not
//! find it.

#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod noise;

use std::collections::BTreeMap;

use chunk::{
    BatchCompressor, BatchOpener, Compression, Compressor, Decompressor, DomainKey, OpenRecord,
    RawQuantum, Remainder, Threads, compress_by, open_all,
};
use format::quantum::{Codec, encode};
use gpu::{Gpu, Settings};
use model::{ChunkDigest, QUANTUM_BYTES_MAX};

use noise::noise;

const KEY: [u8; 32] = [7; 32];

/// Opens the GPU; `None` if there is none.
fn gpu(settings: Settings) -> Option<Gpu> {
    let library = std::env::var_os("HOLDFAST_NVCOMP");
    match Gpu::open(library.as_deref(), settings) {
        Ok(gpu) => {
            println!("on {}", gpu.device_name());
            Some(gpu)
        }
        Err(error) => {
            println!("skipped, for there is no GPU here: {error}");
            None
        }
    }
}

fn threads() -> Threads {
    Threads { compression: Compression::Standard, count: 2 }
}

/// Contents of several kinds, each of `bytes` bytes.
fn contents(bytes: usize) -> Vec<Vec<u8>> {
    let text = b"int main(void) { return 0; } // and so on\n".repeat(bytes / 40 + 1);
    let words: Vec<u8> = noise(2, bytes)
        .iter()
        .map(|byte| b"etaoin shrdlu\n\t{}()"[usize::from(byte % 19)])
        .collect();
    let mixed: Vec<u8> = text
        .iter()
        .zip(noise(3, bytes))
        .map(|(text, noise)| if noise < 40 { noise } else { *text })
        .collect();
    vec![vec![0; bytes], text[..bytes].to_vec(), words, mixed, noise(1, bytes)]
}

/// Puts `data` into a quantum as chunks of at most `chunk_bytes` bytes.
fn quantum(data: &[u8], chunk_bytes: usize) -> RawQuantum {
    let mut quantum = RawQuantum::default();
    data.chunks(chunk_bytes).for_each(|chunk| _ = quantum.push(chunk));
    quantum
}

/// Quanta of all kinds and many lengths, around every border that the GPU's lanes have.
fn samples() -> Vec<RawQuantum> {
    let borders = [4, 16, 64, 1024, 4096, 64 << 10, 128 << 10, 1 << 20, QUANTUM_BYTES_MAX];
    let mut lengths: Vec<usize> = borders.iter().flat_map(|at| [at - 1, *at, at + 1]).collect();
    lengths.extend(1..40);
    lengths.retain(|length| *length <= QUANTUM_BYTES_MAX);
    let mut quanta = Vec::new();
    for length in lengths {
        for (kind, data) in contents(length).iter().enumerate() {
            quanta
                .push(quantum(data, [length, 1, 1023, 1025, 5000][kind].max(length / 4000).max(1)));
        }
    }
    quanta
}

fn digests(raw: &RawQuantum) -> Vec<ChunkDigest> {
    let key = DomainKey::new(KEY);
    raw.chunks().map(|chunk| key.digest(chunk)).collect()
}

fn compress(gpu: &Gpu, quanta: &[RawQuantum]) -> Vec<Option<Vec<u8>>> {
    let mut records = vec![None; quanta.len()];
    let most = BatchCompressor::quanta_max(gpu);
    for first in (0..quanta.len()).step_by(most) {
        let batch: Vec<&RawQuantum> =
            quanta[first..quanta.len().min(first + most)].iter().collect();
        gpu.compress(&batch, &mut |number, record| records[first + number] = Some(record))
            .expect("the GPU works");
    }
    records
}

fn open(gpu: &Gpu, records: &[Vec<u8>]) -> Vec<Option<OpenRecord>> {
    let mut opened = vec![None; records.len()];
    let most = BatchOpener::quanta_max(gpu);
    for first in (0..records.len()).step_by(most) {
        let batch: Vec<&[u8]> = records[first..records.len().min(first + most)]
            .iter()
            .map(Vec::as_slice)
            .collect();
        gpu.open(&DomainKey::new(KEY), &batch, &mut |number, chunks| {
            opened[first + number] = Some(chunks);
        })
        .expect("the GPU works");
    }
    opened
}

#[test]
fn what_the_gpu_compresses_the_ordinary_decoder_reads() {
    let Some(gpu) = gpu(Settings::default()) else { return };
    let quanta = samples();
    let mut decompressor = Decompressor::new().expect("a context");
    let (mut raw_bytes, mut record_bytes) = (0, 0);
    for (quantum, record) in quanta.iter().zip(compress(&gpu, &quanta)) {
        let record = record.expect("the GPU compresses everything");
        assert_eq!(decompressor.decode(&record).as_ref(), Ok(quantum));
        (raw_bytes, record_bytes) = (raw_bytes + quantum.data().len(), record_bytes + record.len());
    }
    println!("{} quanta, {raw_bytes} bytes to {record_bytes}", quanta.len());
    assert!(compress(&gpu, &[]).is_empty(), "an empty batch is nothing to do");
}

#[test]
fn what_anybody_compresses_the_gpu_opens() {
    let Some(gpu) = gpu(Settings::default()) else { return };
    let quanta = samples();
    let strengths = [
        Compression::Stored,
        Compression::Level(-5),
        Compression::Level(1),
        Compression::Standard,
        Compression::Level(6),
        Compression::Level(19),
    ];
    for strength in strengths {
        // The strongest takes long for large quanta.
        let few = quanta
            .iter()
            .filter(|quantum| strength != Compression::Level(19) || quantum.data().len() < 200_000);
        let few: Vec<&RawQuantum> = few.collect();
        let mut compressor = Compressor::new(strength).expect("zstd knows it");
        let records: Vec<Vec<u8>> = few.iter().map(|quantum| compressor.encode(quantum)).collect();
        for (quantum, opened) in few.iter().zip(open(&gpu, &records)) {
            let opened = opened.unwrap_or_else(|| panic!("{strength}: {}", quantum.data().len()));
            assert_eq!(opened.lengths, quantum.lengths());
            assert_eq!(opened.digests, digests(quantum), "{strength}: {}", quantum.data().len());
        }
    }
    let records: Vec<Vec<u8>> = compress(&gpu, &quanta).into_iter().flatten().collect();
    for (quantum, opened) in quanta.iter().zip(open(&gpu, &records)) {
        assert_eq!(opened.expect("its own records").digests, digests(quantum));
    }
}

/// No quantum is empty, but a frame may be. Threads read its record, beside those of the GPU.
#[test]
fn a_frame_of_no_bytes_is_read_beside_others() {
    let Some(gpu) = gpu(Settings::default()) else { return };
    let raw = quantum(&contents(100_000)[1], 5000);
    let frame = |data: &[u8]| zstd::bulk::compress(data, 1).expect("room");
    let (nothing, all) = (frame(b""), frame(raw.data()));
    let records = [&all[..], &[&nothing[..], &all, &nothing].concat()]
        .map(|payload| encode(Codec::Zstd, raw.lengths(), payload));
    let batch = records.each_ref().map(Vec::as_slice);
    let mut opened = vec![None; batch.len()];
    let failure =
        open_all(&gpu, &threads(), &DomainKey::new(KEY), &batch, &mut |number, record| {
            opened[number] = record.ok();
        });
    assert!(failure.expect("threads work").is_none());
    let expected = OpenRecord { lengths: raw.lengths().to_vec(), digests: digests(&raw) };
    assert_eq!(opened, [Some(expected.clone()), Some(expected)]);
}

#[test]
fn without_memory_on_the_gpu_threads_do_the_work() {
    // Each lane wants more memory than any GPU has.
    let settings = Settings { piece_bytes: 16, quanta: 1 << 14, lanes: 1 };
    let Some(gpu) = gpu(settings) else { return };
    let quanta: Vec<RawQuantum> =
        contents(100_000).iter().map(|data| quantum(data, 5000)).collect();
    let batch: Vec<&RawQuantum> = quanta.iter().collect();
    let mut records = BTreeMap::new();
    let Remainder { numbers, reason } = compress_by(&gpu, &batch, &mut |_, _| panic!("no memory"));
    let left: Vec<&RawQuantum> = numbers.iter().map(|number| batch[*number]).collect();
    threads()
        .compress(&left, &mut |at, record| drop(records.insert(numbers[at], record)))
        .expect("threads work");
    let reason = reason.expect("the GPU cannot have so much memory");
    println!("{reason}");
    assert_eq!(reason.kind(), std::io::ErrorKind::OutOfMemory);
    assert!(!gpu.is_lost(), "memory may be free later");
    assert_eq!(records.len(), quanta.len());
}

#[test]
fn ten_thousand_batches_need_no_more_memory_than_the_first() {
    let Some(gpu) = gpu(Settings { quanta: 4, lanes: 2, ..Settings::default() }) else { return };
    let quanta: Vec<RawQuantum> =
        contents(20_000).iter().take(4).map(|data| quantum(data, 7000)).collect();
    let batch: Vec<&RawQuantum> = quanta.iter().collect();
    let key = DomainKey::new(KEY);
    let round = || {
        let mut records = vec![Vec::new(); batch.len()];
        let Remainder { numbers, reason } =
            compress_by(&gpu, &batch, &mut |number, record| records[number] = record);
        assert!(numbers.is_empty() && reason.is_none(), "{numbers:?} {reason:?}");
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let mut opened = 0;
        let reason = open_all(&gpu, &threads(), &key, &records, &mut |_, chunks| {
            opened += usize::from(chunks.is_ok());
        });
        assert!(reason.expect("threads work").is_none());
        assert_eq!(opened, batch.len());
    };
    let two = |rounds: usize| {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..rounds).for_each(|_| round()));
            }
        });
    };
    two(20);
    let free = gpu.free_bytes().expect("the GPU answers");
    let resident = sys::process::peak_memory_bytes();
    two(2500);
    let (free_after, resident_after) =
        (gpu.free_bytes().expect("the GPU answers"), sys::process::peak_memory_bytes());
    println!(
        "GPU {free} to {free_after} bytes free, resident at most {resident} to {resident_after}"
    );
    assert!(free_after + (64 << 20) >= free, "the GPU's memory: {free} to {free_after}");
    assert!(resident_after <= resident + (32 << 20), "memory: {resident} to {resident_after}");
}
