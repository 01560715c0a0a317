//! Tests of the comparison, with documents as they are kept.

use serde_json::{Value, json};

use super::*;

fn rate(all: f64) -> Value {
    json!({ "one": all / 2.0, "all": all })
}

fn percentiles() -> Value {
    serde_json::to_value(crate::Percentiles::default()).expect("numbers")
}

fn latency() -> Value {
    json!({ "submission": percentiles(), "completion": percentiles(), "total": percentiles() })
}

fn stream(bytes_per_sec: f64) -> Value {
    json!({ "bytes_per_sec": bytes_per_sec, "over_time": [], "latency": latency() })
}

fn reads(depth: u32, iops: f64) -> Value {
    json!({
        "depth": depth, "iops": iops, "bytes_per_sec": 0.0, "iops_deviation": 0.0,
        "latency": latency()
    })
}

fn walk(warmth: &str, objects: u64) -> Value {
    json!({
        "way": "path", "warmth": warmth, "threads": 1, "directories": 1, "objects": objects,
        "elapsed_secs": 2.0, "processor_secs": 1.0, "opendir_secs": 0.1, "stat_secs": 0.1,
        "disk_reads": null, "failed": 0, "whole": true
    })
}

fn prediction(work: &str, secs: f64) -> Value {
    let range = json!({ "least": secs / 2.0, "likely": secs, "most": secs * 2.0 });
    json!({
        "work": work, "secs": range, "limit": "disk", "stages": [], "bytes_read": range,
        "bytes_sent": range, "node_memory_bytes": range, "server_bytes": range,
        "catalog_bytes": range, "advice": "", "fitted": 1.0
    })
}

fn place(path: &str) -> Value {
    let share = |files: u64, bytes: u64| json!({ "files": files, "bytes": bytes });
    json!({
        "path": path, "file_system": "ext4", "device": null,
        "tree": {
            "objects": 1000, "directories": 10, "symlinks": 0, "others": 0,
            "files": share(900, 5000), "small": share(900, 5000), "hard_linked": 0,
            "allocated_bytes": 5000, "sizes": [], "ages": [], "changed": [],
            "directory_sizes": [], "names_max": 9, "failed": 0, "elapsed_secs": 1.0,
            "processor_secs": 1.0, "warmth": "warm", "whole": true,
            "file_system_objects": null, "file_system_bytes": 9000
        },
        "walks": [walk("cold", 9000), walk("warm", 400), walk("warm", 600)],
        "sample": {
            "small": [], "large": null, "ratio_small": null, "ratio_large": null,
            "copies": null, "bytes_digested": 0, "failed": 0
        },
        "disk": {
            "fio": "fio-3", "file_bytes": 1, "direct": true,
            "random_reads": [reads(1, 100.0), reads(32, 3000.0), reads(64, 2900.0)],
            "read": stream(2e8), "write": stream(1e8)
        },
        "creation": null,
        "predictions": [prediction("first", 60.0), prediction("image", 30.0)]
    })
}

/// A report of one place, as it is kept.
pub(crate) fn document(path: &str) -> Value {
    json!({
        "document_version": DOCUMENT_VERSION, "program_version": "0.1.0", "made_micros": 5,
        "elapsed_secs": 9.0, "depth": "quick", "cold": false,
        "host": {
            "name": "a", "kernel": "6", "processor": "x", "processors": 2, "instructions": [],
            "memory_bytes": 1, "memory_available_bytes": 1
        },
        "strain": { "stolen_per_cent": 0.0, "hot": 0, "held_back_secs": 0.0 },
        "processor": {
            "aes_gcm": rate(4e9), "digest": rate(6e9), "cut": rate(1e9),
            "compress": [{ "strength": "standard", "rate": rate(5e8), "ratio": 0.4 }],
            "decompress": rate(1e9)
        },
        "memory": rate(1e10),
        "network": {
            "server": "a:1500", "server_is_here": false,
            "measured": {
                "round_trip_median": { "secs": 0, "nanos": 2_000_000 },
                "round_trip_p99": { "secs": 0, "nanos": 3_000_000 },
                "round_trips": 9, "cipher": "x",
                "transfers": [
                    transfer("to_server", 100), transfer("to_server", 300),
                    transfer("from_server", 500)
                ],
                "plain_refused": null,
                "buffers": {
                    "send_bytes": 1, "receive_bytes": 1, "send_bytes_max": 1,
                    "receive_bytes_max": 1, "stream_window_bytes": 1, "connection_window_bytes": 1
                }
            }
        },
        "places": [place(path)], "remarks": []
    })
}

fn transfer(direction: &str, bytes: u64) -> Value {
    json!({
        "transport": "tls", "direction": direction, "streams": 1, "bytes": bytes,
        "elapsed": { "secs": 1, "nanos": 0 }
    })
}

/// Compares documents that were kept at the seconds 1, 2 and so on.
fn compared(documents: &[Value]) -> Trend {
    let bytes: Vec<Vec<u8>> = documents.iter().map(|one| one.to_string().into()).collect();
    let times = (1..).map(ServerTime::from_secs);
    compare(times.zip(bytes.iter().map(Vec::as_slice)))
}

#[track_caller]
fn row<'a>(trend: &'a Trend, name: &str) -> &'a Row {
    let found = trend.rows.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", trend.rows))
}

#[test]
fn a_report_has_its_main_figures() {
    let trend = compared(&[document("/home")]);
    assert_eq!((trend.columns.len(), trend.notes.len()), (1, 0), "{:?}", trend.notes);
    assert_eq!(trend.columns[0].made_micros, 1_000_000);
    let figures = trend.rows.iter().map(|row| {
        let value = row.values[0].expect("it was measured");
        (row.name.as_str(), row.unit.title(), row.place.as_deref(), value)
    });
    let here = Some("/home");
    let expected = [
        ("AES-256-GCM, all threads", "B/s", None, 4e9),
        ("BLAKE3, all threads", "B/s", None, 6e9),
        ("zstd, standard, all threads", "B/s", None, 5e8),
        ("Copying memory, all threads", "B/s", None, 1e10),
        ("Round trip, median", "s", None, 0.002),
        ("To the server, best", "B/s", None, 300.0),
        ("From the server, best", "B/s", None, 500.0),
        ("Random reads, one at once", "reads/s", here, 100.0),
        ("Random reads, most", "reads/s", here, 3000.0),
        ("Stream, read", "B/s", here, 2e8),
        ("Stream, written", "B/s", here, 1e8),
        ("Warm walk, fastest", "objects/s", here, 300.0),
        ("Objects", "objects", here, 1000.0),
        ("Data of files", "B", here, 5000.0),
        ("First backup", "s", here, 60.0),
        ("Image backup", "s", here, 30.0),
    ];
    assert_eq!(figures.collect::<Vec<_>>(), expected);
    assert!(trend.rows.iter().all(|row| row.changes == [None]));
}

#[test]
fn a_change_of_more_than_a_fifth_is_marked() {
    let mut documents = [0, 1, 2, 3].map(|_| document("/home"));
    for (document, rate_now) in documents.iter_mut().zip([100.0, 119.0, 90.0, 90.0]) {
        document["processor"]["digest"] = rate(rate_now);
    }
    let trend = compared(&documents);
    let changes = row(&trend, "BLAKE3, all threads")
        .changes
        .iter()
        .map(|change| change.map(|change| (change.per_cent.round(), change.is_marked)));
    let expected = [None, Some((19.0, false)), Some((-24.0, true)), Some((0.0, false))];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_figure_that_was_not_measured_is_compared_over_the_gap() {
    let mut documents = [0, 1, 2].map(|_| document("/home"));
    documents[1]["network"]["measured"] = Value::Null;
    documents[2]["network"]["measured"]["transfers"] =
        json!([transfer("to_server", 150), transfer("from_server", 500)]);
    documents[0]["places"][0]["disk"] = Value::Null;
    let trend = compared(&documents);
    let to_server = row(&trend, "To the server, best");
    assert_eq!(to_server.values, [Some(300.0), None, Some(150.0)]);
    let marked = Change { per_cent: -50.0, is_marked: true };
    assert_eq!(to_server.changes, [None, None, Some(marked)]);
    let reads = row(&trend, "Random reads, most");
    assert_eq!(reads.values, [None, Some(3000.0), Some(3000.0)]);
    assert!(reads.changes[1].is_none() && reads.changes[2].is_some());
}

#[test]
fn places_are_told_apart() {
    let mut both = document("/home");
    both["places"] = json!([place("/srv"), place("/home")]);
    let trend = compared(&[document("/home"), both]);
    let objects = trend.rows.iter().filter(|row| row.name == "Objects");
    let objects: Vec<_> =
        objects.map(|row| (row.place.as_deref(), row.values.as_slice())).collect();
    let thousand = Some(1000.0);
    let expected: [(_, &[Option<f64>]); 2] =
        [(Some("/home"), &[thousand, thousand]), (Some("/srv"), &[None, thousand])];
    assert_eq!(objects, expected);
}

#[test]
fn figures_that_cannot_be_are_left_out() {
    let mut one = document("/home");
    one["processor"]["digest"] = rate(0.0);
    one["processor"]["aes_gcm"] = rate(-1.0);
    let mut other = document("/home");
    other["processor"]["aes_gcm"] = rate(-1.0);
    let trend = compared(&[one, other]);
    assert_eq!(row(&trend, "BLAKE3, all threads").changes, [None, None], "nothing is divided by 0");
    assert!(trend.rows.iter().all(|row| !row.name.starts_with("AES")));
}

#[test]
fn documents_that_cannot_be_read_cost_only_themselves() {
    let mut later = document("/home");
    later["document_version"] = json!(DOCUMENT_VERSION + 1);
    later["memory"] = json!("of another kind");
    let mut damaged = document("/home");
    damaged["places"] = json!(7);
    let trend = compared(&[later, document("/home"), damaged, json!([])]);
    assert_eq!(trend.columns.iter().map(|one| one.made_micros).collect::<Vec<_>>(), [2_000_000]);
    let times = trend.notes.iter().map(|note| note.made_micros);
    assert_eq!(times.collect::<Vec<_>>(), [1, 3, 4].map(|secs| secs * 1_000_000));
    for (note, expected) in trend.notes.iter().zip(["upgrade the program", "cannot", "cannot"]) {
        assert!(note.reason.contains(expected), "{}", note.reason);
    }
    assert_eq!(compared(&[]), Trend::default());
}

#[test]
fn a_trend_is_data_that_survives() {
    let trend = compared(&[document("/home"), document("/srv")]);
    let text = serde_json::to_string(&trend).expect("is data");
    assert_eq!(serde_json::from_str::<Trend>(&text).expect("is read"), trend);
    assert!(text.contains("\"unit\":\"bytes-per-sec\""), "{text}");
}

#[test]
fn any_document_is_compared_or_refused() {
    let seeds = [document("/home").to_string().into(), b"{\"document_version\": 2}".to_vec()];
    fuzz::exercise("baseline_report", &seeds, &|input| {
        let trend = compare([(ServerTime(1), input)]);
        assert_eq!(trend.columns.len() + trend.notes.len(), 1);
        let json = serde_json::to_string(&trend).expect("is data");
        assert!(serde_json::from_str::<Trend>(&json).is_ok(), "{json}");
    });
}
