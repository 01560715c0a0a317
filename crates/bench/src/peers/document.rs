//! The JSON document with every sample.

use serde_json::{Map, Value, json};

use super::cold::ColdRun;
use super::contest::{Entry, Results};
use super::mutation::Mutation;
use super::turn::{Phase, Turn};
use crate::site::Sample;

pub(crate) fn document(results: &Results) -> Value {
    let tally = &results.tally;
    json!({
        "tree": {
            "path": results.tree.to_string_lossy(),
            "objects": tally.objects,
            "files": tally.files,
            "bytes": tally.bytes,
        },
        "machine": results.machine.document(&results.load_before, &results.load_after),
        "in_memory": results.in_memory,
        "programs": results.entries.iter().map(entry).collect::<Vec<_>>(),
        "missing": results.missing.iter().map(|missing| missing.name).collect::<Vec<_>>(),
        "cold": results.cold.as_ref().map(cold),
        "mutation": results.mutation.as_ref().map(mutation),
    })
}

fn entry(entry: &Entry) -> Value {
    json!({
        "name": entry.entrant.name,
        "version": entry.entrant.version,
        "rounds": entry.turns.iter().map(turn).collect::<Vec<_>>(),
    })
}

fn turn(turn: &Turn) -> Value {
    let phases: Map<String, Value> = Phase::ALL
        .iter()
        .filter_map(|phase| Some((phase.key().to_owned(), all(turn.samples.get(phase)?))))
        .collect();
    json!({
        "samples": phases,
        "bare_walks": all(&turn.walks),
        "pair": turn.pair.as_ref().map(|pair| json!({
            "creation": pair.creation.json(),
            "restore": pair.restore.json(),
        })),
        "stored_bytes": turn.stored_bytes,
        "differences": turn.comparison.as_ref().map(|comparison| comparison.differences),
        "first_differences": turn.comparison.as_ref().map(|comparison| &comparison.first),
        "failure": turn.failure,
    })
}

fn cold(cold: &ColdRun) -> Value {
    json!({
        "bare_walks": all(&cold.walks),
        "backups": all(&cold.backups),
        "per_bare_walk": cold.ratio().json(),
        "peer": cold.peer.as_ref().map(|(name, samples)| json!({
            "name": name,
            "backups": all(samples),
        })),
    })
}

fn mutation(mutation: &Mutation) -> Value {
    let steps = mutation.steps.iter().map(|step| {
        json!({
            "unchanged": step.unchanged.json(),
            "after": step.after.json(),
            "changed_files": step.changes.changed,
            "changed_bytes": step.changes.bytes,
            "deleted_files": step.changes.deleted,
        })
    });
    json!({
        "first": mutation.first.json(),
        "bytes": mutation.bytes,
        "steps": steps.collect::<Vec<_>>(),
        "share_of_limit": mutation.share_of_limit().json(),
    })
}

fn all(samples: &[Sample]) -> Value {
    samples.iter().map(Sample::json).collect()
}
