//! The commands of TSM's administrators, each at least once, with kept output.

use std::fs;

use crate::tape::tgt::Tgt;
use crate::tsm_output::{Golden, compare};

/// Commands, in an order in which each has something to do.
const COMMANDS: &[&str] = &[
    "query session",
    "query process",
    "query event standard *",
    "query volume",
    "query library",
    "query path",
    "query libvolume",
    "query request",
    "query mount",
    "query content 1",
    "query copygroup format=detailed",
    "update node anna contact='the machine room'",
    "rename node anna dora",
    "lock node dora",
    "unlock node dora",
    "define domain LAB",
    "update domain LAB description='the laboratory'",
    "copy domain LAB PLAIN",
    "define mgmtclass LAB standard WEEKLY",
    "update mgmtclass LAB standard WEEKLY description='once a week'",
    "define copygroup LAB standard WEEKLY verexists=4",
    "update copygroup LAB standard WEEKLY verexists=5",
    "validate policyset LAB standard",
    "activate policyset LAB standard",
    "query domain LAB format=detailed",
    "query mgmtclass LAB format=detailed",
    "copy mgmtclass LAB standard WEEKLY MONTHLY",
    "delete copygroup LAB standard WEEKLY",
    "delete mgmtclass LAB standard MONTHLY",
    "define schedule standard nightly action=incremental starttime=22:00 startdate=01/01/2026",
    "update schedule standard nightly starttime=23:00",
    "copy schedule standard nightly standard weekly",
    "define association standard nightly dora,nobody",
    "query association",
    "query schedule",
    "delete association standard nightly dora",
    "delete schedule standard weekly",
    "define cloptset office description='in the office'",
    "define clientopt office compression yes",
    "query cloptset",
    "update cloptset office description='in each office'",
    "copy cloptset office home",
    "delete clientopt office compression",
    "delete cloptset home",
    "expire inventory wait=yes",
    "reclaim stgpool primary threshold=50 wait=yes",
    "migrate stgpool primary lowmig=0 wait=yes",
    "backup stgpool primary copies wait=yes",
    "audit volume 1 wait=yes",
    "move data 1 wait=yes",
    "label libvolume library search=yes labelsource=barcode",
    "checkin libvolume library search=yes status=scratch",
    "checkout libvolume library A00001",
    "cancel session 999",
    "cancel process 999",
    "cancel request 999",
    "select node_name, filespace_name from filespaces",
    "delete filespace dora /no/such",
    "delete domain PLAIN",
    "frobnicate",
];

/// Commands whose answers have numbers that differ each time.
const VARYING: &[&str] = &[
    "query node format=detailed",
    "query filespace",
    "query occupancy",
    "query auditoccupancy",
    "query stgpool",
    "query schedule standard nightly format=detailed",
    "query actlog search=locked",
    "query db",
    "query log",
    "query status",
    "register node carl correct-horse",
    "remove node carl",
    "backup db type=full wait=yes",
    "query dbbackup",
];

/// Commands about a library of files that stand for tapes, in an order in which each has something
/// to do. Its volume `F00001` has the only pack.
const OF_LIBRARIES: &[&str] = &[
    "query library",
    "query library format=detailed",
    "query drive",
    "query drive format=detailed",
    "query path",
    "query libvolume",
    "query volume",
    "query mount",
    "query request",
    "label libvolume vault search=yes labelsource=barcode",
    "label libvolume vault SPARE1",
    "label libvolume vault SPARE1",
    "query libvolume",
    "checkin libvolume vault search=yes status=scratch",
    "checkout libvolume vault SPARE1 remove=yes",
    "audit library vault",
    "query content F00001",
    "audit volume F00001 wait=yes",
    "move data F00001 wait=yes",
    "query volume",
    "query volume F00001 format=detailed",
    "query libvolume",
    "query mount",
    "update volume SPARE1 access=readonly",
    "delete volume F00001",
    "delete volume SPARE1",
    "query stgpool TAPE format=detailed",
    "query mount",
    "select library_name, drive_name, drive_state, volume_name from drives",
    "cancel request 1",
    "update drive vault 1 online=yes",
    "delete library vault",
];

/// Commands about a library with a changer and two drives.
const OF_CHANGERS: &[&str] = &[
    "query library format=detailed",
    "query drive",
    "query drive format=detailed",
    "query path",
    "query libvolume",
    "label libvolume vault search=yes labelsource=barcode checkin=scratch",
    "query libvolume",
    "migrate stgpool PRIMARY lowmig=0 wait=yes",
    "query volume",
    "query drive format=detailed",
    "query mount",
    "query libvolume",
    "checkout libvolume vault A00004L8 remove=yes",
    "query libvolume",
    "checkin libvolume vault A00004L8 status=scratch",
    "checkin libvolume vault A00004L8",
    "checkin libvolume vault search=bulk",
    "query libvolume",
    "audit library vault",
    "audit volume A00001L8 wait=yes",
    "move data A00001L8 wait=yes",
    "query volume",
    "query mount",
    "query request",
    "update drive vault 500 online=yes",
    "update drive vault 999 online=yes",
    "clean drive vault 999",
    "label libvolume vault NONE01L8",
];

/// Commands about libraries whose answers have numbers that differ each time.
const VARYING_OF_LIBRARIES: &[&str] = &[
    "audit volume F00001 wait=yes",
    "move data F00001 wait=yes",
    "query volume F00001 format=detailed",
    "migrate stgpool PRIMARY lowmig=0 wait=yes",
    "audit volume A00001L8 wait=yes",
    "move data A00001L8 wait=yes",
];

/// Returns the words with which a script gives a command.
fn with(command: &str) -> [&str; 4] {
    ["-dataonly=yes", "-tabdelimited", "-noconfirm", command]
}

#[test]
fn each_command_of_an_administrator_answers_as_it_always_has() {
    let mut golden = Golden::new();
    fs::write(golden.scene.tree.join("a"), b"content").expect("is written");
    golden.scene.backup().expect(&[0]);
    for command in COMMANDS {
        golden.dsmadmc(&with(command));
    }
    for command in VARYING {
        golden.dsmadmc_without_numbers(&with(command));
    }
    // Without '-noconfirm' it asks, and nobody answers.
    golden.dsmadmc(&["-dataonly=yes", "halt"]);
    compare("dsmadmc-commands.txt", &golden.text);
}

#[test]
fn each_command_about_a_library_answers_as_it_always_has() {
    let mut golden = Golden::new();
    fs::write(golden.scene.tree.join("a"), b"content").expect("is written");
    golden.scene.copy_no_catalog();
    golden.scene.add_library("2M");
    golden.scene.add_tape(&[]);
    golden.scene.backup();
    golden.scene.drain();
    order_all(&mut golden, OF_LIBRARIES);
    compare("dsmadmc-library.txt", &golden.text);
}

#[test]
fn each_command_about_a_changer_answers_as_it_always_has() {
    let Some(tgt) = Tgt::start() else { return };
    let mut golden = Golden::new();
    fs::write(golden.scene.tree.join("a"), b"content").expect("is written");
    golden.scene.copy_no_catalog();
    let (changer, first, second) = (tgt.address(4), tgt.address(1), tgt.address(2));
    let devices = ["--changer", &changer, "--drive", &first, "--drive", &second];
    golden
        .scene
        .server
        .admin(&[&["library", "add", "vault"], &devices[..]].concat());
    golden.scene.add_tape(&[]);
    golden.scene.backup();
    order_all(&mut golden, OF_CHANGERS);
    let text = golden.text.replace(&format!("127.0.0.1:{}", tgt.port()), "CHANGER");
    compare("dsmadmc-changer.txt", &text);
}

/// Gives commands about libraries.
fn order_all(golden: &mut Golden, commands: &[&str]) {
    for command in commands {
        if VARYING_OF_LIBRARIES.contains(command) {
            golden.dsmadmc_without_numbers(&with(command));
        } else {
            golden.dsmadmc(&with(command));
        }
    }
}
