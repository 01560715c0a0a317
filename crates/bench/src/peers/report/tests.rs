//! Tests of the report, with invented figures.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::machine::Machine;
use crate::peers::entrant::{Entrant, MissingPeer};
use crate::peers::recipe::RECIPES;
use crate::peers::turn::{Comparison, Pair};
use crate::walk::Tally;

fn sample(millis: u64) -> Sample {
    let wall = Duration::from_millis(millis);
    Sample { wall, client_cpu: wall, ..Sample::default() }
}

fn entry(name: &str, role: Role, walls: [u64; 3]) -> Entry {
    let samples: BTreeMap<Phase, Vec<Sample>> =
        Phase::ALL.into_iter().zip(walls.map(|wall| vec![sample(wall)])).collect();
    let comparison = Comparison { differences: 1, first: vec!["a: mode is 1".to_owned()] };
    let turn = Turn {
        samples,
        walks: vec![sample(50)],
        pair: Some(Pair { creation: sample(500), restore: sample(800) }),
        stored_bytes: Some(walls[0] << 20),
        comparison: Some(comparison),
        failure: None,
    };
    let entrant = Entrant { name: name.to_owned(), version: "1.2".to_owned(), role };
    Entry { entrant, turns: vec![turn] }
}

pub(crate) fn results() -> Results {
    let peer = |index: usize| Role::Peer { recipe: &RECIPES[index], program: PathBuf::new() };
    let mut creation = entry("creation-1", Role::Creation { threads: 1 }, [1, 1, 500]);
    creation.turns[0].samples.retain(|phase, _| *phase == Phase::Restore);
    creation.turns[0].stored_bytes = None;
    let mut failed = entry("rustic", peer(1), [1, 1, 1]);
    failed.turns[0] =
        Turn { failure: Some("init failed (exit status: 1): no".to_owned()), ..Turn::default() };
    Results {
        tree: "/tree".into(),
        tally: Tally { objects: 3, files: 2, bytes: 1 << 20, unreadable: 0 },
        machine: Machine { cores: 2, kernel: "6.1".to_owned(), memory_bytes: 8 << 30 },
        load_before: "0 0 0".to_owned(),
        load_after: "1 1 1".to_owned(),
        in_memory: true,
        rounds: 1,
        entries: vec![
            entry(HOLDFAST, Role::Holdfast, [1000, 40, 800]),
            entry("restic", peer(0), [4000, 400, 1600]),
            failed,
            creation,
        ],
        missing: vec![MissingPeer { name: "borg", install: "pip install it" }],
        cold: None,
        mutation: None,
    }
}

#[track_caller]
fn check(line: &str) {
    let text = text(&results(), "bench peers /tree");
    assert!(text.lines().any(|one| one == line), "{line}\nis not in\n{text}");
}

#[test]
fn each_program_has_a_row_with_its_ratios() {
    check("| holdfast | 1.00 | 1.00 | 0.040 | 1.00 | 0.800 | 1.00 |");
    check("| restic | 4.00 | 4.00 | 0.400 | 10.00 | 1.60 | 2.00 |");
    check("| rustic | failed | - | failed | - | failed | - |");
    check("| restic | 4.00 | 0.400 | 1.60 | - | - | 4000 | 4.00 | 1 |");
}

#[test]
fn aims_are_reached_or_missed() {
    check("| first backup / restic | 0.250 | 0.50 | reached |");
    check("| nothing changed / bare walk right before it | 0.800 | 0.90 | reached |");
    check(
        "| second restore, CPU / making the same files right before it | 1.60 | 1.80 | reached |",
    );
}

#[test]
fn who_failed_or_is_missing_is_named() {
    check("- rustic: failed: init failed (exit status: 1): no");
    check("- borg: not installed; install it with `pip install it`");
    check("- restic: the first difference is `a: mode is 1`");
}

#[test]
fn numbers_have_three_figures() {
    let shown = [0.04567, 1.0, 12.34, 456.7].map(number);
    assert_eq!(shown, ["0.046", "1.00", "12.3", "457"]);
    assert_eq!(spread(Some(Spread::of([1.0, 2.0, 4.0])), 1.0), "2.00 (1.00-4.00)");
    assert_eq!(spread(None, 1.0), "-");
}
