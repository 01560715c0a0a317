//! The session report: every key, the classic lines, and sums that are right.

use std::fs;

use e2e::harness::Outcome;
use e2e::nasty::Random;

use crate::scene::{Scene, manifest, plant_files};

/// Capacity of a slow link.
const SLOW_BYTES_PER_SEC: u32 = 2 << 20;

const KEYS: [&str; 31] = [
    "command",
    "node",
    "filespaces",
    "inspected",
    "backed_up",
    "updated",
    "rebound",
    "deleted",
    "expired",
    "failed",
    "encrypted",
    "deduplicated",
    "grew",
    "retries",
    "bytes_inspected",
    "bytes_processed",
    "bytes_before_dedup",
    "bytes_after_dedup",
    "bytes_transferred",
    "bytes_metadata",
    "data_transfer_secs",
    "network_rate_kb_per_sec",
    "aggregate_rate_kb_per_sec",
    "compressed_percent",
    "dedup_reduction_percent",
    "total_reduction_percent",
    "elapsed_secs",
    "stages",
    "compressors",
    "exit_code",
    "failures",
];

const CLASSIC_LINES: [&str; 23] = [
    "Total number of objects inspected:",
    "Total number of objects backed up:",
    "Total number of objects updated:",
    "Total number of objects rebound:",
    "Total number of objects deleted:",
    "Total number of objects expired:",
    "Total number of objects failed:",
    "Total number of objects encrypted:",
    "Total objects deduplicated:",
    "Total number of objects grew:",
    "Total number of retries:",
    "Total number of bytes inspected:",
    "Total number of bytes processed:",
    "Total bytes before deduplication:",
    "Total bytes after deduplication:",
    "Total number of bytes transferred:",
    "Data transfer time:",
    "Network data transfer rate:",
    "Aggregate data transfer rate:",
    "Objects compressed by:",
    "Deduplication reduction:",
    "Total data reduction ratio:",
    "Elapsed processing time:",
];

/// Tolerance of a percentage with two decimals: half of the last decimal, and a little more.
const PERCENT_TOLERANCE: f64 = 0.0051;
const STAGES: [&str; 5] = ["authenticate", "read", "compress", "send", "commit"];

/// Tolerance of a time with two decimals, in seconds.
const SECS_TOLERANCE: f64 = 0.0051;

#[track_caller]
fn number(outcome: &Outcome, key: &str) -> f64 {
    let value = &outcome.json()[key];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is {value}, should be a number: {outcome}"))
}

/// Returns `100 * (1 - part / whole)`, or 0 if `whole` is 0.
fn reduction(outcome: &Outcome, part: &str, whole: &str) -> f64 {
    let (part, whole) = (number(outcome, part), number(outcome, whole));
    if whole == 0.0 { 0.0 } else { 100.0 * (1.0 - part / whole) }
}

#[track_caller]
fn assert_percent(outcome: &Outcome, key: &str, expected: f64, tolerance: f64) {
    let is = number(outcome, key);
    assert!((is - expected).abs() <= tolerance, "{key} is {is}, should be {expected}: {outcome}");
}

#[track_caller]
fn assert_rate(outcome: &Outcome, key: &str, secs: &str) {
    let kib = number(outcome, "bytes_transferred") / 1024.0;
    let (rate, secs) = (number(outcome, key), number(outcome, secs));
    let least = 0.99 * kib / (secs + SECS_TOLERANCE) - 1.0;
    let most = 1.01 * kib / (secs - SECS_TOLERANCE).max(1e-9) + 1.0;
    // A rate over no time at all has no value; it must still be a number.
    if secs > 0.0 {
        assert!((least..=most).contains(&rate), "{key} is {rate}, not {least}..{most}: {outcome}");
    }
}

/// Checks the rules that the report of every run must follow.
#[track_caller]
fn assert_sums(outcome: &Outcome) {
    let count = |key| outcome.count(key);
    let done = count("backed_up") + count("updated") + count("failed");
    assert!(done <= count("inspected"), "{outcome}");
    assert!(count("deduplicated") <= count("backed_up"), "{outcome}");
    assert!(count("bytes_after_dedup") <= count("bytes_before_dedup"), "{outcome}");
    assert!(count("bytes_after_dedup") <= count("bytes_processed"), "{outcome}");
    assert!(count("bytes_before_dedup") <= count("bytes_inspected"), "{outcome}");
    assert_eq!((count("deleted"), count("encrypted")), (0, 0), "{outcome}");
    assert_eq!(outcome.json()["exit_code"], outcome.code());

    let compressed = if count("bytes_processed") == 0 {
        0.0
    } else {
        reduction(outcome, "bytes_transferred", "bytes_processed")
    };
    // The classic line shows whole percents, and never less than 0.
    let is = number(outcome, "compressed_percent");
    let fits = (is - compressed).abs() <= 0.51 || (compressed < 0.0 && is == 0.0);
    assert!(fits, "compressed_percent is {is}, should be {compressed}: {outcome}");
    let dedup = reduction(outcome, "bytes_after_dedup", "bytes_before_dedup");
    assert_percent(outcome, "dedup_reduction_percent", dedup, PERCENT_TOLERANCE);
    assert!(count("bytes_metadata") <= count("bytes_transferred"), "{outcome}");
    let whole = number(outcome, "bytes_inspected") + number(outcome, "bytes_metadata");
    let kept = (number(outcome, "bytes_transferred") / whole.max(1.0)).min(1.0);
    let total = if whole == 0.0 { 0.0 } else { 100.0 * (1.0 - kept) };
    assert_percent(outcome, "total_reduction_percent", total, PERCENT_TOLERANCE);
    assert_rate(outcome, "network_rate_kb_per_sec", "data_transfer_secs");
    assert_rate(outcome, "aggregate_rate_kb_per_sec", "elapsed_secs");
}

#[test]
fn json_report_has_every_key() {
    let scene = Scene::with_files(10, 500);
    let report = scene.backup().json();
    for key in KEYS {
        assert!(report.get(key).is_some(), "{key} is missing in {report}");
    }
    assert_eq!(report["node"], "anna");
    assert_eq!(report["exit_code"], 0);
    assert_eq!(report["failures"], serde_json::json!([]));
}

#[test]
fn sums_of_the_report_are_right() {
    let scene = Scene::with_files(150, 20_000);
    let mut random = Random::new(5, b"report");
    fs::write(scene.tree.join("text"), random.text(6 << 20)).unwrap();
    fs::copy(scene.tree.join("text"), scene.tree.join("twin")).unwrap();
    let first = scene.backup();
    assert_sums(&first);
    let source = manifest(&scene.tree);
    let first =
        first.counts(&[("inspected", source.len()), ("bytes_inspected", source.stat_bytes())]);
    let saved = first.count("bytes_before_dedup") - first.count("bytes_after_dedup");
    assert!(saved >= 5 << 20, "the twin should be deduplicated: {first}");

    assert_sums(&scene.backup().counts(&[("bytes_processed", 0)]));
    fs::write(scene.file(3), random.bytes(30_000)).unwrap();
    fs::remove_file(scene.file(4)).unwrap();
    let third = scene.backup().counts(&[("bytes_processed", 30_000), ("expired", 1)]);
    assert_sums(&third);
}

#[test]
fn bytes_of_one_file_are_exact() {
    let scene = Scene::new();
    fs::write(scene.tree.join("file"), Random::new(6, b"one").bytes(100 << 10)).unwrap();
    let bytes = 100 << 10;
    let first = scene.backup().counts(&[
        ("bytes_processed", bytes),
        ("bytes_before_dedup", bytes),
        ("bytes_after_dedup", bytes),
        ("deduplicated", 1),
    ]);
    assert!(first.count("bytes_transferred") >= bytes, "random data cannot shrink: {first}");
    fs::copy(scene.tree.join("file"), scene.tree.join("copy")).unwrap();
    scene.backup().counts(&[
        ("bytes_processed", 0),
        ("bytes_before_dedup", bytes),
        ("bytes_after_dedup", 0),
    ]);
}

#[test]
fn text_report_has_the_classic_lines_in_order() {
    let scene = Scene::with_files(1200, 10);
    let objects = manifest(&scene.tree).len();
    let outcome = scene.node.run(&["backup", scene.tree.to_str().unwrap()]).expect(&[0]);
    let mut lines = outcome.stdout.lines();
    for expected in CLASSIC_LINES {
        let found = lines.by_ref().any(|line| line.trim_start().starts_with(expected));
        assert!(found, "{expected:?} is missing, or not in its place: {outcome}");
    }
    let inspected = format!("{},{:03}", objects / 1000, objects % 1000);
    let line = outcome.stdout.lines().find(|line| line.contains("objects inspected:"));
    assert!(
        line.unwrap().trim_end().ends_with(&inspected),
        "the count should be shown as {inspected}: {outcome}"
    );
    let elapsed = outcome.stdout.lines().find(|line| line.contains("Elapsed processing time:"));
    let time = elapsed.unwrap().rsplit(' ').next().unwrap();
    assert_eq!(time.split(':').count(), 3, "the time should have the form hh:mm:ss: {outcome}");
}

#[test]
fn json_output_is_nothing_but_json() {
    let scene = Scene::with_files(10, 500);
    let tree = scene.tree.to_str().unwrap();
    scene.node.run(&["backup", tree, "--json", "--verbose"]).expect(&[0]).json();
    scene.node.run(&["status", "--json"]).expect(&[0]).json();
    let quiet = scene.node.run(&["backup", tree, "--quiet"]).expect(&[0]);
    assert!(quiet.messages().is_empty(), "--quiet should print nothing on standard error: {quiet}");
}

#[test]
fn a_backup_says_what_limited_it_and_the_status_repeats_it() {
    let scene = Scene::new();
    let status = || scene.node.run(&["status", "--json"]).expect(&[0]);
    assert!(status().json()["last_backup"].is_null(), "{}", status());
    fs::write(scene.tree.join("text"), Random::new(5, b"stages").text(6 << 20)).unwrap();
    let backup = scene.backup();
    let report = backup.json();
    let secs = |stage: &str, key: &str| report["stages"][stage][key].as_f64().unwrap();
    assert_eq!(report["stages"].as_object().unwrap().len(), STAGES.len(), "{backup}");
    for stage in STAGES {
        assert!(secs(stage, "busy_secs") >= 0.0 && secs(stage, "waited_for_secs") >= 0.0);
    }
    for stage in ["authenticate", "read", "compress", "commit"] {
        assert!(secs(stage, "busy_secs") > 0.0, "{stage} takes time: {backup}");
    }
    let waited: f64 = STAGES[1..].iter().map(|stage| secs(stage, "waited_for_secs")).sum();
    let elapsed = number(&backup, "elapsed_secs");
    assert!(waited <= elapsed + SECS_TOLERANCE, "waits do not overlap: {waited} s, {backup}");
    // Data is on its way for at least as long as the outbox waits for the network.
    assert!(secs("send", "busy_secs") <= number(&backup, "data_transfer_secs") + SECS_TOLERANCE);
    let compressors = report["compressors"].as_array().unwrap();
    assert_eq!(compressors.len(), 1, "{backup}");
    let count = |key: &str| compressors[0][key].as_u64().unwrap();
    assert_eq!(compressors[0]["name"], "threads");
    assert_eq!(count("bytes_before"), backup.count("bytes_after_dedup"), "{backup}");
    assert!(count("quanta") >= 3, "a quantum has at most 2 MiB: {backup}");
    assert!(count("bytes_after") < count("bytes_before"), "{backup}");
    assert!(count("bytes_after") < backup.count("bytes_transferred"), "{backup}");

    let last = &status().json()["last_backup"];
    for key in ["command", "stages", "compressors", "elapsed_secs"] {
        assert_eq!(last[key], report[key], "{last}");
    }
    scene.node.run(&["status"]).expect(&[0]).says("Compressed by threads");
    // Nothing is read again, so nothing is compressed.
    assert_eq!(scene.backup().json()["compressors"], serde_json::json!([]));
    assert_eq!(status().json()["last_backup"]["compressors"], serde_json::json!([]));
    fs::write(scene.node.home().join("last-backup.json"), "damaged").unwrap();
    let damaged = status().says("the stages of the last backup are lost");
    assert!(damaged.json()["last_backup"].is_null(), "{damaged}");
    scene.backup();
    assert_eq!(status().json()["last_backup"]["command"], "backup");
}

#[test]
fn restore_report_counts_what_it_made() {
    let scene = Scene::with_files(60, 500);
    scene.backup();
    let out = scene.scratch.folder("out");
    let objects = manifest(&scene.tree).len();
    let report = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    let report = report.counts(&[
        ("restored", objects),
        ("skipped", 0),
        ("failed", 0),
        ("bytes_restored", 30_000),
    ]);
    let (transfer, elapsed) =
        (number(&report, "data_transfer_secs"), number(&report, "elapsed_secs"));
    assert!(transfer > 0.0 && transfer <= elapsed, "{transfer} of {elapsed}");
    let again = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    again.counts(&[("restored", 0), ("skipped", objects), ("bytes_restored", 0)]);
}

/// The rate was that of the buffers on the way: four times the capacity of the link.
#[test]
fn the_network_rate_is_the_rate_of_the_link() {
    let scene = Scene::with_files(40, 150_000);
    let proxy = scene.enrol_behind_proxy();
    proxy.weather().carry(SLOW_BYTES_PER_SEC.into());
    let outcome = scene.backup();
    let rate = number(&outcome, "network_rate_kb_per_sec") * 1024.0;
    let capacity = f64::from(SLOW_BYTES_PER_SEC);
    assert!((0.5 * capacity..1.3 * capacity).contains(&rate), "{rate} bytes/s: {outcome}");
    assert_sums(&outcome);
}

/// The report of such a backup said -4083 %.
#[test]
fn a_backup_of_empty_files_reduces_nothing_and_adds_nothing() {
    let scene = Scene::with_files(300, 0);
    let outcome = scene.backup();
    assert_sums(&outcome);
    let total = number(&outcome, "total_reduction_percent");
    assert!((0.0..=100.0).contains(&total), "{outcome}");
    assert!(outcome.count("bytes_metadata") > 0, "{outcome}");
}

#[test]
fn a_dry_run_estimates_what_a_backup_would_do() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    fs::write(scene.file(1), vec![b'a'; 1_000]).unwrap();
    plant_files(&scene.tree.join("more"), 3, 2_000, 7);
    fs::remove_file(scene.file(2)).unwrap();
    let dry = scene.node.backup(&scene.tree, &["--dry-run"]).expect(&[0]);
    let estimate = &dry.json()["estimate"];
    let objects = manifest(&scene.tree).len();
    assert_eq!(estimate["examined"]["objects"], objects, "{dry}");
    // The two folders above the files have changed too.
    assert_eq!(estimate["changed"], serde_json::json!({"objects": 3, "bytes": 1_000}), "{dry}");
    // Two new folders have three new files.
    assert_eq!(estimate["new"], serde_json::json!({"objects": 5, "bytes": 6_000}), "{dry}");
    assert_eq!((&estimate["expired"], &estimate["bytes_to_send_max"]), (&1.into(), &7_000.into()));
    // The counts of a backup are those of what was done.
    let dry = dry.counts(&[("backed_up", 0), ("expired", 0), ("deduplicated", 0)]);
    assert!(dry.json()["total_reduction_percent"].is_null(), "{dry}");
    let text = scene
        .node
        .run(&["backup", scene.tree.to_str().unwrap(), "--dry-run"])
        .expect(&[0]);
    let text = text.says("To send: at most 6.84 KB").says("nothing was sent");
    assert!(!text.stdout.contains("rate"), "nothing was transferred: {text}");
    let done = scene.backup();
    done.counts(&[("backed_up", 8), ("expired", 1)]);
    assert!(scene.backup().json()["estimate"].is_null(), "it is no dry run");
}
