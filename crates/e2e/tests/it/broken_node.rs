//! A node that was broken into: its messages are refused, the server needs little memory for them,
//! and other nodes notice nothing.

use e2e::broken_node::{
    Intruder, change, changes, close, commit, field, page_of_a_run, page_of_zeros, quantum,
    record_of_bytes,
};
use e2e::folder::Folder;
use e2e::harness::Node;
use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest};

const MIB: usize = 1 << 20;

/// Maximum growth of the server's memory while it refuses an attack.
const GROWTH_MAX: u64 = 1 << 30;

/// Lets `attack` send messages with the certificate of a node. Then checks that the server has kept
/// its memory, and that an honest node backs up and restores.
#[track_caller]
fn check(attack: impl FnOnce(&Intruder<'_>)) {
    let scene = Scene::with_files(20, 1000);
    let captured = Node::enrol(&scene.server, "captured");
    let idle = scene.server.peak_memory_bytes();
    attack(&Intruder::of(&scene.server, &captured));
    assert!(scene.server.is_up(), "the attack ended the server");
    let growth = scene.server.peak_growth_bytes(idle);
    assert!(growth < GROWTH_MAX, "the server grew by {} MiB", growth >> 20);
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("back", &[])));
    let nodes = scene.server.admin(&["node", "list"]).to_string();
    assert!(nodes.contains("captured") && nodes.contains("anna"), "{nodes}");
    assert!(!scene.server.admin(&["log"]).to_string().contains("bug of the server"));
}

/// Checks that the server ends a call with this gRPC code and text.
#[track_caller]
fn refused(status: &str, code: &str, text: &str) {
    assert!(status.starts_with(&format!("{code} ")) && status.contains(text), "{status}");
}

/// Regression: a path of 30 MB made each look at the catalogue seventy times slower, and a
/// filespace's name of 30 MiB kept the list of nodes from fitting into a message.
#[test]
fn long_names_are_refused() {
    check(|intruder| {
        let path = [&b"/"[..], &b"n/".repeat(15 * MIB)].concat();
        let messages = [changes(&[change(&path, b"")]), commit(0)];
        refused(&intruder.back_up(b"/", &messages), "3", "at most 65536 bytes and 4096 levels");
        refused(&intruder.back_up(&vec![b'n'; 30 * MIB], &[]), "3", "at most 4096");
        let name = [field(1, b"/"), field(5, &vec![b'n'; 30 * MIB]), field(7, b"")].concat();
        refused(&intruder.back_up(b"/", &[changes(&[name]), commit(0)]), "3", "1 to 255 bytes");
    });
}

/// Regression: a session could be closed again and again, each time with a report of 30 MiB that
/// the catalogue kept.
#[test]
fn a_session_has_one_short_report() {
    check(|intruder| {
        let status = intruder.back_up(b"/", &[close(&vec![b'x'; 30 * MIB])]);
        refused(&status, "3", "at most 65536");
        let status = intruder.back_up(b"/", &[close(b"{}"), close(b"{}")]);
        refused(&status, "3", "a message after the end of its session");
        refused(&intruder.back_up(b"/", &[close(b"{}"), commit(0)]), "3", "after the end");
        let status = intruder.back_up(b"/", &[close(&vec![b'x'; 64 << 10])]);
        assert_eq!(status.trim(), "0", "the longest report is kept");
    });
}

/// Regression: a page of 61 bytes became 105 million extents, and 116 KB of pages became 4.1 GB.
#[test]
fn pages_that_expand_are_refused() {
    check(|intruder| {
        let page = page_of_a_run(105_000_000);
        assert!(page.len() <= 61);
        let messages = [changes(&[change(b"/", &page)]), commit(0)];
        refused(&intruder.back_up(b"/", &messages), "3", "more memory than its sender may use");
        let page = page_of_zeros(60 << 20);
        let directories = (0..64).map(|number| format!("/{number}/"));
        let pages: Vec<_> = directories.map(|path| change(path.as_bytes(), &page)).collect();
        assert!(pages.concat().len() < 200_000, "{} bytes", pages.concat().len());
        let status = intruder.back_up(b"/", &[changes(&pages), commit(0)]);
        refused(&status, "3", "too large");
        // One such page is as large as a page may be.
        let one = [changes(&pages[..1]), commit(0), close(b"{}")];
        assert_eq!(intruder.back_up(b"/", &one).trim(), "0");
    });
}

/// Regression: a message of changes of two bytes each became 4 GB, quanta of chunks of one byte
/// became 8.6 GB, and 4096 changes of 1 MiB stayed in memory.
#[test]
fn many_small_parts_are_refused() {
    check(|intruder| {
        let empty = |count| field(3, &[0x0a, 0].repeat(count));
        refused(&intruder.back_up(b"/", &[empty(15 * MIB)]), "13", "more than 524288 messages");
        refused(&intruder.back_up(b"/", &[empty(100_001)]), "3", "more than 100000 changes");
        let names = |count| changes(&[[field(1, b"/"), [0x2a, 0].repeat(count)].concat()]);
        refused(&intruder.back_up(b"/", &[names(15 * MIB)]), "13", "more than 8388608 fields");
        refused(&intruder.back_up(b"/", &[names(2 * MIB)]), "3", "more than 1048576 names");
        let tiny = quantum(0, &record_of_bytes(1 << 21));
        refused(&intruder.back_up(b"/", &[tiny]), "3", "262144 chunks");
        let large = changes(&[change(b"/", &vec![0; MIB])]);
        refused(&intruder.back_up(b"/", &vec![large; 70]), "3", "more than 64 MiB");
        let questions = [0x22, 0].repeat(15 * MIB);
        let status = intruder.call("/holdfast.v1.Node/Pages", &[questions]);
        refused(&status, "11", "may have at most 2097152");
    });
}

/// A directory whose path is too long for every server costs the objects below it, and nothing
/// else.
#[test]
fn a_path_that_no_server_stores_is_reported_and_the_rest_is_backed_up() {
    let scene = Scene::with_files(20, 1000);
    let name = [b'n'; 255];
    let mut folder = Folder::open(&scene.tree).unwrap();
    let mut levels = 0;
    // The slash after each name counts too.
    while (levels + 1) * (name.len() + 1) < 64 << 10 {
        folder = folder.make(&name).unwrap();
        levels += 1;
    }
    folder.create(b"stored").unwrap();
    let below = folder.make(&name).unwrap();
    below.create(b"too deep").unwrap();
    let outcome = scene.node.backup(&scene.tree, &[]).expect(&[4]).counts(&[("failed", 1)]);
    let failures = outcome.failures();
    let [(path, error)] = &failures[..] else { panic!("{outcome}") };
    assert!(path.len() > 64 << 10 && path.ends_with(&name), "{} bytes", path.len());
    assert!(error.contains("at most 65536 bytes and 4096 levels"), "{error}");
    let listed = scene.node.run(&["list", scene.tree.to_str().unwrap(), "--recursive"]);
    let listed = listed.expect(&[0]).to_string();
    assert!(listed.contains("/stored") && !listed.contains("too deep"));
    let again = scene.node.backup(&scene.tree, &[]).expect(&[4]);
    again.counts(&[("failed", 1), ("backed_up", 0), ("expired", 0)]);
}
