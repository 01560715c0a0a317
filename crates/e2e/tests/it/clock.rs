//! The server's clock is wrong: somebody sets it, or its battery is empty.

use std::fs;

use e2e::harness::{Outcome, clock_ahead};

use crate::scene::Scene;

/// Runs the server again, with its system's clock ahead of the machine's by `days`.
fn set_clock(scene: &mut Scene, days: i64) {
    let environment = clock_ahead(scene.scratch.path(), days);
    scene.server.set_environment(&environment.each_ref().map(String::as_str));
    scene.server.restart();
}

fn states(scene: &Scene) -> String {
    let rows = scene.node.list(&scene.tree.join("file"), &["--inactive"]);
    rows.iter().map(|row| row["state"].as_str().expect("a state")).collect()
}

fn expire(scene: &Scene, options: &[&str]) -> Outcome {
    scene.server.try_admin(&[&["expire"], options].concat())
}

/// Returns the details of the latest event that is called `what`.
#[track_caller]
fn event(scene: &Scene, what: &str) -> String {
    let events = scene.server.try_admin(&["log"]).expect(&[0]).json_lines();
    let event = events.iter().find(|event| event["what"] == what);
    let event = event.unwrap_or_else(|| panic!("no event {what:?} in {events:?}"));
    event["details"].as_str().expect("text").to_owned()
}

/// A clock that was set 28 days ahead expired at once what policy keeps for 28 days more.
#[test]
fn a_clock_that_jumps_by_40_days_expires_nothing_until_it_is_confirmed() {
    let mut scene = Scene::new();
    for content in ["one", "second"] {
        fs::write(scene.tree.join("file"), content).unwrap();
        scene.backup();
    }
    expire(&scene, &[]).expect(&[0]);
    assert_eq!(states(&scene), "AI");

    set_clock(&mut scene, 40);
    for options in [&[][..], &["--all"], &["--node", &scene.node.name]] {
        let refused = expire(&scene, options).expect(&[12]);
        refused.says("set 40 days ahead").says("would expire").says("--confirm'");
    }
    // Folders above the tree belong to all tests, so they may have versions that expire too.
    let due = expire(&scene, &["--dry-run"]).expect(&[0]).json()["expired"].as_u64();
    assert!(due.is_some_and(|due| due >= 1), "{due:?}");

    expire(&scene, &["--confirm"]).expect(&[0]);
    assert_eq!(expire(&scene, &["--dry-run"]).expect(&[0]).json()["expired"], 0);
    assert!(event(&scene, "clock confirmed").contains("set 40 days ahead"));

    // The right time is now in the past. The next node that connects has the same time.
    set_clock(&mut scene, 0);
    expire(&scene, &[]).expect(&[12]).says("set back by 40 days");
    scene.backup();
    expire(&scene, &[]).expect(&[0]);
    assert_eq!(states(&scene), "A");
    assert!(event(&scene, "clock confirmed by other clocks").contains("set back by 40 days"));
}

#[test]
fn a_clock_that_goes_ahead_for_a_test_is_no_jump() {
    let mut scene = Scene::new();
    scene.backup();
    for ahead in ["1d", "40d", "3600d"] {
        expire(&scene, &[]).expect(&[0]);
        scene.server.travel(ahead);
    }
    expire(&scene, &[]).expect(&[0]);
}
