//! The result of a measurement, as it is kept and compared.

use model::ServerTime;
use serde::{Deserialize, Serialize};

use crate::creation::Creation;
use crate::disk::DiskRates;
use crate::host::{Host, Strain};
use crate::plan::Depth;
use crate::prediction::Prediction;
use crate::processor::{ProcessorRates, Rate};
use crate::sample::Sample;
use crate::tree::Survey;
use crate::walks::Walk;
use client::{Direction, NetworkMeasurement, Transport};

/// Version of the document. It grows when a field changes its meaning.
pub const DOCUMENT_VERSION: u32 = 1;

/// A measurement of a host and of the places on it, with its predictions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub document_version: u32,
    pub program_version: String,
    /// Time of the beginning, in microseconds since 1970 by this host's clock.
    pub made_micros: i64,
    pub elapsed_secs: f64,
    pub depth: Depth,
    pub cold: bool,
    pub host: Host,
    pub strain: Strain,
    pub processor: ProcessorRates,
    /// Copying of memory, in bytes copied per second.
    pub memory: Rate,
    pub network: Network,
    pub places: Vec<Place>,
    /// Sentences about what makes figures doubtful, or is missing.
    pub remarks: Vec<String>,
}

impl Report {
    pub fn made(&self) -> ServerTime {
        ServerTime(self.made_micros)
    }
}

/// The way to the server.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Network {
    /// Address of the server; `None` if the host is no node.
    pub server: Option<String>,
    /// True if the server is on this host, and so shares its processors.
    pub server_is_here: bool,
    pub measured: Option<NetworkMeasurement>,
}

impl Network {
    /// Returns the best rates through TLS, to the server and from it, in bytes per second.
    pub(crate) fn rates(&self) -> Option<(f64, f64)> {
        let measured = self.measured.as_ref()?;
        let best = |direction: Direction| {
            let transfers = measured.transfers.iter();
            let rates = transfers
                .filter(|one| one.transport == Transport::Tls && one.direction == direction)
                .map(|one| crate::to_f64(one.bytes_per_sec()));
            rates.fold(0.0, f64::max)
        };
        let (to, from) = (best(Direction::ToServer), best(Direction::FromServer));
        (to > 0.0 && from > 0.0).then_some((to, from))
    }

    pub(crate) fn round_trip_secs(&self) -> f64 {
        self.measured
            .as_ref()
            .map_or(0.0, |measured| measured.round_trip_median.as_secs_f64())
    }
}

/// A tree that was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Path, with `\x` for bytes that are not printable.
    pub path: String,
    pub file_system: String,
    /// Name of the block device; `None` if the file system has none of its own.
    pub device: Option<String>,
    pub tree: Survey,
    pub walks: Vec<Walk>,
    pub sample: Sample,
    pub disk: Option<DiskRates>,
    pub creation: Option<Creation>,
    pub predictions: Vec<Prediction>,
}
