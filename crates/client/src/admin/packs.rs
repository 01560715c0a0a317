//! Work on the packs of pools and volumes: its progress and its failures.

use wire::proto;

use super::optional;
use super::recompression::RecompressionEffect;

/// Progress of work on packs, or its result.
#[derive(Clone, Debug, Default)]
pub struct PackWork {
    pub packs: u64,
    pub bytes: u64,
    pub packs_done: u64,
    pub bytes_done: u64,
    pub failures: Vec<PackFailure>,
    /// Effect of the recompression, if the request asks for one.
    pub recompression: Option<RecompressionEffect>,
    /// Number of packs that a drain with recompression moves as they are.
    pub packs_unchanged: u64,
}

/// A pack or a volume with which the work failed.
#[derive(Clone, Debug)]
pub struct PackFailure {
    pub subject: FailureSubject,
    pub reason: String,
}

/// The pack or the volume with which work failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailureSubject {
    Volume(String),
    Pack {
        number: u64,
        /// Volume that the pack lies on, if it is known and matters.
        volume: Option<String>,
    },
}

impl From<proto::PackFailure> for PackFailure {
    fn from(message: proto::PackFailure) -> Self {
        let subject = match message.pack {
            0 => FailureSubject::Volume(message.volume),
            number => FailureSubject::Pack { number, volume: optional::text(message.volume) },
        };
        Self { subject, reason: message.reason }
    }
}

impl From<proto::TendPoolReply> for PackWork {
    fn from(message: proto::TendPoolReply) -> Self {
        Self {
            packs: message.packs,
            bytes: message.bytes,
            packs_done: message.packs_done,
            bytes_done: message.bytes_done,
            failures: message.failures.into_iter().map(PackFailure::from).collect(),
            recompression: message.recompression.map(RecompressionEffect::from),
            packs_unchanged: message.packs_unchanged,
        }
    }
}
