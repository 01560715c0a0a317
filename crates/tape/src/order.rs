//! The order in which the files wanted from one volume are read.
//!
//! 1. Files form a *run*, which is read in one pass from front to back, if reading the gaps between
//!    them takes less time than the start of a locate.
//! 2. Several orders of the runs are made, each is estimated with the same model, and the cheapest
//!    is taken. No method is the best for all numbers of files, and all estimates are cheap.
//! 3. The number of runs limits the work: orders that compare all pairs of runs are made up to
//!    [`GREEDY_RUNS_MAX`] runs, and a matrix of the costs of all pairs up to [`MATRIX_RUNS_MAX`]
//!    runs.
//! 4. Nothing is random and nothing looks at a clock: the same files give the same order.
//!
//! An order is judged by the time until its last file. The time that each waiter waits depends on
//! `schedule`, which chooses the requests that are planned together.

mod exact;
mod improve;
mod run;

use crate::geometry::{Geometry, Point};
use crate::timing::Timing;

use run::Run;

/// Maximum number of runs for the greedy order, which looks for the nearest of all remaining runs.
pub const GREEDY_RUNS_MAX: usize = 2000;
/// Maximum number of runs for which an order is improved with the costs between all pairs of runs.
pub const MATRIX_RUNS_MAX: usize = 256;
/// Maximum number of runs for which a plan is the cheapest of all orders. Finding it takes a few
/// milliseconds.
pub const EXACT_RUNS_MAX: usize = 12;
/// Maximum number of runs for which [`Course::cheapest_secs`] computes the cheapest of all orders.
pub const CHEAPEST_RUNS_MAX: usize = 16;

/// A stretch of a volume that is wanted: `bytes` from the address `at` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    pub at: u64,
    pub bytes: u64,
}

/// The method by which an order was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Candidate {
    /// Ascending addresses.
    ByBlock,
    /// Forward wraps are read on the way to the end of the tape, backward wraps on the way back.
    Sweep,
    /// The next run is always the nearest by estimated time.
    Greedy,
    /// The best of the orders above, with runs moved to places where they cost less; up to
    /// [`EXACT_RUNS_MAX`] runs, the cheapest of all orders.
    Improved,
    /// The order that the drive has recommended.
    Drive,
}

/// An order of reading, and its estimated time.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Indices of the stops, in the order in which to read them.
    pub order: Vec<usize>,
    pub candidate: Candidate,
    /// Seconds of positioning to all stops, without the time of reading.
    pub positioning_secs: f64,
    /// Seconds of positioning for each order that was compared.
    pub estimates: Vec<(Candidate, f64)>,
}

/// One volume in one kind of drive.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    pub timing: &'a Timing,
    pub geometry: &'a Geometry,
}

impl Course<'_> {
    /// Returns the cheapest order to read `stops`, if the drive stands at the address `from`.
    ///
    /// `recommended` is the order that the drive has recommended, as indices of `stops`. An order
    /// that leaves out a stop or names a stop twice is ignored.
    pub fn plan(&self, from: u64, stops: &[Stop], recommended: Option<&[usize]>) -> Plan {
        let sorted = by_address(stops);
        let runs = self.runs(stops, &sorted);
        let head = self.geometry.point(from);
        let expand = |order: &[usize]| -> Vec<usize> {
            order
                .iter()
                .flat_map(|run| &sorted[runs[*run].first..=runs[*run].last])
                .copied()
                .collect()
        };
        let made = self.candidates(&head, &runs);
        let mut estimates: Vec<(Candidate, f64)> = made
            .iter()
            .map(|(candidate, order)| (*candidate, self.tour(&head, &runs, order)))
            .collect();
        // The time within a run is the same in every order of the runs.
        let within = self.within_secs(stops, &sorted, &runs);
        estimates.iter_mut().for_each(|(_, secs)| *secs += within);
        let orders = made.iter().map(|(_, order)| expand(order));
        let mut orders: Vec<Vec<usize>> = orders.collect();
        if let Some(order) = recommended.filter(|order| is_permutation(order, stops.len())) {
            estimates.push((Candidate::Drive, self.positioning_secs(from, stops, order)));
            orders.push(order.to_vec());
        }
        let cheapest =
            (0..estimates.len()).min_by(|a, b| estimates[*a].1.total_cmp(&estimates[*b].1));
        let cheapest = cheapest.expect("the order by block is always a candidate");
        assert_eq!(orders.len(), estimates.len(), "each order has its estimate");
        debug_assert!(is_permutation(&orders[cheapest], stops.len()), "each stop is read once");
        let (candidate, positioning_secs) = estimates[cheapest];
        Plan { order: orders.swap_remove(cheapest), candidate, positioning_secs, estimates }
    }

    /// Returns the seconds of positioning to all `stops` in this order, without the time of
    /// reading.
    pub fn positioning_secs(&self, from: u64, stops: &[Stop], order: &[usize]) -> f64 {
        debug_assert!(
            order.iter().all(|index| *index < stops.len()),
            "an order holds indices of stops"
        );
        let mut head = self.geometry.point(from);
        let mut secs = 0.0;
        for index in order {
            let stop = &stops[*index];
            secs += self.timing.reach(&head, &self.geometry.point(stop.at)).1;
            head = self.geometry.point(stop.end());
        }
        secs
    }

    /// Returns the seconds of positioning to all `stops` in the cheapest of all orders; `None` for
    /// no runs, or for more than [`CHEAPEST_RUNS_MAX`]. Tests and measurements compare other orders
    /// with it.
    pub fn cheapest_secs(&self, from: u64, stops: &[Stop]) -> Option<f64> {
        let sorted = by_address(stops);
        let runs = self.runs(stops, &sorted);
        if !(1..=CHEAPEST_RUNS_MAX).contains(&runs.len()) {
            return None;
        }
        let head = self.geometry.point(from);
        let order = exact::cheapest(&improve::Costs::new(self.timing, &head, &runs));
        let within = self.within_secs(stops, &sorted, &runs);
        Some(self.tour(&head, &runs, &order) + within)
    }

    fn candidates(&self, head: &Point, runs: &[Run]) -> Vec<(Candidate, Vec<usize>)> {
        let by_block: Vec<usize> = (0..runs.len()).collect();
        let mut made = vec![(Candidate::ByBlock, by_block), (Candidate::Sweep, sweep(runs))];
        if runs.len() <= GREEDY_RUNS_MAX {
            made.push((Candidate::Greedy, self.greedy(head, runs)));
        }
        if (2..=MATRIX_RUNS_MAX).contains(&runs.len()) {
            let orders: Vec<&[usize]> = made.iter().map(|(_, order)| order.as_slice()).collect();
            let costs = improve::Costs::new(self.timing, head, runs);
            let improved = if runs.len() <= EXACT_RUNS_MAX {
                exact::cheapest(&costs)
            } else {
                improve::improved(&costs, &orders)
            };
            made.push((Candidate::Improved, improved));
        }
        let is_whole = |(_, order): &(Candidate, Vec<usize>)| order.len() == runs.len();
        debug_assert!(made.iter().all(is_whole), "each order passes all runs");
        made
    }

    /// Joins neighbouring stops into runs.
    fn runs(&self, stops: &[Stop], sorted: &[usize]) -> Vec<Run> {
        assert_eq!(stops.len(), sorted.len(), "all stops are sorted");
        let mut runs: Vec<Run> = Vec::new();
        for (rank, index) in sorted.iter().enumerate() {
            let stop = &stops[*index];
            let (start, end) = (self.geometry.point(stop.at), self.geometry.point(stop.end()));
            match runs.last_mut() {
                Some(run)
                    if start.address <= run.end.address || self.timing.joins(&run.end, &start) =>
                {
                    run.last = rank;
                    run.end = if end.address > run.end.address { end } else { run.end };
                }
                _ => runs.push(Run { first: rank, last: rank, start, end }),
            }
        }
        runs
    }

    /// Returns the seconds to pass the gaps within runs.
    fn within_secs(&self, stops: &[Stop], sorted: &[usize], runs: &[Run]) -> f64 {
        let one = |run: &Run| {
            let members = &sorted[run.first..=run.last];
            self.positioning_secs(run.start.address, stops, members)
        };
        runs.iter().map(one).sum()
    }

    fn greedy(&self, head: &Point, runs: &[Run]) -> Vec<usize> {
        let mut left: Vec<usize> = (0..runs.len()).collect();
        let mut order = Vec::with_capacity(runs.len());
        let mut head = *head;
        while !left.is_empty() {
            let cost = |at: &usize| self.timing.reach(&head, &runs[left[*at]].start).1;
            let nearest = (0..left.len()).min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let next = left.remove(nearest.expect("a run is left"));
            head = runs[next].end;
            order.push(next);
        }
        order
    }

    fn tour(&self, head: &Point, runs: &[Run], order: &[usize]) -> f64 {
        debug_assert_eq!(order.len(), runs.len(), "a tour passes each run once");
        let mut head = head;
        let mut secs = 0.0;
        for run in order {
            secs += self.timing.reach(head, &runs[*run].start).1;
            head = &runs[*run].end;
        }
        secs
    }
}

impl Stop {
    /// Returns the address after the last byte of the stop.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes)
    }
}

/// Returns the indices of the stops, sorted by address.
fn by_address(stops: &[Stop]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..stops.len()).collect();
    sorted.sort_by_key(|index| (stops[*index].at, stops[*index].bytes, *index));
    sorted
}

/// Returns the indices of the runs: on forward wraps by ascending position, then on backward wraps
/// by descending position.
fn sweep(runs: &[Run]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|a, b| {
        let (first, second) = (&runs[*a].start, &runs[*b].start);
        let away = |point: &Point| if point.is_forward() { point.lpos } else { -point.lpos };
        let directions = second.is_forward().cmp(&first.is_forward());
        directions.then(away(first).total_cmp(&away(second))).then(a.cmp(b))
    });
    order
}

fn is_permutation(order: &[usize], count: usize) -> bool {
    let mut seen = vec![false; count];
    let names_new =
        |index: &usize| seen.get_mut(*index).is_some_and(|seen| !std::mem::replace(seen, true));
    order.len() == count && order.iter().all(names_new)
}

#[cfg(test)]
mod tests;
