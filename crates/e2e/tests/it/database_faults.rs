//! Databases that end, and others that take their place.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Cluster, Outcome, Running, binary, start};

use crate::scene::{Scene, plant_files};
use crate::site::{Over, Site, audit, compare_rounds, run_rounds};

const AWAY_MAX: Duration = Duration::from_secs(100);

/// Once in the middle of a backup: what was told to nodes until then is there.
#[test]
fn a_database_that_fails_over_has_all_that_was_acknowledged() {
    let Some((primary, standby)) = Cluster::with_standby() else { return };
    let Some(site) = Site::over_both(&primary, &standby) else { return };
    let other = site.with_another();
    let (node, tree) = site.client("berta", &other.address());
    site.scene.backup();
    plant_files(&site.scene.tree.join("more"), 24, 6 << 20, 10);
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let rounds = scope.spawn(|| run_rounds(&node, &tree, 1, &is_over));
        let over = Over(&is_over);
        pause(Duration::from_secs(2));
        let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
        pause(Duration::from_millis(400));
        assert!(!running.ends_within(Duration::ZERO), "it was over before the database was");
        primary.kill();
        pause(Duration::from_secs(1));
        standby.promote();
        running.wait().expect(&[0]).counts(&[("failed", 0)]);
        drop(over);
        rounds.join().expect("no panic")
    });
    assert!(rounds.len() > 1, "{rounds:?}");
    compare_rounds((&node, &tree), &rounds, &site.scene.scratch.folder("of-berta"));
    site.scene.compare("behind");
    site.scene.backup().counts(&[("backed_up", 0)]);
    audit(&[&site.scene.server, &other]);
}

/// Starts a server that may end by itself.
fn spawn_server(dir: &Path) -> Running {
    let arguments = ["server", "run", dir.to_str().unwrap(), "--json"].map(OsString::from);
    start(&binary(), &arguments, dir, None)
}

/// A command that ends because the database is away says so.
#[track_caller]
fn assert_told(outcome: Outcome) {
    drop(outcome.expect(&[12]).says("the catalogue's database does not answer"));
}

#[test]
fn a_database_that_is_away_for_too_long_is_told_of_and_come_back_to() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(mut site) = Site::over(&cluster) else { return };
    let mut other = site.join("other");
    other.terminate().expect(&[0]);
    site.scene.backup();
    plant_files(&site.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
    pause(Duration::from_millis(400));
    assert!(!running.ends_within(Duration::ZERO), "it was over before the database was");
    cluster.kill();
    let starting = spawn_server(other.dir());
    let restore = restoring(&site.scene);
    assert_told(starting.wait());
    assert_told(restore.wait());
    assert_told(running.wait_within(AWAY_MAX));
    assert!(site.scene.server.is_up(), "a server that runs stays");
    cluster.begin();
    other.restart();
    site.scene.backup();
    site.scene.compare("behind");
    site.scene.backup().counts(&[("backed_up", 0)]);
    site.enrol_at(&other.address());
    std::mem::swap(&mut site.scene.server, &mut other);
    site.scene.compare("by the other");
    audit(&[&site.scene.server, &other]);
}

fn restoring(scene: &Scene) -> Running {
    let out = scene.scratch.folder("meanwhile");
    scene.node.spawn_restore(&scene.tree, &out, &[])
}
