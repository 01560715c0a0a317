//! Tests of the report as a whole, because scripts read every line of it.

use std::time::Duration;

use client::{Amount, CompressorKind, Estimate, Failure, StageTime};

use super::*;

const GIB: u64 = 1 << 30;

fn stages() -> Stages {
    let time = |busy: u64, waited_for: u64| StageTime {
        busy: Duration::from_millis(busy),
        waited_for: Duration::from_millis(waited_for),
    };
    Stages {
        authenticate: time(12, 12),
        read: time(160_123_456, 79_000_000),
        compress: time(9_100_000, 3_500_500),
        send: time(6_982_410, 6_982_410),
        commit: time(200_005, 200_005),
    }
}

/// Returns the report of the first backup of a large node.
fn report() -> BackupReport {
    BackupReport {
        node: "anna".to_owned(),
        filespaces: vec![b"/".to_vec(), b"/data\xff".to_vec()],
        inspected: 27_812_345,
        backed_up: 27_808_249,
        updated: 12,
        failed: 2,
        deduplicated: 14_100_000,
        grew: 1_999,
        retries: 7,
        bytes_inspected: 438 * GIB,
        bytes_processed: 271 * GIB,
        bytes_before_dedup: 420 * GIB,
        bytes_after_dedup: 262 * GIB,
        bytes_transferred: 171 * GIB + GIB / 2,
        bytes_metadata: GIB / 2,
        data_transfer: Duration::from_millis(6_982_410),
        elapsed: Duration::from_secs(89_778),
        stages: stages(),
        compressors: vec![CompressorWork {
            name: CompressorKind::Threads,
            quanta: 135_000,
            bytes_before: 262 * GIB,
            bytes_after: 171 * GIB,
            time: Duration::from_secs(9_100),
        }],
        failures: vec![
            Failure { path: b"/etc/shadow".to_vec(), error: "permission denied".to_owned() },
            Failure { path: b"/data\xff/x".to_vec(), error: "changed while read".to_owned() },
        ],
        journals: vec![
            JournalUse {
                filespace: b"/".to_vec(),
                is_used: true,
                directories: 1_200,
                subtrees: 1,
                ..JournalUse::default()
            },
            JournalUse {
                filespace: b"/data\xff".to_vec(),
                reason: Some("its file system does not report all changes".to_owned()),
                is_compared: true,
                missed: 1,
                silent: 2,
                next_walk: Some("the record of the backup is lost".to_owned()),
                ..JournalUse::default()
            },
        ],
        ..BackupReport::default()
    }
}

#[test]
fn the_text_has_the_classic_lines() {
    insta::assert_snapshot!(backup_text(&report(), 20));
}

#[test]
fn a_run_with_nothing_to_do_prints_zeros() {
    insta::assert_snapshot!(backup_text(&BackupReport::default(), 20));
}

#[test]
fn what_went_wrong_follows_the_lines() {
    let report = BackupReport {
        failed: 2_000,
        sockets_skipped: 1_234,
        warnings: vec!["most of / is gone: 12 objects were not expired".to_owned()],
        ..report()
    };
    let text = backup_text(&report, 1);
    let (_, end) = text.split_once("Elapsed").expect("the last classic line");
    insta::assert_snapshot!(end);
}

#[test]
fn an_archive_says_how_many_objects_it_has() {
    let first_line = |archive_objects| {
        let report =
            BackupReport { archive: Some(3), archive_objects, backed_up: 1_000, ..report() };
        backup_text(&report, 20).lines().next().map(str::to_owned).unwrap_or_default()
    };
    let above = "Archive 3 is created. With the directories above its paths it has 1,004 objects.";
    assert_eq!(first_line(Some(1_004)), above);
    assert_eq!(first_line(Some(1_000)), "Archive 3 is created.");
    assert_eq!(first_line(None), "Archive 3 is created.");
}

#[test]
fn a_dry_run_says_what_it_would_do() {
    let report = BackupReport {
        dry_run: true,
        planned: vec![("back up", b"/srv/new".to_vec()), ("expire", b"/srv/g\none".to_vec())],
        inspected: 12_345,
        backed_up: 21,
        bytes_inspected: 5 * GIB,
        bytes_before_dedup: GIB,
        updated: 3,
        rebound: 1,
        expired: 17,
        estimate: Estimate {
            new: Amount { objects: 20, bytes: GIB },
            changed: Amount { objects: 1, bytes: 1 << 20 },
        },
        ..BackupReport::default()
    };
    insta::assert_snapshot!(backup_text(&report, 20));
    let document = serde_json::to_value(BackupDocument::new(&report, &[])).expect("a document");
    insta::assert_snapshot!(document["estimate"]);
    for key in ["backed_up", "updated", "rebound", "expired", "bytes_before_dedup"] {
        assert_eq!(document[key], 0, "{key}: nothing was done");
    }
    for key in ["total_reduction_percent", "dedup_reduction_percent", "network_rate_kb_per_sec"] {
        assert!(document[key].is_null(), "{key}: nothing was sent");
    }
    assert_eq!(document["inspected"], 12_345);
}

#[test]
fn the_document_has_every_key() {
    let report = BackupReport {
        planned: vec![("back up", b"/srv/new".to_vec())],
        warnings: vec!["withheld".to_owned()],
        ..report()
    };
    let document = serde_json::to_string_pretty(&BackupDocument::new(&report, &[]));
    insta::assert_snapshot!(document.expect("a document"));
}

#[test]
fn the_document_names_the_file_systems_of_disks() {
    use policy::local::{Reason, Standing};
    let mount = |point: &[u8], kind: &str, standing| MountStanding {
        point: point.to_vec(),
        kind: kind.to_owned(),
        standing,
    };
    let mounts = [
        mount(b"/", "ext4", Standing::Local),
        mount(b"/proc", "proc", Standing::LeftOut(Reason::Kernel)),
        mount(b"/mnt", "nfs4", Standing::LeftOut(Reason::Network)),
    ];
    let report = report();
    let document = serde_json::to_value(BackupDocument::new(&report, &mounts));
    let expected = serde_json::json!([
        {"mount_point": "/", "type": "ext4", "taken": true, "reason": null},
        {"mount_point": "/mnt", "type": "nfs4", "taken": false,
            "reason": Reason::Network.to_string()},
    ]);
    assert_eq!(document.expect("a document")["file_systems"], expected);
}
