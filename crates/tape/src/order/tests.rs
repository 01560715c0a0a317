//! Tests of the recall order.

use proptest::prelude::*;

use super::*;
use crate::generation::{LTO8, MEDIUM_LTO8};

const MB: u64 = 1_000_000;
const GB: u64 = 1_000_000_000;

fn course<'a>(timing: &'a Timing, geometry: &'a Geometry) -> Course<'a> {
    Course { timing, geometry }
}

fn plan(stops: &[Stop], recommended: Option<&[usize]>) -> Plan {
    let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
    course(&timing, &geometry).plan(0, stops, recommended)
}

fn scattered(count: u64, seed: u64) -> Vec<Stop> {
    let mixed = |index: u64| {
        let mixed = (index + 1 + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
    };
    let capacity = LTO8.medium.capacity_bytes - 200 * MB;
    (0..count)
        .map(|index| Stop { at: mixed(index) % capacity, bytes: 200 * MB })
        .collect()
}

fn stops() -> impl Strategy<Value = Vec<Stop>> {
    let stop = (0..12_000 * GB, 0..20 * GB).prop_map(|(at, bytes)| Stop { at, bytes });
    proptest::collection::vec(stop, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_stop_is_read_once_and_the_estimate_is_that_of_the_order(
        stops in stops(),
        from in 0..12_000 * GB,
    ) {
        let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
        let course = course(&timing, &geometry);
        let plan = course.plan(from, &stops, None);
        prop_assert!(is_permutation(&plan.order, stops.len()));
        prop_assert!(plan.estimates.iter().all(|(_, secs)| plan.positioning_secs <= *secs));
        // Only stops without overlap are compared: overlapping stops are read in one pass, and the
        // seconds of the order would include the steps back between them.
        let mut ends: Vec<_> = stops.iter().map(|stop| (stop.at, stop.end())).collect();
        ends.sort_unstable();
        if ends.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
            let secs = course.positioning_secs(from, &stops, &plan.order);
            prop_assert!((secs - plan.positioning_secs).abs() < 1e-6);
        }
    }

    #[test]
    fn few_stops_are_read_in_the_best_order_of_all(
        ats in proptest::collection::vec(0..12_000_u64, 2..8),
    ) {
        let stops: Vec<Stop> =
            ats.iter().map(|at| Stop { at: at * GB, bytes: 200 * MB }).collect();
        let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
        let course = course(&timing, &geometry);
        let plan = course.plan(0, &stops, None);
        let best = permutations(stops.len())
            .iter()
            .map(|order| course.positioning_secs(0, &stops, order))
            .fold(f64::INFINITY, f64::min);
        prop_assert!((plan.positioning_secs - best).abs() < 1e-6, "{plan:?}, best {best}");
        let cheapest = course.cheapest_secs(0, &stops).expect("there are few runs");
        prop_assert!((cheapest - best).abs() < 1e-6, "{cheapest}, best {best}");
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let with_last = |order: &Vec<usize>| {
        let order = order.clone();
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    };
    shorter.iter().flat_map(with_last).collect()
}

#[test]
fn nothing_wanted_takes_nothing() {
    let plan = plan(&[], None);
    assert_eq!((plan.order.len(), plan.positioning_secs.to_bits()), (0, 0));
}

#[test]
fn neighbours_are_read_from_front_to_back() {
    let files: Vec<Stop> = (0..1000)
        .rev()
        .map(|index| Stop { at: index * 10 * MB, bytes: 10 * MB })
        .collect();
    let plan = plan(&files, None);
    assert!(plan.order.iter().rev().copied().eq(0..1000));
    assert_eq!((plan.candidate, plan.positioning_secs.to_bits()), (Candidate::ByBlock, 0));
}

#[test]
fn a_file_asked_for_twice_is_passed_once() {
    let file = Stop { at: 100 * GB, bytes: GB };
    let twice = plan(&[file, Stop { bytes: GB / 2, ..file }, file], None);
    assert_eq!(twice.order, [1, 0, 2]);
}

#[test]
fn scattered_files_take_two_fifths_of_block_order() {
    for seed in 0..3 {
        for count in [64, 256] {
            let plan = plan(&scattered(count, seed), None);
            let (first, by_block) = plan.estimates[0];
            assert_eq!(first, Candidate::ByBlock);
            assert_eq!(plan.candidate, Candidate::Improved);
            assert!(plan.positioning_secs <= 0.4 * by_block, "{:?}", plan.estimates);
        }
    }
}

#[test]
fn more_than_a_few_are_read_in_an_order_close_to_the_best() {
    let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
    let course = course(&timing, &geometry);
    for seed in 0..5 {
        let stops = scattered(16, seed);
        let best = course.cheapest_secs(0, &stops).expect("there are few runs");
        let plan = course.plan(0, &stops, None);
        assert!((best - 1e-6..=best * 1.02).contains(&plan.positioning_secs), "{plan:?}, {best}");
    }
    assert_eq!(course.cheapest_secs(0, &scattered(17, 1)), None);
    assert_eq!(course.cheapest_secs(0, &[]), None);
}

#[test]
fn a_recommended_order_wins_where_it_is_cheaper_and_counts_only_where_it_is_whole() {
    let stops = scattered(300, 1);
    let own = plan(&stops, None);
    assert_eq!(own.candidate, Candidate::Greedy);
    let neighbours_swapped = (0..299).map(|at| {
        let mut order = own.order.clone();
        order.swap(at, at + 1);
        order
    });
    let offered: Vec<(Vec<usize>, Plan)> = neighbours_swapped
        .map(|order| (order.clone(), plan(&stops, Some(&order))))
        .collect();
    let wins = |plan: &Plan| plan.candidate == Candidate::Drive;
    let (recommended, cheaper) = offered.iter().find(|(_, plan)| wins(plan)).expect("one is");
    assert_eq!(cheaper.order, *recommended);
    assert!(cheaper.positioning_secs < own.positioning_secs);
    let (_, dearer) = offered.iter().find(|(_, plan)| !wins(plan)).expect("one is not");
    assert_eq!(dearer.order, own.order);
    for broken in [&recommended[1..], &[recommended.clone(), vec![0]].concat(), &[0; 300]] {
        assert_eq!(plan(&stops, Some(broken)), own);
    }
    let few = scattered(3, 1);
    let best = plan(&few, None);
    let same = plan(&few, Some(&best.order));
    assert_eq!((same.candidate, same.order), (best.candidate, best.order));
}

#[test]
fn a_hundred_thousand_files_have_an_order() {
    let stops: Vec<Stop> =
        scattered(100_000, 1).iter().map(|stop| Stop { bytes: MB, ..*stop }).collect();
    let timing = Timing { skip_bytes_max: 0, ..Timing::lto8() };
    let plan = course(&timing, &Geometry::even(MEDIUM_LTO8)).plan(0, &stops, None);
    assert!(is_permutation(&plan.order, stops.len()));
    assert!(plan.estimates.iter().all(|(candidate, _)| *candidate != Candidate::Greedy));
}
