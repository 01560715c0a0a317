//! The page `fleet.md` and the JSON document.

use serde_json::{Value, json};

use super::muster::{Results, Run, Wave};
use crate::output;
use crate::page;
use crate::spread::{Spread, float};

/// Maximum number of failures that the page lists.
const FAILURES_SHOWN: usize = 20;

const MIB: f64 = 1_048_576.0;

impl Wave {
    fn spread(&self, figure: impl Fn(&Run) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(figure))
    }

    fn client_cpu(&self) -> f64 {
        self.runs.iter().map(|run| run.cpu.as_secs_f64()).sum()
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
    format!(
        "{}\n{failures}. Nodes that started at once: {}; all of them were done after **{} s**. \
         Nodes that were verified, restored and compared at the end: {}, with differences: {}.\n\n\
         Each node has {} files of up to 8 KiB; a few of them change before each round. To enrol \
         all nodes, one after the other, took {:.1} s. Load: {} before, {} after. Median (least .. \
         most).\n\n",
        page::head("A fleet"),
        results.nodes,
        page::cell(walls, 1),
        results.compared,
        results.differences.len(),
        results.files,
        results.enrolment.as_secs_f64(),
        results.load_before,
        results.load_after,
    )
}

fn waves(results: &Results) -> String {
    let rounds = (1..).zip(&results.rounds);
    let rows: Vec<Vec<String>> =
        std::iter::once(row("first backups, a few at a time", &results.first))
            .chain(rounds.map(|(number, wave)| row(&format!("all at once, round {number}"), wave)))
            .collect();
    let head = [
        "",
        "all nodes, s",
        "one node, s",
        "failed",
        "clients' CPU, s",
        "server CPU, s",
        "memory of a client, MiB",
        "server's peak before, MiB",
        "server's peak after, MiB",
        "transferred by a node, KiB",
    ];
    page::table(&head, &rows)
}

fn row(label: &str, wave: &Wave) -> Vec<String> {
    vec![
        label.to_owned(),
        format!("{:.2}", wave.wall.as_secs_f64()),
        page::cell(wave.spread(secs), 2),
        wave.failures.len().to_string(),
        format!("{:.2}", wave.client_cpu()),
        format!("{:.2}", wave.server_cpu.as_secs_f64()),
        page::cell(wave.spread(|run| memory(run) / MIB), 1),
        format!("{:.1}", float(wave.server_memory_before) / MIB),
        format!("{:.1}", float(wave.server_memory_after) / MIB),
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
        "files": results.files,
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
            })
        })
        .collect();
    json!({
        "wall_secs": wave.wall.as_secs_f64(),
        "node_wall_secs": wave.spread(secs).json(),
        "client_memory_bytes": wave.spread(memory).json(),
        "client_cpu_secs": wave.client_cpu(),
        "server_cpu_secs": wave.server_cpu.as_secs_f64(),
        "server_memory_before": wave.server_memory_before,
        "server_memory_after": wave.server_memory_after,
        "failed": wave.failures.len(),
        "runs": runs,
    })
}
