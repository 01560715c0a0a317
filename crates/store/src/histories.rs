//! Histories of a server on a simulated disk: the power is cut, operations fail, the disk fills up,
//! an older catalogue is put back, and a pool is away for a time, while nodes back up, versions
//! expire, and packs are reclaimed, copied and moved.
//!
//! ```text
//!   seed --step--> steps --world--> server on a simulated disk (crate disk)
//!                    |                 | after each power cut: start, read everything, audit
//!                    +--expectation----+ compare
//! ```
//!
//! After each power cut and at the end of a history these must hold (invariants 1, 2, 9, 10 and 11
//! of `ARCHITECTURE.md`):
//! 1. The server starts, whatever the cut has left.
//! 2. Every version that was acknowledged is there and has its bytes. An operation without an
//!    answer has happened or not.
//! 3. Everything that the catalogue names can be read, and an audit of all data finds nothing.
//! 4. A copy of the catalogue that was acknowledged is there, or a newer one. The newest copy is
//!    whole, and all packs that it names are there.
//! 5. A reclamation changes none of this.
//! 6. A server with an older catalogue is held and removes no pack, so that the newer copy of the
//!    catalogue brings everything back, even if the power is cut meanwhile.
//! 7. A pool that is away costs nothing: no version counts as lost, and all are there when it is
//!    back.
//!
//! `HOLDFAST_HISTORIES=10000` runs so many histories. `HOLDFAST_HISTORY=7` runs history 7, and
//! `HOLDFAST_HISTORY=7:1,4` only its steps 1 and 4. A history that fails is made as short as it
//! can be. `HOLDFAST_FAULT=7` lets only the operation 7 fail, in the tests that let one operation
//! after the other fail.

mod expectation;
mod shrink;
mod step;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use disk::{Fault, Loss, Random};

use self::shrink::Selection;
use self::step::Work;
use self::world::World;

/// Number of histories without `HOLDFAST_HISTORIES`.
const HISTORIES: u64 = 60;
/// Number of steps of a history.
const STEPS: usize = 14;
/// Number of faults in turn, without `HOLDFAST_HISTORIES`.
const FAULTS: u64 = 24;
/// Number of power cuts in turn, without `HOLDFAST_HISTORIES`.
const CUTS: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Performs the selected steps of the history.
fn perform(selection: &Selection) {
    let steps = step::steps(selection.seed, STEPS);
    let mut world = World::new();
    for (index, step) in steps.iter().enumerate() {
        if selection.holds(index) {
            world.perform(step);
        }
    }
    let mut random = Random::new(selection.seed);
    let loss = [Loss::Everything, Loss::Nothing, Loss::Random(random.seed())][random.index(3)];
    world.end(loss);
}

/// Runs in a process of its own, which a fault of the server may end.
#[test]
fn a_child_performs_histories() {
    let Ok(text) = std::env::var(shrink::CHILD) else { return };
    for selection in Selection::parse_all(&text) {
        println!("history {selection}");
        perform(&selection);
    }
    println!("{}", shrink::DONE);
}

#[test]
fn no_history_loses_what_was_acknowledged() {
    if let Ok(text) = std::env::var("HOLDFAST_HISTORY") {
        return Selection::parse_all(&text).iter().for_each(perform);
    }
    let count = number("HOLDFAST_HISTORIES").unwrap_or(HISTORIES);
    if let Some(failure) = shrink::run_all(0..count) {
        panic!("{failure}");
    }
}

/// A short history with all kinds of work, without what people do to the server's disks.
fn all_works() -> Vec<Work> {
    let back_up = |directory: usize, first: u64| {
        let content = |name: u64| (first + name..first + name + 3).collect();
        let files = (0..3).map(|name: usize| (name, content(name as u64))).collect();
        Work::BackUp { directory, files }
    };
    let begin = |first: u64| Work::Begin { files: vec![(3, vec![first, first + 1])] };
    vec![
        back_up(0, 0),
        begin(20),
        Work::CopyPacks,
        back_up(0, 4),
        Work::Finish,
        Work::CopyCatalog,
        begin(22),
        Work::Drain,
        Work::Remove { directory: 0, names: vec![1] },
        Work::Finish,
        back_up(1, 8),
        Work::Expire,
        Work::Reclaim,
        Work::CopyPacks,
        Work::Restart,
        back_up(2, 0),
        Work::Recover,
        back_up(0, 12),
    ]
}

/// Returns numbers below `end`: all of them in a long run, one of them if `HOLDFAST_FAULT` names
/// it, or `count` of them at equal distances.
fn sample(end: u64, count: u64) -> Vec<u64> {
    if let Some(one) = number("HOLDFAST_FAULT") {
        return vec![one];
    }
    let is_long = number("HOLDFAST_HISTORIES").is_some();
    let distance = if is_long { 1 } else { end.div_ceil(count).max(1) };
    (distance / 2..end).step_by(usize::try_from(distance).expect("small")).collect()
}

/// Number of the operation of a fault, as a fault.
type FaultAt = fn(u64) -> Fault;

/// Performs all works with a fault, and checks the server after it.
fn perform_with(fault: Fault, loss: Loss) {
    let mut world = World::new();
    world.disk.plan(fault);
    let works = all_works();
    for work in &works {
        world.perform_work(work);
        if !world.runs() {
            break;
        }
    }
    world.disk.relieve();
    if world.runs() {
        let is_acknowledged = world.perform_work(&works[0]);
        assert!(is_acknowledged, "the server works again without a restart");
    }
    world.start_again();
    world.end(loss);
}

/// Lets each operation fail, one in each run.
fn check_faults(fault_at: FaultAt, end: u64) {
    for number in sample(end, FAULTS) {
        let fault = fault_at(number);
        let loss = if number % 2 == 0 { Loss::Everything } else { Loss::Random(number) };
        let outcome = catch_unwind(AssertUnwindSafe(|| perform_with(fault, loss)));
        assert!(outcome.is_ok(), "{fault:?} and {loss:?} break the server");
    }
}

/// Returns the numbers of operations of all works.
fn operations() -> disk::OperationCounts {
    let mut world = World::new();
    let before = world.disk.operations();
    for work in all_works() {
        assert!(world.perform_work(&work), "no operation fails");
    }
    let after = world.disk.operations();
    disk::OperationCounts {
        changes: after.changes - before.changes,
        reads: after.reads - before.reads,
        growths: after.growths - before.growths,
    }
}

#[test]
fn an_error_of_any_write_or_sync_loses_nothing_that_was_acknowledged() {
    check_faults(|number| Fault::Change { number }, operations().changes);
}

#[test]
fn an_error_of_any_read_loses_nothing_that_was_acknowledged() {
    check_faults(|number| Fault::Read { number }, operations().reads);
}

#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing_that_was_acknowledged() {
    check_faults(|number| Fault::Full { number }, operations().growths);
}

#[test]
fn a_power_cut_at_any_sync_loses_nothing_that_was_acknowledged() {
    let mut world = World::new();
    let mut standings = vec![(world.disk.position(), world.standing())];
    for work in all_works() {
        assert!(world.perform_work(&work), "no operation fails");
        standings.push((world.disk.position(), world.standing()));
    }
    world.disk.check_complete();
    let history = world.disk.history();
    let syncs = history.syncs();
    for number in sample(syncs.len() as u64, CUTS) {
        let position = syncs[usize::try_from(number).expect("an index")];
        let done = standings.iter().rposition(|(end, _)| *end <= position).unwrap_or(0);
        let standing = match standings.get(done + 1) {
            Some((_, after)) if standings[done].0 < position => standings[done].1.or(after),
            _ => standings[done].1.clone(),
        };
        for loss in [Loss::Everything, Loss::Random(number), Loss::Random(number + 1000)] {
            let check = || world.leave(&history, position, loss, standing.clone());
            let outcome = catch_unwind(AssertUnwindSafe(check));
            assert!(outcome.is_ok(), "{loss:?} at change {position} breaks the server");
        }
    }
}

/// A server with an older catalogue is held and removes no pack, even if the catalogue has never
/// been copied.
#[test]
fn a_newer_copy_brings_everything_back_after_an_older_catalogue() {
    for (part, is_released) in [(0, false), (500, true), (1000, false)] {
        let mut world = World::new();
        for work in all_works().iter().take_while(|work| **work != Work::Recover) {
            assert!(world.perform_work(work), "no operation fails");
        }
        let work = Work::OlderCatalog { part, is_released };
        assert!(world.perform_work(&work), "no operation fails");
        assert!(world.has_put_back(), "there was an older catalogue");
        world.end(Loss::Everything);
    }
}

#[test]
fn a_pool_that_is_away_costs_nothing() {
    for pool in step::POOLS {
        for is_killed in [false, true] {
            let mut world = World::new();
            for work in all_works() {
                assert!(world.perform_work(&work), "no operation fails");
            }
            let work = Work::PoolAway { pool, is_killed };
            assert!(world.perform_work(&work), "no operation fails");
            world.end(Loss::Everything);
        }
    }
}

/// A server that was created is there after a power cut, because its administrator has been told
/// so.
#[test]
fn a_new_server_survives_a_power_cut() {
    World::create_and_cut();
}

/// A footer that was written and not synced counted as written: the next start, and the closing of
/// packs that had failed, took such a pack for sealed. After a power cut it had no footer.
#[test]
fn a_footer_whose_sync_has_failed_is_written_again() {
    for number in 0..5 {
        for restarts in [false, true] {
            let mut world = World::new();
            world.perform_work(&all_works()[0]);
            world.seal_with(Fault::Change { number }, restarts);
            world.perform_work(&Work::CopyPacks);
            world.end(Loss::Everything);
        }
    }
}

/// The first write to a new pack failed, and the next commit recorded the pack, although it had
/// nothing. The next start removed the file, and an audit reported the pack as lost.
#[test]
fn a_pack_without_quanta_is_not_in_the_catalogue() {
    let works = all_works();
    for number in 0..5 {
        let mut world = World::new();
        world.disk.plan(Fault::Full { number });
        assert!(!world.perform_work(&works[0]), "the disk is full");
        world.disk.relieve();
        world.perform_work(&Work::Remove { directory: 0, names: vec![0] });
        world.end(Loss::Everything);
    }
}
