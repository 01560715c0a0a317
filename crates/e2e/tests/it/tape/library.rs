//! The `tape` commands on a virtual changer and two virtual drives, over iSCSI.

use super::tgt::{TAPES, Tgt};
use super::{MIB, Tapes, expect_same, plant, plant_nasty};
use crate::scene::names;

/// Starts the virtual library and adds it as `vault`; `None`, with the reason on standard error, if
/// this machine cannot run it.
fn vault() -> Option<(Tgt, Tapes)> {
    let tgt = Tgt::start()?;
    let tapes = Tapes::new();
    let [changer, one, two] = [4, 1, 2].map(|lun| tgt.address(lun));
    let arguments = ["add", "vault", "--changer", &changer, "--drive", &one, "--drive", &two];
    tapes.run(&arguments).expect(&[0]);
    let inventory = tapes.run(&["inventory", "vault", "--scan"]);
    if inventory.stderr.contains("libiscsi is not installed") {
        e2e::skip::say("libiscsi is not installed");
        return None;
    }
    inventory.expect(&[0]);
    Some((tgt, tapes))
}

/// Returns the element and the volume of each data cartridge.
fn full(tapes: &Tapes) -> Vec<(u64, String)> {
    let rows = tapes.run(&["inventory", "vault", "--json"]).expect(&[0]).json_lines();
    let full = rows
        .iter()
        .filter(|row| row["volume"].is_string() && row["state"] != "cleaning cartridge");
    full.map(|row| (row["element"].as_u64().unwrap(), row["volume"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn files_come_back_from_tapes_bit_for_bit() {
    let Some((tgt, tapes)) = vault() else { return };
    let source = tapes.scratch.folder("source");
    plant_nasty(&source);
    tapes.write("vault", "A00001L8", &source).expect(&[12]).says("no label");
    tapes
        .run(&["label", "vault", "A00001L8", "NOSUCH"])
        .expect(&[4])
        .says("not in the library");
    tapes.write("vault", "A00001L8", &source).expect(&[0]).counts(&[("written", 7)]);
    let out = tapes.scratch.folder("out");
    tapes.read("vault", "A00001L8", &out).expect(&[0]).counts(&[("read", 7)]);
    expect_same(&out, &source);
    tapes
        .run(&["verify", "vault", "A00001L8"])
        .expect(&[0])
        .says("7 objects or parts");
    tapes
        .run(&["label", "vault", "A00001L8"])
        .expect(&[12])
        .says("is labelled A00001L8");

    // The volume can be read with the address of its drive alone, and with addresses in place of
    // the library's name.
    tapes.run(&["mount", "vault", "A00001L8"]).expect(&[0]).says("pool MANUAL");
    let drive = tgt.address(if full(&tapes).iter().any(|(at, _)| *at == 500) { 1 } else { 2 });
    let bare = tapes.scratch.folder("bare");
    tapes
        .run(&["read", "--drive", &drive, "--to", bare.to_str().unwrap()])
        .expect(&[0]);
    expect_same(&bare, &source);
    let library = [4, 1, 2].map(|lun| tgt.address(lun)).join(",");
    tapes
        .run(&["read", &library, "A00001L8", "--list"])
        .expect(&[0])
        .says("letters.tar");
    drop(tgt);
    let outcome = tapes.run(&["inventory", "vault"]).expect(&[12]);
    outcome.says("cannot use iscsi://");
}

#[test]
fn an_object_goes_on_on_the_next_tape() {
    let Some((_tgt, tapes)) = vault() else { return };
    let source = tapes.scratch.folder("source");
    plant(&source, b"a", 12 * MIB);
    plant(&source, b"b", 12 * MIB);
    plant(&source, b"c", 100);
    tapes.run(&["label", "vault", "A00001L8", "A00002L8"]).expect(&[0]);
    let written = tapes.write("vault", "A00001L8,A00002L8", &source).expect(&[0]).json();
    let both = serde_json::json!(["A00001L8", "A00002L8"]);
    assert_eq!(written["objects"][1]["volumes"], both);
    let out = tapes.scratch.folder("out");
    tapes.read("vault", "A00001L8,A00002L8", &out).expect(&[0]);
    expect_same(&out, &source);
    let second = tapes.scratch.folder("second");
    tapes
        .read("vault", "A00002L8", &second)
        .expect(&[4])
        .says("began on another volume");
    assert_eq!(names(&second), [b"c"]);
}

#[test]
fn cartridges_go_where_they_are_sent() {
    let Some((_tgt, tapes)) = vault() else { return };
    let home: Vec<_> = (1000..).zip(TAPES.map(str::to_owned)).collect();
    assert_eq!(full(&tapes), home);
    let mounted = tapes.run(&["mount", "vault", "A00003L8", "--json"]).expect(&[0]).json();
    assert_eq!(mounted["state"], "unlabelled and blank");
    let drive = mounted["element"].as_u64().unwrap();
    assert!(full(&tapes).contains(&(drive, "A00003L8".to_owned())));
    tapes.run(&["checkout", "vault", "A00003L8"]).expect(&[12]).says("is in use");
    tapes.run(&["dismount", "vault", "A00003L8"]).expect(&[0]).says("slot 1002");
    tapes
        .run(&["dismount", "vault", "A00003L8"])
        .expect(&[12])
        .says("not in a drive");
    assert_eq!(full(&tapes), home);

    tapes.run(&["checkout", "vault", "A00004L8"]).expect(&[0]).says("700");
    tapes
        .run(&["checkin", "vault", "A00001L8"])
        .expect(&[12])
        .says("not in an import/export");
    tapes.run(&["checkout", "vault", "A00001L8"]).expect(&[0]);
    tapes
        .run(&["checkout", "vault", "A00002L8"])
        .expect(&[12])
        .says("no import/export element");
    tapes.run(&["checkin", "vault", "A00004L8"]).expect(&[0]);
    tapes.run(&["checkin", "vault"]).expect(&[0]).says("A00001L8");
    assert!(full(&tapes).iter().all(|(element, _)| *element >= 1000));
    tapes
        .run(&["label", "vault", "CLN001L1"])
        .expect(&[12])
        .says("is a cleaning cartridge");
    tapes.run(&["clean", "vault", "500"]).expect(&[0]).says("Drive 500 is cleaned");
    tapes.run(&["clean", "vault", "7"]).expect(&[12]).says("there is no drive 7");
}

#[test]
fn drives_say_what_they_cannot_do() {
    let Some((_tgt, tapes)) = vault() else { return };
    let empty = tapes.run(&["drives", "vault", "--json"]).expect(&[0]).json_lines();
    assert_eq!(empty.len(), 2);
    assert_eq!((&empty[0]["element"], &empty[0]["has_tape"]), (&500.into(), &false.into()));
    assert_eq!(empty[0]["serial"], "DRV00001");
    tapes.run(&["label", "vault", "A00001L8"]).expect(&[0]);
    tapes.run(&["mount", "vault", "A00001L8"]).expect(&[0]);
    let drives = tapes.run(&["drives", "vault", "--json"]).expect(&[0]).json_lines();
    let loaded = drives.iter().find(|drive| drive["has_tape"] == true).unwrap();
    assert_eq!((&loaded["locate"], &loaded["position"]), (&"none".into(), &"none".into()));
    tapes
        .run(&["drives", "vault"])
        .expect(&[0])
        .says("this program counts the blocks");
}
