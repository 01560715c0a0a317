//! Runs histories in processes of their own, and makes a history that fails as short as it can.
//!
//! A fault of the server may end its process, for example if a thread panics with a lock.

use std::fmt;
use std::ops::Range;
use std::process::{Command, Output};

use super::STEPS;

/// Name of the environment variable with the histories for a child process.
pub(super) const CHILD: &str = "HOLDFAST_HISTORIES_OF_CHILD";
/// Last line of a child process that has performed all its histories.
pub(super) const DONE: &str = "all histories hold";
/// Number of histories of a child process.
const BATCH: u64 = 50;
/// Number of child processes at the same time.
const CHILDREN: usize = 2;

/// A history, or some of its steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Selection {
    pub(super) seed: u64,
    /// Indexes of the selected steps; `None` for all steps.
    steps: Option<Vec<usize>>,
}

impl Selection {
    fn all(seed: u64) -> Self {
        Self { seed, steps: None }
    }

    pub(super) fn holds(&self, index: usize) -> bool {
        self.steps.as_ref().is_none_or(|steps| steps.contains(&index))
    }

    /// Parses selections that are separated by spaces.
    pub(super) fn parse_all(text: &str) -> Vec<Self> {
        text.split_whitespace().map(Self::parse).collect()
    }

    fn parse(text: &str) -> Self {
        let (seed, steps) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let index = |text: &str| text.parse().expect("a number of a step");
        let steps = steps.map(|steps| steps.split(',').filter(|text| !text.is_empty()));
        let steps = steps.map(|steps| steps.map(index).collect());
        Self { seed: seed.parse().expect("a seed"), steps }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        let Some(steps) = &self.steps else { return Ok(()) };
        let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
        write!(f, ":{}", steps.join(","))
    }
}

/// Performs the histories with these seeds. Returns the report of the first failure.
pub(super) fn run_all(seeds: Range<u64>) -> Option<String> {
    let all: Vec<u64> = seeds.collect();
    let batches: Vec<&[u64]> = all.chunks(usize::try_from(BATCH).expect("small")).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let batch: Vec<Selection> =
                batches.get(at)?.iter().map(|seed| Selection::all(*seed)).collect();
            if let Some(failed) = failure(&batch) {
                return Some(failed);
            }
        }
    };
    let failed = std::thread::scope(|scope| {
        let children: Vec<_> = (0..CHILDREN).map(|_| scope.spawn(work)).collect();
        let mut failures = children.into_iter().map(|child| child.join().expect("ends"));
        failures.by_ref().fold(None, Option::or)
    })?;
    Some(report(&shortened(failed)))
}

/// A history that fails, and what its process has written.
struct Failure {
    selection: Selection,
    said: String,
}

/// Performs histories in a child process. Returns the first history that fails.
fn failure(selections: &[Selection]) -> Option<Failure> {
    let text: Vec<String> = selections.iter().map(Selection::to_string).collect();
    let Output { status, stdout, stderr } =
        Command::new(std::env::current_exe().expect("a test knows its program"))
            .args(["--exact", "histories::a_child_performs_histories", "--nocapture"])
            .env(CHILD, text.join(" "))
            .output()
            .expect("the test can be run again");
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() && stdout.contains(DONE) {
        return None;
    }
    let last = stdout
        .lines()
        .filter_map(|line| Some(line.split_once("history ")?.1))
        .next_back();
    let selection = last.map_or_else(|| selections[0].clone(), Selection::parse);
    Some(Failure { selection, said: format!("{status}\n{}", String::from_utf8_lossy(&stderr)) })
}

/// Leaves out each step without which the history still fails.
fn shortened(mut failed: Failure) -> Failure {
    for index in (0..STEPS).rev() {
        let steps: Vec<usize> = (0..STEPS)
            .filter(|step| *step != index && failed.selection.holds(*step))
            .collect();
        if !failed.selection.holds(index) {
            continue;
        }
        let shorter = Selection { seed: failed.selection.seed, steps: Some(steps) };
        if let Some(found) = failure(&[shorter]) {
            failed = found;
        }
    }
    failed
}

fn report(failed: &Failure) -> String {
    let Failure { selection, said } = failed;
    let steps = super::step::steps(selection.seed, STEPS);
    let numbered = (0..).zip(steps).filter(|(index, _)| selection.holds(*index));
    let steps: Vec<String> = numbered.map(|(index, step)| format!("{index}: {step:?}")).collect();
    format!(
        "set HOLDFAST_HISTORY={selection} to repeat this failure alone\n{}\n{said}",
        steps.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_read_as_they_are_written() {
        for text in ["7", "7:1,4", "12:"] {
            assert_eq!(Selection::parse(text).to_string(), text);
        }
        assert!(Selection::parse("7").holds(3));
        assert!(Selection::parse("7:1,4").holds(4) && !Selection::parse("7:1,4").holds(3));
        assert!(!Selection::parse("12:").holds(0));
    }
}
