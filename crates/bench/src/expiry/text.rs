//! The page `expiry.md` and the JSON document.

use serde_json::{Value, json};

use super::space::Reclamation;
use super::trial::{CatalogCopy, Results, Run};
use crate::output;
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

/// Returns the ratio of the time of `beside`, backups during other work, to the time of backups
/// alone.
fn slowdown(results: &Results, beside: &[Sample]) -> f64 {
    secs(beside).median / secs(&results.backups_alone).median
}

pub(super) fn page(results: &Results) -> String {
    [head(results), runs(results), reclamations(results), backups(results), copies(results)]
        .concat()
}

fn head(results: &Results) -> String {
    format!(
        "{}\nA catalogue with {} inactive versions ({:.0} MB), half of them due. The peak memory \
         of the server was {:.0} MiB until reclamation began, and {:.0} MiB in the whole run. \
         Backups of `{}` ({}, {:.1} MB) read everything again. Load: {} before, {} after.\n\n",
        page::head("Expiration and reclamation"),
        results.versions,
        float(results.catalog_bytes) / MB,
        float(results.expiry_memory_bytes) / MIB,
        float(results.server_memory_bytes) / MIB,
        page::shown(&results.tree.to_string_lossy()),
        output::counted(results.tally.objects, "object"),
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
        row("counting only, all versions", &results.counted),
        row("expiring the versions that are due", &results.alone),
        row("the same during backups", &results.beside),
    ];
    let head =
        ["run", "s", "examined", "examined/s", "expired", "expired/s", "MB/s of expired files"];
    page::table(&head, &rows)
}

fn reclamations(results: &Results) -> String {
    let row = |label: &str, run: &Reclamation| {
        let secs = run.wall.as_secs_f64().max(f64::MIN_POSITIVE);
        vec![
            label.to_owned(),
            format!("{secs:.2}"),
            run.examined.to_string(),
            format!("{:.0}", float(run.examined) / secs),
            format!("{:.0}", float(run.pack_bytes) / MB),
            format!("{:.0}", float(run.bytes_removed) / MB),
            format!("{:.0}", float(run.bytes_rewritten) / MB),
            format!("{:.0}", float(run.bytes_removed) / MB / secs),
        ]
    };
    let rows = [
        row("reclaiming", &results.reclaimed),
        row("the same during backups", &results.reclaimed_beside),
    ];
    let head = [
        "run",
        "s",
        "pages and versions read",
        "read/s",
        "packs, MB",
        "removed, MB",
        "written again, MB",
        "removed, MB/s",
    ];
    let table = page::table(&head, &rows);
    format!(
        "\n1 GiB of random files is stored. Before each reclamation half of the data dies, in \
         parts of every pack. A reclamation reads the whole catalogue at least twice.\n\n{table}"
    )
}

fn backups(results: &Results) -> String {
    let row = |label: &str, samples: &[Sample]| {
        vec![
            label.to_owned(),
            samples.len().to_string(),
            page::cell(secs(samples), 2),
            format!("{:.2}", slowdown(results, samples)),
        ]
    };
    let rows = [
        row("alone", &results.backups_alone),
        row("during an expiration", &results.backups_beside),
        row("during a reclamation", &results.backups_beside_reclaim),
    ];
    format!("\n{}", page::table(&["backup", "count", "s", "ratio to alone"], &rows))
}

fn copies(results: &Results) -> String {
    let row = |label: &str, copied: &CatalogCopy| {
        let secs = copied.wall.as_secs_f64().max(f64::MIN_POSITIVE);
        vec![
            label.to_owned(),
            format!("{secs:.2}"),
            format!("{:.0}", float(copied.bytes) / MB),
            format!("{:.1}", float(copied.bytes_new) / MB),
            format!("{:.0}", float(copied.bytes) / MB / secs),
        ]
    };
    let [first, nothing, all] = &results.copies;
    let rows = [
        row("first", first),
        row("after an incremental without changes", nothing),
        row("after a full backup", all),
    ];
    let head = ["copy", "s", "catalogue, MB", "new, MB", "MB/s"];
    let table = page::table(&head, &rows);
    format!(
        "\n## Copies of the catalogue\n\nWhen the catalogue is copied, each file of the tree has \
         about sixty versions. One more version of each file changes most blocks of the \
         catalogue.\n\n{table}"
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
    let reclaimed = |run: &Reclamation| {
        json!({
            "wall_secs": run.wall.as_secs_f64(),
            "examined": run.examined,
            "pack_bytes": run.pack_bytes,
            "bytes_removed": run.bytes_removed,
            "bytes_rewritten": run.bytes_rewritten,
        })
    };
    let copied = |copied: &CatalogCopy| {
        json!({
            "wall_secs": copied.wall.as_secs_f64(),
            "bytes": copied.bytes,
            "bytes_new": copied.bytes_new,
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
        "reclaimed": reclaimed(&results.reclaimed),
        "reclaimed_beside": reclaimed(&results.reclaimed_beside),
        "backups_beside_reclaim": samples(&results.backups_beside_reclaim),
        "expiry_memory_bytes": results.expiry_memory_bytes,
        "copies": results.copies.each_ref().map(copied),
        "slowdown": slowdown(results, &results.backups_beside),
        "slowdown_reclaim": slowdown(results, &results.backups_beside_reclaim),
        "load_before": results.load_before,
        "load_after": results.load_after,
    })
}
