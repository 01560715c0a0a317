//! The page `fleet.md` and the JSON document.

use serde_json::{Value, json};

use super::muster::{Results, Run, Wave};
use crate::output;
use crate::page;
use crate::spread::{Spread, float};

/// Maximum number of failures that the page lists.
const FAILURES_SHOWN: usize = 20;

/// Target: maximum time of a backup, as a multiple of the mean time of those that started with it.
const MEANS_MAX: f64 = 3.0;

const MIB: f64 = 1_048_576.0;

impl Wave {
    fn spread(&self, figure: impl Fn(&Run) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(figure))
    }

    fn client_cpu(&self) -> f64 {
        self.runs.iter().map(|run| run.cpu.as_secs_f64()).sum()
    }

    /// Returns the objects of all nodes for each second.
    fn rate(&self) -> f64 {
        let objects = self.runs.iter().map(|run| run.objects).sum();
        float(objects) / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the time of the longest backup as a multiple of the mean time. Nodes that trickle
    /// are compared with each other.
    fn means(&self) -> f64 {
        let of = |trickles: bool| {
            let walls = self.runs.iter().filter(|run| run.trickles == trickles).map(secs);
            let walls: Vec<f64> = walls.collect();
            let (total, count) = (walls.iter().sum::<f64>(), float(walls.len() as u64));
            Spread::of(walls).most * count / total.max(f64::MIN_POSITIVE)
        };
        of(false).max(of(true))
    }

    /// Returns the bytes by which the peak of the server has grown, for each session.
    fn session_bytes(&self) -> f64 {
        let growth = self.server_memory_after.saturating_sub(self.server_memory_before);
        float(growth) / float(self.at_once.max(1) as u64)
    }
}

fn secs(run: &Run) -> f64 {
    run.wall.as_secs_f64()
}

fn memory(run: &Run) -> f64 {
    float(run.memory_bytes)
}

pub(super) fn page(results: &Results) -> String {
    [head(results), waves(results), failures(results)].concat()
}

fn head(results: &Results) -> String {
    let failures = match results.failures().len() {
        0 => "No backup failed".to_owned(),
        count => format!("**{}**", output::counted(count, "failure")),
    };
    let walls = Spread::of(results.rounds.iter().map(|wave| wave.wall.as_secs_f64()));
    let waves = std::iter::once(&results.first).chain(&results.rounds);
    let means = Spread::of(waves.map(Wave::means)).most;
    let content = if results.shape.is_empty { "without content" } else { "of up to 8 KiB" };
    let trickle = match results.trickle {
        0 => String::new(),
        count => format!(" Of the nodes, {count} send at most 128 KiB a second."),
    };
    let verdict = if means <= MEANS_MAX { "met" } else { "**missed**" };
    format!(
        "{}\n{failures}. Nodes that started at once: {}; all of them were done after **{} s**. \
         No node took more than {means:.2} times the mean of its row; the aim of \
         {MEANS_MAX:.1} is {verdict}. Nodes that were verified, restored and compared at the end: \
         {}, with differences: {}.\n\n\
         Each node has {} files {content}; a few of them change before each round.{trickle} To \
         enrol all nodes, one after the other, took {:.1} s. Load: {} before, {} after. Median \
         (least .. most).\n\n",
        page::head("A fleet"),
        results.nodes,
        page::cell(walls, 1),
        results.compared,
        results.differences.len(),
        results.shape.files,
        results.enrolment.as_secs_f64(),
        results.load_before,
        results.load_after,
    )
}

fn waves(results: &Results) -> String {
    let rounds = (1..).zip(&results.rounds);
    let first = format!("first backups, {} at a time", results.first.at_once);
    let rows: Vec<Vec<String>> = std::iter::once(row(&first, &results.first))
        .chain(rounds.map(|(number, wave)| row(&format!("all at once, round {number}"), wave)))
        .collect();
    let head = [
        "",
        "all nodes, s",
        "objects/s",
        "one node, s",
        "longest / mean",
        "failed",
        "clients' CPU, s",
        "server CPU, s",
        "memory of a client, MiB",
        "server's peak before, MiB",
        "server's peak after, MiB",
        "its growth for a session, MiB",
        "transferred by a node, KiB",
    ];
    page::table(&head, &rows)
}

fn row(label: &str, wave: &Wave) -> Vec<String> {
    vec![
        label.to_owned(),
        format!("{:.2}", wave.wall.as_secs_f64()),
        format!("{:.0}", wave.rate()),
        page::cell(wave.spread(secs), 2),
        format!("{:.2}", wave.means()),
        wave.failures.len().to_string(),
        format!("{:.2}", wave.client_cpu()),
        format!("{:.2}", wave.server_cpu.as_secs_f64()),
        page::cell(wave.spread(|run| memory(run) / MIB), 1),
        format!("{:.1}", float(wave.server_memory_before) / MIB),
        format!("{:.1}", float(wave.server_memory_after) / MIB),
        format!("{:.2}", wave.session_bytes() / MIB),
        page::cell(wave.spread(|run| float(run.bytes_transferred) / 1024.0), 1),
    ]
}

fn failures(results: &Results) -> String {
    let all = results.failures();
    let lines = all.iter().take(FAILURES_SHOWN).map(|failure| format!("- {failure}\n"));
    let listed: String = lines.collect();
    if listed.is_empty() { String::new() } else { format!("\nFailures:\n\n{listed}") }
}

pub(super) fn document(results: &Results) -> Value {
    let rounds: Vec<Value> = results.rounds.iter().map(wave_document).collect();
    json!({
        "nodes": results.nodes,
        "trickle": results.trickle,
        "files": results.shape.files,
        "is_empty": results.shape.is_empty,
        "load_before": results.load_before,
        "load_after": results.load_after,
        "enrolment_secs": results.enrolment.as_secs_f64(),
        "first_backups": wave_document(&results.first),
        "rounds": rounds,
        "compared": results.compared,
        "failures": results.failures(),
    })
}

fn wave_document(wave: &Wave) -> Value {
    let runs: Vec<Value> = wave
        .runs
        .iter()
        .map(|run| {
            json!({
                "wall_secs": secs(run),
                "cpu_secs": run.cpu.as_secs_f64(),
                "memory_bytes": run.memory_bytes,
                "bytes_transferred": run.bytes_transferred,
                "objects": run.objects,
                "trickles": run.trickles,
            })
        })
        .collect();
    json!({
        "at_once": wave.at_once,
        "wall_secs": wave.wall.as_secs_f64(),
        "objects_per_sec": wave.rate(),
        "node_wall_secs": wave.spread(secs).json(),
        "longest_per_mean": wave.means(),
        "client_memory_bytes": wave.spread(memory).json(),
        "client_cpu_secs": wave.client_cpu(),
        "server_cpu_secs": wave.server_cpu.as_secs_f64(),
        "server_memory_before": wave.server_memory_before,
        "server_memory_after": wave.server_memory_after,
        "server_growth_bytes_per_session": wave.session_bytes(),
        "failed": wave.failures.len(),
        "runs": runs,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wave(secs: &[u64]) -> Wave {
        let run =
            |&secs: &u64| Run { wall: Duration::from_secs(secs), objects: 600, ..Run::default() };
        Wave {
            at_once: 4,
            wall: Duration::from_secs(6),
            runs: secs.iter().map(run).collect(),
            failures: Vec::new(),
            server_cpu: Duration::ZERO,
            server_memory_before: 3 << 20,
            server_memory_after: 5 << 20,
        }
    }

    #[test]
    fn a_node_that_waits_is_seen_beside_the_mean() {
        let wave = wave(&[1, 1, 1, 5]);
        assert_eq!(
            format!("{:.2} {:.2} {:.2}", wave.means(), wave.rate(), wave.session_bytes()),
            "2.50 400.00 524288.00"
        );
    }

    #[test]
    fn nodes_that_trickle_are_compared_with_each_other() {
        let mut wave = wave(&[1, 1, 1, 50, 50]);
        wave.runs[3..].iter_mut().for_each(|run| run.trickles = true);
        assert_eq!(format!("{:.2}", wave.means()), "1.00");
        wave.runs[4].wall = Duration::from_secs(150);
        assert_eq!(format!("{:.2}", wave.means()), "1.50");
    }

    #[test]
    fn a_wave_that_failed_has_no_figures() {
        let wave = wave(&[]);
        assert_eq!(format!("{:.1} {:.1}", wave.means(), wave.rate()), "0.0 0.0");
    }
}
