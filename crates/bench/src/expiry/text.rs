//! The page `expiry.md` and the JSON document.

use serde_json::{Value, json};

use super::trial::{Results, Run};
use crate::page;
use crate::site::Sample;
use crate::spread::{Spread, float};

const MB: f64 = 1_000_000.0;
const MIB: f64 = 1_048_576.0;

fn rate(count: u64, run: &Run) -> f64 {
    float(count) / run.wall.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn secs(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.wall.as_secs_f64()))
}

/// How much longer a backup takes beside an expiration.
fn slowdown(results: &Results) -> f64 {
    secs(&results.backups_beside).median / secs(&results.backups_alone).median
}

pub(super) fn page(results: &Results) -> String {
    [head(results), runs(results), backups(results)].concat()
}

fn head(results: &Results) -> String {
    format!(
        "{}\nA catalogue with {} inactive versions ({:.0} MB), half of them due. The server needed \
         {:.0} MiB of memory at most. Backups of `{}` ({} objects, {:.1} MB) read everything \
         again. Load: {} before, {} after.\n\n",
        page::head("Expiration"),
        results.versions,
        float(results.catalog_bytes) / MB,
        float(results.server_memory_bytes) / MIB,
        page::shown(&results.tree.to_string_lossy()),
        results.tally.objects,
        float(results.tally.bytes) / MB,
        results.load_before,
        results.load_after,
    )
}

fn runs(results: &Results) -> String {
    let row = |label: &str, run: &Run| {
        vec![
            label.to_owned(),
            format!("{:.2}", run.wall.as_secs_f64()),
            run.examined.to_string(),
            format!("{:.0}", rate(run.examined, run)),
            run.expired.to_string(),
            format!("{:.0}", rate(run.expired, run)),
            format!("{:.0}", rate(run.expired_bytes, run) / MB),
        ]
    };
    let rows = [
        row("counting only, every version", &results.counted),
        row("expiring what is due", &results.alone),
        row("the same beside backups", &results.beside),
    ];
    let head =
        ["run", "s", "looked at", "looked at/s", "expired", "expired/s", "MB/s of their files"];
    page::table(&head, &rows)
}

fn backups(results: &Results) -> String {
    let row = |label: &str, samples: &[Sample]| {
        vec![label.to_owned(), samples.len().to_string(), page::cell(secs(samples), 2)]
    };
    let rows = [
        row("alone", &results.backups_alone),
        row("beside an expiration", &results.backups_beside),
    ];
    let table = page::table(&["backup", "count", "s"], &rows);
    format!(
        "\n{table}\nA backup beside an expiration takes {:.2} times as long.\n",
        slowdown(results)
    )
}

pub(super) fn document(results: &Results) -> Value {
    let run = |run: &Run| {
        json!({
            "wall_secs": run.wall.as_secs_f64(),
            "examined": run.examined,
            "expired": run.expired,
            "expired_bytes": run.expired_bytes,
        })
    };
    let samples = |samples: &[Sample]| samples.iter().map(Sample::json).collect::<Vec<_>>();
    json!({
        "versions": results.versions,
        "catalog_bytes": results.catalog_bytes,
        "server_memory_bytes": results.server_memory_bytes,
        "counted": run(&results.counted),
        "alone": run(&results.alone),
        "beside": run(&results.beside),
        "backups_alone": samples(&results.backups_alone),
        "backups_beside": samples(&results.backups_beside),
        "slowdown": slowdown(results),
        "load_before": results.load_before,
        "load_after": results.load_after,
    })
}
