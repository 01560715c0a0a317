//! Tests of batches with an accelerator that fails and changes the order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

fn threads(count: usize) -> Threads {
    Threads { compression: Compression::Standard, count }
}

fn quanta(contents: &[Vec<Vec<u8>>]) -> Vec<RawQuantum> {
    let quantum = |chunks: &Vec<Vec<u8>>| {
        let mut quantum = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = quantum.push(chunk));
        quantum
    };
    contents.iter().map(quantum).collect()
}

/// An accelerator that does its work by threads, in another order, and fails at chosen quanta.
#[derive(Debug)]
struct Faulty {
    is_backward: bool,
    /// Numbers of the batch that are left undone.
    omitted: Vec<usize>,
    /// Number of quanta after which the batch fails as a whole.
    dies_after: Option<usize>,
}

impl Faulty {
    /// Passes the results on as this accelerator does.
    fn pass_on<T>(
        &self,
        results: BTreeMap<usize, T>,
        done: &mut dyn FnMut(usize, T),
    ) -> io::Result<()> {
        let mut results: Vec<(usize, T)> = results.into_iter().collect();
        if self.is_backward {
            results.reverse();
        }
        for (passed, (number, result)) in results.into_iter().enumerate() {
            if self.dies_after.is_some_and(|after| passed >= after) {
                return Err(io::Error::other("the device was reset"));
            }
            if !self.omitted.contains(&number) {
                done(number, result);
            }
        }
        Ok(())
    }
}

impl BatchCompressor for Faulty {
    fn estimate(&self) -> Estimate {
        threads(1).estimate()
    }

    fn quanta_max(&self) -> usize {
        64
    }

    fn compress(
        &self,
        batch: &[&RawQuantum],
        done: &mut dyn FnMut(usize, Vec<u8>),
    ) -> io::Result<()> {
        let mut records = BTreeMap::new();
        threads(2).compress(batch, &mut |number, record| drop(records.insert(number, record)))?;
        self.pass_on(records, done)
    }
}

impl BatchOpener for Faulty {
    fn quanta_max(&self) -> usize {
        64
    }

    fn open(
        &self,
        key: &DomainKey,
        batch: &[&[u8]],
        done: &mut dyn FnMut(usize, OpenRecord),
    ) -> io::Result<()> {
        let mut opened = BTreeMap::new();
        threads(2).open(key, batch, &mut |number, chunks| drop(opened.insert(number, chunks)))?;
        self.pass_on(opened, done)
    }
}

fn faulty() -> impl Strategy<Value = Faulty> {
    let omitted = prop::collection::vec(0..12_usize, 0..6);
    (any::<bool>(), omitted, prop::option::of(0..12_usize))
        .prop_map(|(is_backward, omitted, dies_after)| Faulty { is_backward, omitted, dies_after })
}

fn contents() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let chunk = prop::collection::vec(prop_oneof![Just(b'x'), any::<u8>()], 1..2000);
    prop::collection::vec(prop::collection::vec(chunk, 1..8), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever an accelerator leaves undone and in whatever order it works, each quantum gets one
    /// record that the ordinary decoder reads.
    #[test]
    fn every_quantum_of_a_batch_is_compressed_once(
        contents in contents(),
        faulty in faulty(),
    ) {
        let raw = quanta(&contents);
        let batch: Vec<&RawQuantum> = raw.iter().collect();
        let mut records = BTreeMap::new();
        let mut calls = 0;
        let Remainder { numbers, reason } = compress_by(&faulty, &batch, &mut |number, record| {
            calls += 1;
            records.insert(number, record);
        });
        if faulty.omitted.is_empty() {
            let most = faulty.dies_after.unwrap_or(usize::MAX).min(raw.len());
            prop_assert_eq!(calls, most);
        }
        let left: Vec<&RawQuantum> = numbers.iter().map(|number| batch[*number]).collect();
        threads(2)
            .compress(&left, &mut |at, record| {
                calls += 1;
                records.insert(numbers[at], record);
            })
            .expect("threads work");
        let dies = faulty.dies_after.is_some_and(|after| after < raw.len());
        prop_assert_eq!(reason.is_some(), dies);
        prop_assert_eq!((records.len(), calls), (raw.len(), raw.len()));
        let mut decompressor = Decompressor::new().expect("a context");
        for (number, record) in records {
            let opened = decompressor.decode(&record);
            prop_assert_eq!(opened.as_ref(), Ok(&raw[number]));
        }
    }

    /// Each record gets its digests or its damage, once.
    #[test]
    fn every_record_of_a_batch_is_opened_once(
        contents in contents(),
        faulty in faulty(),
        damaged in prop::collection::btree_set(0..12_usize, 0..4),
    ) {
        let raw = quanta(&contents);
        let key = DomainKey::new(KEY);
        let mut compressor = Compressor::new(Compression::Standard).expect("a context");
        let mut records: Vec<Vec<u8>> = raw.iter().map(|raw| compressor.encode(raw)).collect();
        for number in &damaged {
            if let Some(last) = records.get_mut(*number).and_then(|record| record.last_mut()) {
                *last ^= 1;
            }
        }
        let batch: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let mut opened = BTreeMap::new();
        open_all(&faulty, &threads(2), &key, &batch, &mut |number, chunks| {
            assert!(opened.insert(number, chunks).is_none(), "once");
        })
        .expect("threads work");
        prop_assert_eq!(opened.len(), raw.len());
        for (number, chunks) in opened {
            prop_assert_eq!(chunks.is_err(), damaged.contains(&number));
            let Ok(chunks) = chunks else { continue };
            let digests: Vec<ChunkDigest> =
                raw[number].chunks().map(|chunk| key.digest(chunk)).collect();
            prop_assert_eq!(chunks.digests, digests);
            prop_assert_eq!(chunks.lengths, raw[number].lengths());
        }
    }
}

#[test]
fn an_empty_batch_is_nothing_to_do() {
    let mut done = 0;
    threads(4).compress(&[], &mut |_, _| done += 1).expect("nothing");
    threads(4)
        .open(&DomainKey::new(KEY), &[], &mut |_, _| done += 1)
        .expect("nothing");
    assert_eq!(done, 0);
}
