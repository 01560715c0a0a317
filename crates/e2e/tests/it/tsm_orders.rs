//! The commands of TSM's administrators, each at least once, with kept output.

use std::fs;

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

#[test]
fn each_command_of_an_administrator_answers_as_it_always_has() {
    let mut golden = Golden::new();
    fs::write(golden.scene.tree.join("a"), b"content").expect("is written");
    golden.scene.backup().expect(&[0]);
    let with = |command| ["-dataonly=yes", "-tabdelimited", "-noconfirm", command];
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
