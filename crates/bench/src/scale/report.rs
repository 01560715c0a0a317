//! The results: tables in Markdown for people, and one JSON document.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::measure::{Backup, Further, Results};
use crate::page;
use crate::spread::float;

const MIB: f64 = 1_048_576.0;

/// Maximum memory of the client and of the server in bytes, at 28 million objects.
const CLIENT_MEMORY_MAX: f64 = 200e6;
const SERVER_MEMORY_MAX: f64 = 1e9;
/// Maximum traffic of an incremental without changes, in bytes an object.
const BYTES_PER_OBJECT_MAX: f64 = 3.0;
/// Maximum time of such an incremental, as a multiple of the bare walk's.
const WALKS_MAX: f64 = 0.5;

impl Further {
    pub(super) fn file_name(&self) -> &'static str {
        match self {
            Self::Walks { .. } => "scale.md",
            Self::Changes(_) => "scale-one-directory.md",
        }
    }
}

/// A figure with its target.
struct Figure {
    label: &'static str,
    key: &'static str,
    value: f64,
    target: f64,
    /// Divisor of value and target for people.
    unit: f64,
    unit_name: &'static str,
}

pub(super) fn text(results: &Results) -> String {
    let rest = match &results.further {
        Further::Walks { before, after } => {
            [walks(results, *before, *after), targets(results)].concat()
        }
        Further::Changes(changes) => changes_text(results, changes),
    };
    [head(results), backups(results), rest].concat()
}

fn head(results: &Results) -> String {
    let Results { tally, machine, .. } = results;
    let title = match results.further {
        Further::Walks { .. } => "Many objects",
        Further::Changes(_) => "Many files in one directory",
    };
    let tree = format!(
        "{} objects, {} of them files, {:.1} MiB of content, on ext4 in a sparse file",
        grouped(tally.objects),
        grouped(tally.files),
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
    let caches = if results.is_cold { "dropped before each measurement" } else { "left alone" };
    format!(
        "# {title}\n\nMade by `{}`.\n\n\
         - Tree: {tree}; made {made}.\n\
         - Machine: {} cores, {:.1} GiB memory, Linux {}; load {} before, {} after.\n\
         - Caches of the kernel: {caches}.\n\
         - All of it took {}.\n\n",
        page::own_command_line(),
        machine.cores,
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
    let rows: [(&str, [String; 2]); 9] = [
        ("wall", [first, incremental].map(|one| span(one.sample.wall))),
        ("objects/s", [first, incremental].map(rate)),
        ("client CPU, s", [first, incremental].map(|one| cpu(one.sample.client_cpu))),
        ("server CPU, s", [first, incremental].map(|one| cpu(one.sample.server_cpu))),
        ("client peak memory, MB", [first, incremental].map(client_memory)),
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
    let _ = write!(
        text,
        "\nAfter the first backup the catalogue has {:.1} MiB ({:.1} bytes/object), the pool \
         {:.1} MiB, the chunk index {:.1} MiB, the home of the node {:.1} MiB.\n\n",
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
        "One thread that stats every object and does nothing else takes {} before the incremental \
         and {} after it: the incremental takes {:.2} of their mean.\n\n",
        span(before),
        span(after),
        ratio(results, before, after)
    )
}

fn targets(results: &Results) -> String {
    let mut text = String::from("| incremental | is | at most | |\n|---|---|---|---|\n");
    for figure in figures(results) {
        let shown = |value: f64| format!("{:.2}{}", value / figure.unit, figure.unit_name);
        let verdict = if figure.value <= figure.target { "met" } else { "missed" };
        line(&mut text, &[figure.label, &shown(figure.value), &shown(figure.target), verdict]);
    }
    text
}

fn figures(results: &Results) -> Vec<Figure> {
    let Results { incremental, tally, .. } = results;
    let sample = &incremental.sample;
    let mut figures = vec![
        Figure {
            label: "client peak memory",
            key: "client_memory_bytes",
            value: float(sample.client_memory_bytes),
            target: CLIENT_MEMORY_MAX,
            unit: 1e6,
            unit_name: " MB",
        },
        Figure {
            label: "server peak memory",
            key: "server_memory_bytes",
            value: float(sample.server_memory_bytes),
            target: SERVER_MEMORY_MAX,
            unit: 1e6,
            unit_name: " MB",
        },
        Figure {
            label: "transferred, both directions",
            key: "bytes_per_object",
            value: per(incremental.traffic.bytes(), tally.objects),
            target: BYTES_PER_OBJECT_MAX,
            unit: 1.0,
            unit_name: " bytes/object",
        },
    ];
    if let Further::Walks { before, after } = results.further {
        figures.push(Figure {
            label: "time",
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
        "\nWhat goes beyond the row of nothing is what a change costs. The digests of all pages \
         travel each time: a page has up to 512 objects.\n",
    );
    text
}

/// Returns all results as JSON.
pub(super) fn document(results: &Results) -> Value {
    let Results { tally, machine, stored, .. } = results;
    let backup = |backup: &Backup| backup_document(backup, tally.objects);
    let further = match &results.further {
        Further::Walks { before, after } => json!({
            "walk_before_secs": secs(*before),
            "walk_after_secs": secs(*after),
        }),
        Further::Changes(changes) => {
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
        "further": further,
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

/// Ratio of the incremental's time to the mean of the walks before and after it.
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

fn server_memory(backup: &Backup) -> String {
    format!("{:.1}", float(backup.sample.server_memory_bytes) / 1e6)
}

fn per(bytes: u64, objects: u64) -> f64 {
    float(bytes) / float(objects.max(1))
}

/// Text of a duration: seconds if it is short, otherwise minutes and seconds.
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

/// Returns a number with a comma between its thousands.
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
