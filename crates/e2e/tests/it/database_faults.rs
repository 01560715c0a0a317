//! Databases that fail, and their standbys.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Cluster, Outcome, Process, binary, start};

use crate::fleet::{Fleet, StopGuard, audit, compare_rounds, run_rounds};
use crate::scene::{Scene, plant_files};

const AWAY_MAX: Duration = Duration::from_secs(100);

/// The primary server is killed in the middle of a backup. Everything that was acknowledged until
/// then is kept.
#[test]
fn a_database_that_fails_over_has_all_that_was_acknowledged() {
    let Some((primary, standby)) = Cluster::with_standby() else { return };
    let Some(fleet) = Fleet::over_both(&primary, &standby) else { return };
    let other = fleet.with_another();
    let (node, tree) = fleet.client("berta", &other.address());
    fleet.scene.backup();
    plant_files(&fleet.scene.tree.join("more"), 24, 6 << 20, 10);
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let rounds = scope.spawn(|| run_rounds(&node, &tree, 1, &is_over));
        let over = StopGuard(&is_over);
        pause(Duration::from_secs(2));
        let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &[]);
        pause(Duration::from_millis(400));
        assert!(
            !running.ends_within(Duration::ZERO),
            "the backup ended before the database was killed"
        );
        primary.kill();
        pause(Duration::from_secs(1));
        standby.promote();
        running.wait().expect(&[0]).counts(&[("failed", 0)]);
        drop(over);
        rounds.join().expect("the thread has not panicked")
    });
    assert!(rounds.len() > 1, "{rounds:?}");
    compare_rounds((&node, &tree), &rounds, &fleet.scene.scratch.folder("of-berta"));
    fleet.scene.compare("after");
    fleet.scene.backup().counts(&[("backed_up", 0)]);
    audit(&[&fleet.scene.server, &other]);
}

/// Starts a server that may end by itself.
fn spawn_server(dir: &Path) -> Process {
    let arguments = ["server", "run", dir.to_str().unwrap(), "--json"].map(OsString::from);
    start(&binary(), &arguments, dir, None)
}

/// Checks that a command failed with the message that the database does not answer.
#[track_caller]
fn assert_told(outcome: Outcome) {
    drop(outcome.expect(&[12]).says("the catalogue's database does not answer"));
}

#[test]
fn a_database_that_is_away_for_too_long_is_told_of_and_come_back_to() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(mut fleet) = Fleet::over(&cluster) else { return };
    let mut other = fleet.join("other");
    other.terminate().expect(&[0]);
    fleet.scene.backup();
    plant_files(&fleet.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &[]);
    pause(Duration::from_millis(400));
    assert!(
        !running.ends_within(Duration::ZERO),
        "the backup ended before the database was killed"
    );
    cluster.kill();
    let starting = spawn_server(other.dir());
    let restore = restoring(&fleet.scene);
    assert_told(starting.wait());
    assert_told(restore.wait());
    assert_told(running.wait_within(AWAY_MAX));
    assert!(fleet.scene.server.is_up(), "a running server should not end");
    cluster.begin();
    other.restart();
    fleet.scene.backup();
    fleet.scene.compare("after");
    fleet.scene.backup().counts(&[("backed_up", 0)]);
    fleet.enrol_at(&other.address());
    std::mem::swap(&mut fleet.scene.server, &mut other);
    fleet.scene.compare("by the other");
    audit(&[&fleet.scene.server, &other]);
}

fn restoring(scene: &Scene) -> Process {
    let out = scene.scratch.folder("meanwhile");
    scene.node.spawn_restore(&scene.tree, &out, &[])
}
