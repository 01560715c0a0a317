//! Figures from the samples: spreads of each phase, rates, and the JSON document.

use serde_json::{Value, json};

use super::rounds::{Results, Round};
use crate::site::{self, Sample};
use crate::spread::{Spread, float};

/// A measured phase of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    BareWalk,
    FirstBackup,
    Incremental,
    Restore,
}

impl Phase {
    pub(crate) const ALL: [Self; 4] =
        [Self::BareWalk, Self::FirstBackup, Self::Incremental, Self::Restore];

    fn key(self) -> &'static str {
        match self {
            Self::BareWalk => "bare_walk",
            Self::FirstBackup => "first_backup",
            Self::Incremental => "incremental",
            Self::Restore => "restore",
        }
    }

    fn of(self, round: &Round) -> &[Sample] {
        match self {
            Self::BareWalk => &round.walks,
            Self::FirstBackup => std::slice::from_ref(&round.first),
            Self::Incremental => &round.incrementals,
            Self::Restore => std::slice::from_ref(&round.restore),
        }
    }

    pub(crate) fn samples(self, results: &Results) -> Vec<&Sample> {
        results.rounds.iter().flat_map(|round| self.of(round)).collect()
    }

    /// Returns the spread of one figure over all samples of the phase.
    pub(crate) fn spread(self, results: &Results, figure: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples(results).into_iter().map(figure))
    }

    /// Returns the number of cores that other programs kept busy during the phase.
    pub(crate) fn other_cores(self, results: &Results) -> f64 {
        site::other_cores(&self.samples(results))
    }
}

/// Returns the number of cores that other programs kept busy during all phases together. A phase of
/// a few milliseconds is too short, because the kernel counts processor time in ticks.
pub(crate) fn other_cores(results: &Results) -> f64 {
    let samples = Phase::ALL.into_iter().flat_map(|phase| phase.samples(results));
    site::other_cores(&samples.collect::<Vec<_>>())
}

/// Returns the ratio of the time of each incremental to the time of the bare walk right before it.
pub(crate) fn ratio(results: &Results) -> Spread {
    let pairs = results
        .rounds
        .iter()
        .flat_map(|round| round.walks.iter().zip(&round.incrementals));
    Spread::of(pairs.map(|(walk, backup)| backup.wall.as_secs_f64() / walk.wall.as_secs_f64()))
}

pub(crate) fn secs(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64()
}

pub(crate) fn rate(count: u64) -> impl Fn(&Sample) -> f64 {
    move |sample| float(count) / secs(sample).max(f64::MIN_POSITIVE)
}

/// Returns the JSON document with each sample and the figures from them. Rates are per second.
pub(crate) fn document(results: &Results) -> Value {
    let tally = &results.tally;
    let phases: serde_json::Map<String, Value> = Phase::ALL
        .iter()
        .map(|phase| (phase.key().to_owned(), phase_document(*phase, results)))
        .collect();
    json!({
        "tree": {
            "path": results.tree.to_string_lossy(),
            "objects": tally.objects,
            "files": tally.files,
            "bytes": tally.bytes,
            "unreadable": tally.unreadable,
        },
        "machine": results.machine.document(&results.load_before, &results.load_after),
        "program": results.program.to_string_lossy(),
        "incremental_per_bare_walk": ratio(results).json(),
        "phases": phases,
        "rounds": results.rounds.iter().map(|round| round_document(round, tally.objects))
            .collect::<Vec<_>>(),
    })
}

fn phase_document(phase: Phase, results: &Results) -> Value {
    let tally = &results.tally;
    let spread = |figure: &dyn Fn(&Sample) -> f64| phase.spread(results, figure).json();
    json!({
        "wall_secs": spread(&secs),
        "objects_per_sec": spread(&rate(tally.objects)),
        "files_per_sec": spread(&rate(tally.files)),
        "bytes_per_sec": spread(&rate(tally.bytes)),
        "client_cpu_secs": spread(&|sample| sample.client_cpu.as_secs_f64()),
        "server_cpu_secs": spread(&|sample| sample.server_cpu.as_secs_f64()),
        "client_memory_bytes": spread(&|sample| float(sample.client_memory_bytes)),
        "server_memory_bytes": spread(&|sample| float(sample.server_memory_bytes)),
        "bytes_transferred": spread(&|sample| float(sample.bytes_transferred)),
        "other_cores": phase.other_cores(results),
    })
}

fn round_document(round: &Round, objects: u64) -> Value {
    let stored = &round.stored;
    let samples: serde_json::Map<String, Value> = Phase::ALL
        .iter()
        .map(|phase| {
            let samples = phase.of(round).iter().map(Sample::json).collect();
            (phase.key().to_owned(), Value::Array(samples))
        })
        .collect();
    json!({
        "stored": {
            "pool_bytes": stored.pool_bytes,
            "catalog_bytes": stored.catalog_bytes,
            "catalog_bytes_per_object": float(stored.catalog_bytes) / float(objects.max(1)),
            "index_bytes": stored.index_bytes,
            "home_bytes": stored.home_bytes,
        },
        "samples": samples,
    })
}
