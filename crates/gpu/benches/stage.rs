//! Rates of the GPU beside those of threads, from memory to memory, both transfers included.
//!
//! ```text
//! cargo bench -p gpu -- FILE...
//! ```
//!
//! The files are packed into quanta of 2 MiB. The environment variable `HOLDFAST_NVCOMP` names
//! nvCOMP's file, if the system's loader does not find it.

#![expect(clippy::print_stdout, reason = "the result of a bench")]
#![expect(clippy::cast_precision_loss, reason = "shown with two decimals")]

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use chunk::{
    BatchCompressor, BatchOpener, Compression, Compressor, DomainKey, Estimate, RawQuantum, Threads,
};
use gpu::{Gpu, Settings};

/// Bytes that each measurement handles: the files again and again.
const BYTES: usize = 12 << 30;
const CHUNK_BYTES: usize = 64 << 10;

fn main() -> io::Result<()> {
    let files: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let quanta = read(&files)?;
    if quanta.is_empty() {
        println!("name files to read");
        return Ok(());
    }
    let library = std::env::var_os("HOLDFAST_NVCOMP");
    match Gpu::open(library.as_deref(), Settings::default()) {
        Ok(gpu) => {
            println!("GPU: {}", gpu.device_name());
            print_estimate("the GPU with the setting of a backup", &gpu);
        }
        Err(error) => println!("no GPU: {error}"),
    }
    let processors = sys::process::processors();
    println!("{processors} processors, {} quanta of 2 MiB", quanta.len());
    let threads = Threads { compression: Compression::Standard, count: processors };
    print_estimate(&format!("{processors} threads, standard"), &threads);
    println!("\nCompression: GB/s before compression, ratio, processors in use");
    for compression in [Compression::Level(1), Compression::Standard] {
        for count in [1, processors] {
            let threads = Threads { compression, count: 1 };
            let bytes = BYTES / 16 * count / processors;
            compress(&format!("{count} threads, {compression}"), &threads, count, bytes, &quanta)?;
        }
    }
    for piece_kib in [64, 128, 256, 512, 2048] {
        for (batch, lanes) in [(16, 4), (32, 8), (64, 8), (128, 4), (128, 6)] {
            let settings = Settings { piece_bytes: piece_kib << 10, quanta: batch, lanes };
            let Ok(gpu) = Gpu::open(library.as_deref(), settings) else { continue };
            let name = format!("gpu, pieces of {piece_kib} KiB, {lanes} x {batch} quanta");
            compress(&name, &gpu, lanes, BYTES, &quanta)?;
        }
    }
    println!("\nOpening and digests: GB/s after decompression, processors in use");
    let key = DomainKey::new([1; 32]);
    let mut compressor = Compressor::new(Compression::Standard)?;
    let whole: Vec<Vec<u8>> = quanta.iter().map(|quantum| compressor.encode(quantum)).collect();
    compressor.set(Compression::Stored)?;
    let stored: Vec<Vec<u8>> = quanta.iter().map(|quantum| compressor.encode(quantum)).collect();
    for count in [1, processors] {
        let threads = Threads { compression: Compression::Standard, count: 1 };
        let bytes = BYTES / 8 * count / processors;
        open(&format!("{count} threads"), &threads, (count, bytes), &key, &whole)?;
        let name = format!("{count} threads, stored data (digests only)");
        open(&name, &threads, (count, bytes), &key, &stored)?;
    }
    for (batch, lanes) in [(32, 4), (32, 8), (64, 4), (128, 4)] {
        let settings = Settings { piece_bytes: 128 << 10, quanta: batch, lanes };
        let Ok(gpu) = Gpu::open(library.as_deref(), settings) else { continue };
        open(
            &format!("gpu, {lanes} x {batch} of whole frames"),
            &gpu,
            (lanes, BYTES),
            &key,
            &whole,
        )?;
        let pieces = records(&gpu, &quanta)?;
        open(&format!("gpu, {lanes} x {batch} of pieces"), &gpu, (lanes, BYTES), &key, &pieces)?;
        let name = format!("gpu, {lanes} x {batch} of stored data (digests only)");
        open(&name, &gpu, (lanes, BYTES), &key, &stored)?;
    }
    Ok(())
}

/// Prints the estimate of a compressor, for a comparison with its measurement.
fn print_estimate(name: &str, by: &dyn BatchCompressor) {
    let Estimate { bytes_per_sec, ratio } = by.estimate();
    println!("estimate of {name}: {:.2} GB/s, ratio {:.3}", bytes_per_sec / 1e9, 1.0 / ratio);
}

/// Returns the files as quanta of chunks of 64 KiB.
fn read(files: &[String]) -> io::Result<Vec<RawQuantum>> {
    let mut quanta = vec![RawQuantum::default()];
    for file in files {
        for chunk in std::fs::read(file)?.chunks(CHUNK_BYTES) {
            if !quanta.last().is_some_and(|quantum| quantum.fits(chunk.len())) {
                quanta.push(RawQuantum::default());
            }
            quanta.last_mut().expect("there is one").push(chunk);
        }
    }
    quanta.retain(|quantum| !quantum.is_empty());
    Ok(quanta)
}

fn records(gpu: &Gpu, quanta: &[RawQuantum]) -> io::Result<Vec<Vec<u8>>> {
    let mut records = vec![Vec::new(); quanta.len()];
    for first in (0..quanta.len()).step_by(BatchCompressor::quanta_max(gpu)) {
        let end = quanta.len().min(first + BatchCompressor::quanta_max(gpu));
        let batch: Vec<&RawQuantum> = quanta[first..end].iter().collect();
        gpu.compress(&batch, &mut |number, record| records[first + number] = record)?;
    }
    Ok(records)
}

/// Calls `work` with ranges of numbers on `threads` threads until `bytes` bytes are done. Prints
/// the rate, and the mean number of processors that were busy.
fn measure(
    name: &str,
    (threads, batch, bytes): (usize, usize, usize),
    work: impl Fn(usize, usize) -> io::Result<usize> + Sync,
) -> io::Result<f64> {
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let cpu = || sys::process::cpu_time();
    let (began, cpu_began) = (sys::clock::monotonic(), cpu());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while done.load(Relaxed) < bytes as u64 {
                        let first = next.fetch_add(batch, Relaxed);
                        done.fetch_add(work(first, batch)? as u64, Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })
    .inspect_err(|error: &io::Error| println!("{name:<48} failed: {error}"))?;
    let wall = began.elapsed().as_secs_f64();
    let busy = (cpu().saturating_sub(cpu_began)).as_secs_f64() / wall;
    let rate = done.load(Relaxed) as f64 / wall / 1e9;
    print!("{name:<48} {rate:>7.2} GB/s {busy:>6.2} busy");
    Ok(rate)
}

fn compress(
    name: &str,
    by: &dyn BatchCompressor,
    threads: usize,
    bytes: usize,
    quanta: &[RawQuantum],
) -> io::Result<()> {
    let (before, after) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = |first: usize, count: usize| {
        let batch: Vec<&RawQuantum> =
            (first..first + count).map(|number| &quanta[number % quanta.len()]).collect();
        let raw: usize = batch.iter().map(|quantum| quantum.data().len()).sum();
        let mut sent = 0;
        by.compress(&batch, &mut |_, record| sent += record.len())?;
        before.fetch_add(raw as u64, Relaxed);
        after.fetch_add(sent as u64, Relaxed);
        Ok(raw)
    };
    // Lanes are made before the clock starts.
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(0, 1)))));
    measure(name, (threads, by.quanta_max(), bytes), work)?;
    println!(" {:>7.3}", before.load(Relaxed) as f64 / after.load(Relaxed) as f64);
    Ok(())
}

fn open(
    name: &str,
    by: &dyn BatchOpener,
    (threads, bytes): (usize, usize),
    key: &DomainKey,
    records: &[Vec<u8>],
) -> io::Result<()> {
    let work = |first: usize, count: usize| {
        let batch: Vec<&[u8]> = (first..first + count)
            .map(|number| records[number % records.len()].as_slice())
            .collect();
        let mut bytes = 0;
        by.open(key, &batch, &mut |_, opened| {
            bytes += opened.lengths.iter().map(|length| *length as usize).sum::<usize>();
        })?;
        Ok(bytes)
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(0, 1)))));
    measure(name, (threads, by.quanta_max(), bytes), work)?;
    println!();
    Ok(())
}
