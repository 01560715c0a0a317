//! The cheapest of all orders of a few runs, by Held and Karp ("A dynamic programming approach to
//! sequencing problems", 1962): the cheapest way to read a set of runs that ends with one of them
//! follows from the cheapest ways to read the set without that run.
//!
//! The work is n^2 2^n: a third of a millisecond for 10 runs, some 50 ms and 9 MiB for 16 runs.

use super::improve::Costs;

/// Returns the cheapest order of all runs, of which there are at most 16.
pub(super) fn cheapest(costs: &Costs) -> Vec<usize> {
    let runs = costs.runs();
    assert!((1..=16).contains(&runs), "a set of runs is 16 bits");
    let sets = 1_usize << runs;
    // For each set of runs and its last run: the seconds, and the run before the last.
    let mut secs = vec![f64::INFINITY; sets * runs];
    let mut before = vec![0_u8; sets * runs];
    for run in 0..runs {
        secs[(1 << run) * runs + run] = costs.secs(None, Some(run));
    }
    for set in 1..sets {
        for last in (0..runs).filter(|run| set >> run & 1 == 1) {
            let so_far = secs[set * runs + last];
            for next in (0..runs).filter(|run| set >> run & 1 == 0) {
                let with_next = (set | 1 << next) * runs + next;
                let there = so_far + costs.secs(Some(last), Some(next));
                if there < secs[with_next] {
                    secs[with_next] = there;
                    before[with_next] = u8::try_from(last).expect("at most 16");
                }
            }
        }
    }
    let mut set = sets - 1;
    let ends = (0..runs).min_by(|a, b| secs[set * runs + a].total_cmp(&secs[set * runs + b]));
    let mut last = ends.expect("there is at least one run");
    let mut order = Vec::with_capacity(runs);
    while order.len() < runs {
        order.push(last);
        let previous = before[set * runs + last];
        set &= !(1 << last);
        last = usize::from(previous);
    }
    assert_eq!(set, 0, "all runs are in the order");
    order.reverse();
    order
}
