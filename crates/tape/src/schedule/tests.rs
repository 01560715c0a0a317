//! Tests of the schedule: single steps by hand, and whole days with a simulated library.

use proptest::prelude::*;

use super::*;
use crate::generation::MEDIUM_LTO8;
use crate::order::Course;
use crate::simulation::Simulation;

const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;
const FIRST: DriveId = DriveId(0);
const SECOND: DriveId = DriveId(1);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn schedule(config: Config, drives: u32) -> Schedule {
    let mut schedule = Schedule::new(config, Geometry::even(MEDIUM_LTO8));
    (0..drives).for_each(|drive| schedule.drive_free(DriveId(drive)));
    schedule
}

fn config(drives: usize) -> Config {
    Config::new(Timing::lto8(), drives)
}

fn simulation(config: Config, drives: u32) -> Simulation {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let schedule = Schedule::new(config, geometry.clone());
    Simulation::new(schedule, config.timing, geometry, drives)
}

fn source(volume: u64, at: u64) -> Source {
    Source { volume: VolumeId(volume), stop: Stop { at, bytes: 10 * MB } }
}

fn waiter(id: u64, kind: Kind) -> Waiter {
    Waiter { id: WaiterId(id), owner: OwnerId(0), program: ProgramId(0), kind }
}

/// Returns an open of an object that no other waiter wants.
fn open(id: u64, volume: u64, at: u64) -> Demand {
    let sources = vec![source(volume, at)];
    Demand { waiter: waiter(id, Kind::Open), object: ObjectId(id), sources }
}

fn of_kind(kind: Kind, ask: Demand) -> Demand {
    Demand { waiter: Waiter { kind, ..ask.waiter }, ..ask }
}

fn copied(ask: Demand, volume: u64, at: u64) -> Demand {
    Demand { sources: [ask.sources, vec![source(volume, at)]].concat(), ..ask }
}

/// Returns each action as a short text.
fn shown(actions: &[Action]) -> Vec<String> {
    let one = |action: &Action| match action {
        Action::Mount { drive, volume } => format!("mount {} {}", drive.0, volume.0),
        Action::Read { drive, stop, .. } => format!("read {} {}", drive.0, stop.at / GB),
        Action::Dismount { drive, volume } => format!("dismount {} {}", drive.0, volume.0),
        Action::Lend { drive, loan, volume, is_mounted } => {
            let how = if *is_mounted { "as it is" } else { "empty" };
            format!("lend {} {} for {} {how}", drive.0, volume.0, loan.0)
        }
        Action::Serve { waiters, .. } => {
            let ids: Vec<String> = waiters.iter().map(|waiter| waiter.id.0.to_string()).collect();
            format!("serve {}", ids.join(" "))
        }
        Action::Fail { waiters, fault, .. } => format!("fail {}: {fault}", waiters.len()),
    };
    actions.iter().map(one).collect()
}

#[track_caller]
fn check(schedule: &mut Schedule, now: u64, expected: &[&str]) {
    assert_eq!(shown(&schedule.actions(secs(now))), expected);
}

#[test]
fn an_open_gets_a_mount_a_read_and_its_object() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    check(&mut schedule, 1, &[]);
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.finished(secs(50), FIRST);
    check(&mut schedule, 50, &["serve 1"]);
    assert_eq!(schedule.wake_at(), Some(secs(350)));
    check(&mut schedule, 349, &[]);
    check(&mut schedule, 350, &["dismount 0 5"]);
    schedule.dismounted(FIRST);
    check(&mut schedule, 400, &[]);
    assert_eq!(schedule.wake_at(), None);
}

#[test]
fn an_object_is_read_once_for_all_who_wait() {
    let mut schedule = schedule(config(1), 1);
    let same = |id| Demand { object: ObjectId(9), ..open(id, 5, GB) };
    let request = schedule.request(secs(0), same(1)).unwrap();
    assert_eq!(schedule.request(secs(0), same(2)), Ok(request));
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    assert_eq!(schedule.request(secs(44), same(3)), Ok(request));
    assert!(schedule.cancel(WaiterId(1)) && !schedule.cancel(WaiterId(1)));
    schedule.finished(secs(50), FIRST);
    check(&mut schedule, 50, &["serve 2 3"]);
}

#[test]
fn a_borrower_comes_behind_readers_and_keeps_what_he_leaves_mounted() {
    let mut schedule = schedule(config(1), 1);
    schedule.borrow(secs(0), LoanId(1), VolumeId(7));
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.finished(secs(50), FIRST);
    check(&mut schedule, 50, &["serve 1", "dismount 0 5"]);
    schedule.dismounted(FIRST);
    check(&mut schedule, 100, &["lend 0 7 for 1 empty"]);
    schedule.given_back(secs(200), FIRST, Some(GB));
    check(&mut schedule, 200, &[]);
    schedule.borrow(secs(210), LoanId(2), VolumeId(7));
    check(&mut schedule, 210, &["lend 0 7 for 2 as it is"]);
    schedule.given_back(secs(220), FIRST, None);
    check(&mut schedule, 220, &[]);
}

#[test]
fn a_drive_is_wanted_back_for_its_volume_at_once_and_for_others_after_a_turn() {
    let mut schedule = schedule(config(1), 1);
    schedule.borrow(secs(0), LoanId(1), VolumeId(7));
    check(&mut schedule, 0, &["lend 0 7 for 1 empty"]);
    assert!(!schedule.is_wanted_back(secs(599), FIRST));
    schedule.request(secs(10), open(1, 5, GB)).unwrap();
    assert!(!schedule.is_wanted_back(secs(599), FIRST));
    assert!(schedule.is_wanted_back(secs(600), FIRST));
    schedule.request(secs(20), open(2, 7, GB)).unwrap();
    assert!(schedule.is_wanted_back(secs(20), FIRST));
    schedule.given_back(secs(30), FIRST, Some(GB));
    check(&mut schedule, 30, &["read 0 1"]);
}

#[test]
fn a_borrower_who_has_waited_for_a_turn_goes_first() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.borrow(secs(1), LoanId(1), VolumeId(7));
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.request(secs(44), open(2, 5, 2 * GB)).unwrap();
    schedule.finished(secs(650), FIRST);
    check(&mut schedule, 650, &["serve 1", "dismount 0 5"]);
    schedule.dismounted(FIRST);
    check(&mut schedule, 700, &["lend 0 7 for 1 empty"]);
    assert!(!schedule.withdraw(LoanId(1)), "the drive is lent already");
}

#[test]
fn a_request_goes_with_its_last_waiter_and_a_read_goes_on() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.request(secs(1), open(2, 5, 50 * GB)).unwrap();
    schedule.cancel(WaiterId(1));
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 50"]);
    schedule.cancel(WaiterId(2));
    schedule.finished(secs(100), FIRST);
    check(&mut schedule, 100, &[]);
}

#[test]
fn what_comes_meanwhile_is_read_on_the_way() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, 10 * GB)).unwrap();
    schedule.request(secs(0), open(2, 5, 40 * GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.request(secs(20), open(3, 5, 5 * GB)).unwrap();
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 5"]);
    schedule.request(secs(45), open(4, 5, 20 * GB)).unwrap();
    for (now, read) in [(60, "read 0 10"), (80, "read 0 20"), (100, "read 0 40")] {
        schedule.finished(secs(now), FIRST);
        let actions = schedule.actions(secs(now));
        assert_eq!(shown(&actions).last().map(String::as_str), Some(read));
    }
}

#[test]
fn the_head_stays_while_opens_come_in() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, 0)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 0"]);
    schedule.finished(secs(44), FIRST);
    check(&mut schedule, 44, &["serve 1"]);
    schedule.request(secs(60), open(2, 5, 30 * GB)).unwrap();
    check(&mut schedule, 60, &[]);
    assert_eq!(schedule.wake_at(), Some(Duration::from_millis(60_250)));
    let later = Duration::from_millis(60_200);
    schedule.request(later, open(3, 5, 12 * GB)).unwrap();
    assert_eq!(schedule.actions(later), []);
    check(&mut schedule, 61, &["read 0 12"]);
    schedule.finished(secs(80), FIRST);
    check(&mut schedule, 80, &["serve 3", "read 0 30"]);
}

#[test]
fn the_head_does_not_stay_for_lists_nor_for_what_lies_before_it() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, 0)).unwrap();
    schedule.actions(secs(0));
    schedule.mounted(secs(43), FIRST);
    schedule.actions(secs(43));
    schedule.finished(secs(44), FIRST);
    schedule.actions(secs(44));
    schedule.request(secs(60), open(2, 5, 11 * MB)).unwrap();
    check(&mut schedule, 60, &["read 0 0"]);
    schedule.finished(secs(61), FIRST);
    schedule.actions(secs(61));
    schedule.request(secs(70), of_kind(Kind::List, open(3, 5, 30 * GB))).unwrap();
    check(&mut schedule, 70, &["read 0 30"]);
}

#[test]
fn several_drives_work_several_volumes() {
    let mut schedule = schedule(config(2), 2);
    for volume in 1..4 {
        schedule.request(secs(0), open(volume, volume, GB)).unwrap();
    }
    check(&mut schedule, 0, &["mount 0 1", "mount 1 2"]);
    schedule.mounted(secs(43), FIRST);
    schedule.mounted(secs(43), SECOND);
    check(&mut schedule, 43, &["read 0 1", "read 1 1"]);
    schedule.finished(secs(50), SECOND);
    check(&mut schedule, 50, &["serve 2", "dismount 1 2"]);
    schedule.finished(secs(51), FIRST);
    check(&mut schedule, 51, &["serve 1"]);
    schedule.dismounted(SECOND);
    check(&mut schedule, 90, &["mount 1 3"]);
}

#[test]
fn a_retained_volume_needs_no_mount_and_the_longest_idle_goes_first() {
    let mut schedule = schedule(config(2), 2);
    for volume in [1, 2] {
        schedule.request(secs(0), open(volume, volume, GB)).unwrap();
    }
    schedule.actions(secs(0));
    for (drive, ready) in [(SECOND, 50), (FIRST, 60)] {
        schedule.mounted(secs(ready - 10), drive);
        schedule.actions(secs(ready - 10));
        schedule.finished(secs(ready), drive);
        schedule.actions(secs(ready));
    }
    schedule.request(secs(100), open(3, 2, 2 * GB)).unwrap();
    schedule.actions(secs(100));
    check(&mut schedule, 101, &["read 1 2"]);
    schedule.finished(secs(110), SECOND);
    schedule.actions(secs(110));
    schedule.request(secs(120), open(4, 7, GB)).unwrap();
    check(&mut schedule, 120, &["dismount 0 1"]);
    check(&mut schedule, 121, &[]);
}

#[test]
fn lists_leave_a_drive_to_opens_and_a_library_its_others() {
    let mut schedule = schedule(Config { drives_max: 2, ..config(2) }, 3);
    for volume in 1..4 {
        let list = of_kind(Kind::List, open(volume, volume, GB));
        schedule.request(secs(0), list).unwrap();
    }
    check(&mut schedule, 0, &["mount 0 1"]);
    for volume in 4..6 {
        schedule.request(secs(1), open(volume, volume, GB)).unwrap();
    }
    check(&mut schedule, 1, &["mount 1 4"]);
}

#[test]
fn a_free_drive_serves_most_waiters_a_second_and_age_goes_first() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 1, GB)).unwrap();
    for id in 2..5 {
        schedule.request(secs(10), open(id, 2, id * GB)).unwrap();
    }
    check(&mut schedule, 10, &["mount 0 2"]);
    let mut schedule = tests::schedule(config(1), 0);
    schedule.request(secs(0), open(1, 1, GB)).unwrap();
    for id in 2..5 {
        schedule.request(secs(10), open(id, 2, id * GB)).unwrap();
    }
    schedule.drive_free(FIRST);
    check(&mut schedule, 3601, &["mount 0 1"]);
}

#[test]
fn budgets_hold_opens_back_and_let_lists_pass() {
    let budgets = Config { owner_opens_max: 2, program_opens_max: 3, ..config(1) };
    let mut schedule = schedule(budgets, 1);
    let of = |id, owner| {
        let ask = open(id, 5, id * GB);
        Demand { waiter: Waiter { owner: OwnerId(owner), ..ask.waiter }, ..ask }
    };
    assert!(schedule.request(secs(0), of(1, 1)).is_ok());
    assert!(schedule.request(secs(0), of(2, 1)).is_ok());
    assert_eq!(schedule.request(secs(0), of(3, 1)), Err(Refusal::OwnerBudget));
    assert!(schedule.request(secs(0), of(4, 2)).is_ok());
    assert_eq!(schedule.request(secs(0), of(5, 2)), Err(Refusal::ProgramBudget));
    assert!(schedule.request(secs(0), of_kind(Kind::List, of(6, 1))).is_ok());
    schedule.cancel(WaiterId(1));
    assert!(schedule.request(secs(0), of(7, 1)).is_ok());
}

#[test]
fn optimised_only_refuses_opens_and_nothing_else() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    schedule.reconfigure(1, secs(300), true);
    assert_eq!(schedule.request(secs(0), open(2, 5, GB)), Err(Refusal::OptimisedOnly));
    assert!(schedule.request(secs(0), of_kind(Kind::List, open(3, 5, GB))).is_ok());
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.reconfigure(1, secs(300), false);
    assert!(schedule.request(secs(0), open(2, 5, GB)).is_ok());
}

#[test]
fn what_a_broken_drive_was_reading_is_read_by_another() {
    let mut schedule = schedule(config(2), 2);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    schedule.request(secs(0), open(2, 5, 2 * GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.drive_failed(secs(50), FIRST);
    check(&mut schedule, 50, &["dismount 0 5"]);
    check(&mut schedule, 51, &[]);
    schedule.dismounted(FIRST);
    check(&mut schedule, 99, &["mount 1 5"]);
    schedule.mounted(secs(140), SECOND);
    check(&mut schedule, 140, &["read 1 1"]);
    schedule.drive_failed(secs(150), SECOND);
    check(&mut schedule, 150, &["fail 1: no copy can be read", "dismount 1 5"]);
    schedule.dismounted(SECOND);
    schedule.drive_free(SECOND);
    check(&mut schedule, 200, &["mount 1 5"]);
}

#[test]
fn a_drive_that_breaks_over_a_mount_gives_the_volume_back() {
    let mut schedule = schedule(config(2), 2);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.drive_failed(secs(30), FIRST);
    check(&mut schedule, 30, &["dismount 0 5"]);
    schedule.drive_failed(secs(31), FIRST);
    check(&mut schedule, 31, &[]);
    schedule.dismounted(FIRST);
    check(&mut schedule, 60, &["mount 1 5"]);
}

#[test]
fn a_mount_that_comes_to_nothing_leaves_the_drive_free() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), copied(open(1, 5, GB), 6, GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.volume_absent(secs(10), VolumeId(5), Absence::Missing);
    schedule.drive_free(FIRST);
    check(&mut schedule, 10, &["mount 0 6"]);
}

#[test]
fn what_cannot_be_read_is_read_from_another_copy() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), copied(open(1, 5, GB), 6, 2 * GB)).unwrap();
    check(&mut schedule, 0, &["mount 0 5"]);
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.read_failed(secs(60), FIRST);
    check(&mut schedule, 60, &["dismount 0 5"]);
    schedule.dismounted(FIRST);
    check(&mut schedule, 100, &["mount 0 6"]);
    schedule.mounted(secs(143), FIRST);
    check(&mut schedule, 143, &["read 0 2"]);
    schedule.read_failed(secs(160), FIRST);
    check(&mut schedule, 160, &["fail 1: no copy can be read"]);
}

#[test]
fn the_copy_that_comes_first_is_chosen() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 6, GB)).unwrap();
    schedule.actions(secs(0));
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.request(secs(44), copied(open(2, 5, GB), 6, 20 * GB)).unwrap();
    schedule.finished(secs(50), FIRST);
    check(&mut schedule, 50, &["serve 1", "read 0 20"]);
}

#[test]
fn absent_volumes_are_named_at_once_and_left_for_other_copies() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), copied(open(1, 5, GB), 6, GB)).unwrap();
    schedule.request(secs(0), open(2, 5, GB)).unwrap();
    schedule.volume_absent(secs(1), VolumeId(5), Absence::Offsite);
    check(&mut schedule, 1, &["fail 1: volume 5 is offsite", "mount 0 6"]);
    let refusal = Refusal::Unavailable { volume: VolumeId(5), absence: Absence::Offsite };
    assert_eq!(schedule.request(secs(2), open(3, 5, GB)), Err(refusal));
    assert_eq!(refusal.to_string(), "volume 5 is offsite");
    schedule.volume_present(VolumeId(5));
    assert!(schedule.request(secs(3), open(3, 5, GB)).is_ok());
}

#[test]
fn forecasts_come_true_when_nothing_else_comes() {
    let mut simulation = simulation(config(2), 2);
    for id in 0..60 {
        simulation.ask(secs(0), open(id, id % 5, (id * 7919 % 11_000) * GB));
    }
    simulation.ask(secs(0), open(60, 0, 6000 * GB));
    while simulation.schedule.waiting(VolumeId(0)).len() < 13 {
        assert!(simulation.step());
    }
    let told: Vec<_> = (0..=60)
        .map(|id| simulation.schedule.forecast(secs(0), WaiterId(id)).expect("the waiter waits"))
        .collect();
    simulation.run();
    assert_eq!(simulation.served.len(), 61);
    for served in &simulation.served {
        let told = told[usize::try_from(served.waiter.0).unwrap()].served_at.as_secs_f64();
        let error = (served.served.as_secs_f64() - told).abs();
        assert!(error <= 0.1 * told + 1.0, "{served:?}, told {told}");
    }
}

#[test]
fn a_forecast_says_how_many_are_ahead() {
    let mut schedule = schedule(config(1), 1);
    for id in [3, 1, 2] {
        schedule.request(secs(0), open(id, 5, id * 10 * GB)).unwrap();
    }
    schedule.actions(secs(0));
    schedule.mounted(secs(43), FIRST);
    schedule.actions(secs(43));
    let ahead = [1, 2, 3].map(|id| schedule.forecast(secs(43), WaiterId(id)).unwrap().ahead);
    assert_eq!(ahead, [0, 0, 1]);
    assert_eq!(schedule.forecast(secs(43), WaiterId(9)), None);
}

/// Returns the wait of a request for the far end of a volume, while later requests want the
/// beginning of the volume again and again.
fn wait_of_the_tail(age_max: Duration) -> Duration {
    let mut simulation = simulation(Config { age_max, ..config(1) }, 1);
    let far = 25 * MEDIUM_LTO8.wrap_bytes() / 2;
    simulation.ask(secs(0), open(0, 5, 11_000 * GB + far));
    for id in 1..2000 {
        let at = id * 7919 % 4000 * 10 * MB;
        simulation.ask(Duration::from_millis(id * 4000), open(id, 5, at));
    }
    simulation.run();
    let tail = simulation.served.iter().find(|served| served.waiter == WaiterId(0));
    tail.expect("every waiter is served").served
}

#[test]
fn a_queue_that_keeps_growing_does_not_starve_its_tail() {
    let (unbounded, bounded) = (wait_of_the_tail(Duration::MAX), wait_of_the_tail(secs(600)));
    assert!(bounded < secs(1200), "{bounded:?}");
    assert!(unbounded > 2 * bounded, "{unbounded:?} against {bounded:?}");
}

#[test]
fn a_volume_in_demand_does_not_keep_the_drive_from_others() {
    let limits =
        Config { age_max: secs(600), turn_min: secs(300), turn_max: secs(600), ..config(1) };
    let mut simulation = simulation(limits, 1);
    simulation.ask(secs(60), open(0, 6, GB));
    for id in 1..2000 {
        let at = id * 7919 % 4000 * 10 * MB;
        simulation.ask(Duration::from_millis(id * 4000), open(id, 5, at));
    }
    simulation.run();
    let other = simulation.served.iter().find(|served| served.waiter == WaiterId(0));
    let wait = other.expect("every waiter is served").served;
    assert!(wait < secs(1000), "{wait:?}");
    assert_eq!(simulation.served.len(), 2000);
}

#[test]
fn a_drive_is_not_given_up_to_work_that_may_not_have_it() {
    let limits = Config { age_max: secs(600), turn_min: secs(300), ..config(2) };
    let mut simulation = simulation(limits, 2);
    for id in 0..1000 {
        let at = id * 7919 % 4000 * 10 * MB;
        simulation.ask(Duration::from_millis(id * 4000), open(id, 5, at));
    }
    for id in 1000..1200 {
        let list = of_kind(Kind::List, open(id, 6 + id % 2, id * 7919 % 11_000 * GB));
        simulation.ask(secs(0), list);
    }
    simulation.run();
    assert_eq!(simulation.mounts, 3);
}

#[test]
fn a_drive_that_starts_anew_leaves_what_it_was_reading_to_wait() {
    let mut schedule = schedule(config(1), 1);
    schedule.request(secs(0), open(1, 5, GB)).unwrap();
    schedule.actions(secs(0));
    schedule.mounted(secs(43), FIRST);
    check(&mut schedule, 43, &["read 0 1"]);
    schedule.drive_free(FIRST);
    check(&mut schedule, 50, &["mount 0 5"]);
}

const SLOWER: Correction = Correction { mounting: 1.6, positioning: 1.4, reading: 3.0 };

/// Returns a simulation after 100 reads of 6 volumes, in a library whose only drive is slower than
/// its schedule assumes.
fn slower_library() -> Simulation {
    let (config, geometry) = (config(1), Geometry::even(MEDIUM_LTO8));
    let real = config.timing.corrected(&SLOWER);
    let mut simulation =
        Simulation::new(Schedule::new(config, geometry.clone()), real, geometry, 1);
    for id in 0..100 {
        let mut demand = open(id, id % 6, (id * 7919 % 11_000) * GB);
        demand.sources[0].stop.bytes = id % 7 * GB;
        simulation.ask(secs(0), demand);
    }
    simulation.run();
    simulation
}

#[test]
fn drives_that_differ_from_their_model_correct_it() {
    let found = slower_library().schedule.correction();
    assert!((found.mounting - SLOWER.mounting).abs() < 0.05, "{found:?}");
    assert!((found.positioning - SLOWER.positioning).abs() < 0.05, "{found:?}");
    assert!((found.reading - SLOWER.reading).abs() < 0.05, "{found:?}");
}

#[test]
fn a_plan_is_close_to_the_truth_once_the_drive_has_shown_its_times() {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let real = Timing::lto8().corrected(&SLOWER);
    let truth = Course { timing: &real, geometry: &geometry };
    let stop = |index: u64| Stop { at: index * 37 % 400 * GB, bytes: GB };
    let stops: Vec<Stop> = (1..=100).map(stop).collect();
    let reading: f64 = stops.iter().map(|stop| real.read_secs(stop.bytes)).sum();
    let error = |schedule: &Schedule| {
        let preview = schedule.preview(VolumeId(77), &stops);
        let positioning = truth.positioning_secs(0, &stops, &preview.order);
        (preview.secs / (real.mount_secs() + reading + positioning) - 1.0).abs()
    };
    let (fresh, learned) = (error(&schedule(config(1), 1)), error(&slower_library().schedule));
    assert!(fresh > 0.3 && learned < 0.05, "{fresh} before, {learned} after");
}

/// The time until all waiters are served hardly depends on the order of volumes, but the mean wait
/// does: if mounts take most of the time, two waiters of a long read come before one waiter of a
/// short read.
#[test]
fn volumes_take_turns_by_the_times_that_mounts_really_take() {
    let first_of = |mount_secs: u64| {
        let mut schedule = schedule(config(1), 1);
        for id in 0..5 {
            let start = id * 10_000;
            schedule.request(secs(start), open(id, id, 0)).unwrap();
            schedule.actions(secs(start));
            schedule.mounted(secs(start + mount_secs), FIRST);
            schedule.actions(secs(start + mount_secs));
            schedule.finished(secs(start + mount_secs + 1), FIRST);
            schedule.actions(secs(start + 5000));
            schedule.dismounted(FIRST);
        }
        let long = |id, at| {
            let mut demand = of_kind(Kind::List, open(id, 20, at));
            demand.sources[0].stop.bytes = 12 * GB;
            demand
        };
        for demand in [of_kind(Kind::List, open(10, 10, 0)), long(11, 0), long(12, 12 * GB)] {
            schedule.request(secs(60_000), demand).unwrap();
        }
        shown(&schedule.actions(secs(60_000)))
    };
    assert_eq!(first_of(43), ["mount 0 10"]);
    assert_eq!(first_of(129), ["mount 0 20"]);
}

#[test]
fn a_read_whose_arrival_is_not_reported_measures_nothing() {
    let mut schedule = schedule(config(1), 1);
    for id in 0..20 {
        schedule.request(secs(0), open(id, 5, id * 500 * GB)).unwrap();
    }
    schedule.actions(secs(0));
    schedule.mounted(secs(43), FIRST);
    for read in 0..20 {
        schedule.actions(secs(100 + read * 1000));
        schedule.finished(secs(600 + read * 1000), FIRST);
    }
    assert_eq!(schedule.correction(), Correction::NONE);
}

#[test]
fn an_order_that_the_drive_recommends_is_followed_where_it_is_cheaper() {
    let mut schedule = schedule(config(1), 1);
    for id in 0..300 {
        schedule.request(secs(0), open(id, 5, (id * 7919 % 11_000) * GB)).unwrap();
    }
    schedule.actions(secs(0));
    let ids = |schedule: &mut Schedule| {
        let forecasts = schedule.forecasts(secs(0));
        let mut ids: Vec<RequestId> = forecasts.keys().copied().collect();
        ids.sort_by_key(|id| forecasts[id].ahead);
        ids
    };
    let last = |schedule: &mut Schedule| {
        schedule.forecasts(secs(0)).values().map(|forecast| forecast.served_at).max()
    };
    let (own, own_last) = (ids(&mut schedule), last(&mut schedule));
    schedule.recommend(VolumeId(5), own.iter().rev().copied().collect());
    assert_eq!(ids(&mut schedule), own);
    let better = (0..own.len() - 2).find(|at| {
        let mut order = own.clone();
        order.swap(*at, at + 1);
        schedule.recommend(VolumeId(5), order.clone());
        ids(&mut schedule) == order
    });
    assert!(better.is_some() && last(&mut schedule) < own_last);
}

#[test]
fn a_volume_with_its_own_geometry_is_planned_by_it() {
    let mut schedule = schedule(config(1), 1);
    let even = MEDIUM_LTO8.wrap_bytes();
    let ends: Vec<u64> = (1..=208).map(|wrap| wrap * even / 2 / 4096).collect();
    schedule.set_geometry(VolumeId(5), Geometry::reported(MEDIUM_LTO8, &ends, 4096).unwrap());
    // With wraps of half the length, the places at 1 and 5 quarters lie on forward wraps, and the
    // place at 3 quarters lies on a backward wrap.
    for (id, quarters) in [(0, 1), (1, 5), (2, 3)] {
        schedule.request(secs(0), open(id, 5, quarters * even / 4 + GB)).unwrap();
    }
    schedule.actions(secs(0));
    let waits =
        |schedule: &mut Schedule, id| schedule.forecast(secs(0), WaiterId(id)).unwrap().served_at;
    assert!(waits(&mut schedule, 1) < waits(&mut schedule, 2));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Demand(u64, u64),
    Cancel(u64),
    Run(u64),
    Break,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..5_u64, 0..11_000_u64).prop_map(|(volume, gb)| Step::Demand(volume, gb)),
        1 => (0..60_u64).prop_map(Step::Cancel),
        3 => (1..20_u64).prop_map(Step::Run),
        1 => Just(Step::Break),
    ];
    proptest::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every waiter is served, refused, cancelled, or told of a failure, in any sequence of
    /// demands, cancellations and failures of drives.
    #[test]
    fn nobody_is_forgotten(steps in steps()) {
        let mut simulation = simulation(config(3), 3);
        let (mut asked, mut cancelled, mut broken) = (0, 0, 0);
        for step in steps {
            let now = simulation.now();
            match step {
                Step::Demand(volume, gb) => {
                    let ask = copied(open(asked, volume, gb * GB), volume + 1, gb * GB);
                    simulation.ask(now, ask);
                    asked += 1;
                }
                Step::Cancel(waiter) => cancelled += u64::from(simulation.cancel(WaiterId(waiter))),
                Step::Run(events) => {
                    for _ in 0..events {
                        simulation.step();
                    }
                }
                Step::Break if broken < 2 => {
                    simulation.break_drive(now, DriveId(broken));
                    broken += 1;
                }
                Step::Break => {}
            }
        }
        simulation.run();
        let answered = simulation.served.len() + simulation.failed.len();
        prop_assert_eq!(answered as u64 + cancelled, asked);
    }
}
