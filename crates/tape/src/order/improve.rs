//! Makes an order of up to [`super::MATRIX_RUNS_MAX`] runs cheaper.
//!
//! Or-opt: up to three consecutive runs are moved to the place where they cost least, as long as
//! that makes the order cheaper. A stretch is never reversed: a tape reads in one direction only.
//! When no move helps any more, the order gets a *kick*: two neighbouring stretches change places,
//! and the order is improved again. The result is kept if it is cheaper. The number of moves that
//! are tried is bounded, and so is the time.

use super::run::Run;
use crate::geometry::Point;
use crate::timing::Timing;

/// Maximum number of moves tried for one order: they take some 10 ms.
const MOVES_MAX: usize = 2_000_000;
/// Maximum number of consecutive kicks without success.
const KICKS_MAX: usize = 200;
/// Maximum number of runs that are moved together.
const TOGETHER_MAX: usize = 3;
/// Minimum gain in seconds. A smaller gain is only a rounding error.
const GAIN_MIN: f64 = 1e-6;

/// Seconds from the end of each run to the start of each other run.
pub(super) struct Costs {
    runs: usize,
    /// Matrix of seconds, with a column for each target run. Each run has a row as the source; the
    /// last row is for the present place of the drive.
    secs: Vec<f64>,
}

impl Costs {
    pub(super) fn new(timing: &Timing, head: &Point, runs: &[Run]) -> Self {
        let sources = runs.iter().map(|run| &run.end).chain([head]);
        let secs: Vec<f64> = sources
            .flat_map(|source| runs.iter().map(|target| timing.reach(source, &target.start).1))
            .collect();
        assert_eq!(secs.len(), (runs.len() + 1) * runs.len(), "a row for each source");
        Self { runs: runs.len(), secs }
    }

    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the seconds from the run `source`, or from the present place of the drive if
    /// `source` is `None`, to the run `target`; 0 if `target` is `None`, after the last run.
    pub(super) fn secs(&self, source: Option<usize>, target: Option<usize>) -> f64 {
        target.map_or(0.0, |target| self.secs[source.unwrap_or(self.runs) * self.runs + target])
    }

    fn tour(&self, order: &[usize]) -> f64 {
        debug_assert_eq!(order.len(), self.runs, "a tour passes each run once");
        let sources = std::iter::once(None).chain(order.iter().copied().map(Some));
        sources
            .zip(order)
            .map(|(source, target)| self.secs(source, Some(*target)))
            .sum()
    }
}

/// Returns the cheapest order that was found by improving each of `orders`.
pub(super) fn improved(costs: &Costs, orders: &[&[usize]]) -> Vec<usize> {
    assert!(!orders.is_empty(), "there is an order to begin with");
    let mut moves_left = MOVES_MAX;
    let starts = orders.iter().map(|order| {
        let mut order = order.to_vec();
        settle(costs, &mut order, &mut moves_left);
        order
    });
    let starts: Vec<Vec<usize>> = starts.collect();
    let cheapest = starts.into_iter().min_by(|a, b| costs.tour(a).total_cmp(&costs.tour(b)));
    let mut best = cheapest.expect("there is at least one order");
    kick_on(costs, &mut best, &mut moves_left);
    best
}

/// Kicks `best` until further kicks do not make the order cheaper.
fn kick_on(costs: &Costs, best: &mut Vec<usize>, moves_left: &mut usize) {
    let mut best_secs = costs.tour(best);
    let mut seed = 1;
    let mut failed = 0;
    while *moves_left > 0 && failed < KICKS_MAX && best.len() >= 4 {
        let mut order = kicked(best, &mut seed);
        settle(costs, &mut order, moves_left);
        let secs = costs.tour(&order);
        failed += 1;
        if secs < best_secs - GAIN_MIN {
            (*best, best_secs, failed) = (order, secs, 0);
        }
    }
}

/// Returns `order` with two neighbouring stretches exchanged.
fn kicked(order: &[usize], seed: &mut u64) -> Vec<usize> {
    let mut cut = || draw(seed, order.len() + 1);
    let mut cuts = [cut(), cut(), cut()];
    cuts.sort_unstable();
    let [first, second, third] = cuts;
    let mut kicked = order.to_vec();
    kicked[first..third].rotate_left(second - first);
    kicked
}

/// Returns a pseudo-random number below `bound`, from the generator xorshift.
fn draw(seed: &mut u64, bound: usize) -> usize {
    debug_assert!(*seed != 0 && bound > 0, "xorshift would stay at zero for ever");
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    usize::try_from(*seed % bound as u64).expect("below a usize")
}

/// Moves runs as long as a move makes the order cheaper.
fn settle(costs: &Costs, order: &mut [usize], moves_left: &mut usize) {
    let mut gains = true;
    while gains && *moves_left > 0 {
        gains = false;
        for together in 1..=TOGETHER_MAX.min(order.len().saturating_sub(1)) {
            for start in 0..=order.len() - together {
                gains |= relocate(costs, order, start, together);
                *moves_left = moves_left.saturating_sub(order.len());
            }
        }
    }
}

/// Moves the `together` runs from `start` on to the place where they cost least; returns true if
/// that makes the order cheaper.
fn relocate(costs: &Costs, order: &mut [usize], start: usize, together: usize) -> bool {
    let end = start + together;
    debug_assert!(together > 0 && end <= order.len(), "runs of the order are moved");
    let at = |index: usize| order.get(index).copied();
    let before = |index: usize| index.checked_sub(1).and_then(at);
    let (first, last) = (at(start), at(end - 1));
    let freed = costs.secs(before(start), first) + costs.secs(last, at(end))
        - costs.secs(before(start), at(end));
    let spent = |(left, right): (Option<usize>, Option<usize>)| {
        costs.secs(left, first) + costs.secs(last, right) - costs.secs(left, right)
    };
    let targets = (0..start).chain(end + 1..=order.len());
    let gains = targets.map(|target| (freed - spent((before(target), at(target))), target));
    let Some((gain, target)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) else { return false };
    if gain <= GAIN_MIN {
        return false;
    }
    if target < start {
        order[target..end].rotate_right(together);
    } else {
        order[start..target].rotate_left(together);
    }
    true
}
