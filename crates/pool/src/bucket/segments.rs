//! Ranges of packs that are on their way from the store, or were read lately.
//!
//! Each range is asked for once, whoever waits for it. Where somebody reads on from where he was,
//! more is asked for than he wants yet, twice as much each time.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytes::Bytes;
use model::PackNumber;
use object_store::ObjectStoreExt as _;

use super::{Bucket, io_error, runtime};

/// All segments together, those on their way included.
const BYTES_MAX: u64 = 256 << 20;
/// No less is asked for: small answers cost as much as this.
const ASK_MIN: u64 = 64 << 10;
/// No more is asked for at once, unless one reader wants it.
const ASK_MAX: u64 = 8 << 20;
/// Packs of which it is known where their last reader was.
const READERS_MAX: usize = 1024;

enum State {
    Coming,
    Here(Bytes),
    Failed(io::ErrorKind, String),
}

struct Segment {
    range: Range<u64>,
    state: Mutex<State>,
    is_settled: Condvar,
}

impl Segment {
    fn settle(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.is_settled.notify_all();
    }

    /// Waits until it has come; the bytes of `range`, which lies within.
    fn wait(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while matches!(*state, State::Coming) {
            state = self.is_settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &*state {
            State::Coming => unreachable!("waited for above"),
            State::Here(bytes) => {
                let at = |offset: u64| usize::try_from(offset - self.range.start);
                let (from, to) = (at(range.start), at(range.end));
                let (from, to) = (from.map_err(io::Error::other)?, to.map_err(io::Error::other)?);
                // A pack that is shorter than it was.
                let found = bytes.get(from..to).ok_or(io::ErrorKind::UnexpectedEof)?;
                Ok(found.to_vec())
            }
            State::Failed(kind, reason) => Err(io::Error::new(*kind, reason.clone())),
        }
    }

    fn has_failed(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(*state, State::Failed(..))
    }
}

/// Where a pack's last reader was, and how much was asked for on his behalf.
#[derive(Clone, Copy, Default)]
struct Reader {
    end: u64,
    asked: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Segments {
    /// Oldest first.
    all: VecDeque<(PackNumber, Arc<Segment>)>,
    bytes: u64,
    readers: HashMap<PackNumber, Reader>,
}

impl Segments {
    pub(super) fn forget(&mut self, pack: PackNumber) {
        let of_pack = self.all.iter().filter(|(of, _)| *of == pack);
        self.bytes -= of_pack.map(|(_, segment)| length(&segment.range)).sum::<u64>();
        self.all.retain(|(of, _)| *of != pack);
        self.readers.remove(&pack);
    }

    fn holding(&self, pack: PackNumber, range: &Range<u64>) -> Option<Arc<Segment>> {
        let holds = |segment: &Segment| {
            segment.range.start <= range.start
                && range.end <= segment.range.end
                && !segment.has_failed()
        };
        let found = self.all.iter().rev().find(|(of, segment)| *of == pack && holds(segment));
        found.map(|(_, segment)| Arc::clone(segment))
    }

    fn add(&mut self, pack: PackNumber, range: Range<u64>) -> Arc<Segment> {
        self.bytes += length(&range);
        let state = Mutex::new(State::Coming);
        let segment = Arc::new(Segment { range, state, is_settled: Condvar::new() });
        self.all.push_back((pack, Arc::clone(&segment)));
        while self.bytes > BYTES_MAX
            && self.all.len() > 1
            && let Some((_, oldest)) = self.all.pop_front()
        {
            self.bytes -= length(&oldest.range);
        }
        segment
    }

    /// How much to ask for where a reader wants `range`.
    fn ask(&mut self, pack: PackNumber, range: &Range<u64>) -> u64 {
        if self.readers.len() >= READERS_MAX {
            self.readers.clear();
        }
        let reader = self.readers.entry(pack).or_default();
        let reads_on = reader.end == range.start && reader.asked > 0;
        let ask = if reads_on { (reader.asked * 2).min(ASK_MAX) } else { ASK_MIN };
        reader.asked = ask;
        ask.max(length(range))
    }

    fn note(&mut self, pack: PackNumber, end: u64) {
        self.readers.entry(pack).or_default().end = end;
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// Reads `range` of a pack of `pack_bytes`.
pub(super) fn read(
    bucket: &Arc<Bucket>,
    pack: PackNumber,
    range: &Range<u64>,
    pack_bytes: u64,
) -> io::Result<Vec<u8>> {
    let (segment, is_new) = {
        let mut segments = bucket.segments();
        let found = segments.holding(pack, range);
        let is_new = found.is_none();
        let segment = found.unwrap_or_else(|| {
            let ask = segments.ask(pack, range);
            let end = (range.start + ask).min(pack_bytes.max(range.end));
            segments.add(pack, range.start..end)
        });
        segments.note(pack, range.end);
        (segment, is_new)
    };
    if is_new {
        fetch(bucket, pack, &segment)?;
    }
    segment.wait(range)
}

/// Has `range` be on its way.
pub(super) fn begin(bucket: &Arc<Bucket>, pack: PackNumber, range: Range<u64>) -> io::Result<()> {
    let segment = {
        let mut segments = bucket.segments();
        if segments.holding(pack, &range).is_some() {
            return Ok(());
        }
        segments.add(pack, range)
    };
    fetch(bucket, pack, &segment)
}

fn fetch(bucket: &Arc<Bucket>, pack: PackNumber, segment: &Arc<Segment>) -> io::Result<()> {
    let (of, coming) = (Arc::clone(bucket), Arc::clone(segment));
    let task = async move {
        let key = of.pack_key(pack);
        let _permit = of.fetching.acquire().await;
        let state = match of.store.get_range(&key, coming.range.clone()).await {
            Ok(bytes) => State::Here(bytes),
            Err(error) => {
                let error = io_error(error);
                State::Failed(error.kind(), error.to_string())
            }
        };
        coming.settle(state);
    };
    match runtime() {
        Ok(runtime) => drop(runtime.spawn(task)),
        Err(error) => segment.settle(State::Failed(error.kind(), error.to_string())),
    }
    Ok(())
}
