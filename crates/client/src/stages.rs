//! Stages of a backup: how long each stage worked, and how long the backup waited for it.
//!
//! ```text
//! authenticate -> read (threads) -> compress (threads) -> outbox (one thread): send, commit
//! ```
//!
//! The *busy* time of a stage is the sum over its threads:
//!
//! - authenticate: connecting, the TLS handshake and the greeting, until the server has accepted
//!   the node.
//! - read: opening and reading the data of files, streams and disks.
//! - compress: making the records of quanta.
//! - send: waiting until the network, or the server behind it, takes a message.
//! - commit: waiting for the server's answers to transactions, and for the end of the session. The
//!   last wait contains the way of the data that lies in buffers of the network.
//!
//! The outbox is the last stage and one thread, so its waits show the stage that limits the backup.
//! While it waits for a message, the next quantum is compressed, or it is not full yet. So this
//! wait is a wait for compress from the moment at which the quantum that came was full, and a wait
//! for read before that moment. A wait for read contains everything that comes before compression:
//! the walk, the comparison with the pages that the server sends, cutting and digests, and the
//! pauses of a limited rate.
//!
//! No two waits of the outbox overlap. Their sum is at most the elapsed time of the backup. The
//! connection is made before that time begins.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Time of one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StageTime {
    /// Time of work, summed over all threads of the stage.
    #[serde(rename = "busy_secs", with = "secs")]
    pub busy: Duration,
    /// Time for which the backup waited because of this stage.
    #[serde(rename = "waited_for_secs", with = "secs")]
    pub waited_for: Duration,
}

impl StageTime {
    /// Makes the time of a stage of which the backup waits for all the work.
    pub(crate) fn alone(time: Duration) -> Self {
        Self { busy: time, waited_for: time }
    }
}

impl AddAssign for StageTime {
    fn add_assign(&mut self, other: Self) {
        self.busy += other.busy;
        self.waited_for += other.waited_for;
    }
}

/// Times of all stages of a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stages {
    pub authenticate: StageTime,
    pub read: StageTime,
    pub compress: StageTime,
    pub send: StageTime,
    pub commit: StageTime,
}

impl Stages {
    /// Returns the stages with their names, in the order in which data passes them.
    pub fn named(&self) -> [(&'static str, StageTime); 5] {
        [
            ("authenticate", self.authenticate),
            ("read", self.read),
            ("compress", self.compress),
            ("send", self.send),
            ("commit", self.commit),
        ]
    }
}

impl Stages {
    /// Returns the times without those of `before`: an earlier state of the same times.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = |stage: StageTime, before: StageTime| StageTime {
            busy: stage.busy.saturating_sub(before.busy),
            waited_for: stage.waited_for.saturating_sub(before.waited_for),
        };
        Self {
            authenticate: since(self.authenticate, before.authenticate),
            read: since(self.read, before.read),
            compress: since(self.compress, before.compress),
            send: since(self.send, before.send),
            commit: since(self.commit, before.commit),
        }
    }
}

impl AddAssign for Stages {
    fn add_assign(&mut self, other: Self) {
        self.authenticate += other.authenticate;
        self.read += other.read;
        self.compress += other.compress;
        self.send += other.send;
        self.commit += other.commit;
    }
}

/// Part of the machine that compresses quanta.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompressorKind {
    /// Threads on the processors.
    Threads,
    /// The GPU, with the time of its batches shared by their quanta.
    Gpu,
}

impl CompressorKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Gpu => "gpu",
        }
    }
}

/// Work of one compressor. Quanta that are stored as they are do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompressorWork {
    pub name: CompressorKind,
    pub quanta: u64,
    /// Bytes of the chunks.
    pub bytes_before: u64,
    /// Bytes of the records, as they are sent and stored.
    pub bytes_after: u64,
    /// Time of work, summed over threads.
    #[serde(rename = "secs", with = "secs")]
    pub time: Duration,
}

/// Adds the work of `more` to the compressors in `all`.
pub(crate) fn join(all: &mut Vec<CompressorWork>, more: &[CompressorWork]) {
    for work in more {
        match all.iter_mut().find(|known| known.name == work.name) {
            None => all.push(*work),
            Some(known) => {
                known.quanta += work.quanta;
                known.bytes_before += work.bytes_before;
                known.bytes_after += work.bytes_after;
                known.time += work.time;
            }
        }
    }
}

/// Making of the record of one quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PressWork {
    /// Compressor; `None` if the quantum is stored as it is.
    pub(crate) compressor: Option<CompressorKind>,
    /// Time at which the quantum was full.
    pub(crate) full_at: Instant,
    /// Bytes of the chunks.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

impl PressWork {
    /// Adds a record of `handed` bytes to the list of compressors.
    pub(crate) fn count(&self, handed: u64, compressors: &mut Vec<CompressorWork>) {
        let Some(name) = self.compressor else { return };
        let known = compressors.iter().position(|work| work.name == name);
        let index = known.unwrap_or_else(|| {
            let (quanta, bytes_before, bytes_after) = (0, 0, 0);
            let time = Duration::ZERO;
            compressors.push(CompressorWork { name, quanta, bytes_before, bytes_after, time });
            compressors.len() - 1
        });
        let work = &mut compressors[index];
        work.quanta += 1;
        work.bytes_before += self.bytes;
        work.bytes_after += handed;
        work.time += self.time;
    }
}

/// Wait of the outbox for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleTime {
    pub(crate) read: Duration,
    pub(crate) compress: Duration,
}

impl IdleTime {
    /// Divides a wait of `idle` for a quantum that has been full for `full`; `None` for a message
    /// without a quantum, which no compressor has delayed.
    pub(crate) fn divide(idle: Duration, full: Option<Duration>) -> Self {
        let compress = full.unwrap_or_default().min(idle);
        Self { read: idle - compress, compress }
    }
}

/// Runs `work` and adds its time to `spent`.
pub(crate) fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let began = sys::clock::monotonic();
    let outcome = work();
    *spent += began.elapsed();
    outcome
}

/// Durations in documents: seconds, as a number with a fraction.
pub(crate) mod secs {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_is_divided_when_the_quantum_was_full() {
        let check = |idle: u32, full: Option<u32>, [read, compress]: [u32; 2]| {
            let of = |secs: u32| SECOND * secs;
            let divided = IdleTime::divide(of(idle), full.map(of));
            assert_eq!(divided, IdleTime { read: of(read), compress: of(compress) });
        };
        check(5, None, [5, 0]);
        check(5, Some(2), [3, 2]);
        // The quantum was full before the outbox began to wait.
        check(5, Some(9), [0, 5]);
        check(0, Some(9), [0, 0]);
    }

    #[test]
    fn each_compressor_has_one_entry() {
        let mut all = Vec::new();
        let full_at = sys::clock::monotonic();
        let threads = Some(CompressorKind::Threads);
        for (compressor, bytes) in [(threads, 100), (None, 7), (threads, 20)] {
            PressWork { compressor, full_at, bytes, time: SECOND }.count(bytes / 2, &mut all);
        }
        let name = CompressorKind::Threads;
        let time = 2 * SECOND;
        let (bytes_before, bytes_after) = (120, 60);
        assert_eq!(all, [CompressorWork { name, quanta: 2, bytes_before, bytes_after, time }]);
        assert_eq!(serde_json::to_value(name).expect("a word"), name.name());
    }

    #[test]
    fn documents_have_the_names_of_the_stages_and_no_negative_times() {
        let read = StageTime { busy: 3 * SECOND, waited_for: SECOND / 2 };
        let stages = Stages { read, ..Stages::default() };
        let document = serde_json::to_value(stages).expect("numbers");
        assert_eq!(document.as_object().expect("an object").len(), stages.named().len());
        for (name, time) in stages.named() {
            assert_eq!(document[name], serde_json::to_value(time).expect("numbers"));
        }
        assert_eq!(document["read"]["busy_secs"], 3.0);
        assert_eq!(document["read"]["waited_for_secs"], 0.5);
        assert_eq!(serde_json::from_value::<Stages>(document.clone()).expect("valid"), stages);
        let text = document.to_string().replace("0.5", "-0.5");
        assert!(serde_json::from_str::<Stages>(&text).is_err());
    }
}
