//! The pages `tuning.md` and `tuning-link.md`, and the JSON document.

use serde_json::{Value, json};

use super::contest::{Results, Trial};
use super::settings::SETTINGS;
use crate::output;
use crate::page;
use crate::site::Sample;
use crate::spread::{Spread, float};

const MB: f64 = 1_000_000.0;

pub(super) fn page(results: &Results) -> String {
    let over = results.link.map_or("loopback".to_owned(), |link| {
        let rate = link.bits_per_sec.map_or(String::new(), |bits| {
            format!(" and {} Mbit/s in each direction", float(bits) / MB)
        });
        format!("a link with a round trip of {:?}{rate}", link.round_trip)
    });
    format!(
        "{}\nTree: `{}`, {}, {:.1} MB, over {over}. Rounds: {}, each setting with a new \
         server and node. Load: {} before, {} after. Seconds are medians, with the ratio to the \
         defaults of the same round in brackets. CPU is client and server together. *Read again* \
         is `backup --full`; *nothing* is the fastest of three backups without a change.\n\n{}",
        page::head("Effects of tuning"),
        page::shown(&results.tree.to_string_lossy()),
        output::counted(results.tally.objects, "object"),
        float(results.tally.bytes) / MB,
        results.rounds.len(),
        results.load_before,
        results.load_after,
        table(results),
    )
}

fn table(results: &Results) -> String {
    let head = [
        "setting",
        "first backup, s",
        "CPU, s",
        "sent, MB",
        "stored, MB",
        "client, MB",
        "read again, s",
        "sent, MB",
        "nothing, s",
    ];
    let rows = SETTINGS.iter().enumerate().map(|(at, setting)| {
        let timed = |figure: &dyn Fn(&Trial) -> f64| {
            let value = spread(results, at, figure).median;
            let ratio = Spread::of(results.rounds.iter().map(|r| figure(&r[at]) / figure(&r[0])));
            format!("{value:.2} ({:.2})", ratio.median)
        };
        let plain =
            |figure: &dyn Fn(&Trial) -> f64| format!("{:.1}", spread(results, at, figure).median);
        vec![
            setting.shown(),
            timed(&|trial| secs(&trial.first)),
            timed(&|trial| cpu(&trial.first)),
            plain(&|trial| float(trial.first.bytes_transferred) / MB),
            plain(&|trial| float(trial.stored_bytes) / MB),
            plain(&|trial| float(trial.first.client_memory_bytes) / MB),
            timed(&|trial| secs(&trial.again)),
            plain(&|trial| float(trial.again.bytes_transferred) / MB),
            timed(&|trial| secs(&trial.nothing)),
        ]
    });
    page::table(&head, &rows.collect::<Vec<_>>())
}

fn spread(results: &Results, at: usize, figure: &dyn Fn(&Trial) -> f64) -> Spread {
    Spread::of(results.rounds.iter().map(|round| figure(&round[at])))
}

fn secs(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64()
}

fn cpu(sample: &Sample) -> f64 {
    (sample.client_cpu + sample.server_cpu).as_secs_f64()
}

pub(super) fn document(results: &Results) -> Value {
    let trial = |trial: &Trial| {
        json!({
            "first_backup": trial.first.json(),
            "read_again": trial.again.json(),
            "nothing_changed": trial.nothing.json(),
            "stored_bytes": trial.stored_bytes,
        })
    };
    let setting = |at: usize| {
        let rounds: Vec<Value> = results.rounds.iter().map(|round| trial(&round[at])).collect();
        json!({"setting": SETTINGS[at].shown(), "rounds": rounds})
    };
    json!({
        "tree": {
            "path": results.tree.to_string_lossy(),
            "objects": results.tally.objects,
            "bytes": results.tally.bytes,
        },
        "load_before": results.load_before,
        "load_after": results.load_after,
        "settings": (0..SETTINGS.len()).map(setting).collect::<Vec<_>>(),
    })
}
