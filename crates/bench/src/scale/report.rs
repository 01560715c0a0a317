//! The results, as a page in Markdown and as a JSON document.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::measure::{Backup, Results, Supplement};
use crate::output;
use crate::page;
use crate::spread::float;

const MIB: f64 = 1_048_576.0;

/// Target: maximum memory of the client in a first backup of 28 million objects, in bytes.
const CLIENT_MEMORY_FIRST_MAX: f64 = 250e6;
/// Target: maximum memory of the client in an incremental of 28 million objects, in bytes.
const CLIENT_MEMORY_MAX: f64 = 200e6;
/// Target: maximum memory of the server at 28 million objects, in bytes.
const SERVER_MEMORY_MAX: f64 = 1e9;
/// Target: maximum traffic of an incremental without changes, in bytes for each object.
const BYTES_PER_OBJECT_MAX: f64 = 3.0;
/// Target: maximum time of an incremental without changes, as a multiple of the time of the bare
/// walk.
const WALKS_MAX: f64 = 0.5;

impl Supplement {
    pub(super) fn file_name(&self) -> &'static str {
        match self {
            Self::Walks { .. } => "scale.md",
            Self::Changes(_) => "scale-one-directory.md",
        }
    }
}

/// A figure of a backup, and its target.
struct Figure {
    label: &'static str,
    key: &'static str,
    value: f64,
    target: f64,
    /// Number by which value and target are divided in the page.
    unit: f64,
    unit_name: &'static str,
}

pub(super) fn text(results: &Results) -> String {
    let rest = match &results.supplement {
        Supplement::Walks { before, after } => {
            [walks(results, *before, *after), targets(results)].concat()
        }
        Supplement::Changes(changes) => changes_text(results, changes),
    };
    [head(results), backups(results), rest].concat()
}

fn head(results: &Results) -> String {
    let Results { tally, machine, .. } = results;
    let title = match results.supplement {
        Supplement::Walks { .. } => "Many objects",
        Supplement::Changes(_) => "Many files in one directory",
    };
    let tree = format!(
        "{}, of which {}, {:.1} MiB of content, on ext4 in a sparse file",
        counted(tally.objects, "object"),
        counted(tally.files, "file"),
        float(tally.bytes) / MIB
    );
    let made = match results.filled {
        Some(wall) => format!(
            "in {} ({} objects/s)",
            span(wall),
            grouped_float(float(tally.objects) / secs(wall))
        ),
        None => "earlier".to_owned(),
    };
    let caches = if results.is_cold { "dropped before each measurement" } else { "not dropped" };
    format!(
        "# {title}\n\nMade by `{}`.\n\n\
         - Tree: {tree}; made {made}.\n\
         - Machine: {}, {:.1} GiB memory, Linux {}; load {} before, {} after.\n\
         - Caches of the kernel: {caches}.\n\
         - Time of the whole bench: {}.\n\n",
        page::own_command_line(),
        output::counted(machine.cores, "core"),
        float(machine.memory_bytes) / MIB / 1024.0,
        machine.kernel,
        results.load_before,
        results.load_after,
        span(results.wall),
    )
}

fn backups(results: &Results) -> String {
    let Results { first, incremental, stored, .. } = results;
    let objects = results.tally.objects;
    let per_object = |bytes: u64| format!("{:.3}", per(bytes, objects));
    let rate = |backup: &Backup| {
        grouped_float(float(objects) / secs(backup.sample.wall).max(f64::MIN_POSITIVE))
    };
    let rows: [(&str, [String; 2]); 11] = [
        ("wall", [first, incremental].map(|one| span(one.sample.wall))),
        ("objects/s", [first, incremental].map(rate)),
        ("client CPU, s", [first, incremental].map(|one| cpu(one.sample.client_cpu))),
        ("server CPU, s", [first, incremental].map(|one| cpu(one.sample.server_cpu))),
        ("client peak memory, MB", [first, incremental].map(client_memory)),
        ("client peak of anonymous memory, MB", [first, incremental].map(anonymous_memory)),
        ("client peak of mapped files, MB", [first, incremental].map(mapped_memory)),
        ("server peak memory, MB", [first, incremental].map(server_memory)),
        ("sent, bytes/object", [first, incremental].map(|one| per_object(one.traffic.up_bytes))),
        (
            "received, bytes/object",
            [first, incremental].map(|one| per_object(one.traffic.down_bytes)),
        ),
        (
            "server wrote, bytes/object",
            [first, incremental].map(|one| per_object(one.server_written_bytes)),
        ),
    ];
    let mut text =
        String::from("| | first backup | incremental, nothing changed |\n|---|---|---|\n");
    for (label, [first, incremental]) in rows {
        line(&mut text, &[label, &first, &incremental]);
    }
    text.push_str(
        "\nMapped files are the program, its libraries, and the node's cache of grants. Both kinds \
         of memory were sampled every 100 ms, and their peaks may be at different times.\n\n",
    );
    let _ = write!(
        text,
        "After the first backup the catalogue has {:.1} MiB ({:.1} bytes/object), the pool \
         {:.1} MiB, the chunk index {:.1} MiB, and the home folder of the node {:.1} MiB.\n\n",
        float(stored.catalog_bytes) / MIB,
        per(stored.catalog_bytes, objects),
        float(stored.pool_bytes) / MIB,
        float(stored.index_bytes) / MIB,
        float(stored.home_bytes) / MIB,
    );
    text
}

fn walks(results: &Results, before: Duration, after: Duration) -> String {
    format!(
        "The bare walk, a thread that only stats every object, takes {} before the incremental and \
         {} after it. The incremental takes {:.2} of their mean.\n\n",
        span(before),
        span(after),
        ratio(results, before, after)
    )
}

fn targets(results: &Results) -> String {
    let mut text = String::from("| target | measured | at most | |\n|---|---|---|---|\n");
    for figure in figures(results) {
        let shown = |value: f64| format!("{:.2}{}", value / figure.unit, figure.unit_name);
        let verdict = if figure.value <= figure.target { "met" } else { "missed" };
        line(&mut text, &[figure.label, &shown(figure.value), &shown(figure.target), verdict]);
    }
    text
}

fn figures(results: &Results) -> Vec<Figure> {
    let Results { first, incremental, tally, .. } = results;
    let sample = &incremental.sample;
    let mut figures = vec![
        Figure {
            label: "incremental, client peak memory",
            key: "client_memory_bytes",
            value: float(sample.client_memory_bytes),
            target: CLIENT_MEMORY_MAX,
            unit: 1e6,
            unit_name: " MB",
        },
        Figure {
            label: "incremental, server peak memory",
            key: "server_memory_bytes",
            value: float(sample.server_memory_bytes),
            target: SERVER_MEMORY_MAX,
            unit: 1e6,
            unit_name: " MB",
        },
        Figure {
            label: "incremental, transferred in both directions",
            key: "bytes_per_object",
            value: per(incremental.traffic.bytes(), tally.objects),
            target: BYTES_PER_OBJECT_MAX,
            unit: 1.0,
            unit_name: " bytes/object",
        },
    ];
    if let Supplement::Walks { before, after } = results.supplement {
        figures.push(Figure {
            label: "first backup, client peak memory",
            key: "first_client_memory_bytes",
            value: float(first.sample.client_memory_bytes),
            target: CLIENT_MEMORY_FIRST_MAX,
            unit: 1e6,
            unit_name: " MB",
        });
        figures.push(Figure {
            label: "incremental, time",
            key: "per_bare_walk",
            value: ratio(results, before, after),
            target: WALKS_MAX,
            unit: 1.0,
            unit_name: " bare walks",
        });
    }
    figures
}

fn changes_text(results: &Results, changes: &[(&'static str, Backup)]) -> String {
    let mut text = String::from(
        "| incremental after | wall | backed up | updated | expired | sent, bytes \
         | received, bytes | server wrote, bytes |\n|---|---|---|---|---|---|---|---|\n",
    );
    let nothing = ("nothing", &results.incremental);
    let changes = changes.iter().map(|(what, backup)| (*what, backup));
    for (what, backup) in std::iter::once(nothing).chain(changes) {
        let count = |key: &str| grouped(backup.count(key));
        let cells = [
            what.to_owned(),
            span(backup.sample.wall),
            count("backed_up"),
            count("updated"),
            count("expired"),
            grouped(backup.traffic.up_bytes),
            grouped(backup.traffic.down_bytes),
            grouped(backup.server_written_bytes),
        ];
        line(&mut text, &cells.each_ref().map(String::as_str));
    }
    text.push_str(
        "\nThe cost of a change is the difference from the row *nothing*. Each incremental fetches \
         the digests of all pages; a page has up to 512 objects.\n",
    );
    text
}

/// Returns all results as JSON.
pub(super) fn document(results: &Results) -> Value {
    let Results { tally, machine, stored, .. } = results;
    let backup = |backup: &Backup| backup_document(backup, tally.objects);
    let supplement = match &results.supplement {
        Supplement::Walks { before, after } => json!({
            "walk_before_secs": secs(*before),
            "walk_after_secs": secs(*after),
        }),
        Supplement::Changes(changes) => {
            changes.iter().map(|(what, one)| ((*what).to_owned(), backup(one))).collect()
        }
    };
    let figures = figures(results).into_iter().map(|figure| {
        let Figure { key, value, target, .. } = figure;
        (key.to_owned(), json!({"value": value, "target": target, "is_met": value <= target}))
    });
    json!({
        "objects": tally.objects,
        "files": tally.files,
        "bytes": tally.bytes,
        "made_secs": results.filled.map(secs),
        "is_cold": results.is_cold,
        "machine": machine.document(&results.load_before, &results.load_after),
        "program": results.program.to_string_lossy(),
        "first_backup": backup(&results.first),
        "incremental": backup(&results.incremental),
        "further": supplement,
        "stored": {
            "catalog_bytes": stored.catalog_bytes,
            "catalog_bytes_per_object": per(stored.catalog_bytes, tally.objects),
            "pool_bytes": stored.pool_bytes,
            "index_bytes": stored.index_bytes,
            "home_bytes": stored.home_bytes,
        },
        "targets": figures.collect::<serde_json::Map<_, _>>(),
        "wall_secs": secs(results.wall),
    })
}

fn backup_document(backup: &Backup, objects: u64) -> Value {
    let mut document = backup.sample.json();
    let wall = secs(backup.sample.wall).max(f64::MIN_POSITIVE);
    document["objects_per_sec"] = (float(objects) / wall).into();
    document["sent_bytes"] = backup.traffic.up_bytes.into();
    document["received_bytes"] = backup.traffic.down_bytes.into();
    document["server_written_bytes"] = backup.server_written_bytes.into();
    for key in ["inspected", "backed_up", "updated", "expired"] {
        document[key] = backup.count(key).into();
    }
    document
}

/// Returns the ratio of the time of the incremental to the mean time of the walks before and after
/// it.
fn ratio(results: &Results, before: Duration, after: Duration) -> f64 {
    let mean = f64::midpoint(secs(before), secs(after));
    secs(results.incremental.sample.wall) / mean.max(f64::MIN_POSITIVE)
}

fn secs(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn cpu(duration: Duration) -> String {
    format!("{:.2}", secs(duration))
}

fn client_memory(backup: &Backup) -> String {
    format!("{:.1}", float(backup.sample.client_memory_bytes) / 1e6)
}

fn anonymous_memory(backup: &Backup) -> String {
    format!("{:.1}", float(backup.sample.client_resident.anonymous_bytes) / 1e6)
}

fn mapped_memory(backup: &Backup) -> String {
    format!("{:.1}", float(backup.sample.client_resident.mapped_bytes) / 1e6)
}

fn server_memory(backup: &Backup) -> String {
    format!("{:.1}", float(backup.sample.server_memory_bytes) / 1e6)
}

fn per(bytes: u64, objects: u64) -> f64 {
    float(bytes) / float(objects.max(1))
}

/// Returns a duration as text: in seconds if it is short, otherwise in minutes and seconds.
fn span(duration: Duration) -> String {
    match duration.as_secs() {
        0..120 => format!("{:.2} s", secs(duration)),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

fn grouped_float(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive, and shown without its fraction"
    )]
    let whole = value as u64;
    grouped(whole)
}

/// Returns a grouped number with its noun: "1 object", "2,000 objects".
fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

/// Returns a number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn line(text: &mut String, cells: &[&str]) {
    for cell in cells {
        text.push_str("| ");
        text.push_str(cell);
        text.push(' ');
    }
    text.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (28_000_000, "28,000,000")]
        {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn long_times_have_minutes() {
        assert_eq!(span(Duration::from_millis(1234)), "1.23 s");
        assert_eq!(span(Duration::from_secs(601)), "10 min 01 s");
    }
}
