//! Tests of the guard: single readings, and random histories of a machine and its clock.

use proptest::prelude::*;

use super::*;

const DAY: i64 = 24 * HOUR_MICROS;
/// The moment at which the machine of the tests started.
const BEGIN: i64 = 20_000 * DAY;

fn reading(clock: i64, uptime_micros: i64, tag: u64) -> Reading {
    Reading { clock: ServerTime(clock), uptime_micros, start_tag: Some(tag) }
}

/// Record of a machine that has been up for a day since `BEGIN`.
fn record() -> Record {
    renewed(&reading(BEGIN + DAY, DAY, 1))
}

/// Returns a word for the verdict about a clock that is ahead of `record` by `ahead`, `passed`
/// after it, in the start `tag` of the machine. `witnesses` are ahead of the clock.
fn verdict(ahead: i64, passed: i64, tag: u64, witnesses: &[i64]) -> &'static str {
    let uptime = if tag == 1 { DAY + passed } else { HOUR_MICROS };
    let clock = BEGIN + DAY + passed + ahead;
    let witnesses: Vec<_> = witnesses.iter().map(|lead| ServerTime(clock + lead)).collect();
    match judge(Some(&record()), &reading(clock, uptime, tag), &witnesses) {
        Verdict::Agrees => "agrees",
        Verdict::Vouched(_) => "vouched",
        Verdict::Refused(_) => "refused",
    }
}

#[test]
fn the_first_reading_is_believed() {
    assert_eq!(judge(None, &reading(BEGIN, 0, 1), &[]), Verdict::Agrees);
}

#[test]
fn weeks_without_a_server_need_nobody_while_the_machine_is_up() {
    assert_eq!(verdict(0, 60 * DAY, 1, &[]), "agrees");
    assert_eq!(verdict(HOUR_MICROS, 0, 1, &[]), "agrees");
    assert_eq!(verdict(2 * HOUR_MICROS, 0, 1, &[]), "refused");
}

#[test]
fn a_jump_of_28_days_is_refused_even_if_all_clocks_jumped() {
    assert_eq!(verdict(28 * DAY, 0, 1, &[]), "refused");
    assert_eq!(verdict(28 * DAY, 0, 1, &[0, 0, 0]), "refused");
    assert_eq!(verdict(3650 * DAY, 90 * DAY, 1, &[0]), "refused");
}

#[test]
fn a_pause_of_the_machine_is_believed_if_another_clock_agrees() {
    assert_eq!(verdict(2 * DAY, 0, 1, &[]), "refused");
    assert_eq!(verdict(2 * DAY, 0, 1, &[HOUR_MICROS]), "vouched");
    assert_eq!(verdict(2 * DAY, 0, 1, &[-2 * DAY]), "refused");
}

#[test]
fn another_start_may_be_days_later_and_more_if_another_clock_agrees() {
    assert_eq!(verdict(3 * DAY, 0, 2, &[]), "agrees");
    assert_eq!(verdict(4 * DAY, 0, 2, &[]), "refused");
    assert_eq!(verdict(4 * DAY, 0, 2, &[0]), "vouched");
    assert_eq!(verdict(28 * DAY, 0, 2, &[-28 * DAY]), "refused");
}

#[test]
fn a_clock_that_went_back_needs_another_clock() {
    for tag in [1, 2] {
        assert_eq!(verdict(-HOUR_MICROS, 0, tag, &[]), "agrees");
        assert_eq!(verdict(-30 * DAY, 0, tag, &[]), "refused");
        assert_eq!(verdict(-30 * DAY, 0, tag, &[0]), "vouched");
        assert_eq!(verdict(-30 * DAY, 0, tag, &[30 * DAY]), "refused");
    }
}

#[test]
fn most_of_the_clocks_decide_and_the_earlier_of_two() {
    assert_eq!(verdict(9 * DAY, 0, 2, &[0, 0, -3650 * DAY]), "vouched");
    assert_eq!(verdict(9 * DAY, 0, 2, &[0, -3650 * DAY]), "refused");
    assert_eq!(verdict(9 * DAY, 0, 2, &[0, -9 * DAY, -9 * DAY]), "refused");
}

#[test]
fn a_kernel_without_a_number_of_its_start_counts_as_started_again() {
    let unnumbered = |clock| Reading { start_tag: None, ..reading(clock, DAY, 1) };
    let known = advanced(None, &unnumbered(BEGIN));
    assert_eq!(known.start, None);
    assert_eq!(judge(Some(&known), &unnumbered(BEGIN + 3 * DAY), &[]), Verdict::Agrees);
    let refused = judge(Some(&known), &unnumbered(BEGIN + 28 * DAY), &[]);
    assert!(matches!(refused, Verdict::Refused(_)), "{refused:?}");
}

/// Events of a machine between two readings.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Microseconds that pass.
    passes: i64,
    /// Microseconds by which somebody sets the clock.
    jump: i64,
    is_restart: bool,
}

fn steps(jumps: std::ops::Range<i64>, restarts: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..5 * DAY, jumps, any::<bool>()).prop_map(move |(passes, jump, restart)| Step {
        passes: if restart && restarts { passes.min(LEAP_MICROS_MAX) } else { passes },
        jump,
        is_restart: restart && restarts,
    });
    prop::collection::vec(step, 1..40)
}

/// Takes the steps without any other clock, and calls `visit` with each verdict, the record after
/// it, and the true time.
fn follow(steps: &[Step], mut visit: impl FnMut(Verdict, &Record, i64)) {
    let (mut time, mut lead, mut started, mut tag) = (BEGIN, 0, BEGIN, 1);
    let mut record = renewed(&reading(BEGIN, 0, 1));
    for step in steps {
        time += step.passes;
        lead += step.jump;
        if step.is_restart {
            (started, tag) = (time, tag + 1);
        }
        let now = reading(time + lead, time - started, tag);
        let verdict = judge(Some(&record), &now, &[]);
        if verdict == Verdict::Agrees {
            record = advanced(Some(&record), &now);
        }
        visit(verdict, &record, time);
    }
}

proptest! {
    #[test]
    fn a_clock_that_nobody_sets_is_always_believed(steps in steps(0..1, true)) {
        follow(&steps, |verdict, _, _| assert_eq!(verdict, Verdict::Agrees));
    }

    #[test]
    fn jumps_never_add_up_while_the_machine_is_up(steps in steps(-9 * DAY..9 * DAY, false)) {
        let mut up = 0;
        let mut passed = steps.iter().map(|step| step.passes);
        follow(&steps, |_, record, time| {
            up += passed.next().expect("each step is visited");
            let ahead = record.seen.0 - time;
            assert!(ahead <= TOLERANCE_MICROS + up / UPTIME_PER_DRIFT, "{ahead}");
        });
    }

    #[test]
    fn a_refused_reading_is_refused_again_until_the_clock_is_right(
        jump in LEAP_MICROS_MAX + 1..4000 * DAY,
        is_restart: bool,
        later in 0..90 * DAY,
    ) {
        let steps = [
            Step { passes: 0, jump, is_restart },
            Step { passes: later, jump: 0, is_restart: false },
            Step { passes: 0, jump: -jump, is_restart: false },
        ];
        let mut refusals = Vec::new();
        follow(&steps, |verdict, _, _| refusals.push(matches!(verdict, Verdict::Refused(_))));
        assert!(refusals[0] && refusals[1]);
        assert!(!refusals[2] || is_restart && later > LEAP_MICROS_MAX);
    }
}
