//! Taking in a quantum: checked, deduplicated against the domain, appended.

use chunk::{Compression, Compressor, Decompressor, RawQuantum, recode};
use model::{ChunkDigest, Place};
use pool::Filler;
use tonic::Status;
use wire::proto;

use crate::core::{Core, DOMAIN};
use crate::refusal;

/// A quantum of which so many per cent are known already is made again without them; below, keeping
/// it whole is cheaper than compressing again.
const RECODE_PERCENT: usize = 25;

/// A quantum of a session that has been taken in: where its chunks are and how long.
pub(crate) struct Stored {
    pub(crate) places: Vec<Place>,
    pub(crate) lengths: Vec<u32>,
    pub(crate) digests: Vec<ChunkDigest>,
}

/// What it takes to open a quantum. Made anew it would cost the kernel as much time as opening
/// one; kept by each thread, threads that store rarely would keep a quantum's room each.
pub(crate) struct Opener {
    decompressor: Decompressor,
    raw: RawQuantum,
    /// For quanta that are made again; few servers meet one.
    compressor: Option<Compressor>,
}

impl Opener {
    fn new() -> std::io::Result<Self> {
        let decompressor = Decompressor::new()?;
        Ok(Self { decompressor, raw: RawQuantum::default(), compressor: None })
    }
}

/// Decompresses `record`, names its chunks by their digests, and appends those that the domain does
/// not have.
pub(crate) fn store(
    core: &Core,
    filler: Filler,
    quantum: &proto::Quantum,
) -> Result<Stored, Status> {
    let mut opener = match core.take_opener() {
        Some(opener) => opener,
        None => Opener::new().map_err(|_| no_context())?,
    };
    let opened = opener.decompressor.decode_into(&quantum.record, &mut opener.raw);
    let stored = opened
        .map_err(|damage| refusal::malformed(&damage.to_string()))
        .and_then(|()| store_opened((core, filler), quantum, &mut opener));
    core.keep_opener(opener);
    stored
}

fn no_context() -> Status {
    Status::internal("no zstd context")
}

fn store_opened(
    (core, filler): (&Core, Filler),
    quantum: &proto::Quantum,
    opener: &mut Opener,
) -> Result<Stored, Status> {
    let Opener { raw, compressor, .. } = opener;
    let digests: Vec<ChunkDigest> =
        raw.chunks().map(|chunk| core.pools.digest_of(DOMAIN, chunk)).collect();
    let is_right = match quantum.raw_check {
        Some(check) if quantum.check.is_empty() => wire::raw_check(raw.data()) == check,
        _ => wire::quantum_check(&digests) == quantum.check[..],
    };
    if !is_right {
        // The client read, digested and compressed something else than what arrived.
        return Err(Status::data_loss("a quantum was damaged on its way; try again"));
    }
    let known = core.lookup(&digests);
    let places = append((core, filler), &quantum.record, raw, &digests, known, compressor)?;
    Ok(Stored { places, lengths: raw.lengths().to_vec(), digests })
}

fn append(
    (core, filler): (&Core, Filler),
    record: &[u8],
    raw: &RawQuantum,
    digests: &[ChunkDigest],
    known: Vec<Option<Place>>,
    compressor: &mut Option<Compressor>,
) -> Result<Vec<Place>, Status> {
    let lengths = raw.lengths();
    let known_bytes: usize = lengths
        .iter()
        .zip(&known)
        .filter(|(_, place)| place.is_some())
        .map(|(&length, _)| length as usize)
        .sum();
    if known.iter().all(Option::is_some) {
        return Ok(known.into_iter().flatten().collect());
    }
    if known_bytes * 100 < raw.data().len() * RECODE_PERCENT {
        return append_whole((core, filler), record, lengths, digests);
    }
    let keep: Vec<bool> = known.iter().map(Option::is_none).collect();
    let kept = recode(raw, &keep);
    let kept_digests: Vec<ChunkDigest> = digests
        .iter()
        .zip(&keep)
        .filter(|(_, keep)| **keep)
        .map(|(digest, _)| *digest)
        .collect();
    let record = compress(&kept, compressor)?;
    let mut added =
        append_whole((core, filler), &record, kept.lengths(), &kept_digests)?.into_iter();
    let place = |known: Option<Place>| known.or_else(|| added.next());
    Ok(known.into_iter().filter_map(place).collect())
}

fn append_whole(
    (core, filler): (&Core, Filler),
    record: &[u8],
    lengths: &[u32],
    digests: &[ChunkDigest],
) -> Result<Vec<Place>, Status> {
    let first = core
        .pools
        .append(filler, record, lengths, digests)
        .map_err(|error| refusal::append(&error))?;
    let place = |(offset, _)| Place::new(first.pack(), first.index() + offset);
    let places: Vec<Place> = (0_u32..).zip(digests).map(place).collect();
    let entries: Vec<_> = digests.iter().copied().zip(places.iter().copied()).collect();
    core.note(&entries);
    Ok(places)
}

fn compress(quantum: &RawQuantum, slot: &mut Option<Compressor>) -> Result<Vec<u8>, Status> {
    if slot.is_none() {
        *slot = Some(Compressor::new(Compression::Standard).map_err(|_| no_context())?);
    }
    Ok(slot.as_mut().expect("made just above").encode(quantum))
}
