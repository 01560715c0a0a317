//! The page `link.md` and the JSON document.

use serde_json::{Value, json};

use super::contest::{Backup, INCREMENTALS, Leg, Results, Round, Way};
use crate::output;
use crate::page;
use crate::spread::{Spread, float};

/// Minimum ratio of the rate over the link to the rate over loopback.
const RATE_RATIO_TARGET: f64 = 0.8;

const MB: f64 = 1_000_000.0;

/// A phase that is measured over both ways.
#[derive(Clone, Copy)]
enum Phase {
    First,
    Incremental,
}

impl Phase {
    fn of(self, leg: &Leg) -> &[Backup] {
        match self {
            Self::First => std::slice::from_ref(&leg.first),
            Self::Incremental => &leg.incrementals,
        }
    }

    fn backups(self, results: &Results, way: Way) -> impl Iterator<Item = &Backup> {
        results.rounds.iter().flat_map(move |round| self.of(leg(round, way)))
    }

    fn spread(self, results: &Results, way: Way, figure: impl Fn(&Backup) -> f64) -> Spread {
        Spread::of(self.backups(results, way).map(figure))
    }

    /// Returns the ratio of the rate over the link to the rate over loopback, in each round.
    fn rate_ratio(self, results: &Results) -> Spread {
        let pairs = results
            .rounds
            .iter()
            .flat_map(|round| self.of(&round.loopback).iter().zip(self.of(&round.link)));
        Spread::of(pairs.map(|(loopback, link)| secs(loopback) / secs(link)))
    }

    /// Returns the additional time of a backup over the link, in round trips.
    fn round_trips_waited(self, results: &Results) -> f64 {
        let median = |way| self.spread(results, way, secs).median;
        let longer = median(Way::Link) - median(Way::Loopback);
        longer / results.link.round_trip.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

fn leg(round: &Round, way: Way) -> &Leg {
    match way {
        Way::Loopback => &round.loopback,
        Way::Link => &round.link,
    }
}

fn secs(backup: &Backup) -> f64 {
    backup.sample.wall.as_secs_f64()
}

pub(super) fn page(results: &Results) -> String {
    [head(results), times(results), evidence(results), foot(results)].concat()
}

fn head(results: &Results) -> String {
    let ratio = Phase::First.rate_ratio(results);
    let verdict = if ratio.median >= RATE_RATIO_TARGET { "reached" } else { "missed" };
    format!(
        "{}\nA first backup over {} has **{}** of its rate over loopback (target: at least \
         {RATE_RATIO_TARGET}, {verdict}).\n\n\
         Tree: `{}`, {}, {:.1} MB. Rounds: {}, each with a new server and node for each way, and \
         with {INCREMENTALS} incrementals. Load: {} before, {} after. Median (least .. most).\n\n",
        page::head("Over a link"),
        describe(results),
        page::cell(ratio, 2),
        page::shown(&results.tree.to_string_lossy()),
        output::counted(results.tally.objects, "object"),
        float(results.tally.bytes) / MB,
        results.rounds.len(),
        results.load_before,
        results.load_after,
    )
}

fn describe(results: &Results) -> String {
    let mbit = results.link.bits_per_sec.map_or(0.0, |bits| float(bits) / MB);
    format!("a link of {mbit} Mbit/s with a round trip of {:?}", results.link.round_trip)
}

fn times(results: &Results) -> String {
    let bytes = float(results.tally.bytes);
    let objects = float(results.tally.objects);
    let row = |label: &str, phase: Phase, figure: &dyn Fn(&Backup) -> f64, decimals| {
        let [loopback, link] =
            [Way::Loopback, Way::Link].map(|way| phase.spread(results, way, figure));
        let ratio = link.median / loopback.median.max(f64::MIN_POSITIVE);
        vec![
            label.to_owned(),
            page::cell(loopback, decimals),
            page::cell(link, decimals),
            format!("{ratio:.2}"),
        ]
    };
    let rows = [
        row("first backup, s", Phase::First, &secs, 3),
        row("first backup, MB/s", Phase::First, &|one| bytes / MB / secs(one), 1),
        row("first backup, client CPU s", Phase::First, &client_cpu, 2),
        row("incremental, nothing changed, s", Phase::Incremental, &secs, 3),
        row("incremental, objects/s", Phase::Incremental, &|one| objects / secs(one), 0),
        row("incremental, client CPU s", Phase::Incremental, &client_cpu, 3),
    ];
    page::table(&["", "loopback", "link", "link / loopback"], &rows)
}

fn client_cpu(backup: &Backup) -> f64 {
    backup.sample.client_cpu.as_secs_f64()
}

fn evidence(results: &Results) -> String {
    let objects = float(results.tally.objects.max(1));
    let row = |label: &str, figure: &dyn Fn(&Backup) -> f64, decimals| {
        let [first, incremental] = [Phase::First, Phase::Incremental]
            .map(|phase| page::cell(phase.spread(results, Way::Link, figure), decimals));
        vec![label.to_owned(), first, incremental]
    };
    let waited = |phase: Phase| format!("{:.1}", phase.round_trips_waited(results));
    let rows = [
        row("connections", &|one| float(one.traffic.connections), 0),
        row("client to server, MB", &|one| float(one.traffic.up_bytes) / MB, 3),
        row("server to client, MB", &|one| float(one.traffic.down_bytes) / MB, 3),
        row("turns", &|one| float(one.traffic.turns), 0),
        row("turns for each object", &|one| float(one.traffic.turns) / objects, 4),
        vec![
            "additional time compared with loopback, in round trips".to_owned(),
            waited(Phase::First),
            waited(Phase::Incremental),
        ],
    ];
    let table = page::table(&["over the link", "first backup", "incremental"], &rows);
    format!(
        "\nThe relay counts a turn when bytes come from the other side than the bytes before. A \
         side has waited for at most as many answers. Most turns are no waits, because flow \
         control and receipts travel beside the data.\n\n{table}"
    )
}

fn foot(results: &Results) -> String {
    let all = [Phase::First, Phase::Incremental].into_iter().flat_map(|phase| {
        [Way::Loopback, Way::Link]
            .into_iter()
            .flat_map(move |way| phase.backups(results, way))
    });
    let failed: u64 = all.map(|backup| backup.sample.failed).sum();
    match failed {
        0 => String::new(),
        count => {
            let failed = output::counted(count, "object");
            format!("\nFailed: {failed} in all backups together.\n")
        }
    }
}

pub(super) fn document(results: &Results) -> Value {
    let phase = |phase: Phase| {
        let way = |way: Way| {
            let backups: Vec<Value> = phase.backups(results, way).map(backup_document).collect();
            json!({
                "wall_secs": phase.spread(results, way, secs).json(),
                "backups": backups,
            })
        };
        json!({
            "loopback": way(Way::Loopback),
            "link": way(Way::Link),
            "rate_ratio": phase.rate_ratio(results).json(),
            "round_trips_waited": phase.round_trips_waited(results),
        })
    };
    json!({
        "tree": {
            "path": results.tree.to_string_lossy(),
            "objects": results.tally.objects,
            "bytes": results.tally.bytes,
        },
        "link": {
            "round_trip_secs": results.link.round_trip.as_secs_f64(),
            "bits_per_sec": results.link.bits_per_sec,
        },
        "load_before": results.load_before,
        "load_after": results.load_after,
        "rate_ratio_target": RATE_RATIO_TARGET,
        "first_backup": phase(Phase::First),
        "incremental": phase(Phase::Incremental),
    })
}

fn backup_document(backup: &Backup) -> Value {
    let (sample, traffic) = (&backup.sample, backup.traffic);
    json!({
        "wall_secs": secs(backup),
        "client_cpu_secs": client_cpu(backup),
        "server_cpu_secs": sample.server_cpu.as_secs_f64(),
        "bytes_transferred": sample.bytes_transferred,
        "failed": sample.failed,
        "connections": traffic.connections,
        "up_bytes": traffic.up_bytes,
        "down_bytes": traffic.down_bytes,
        "turns": traffic.turns,
    })
}
