//! Real runs beside their predictions: what a prediction is worth on this host, and what to
//! correct in the next one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::facts::{Amount, Facts, Files};
use crate::pipeline;
use crate::prediction::Work;
use crate::report::Report;
use crate::sample::Estimate;

/// Folder in the node's home.
const FOLDER: &str = "baseline";
const REPORT: &str = "report.json";
const HISTORY: &str = "history.json";

/// Number of comparisons of each kind that are kept.
const KEPT: usize = 40;
/// Number of comparisons of one kind from which the next prediction is corrected.
const FITTED: usize = 5;
/// Predicted time below which a backup says little: starting and ending take most of it, whatever
/// the rates of the host are.
const TELLING_SECS: f64 = 0.5;

/// Kind of a real run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutcomeKind {
    /// A backup of files.
    Backup,
    /// A backup of files that looked only where a journal has seen changes.
    Changes,
    /// A restore of files.
    Restore,
    /// An image backup.
    Image,
}

/// A real run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub kind: OutcomeKind,
    /// Paths of the places that were backed up or restored, in the form of [`crate::Place::path`].
    pub paths: Vec<String>,
    /// Time of its end, in microseconds since 1970.
    pub at_micros: i64,
    pub inspected: u64,
    /// Objects with new content or attributes, or that were restored.
    pub changed: u64,
    /// Bytes of the files or blocks that were read, or restored.
    pub bytes: u64,
    /// Bytes that were read beside them and are zeros, as in blocks that a file system keeps for
    /// itself.
    pub empty_bytes: u64,
    /// The part of `bytes` that the server did not have.
    pub new_bytes: u64,
    pub elapsed_secs: f64,
}

/// A real run with its prediction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub at_micros: i64,
    pub paths: Vec<String>,
    pub work: Work,
    pub inspected: u64,
    pub changed: u64,
    pub bytes: u64,
    /// Time predicted for what the run had to do, with what was known before it.
    pub predicted_secs: f64,
    pub elapsed_secs: f64,
    /// The part of the prediction without the correction by earlier runs.
    pub uncorrected_secs: f64,
}

impl Comparison {
    /// Returns the real time over the predicted time.
    pub fn ratio(&self) -> f64 {
        self.elapsed_secs / self.predicted_secs
    }
}

/// The comparisons of a node, oldest first.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct History {
    pub comparisons: Vec<Comparison>,
}

impl History {
    /// Loads the history from the node's home. Without a history it is empty.
    pub fn load(home: &Path) -> io::Result<Self> {
        Ok(load(&home.join(FOLDER).join(HISTORY))?.unwrap_or_default())
    }

    /// Loads the newest report of the node; `None` if there is none.
    pub fn report(home: &Path) -> io::Result<Option<Report>> {
        load(&home.join(FOLDER).join(REPORT))
    }

    /// Keeps the newest report.
    pub fn keep_report(home: &Path, report: &Report) -> io::Result<()> {
        store(home, REPORT, report)
    }

    /// Compares a real run with what `report` predicts for it, and keeps the comparison. Returns
    /// `None` if the report is about other paths.
    pub fn compare(
        &mut self,
        home: &Path,
        report: &Report,
        outcome: &Outcome,
    ) -> io::Result<Option<Comparison>> {
        let Some(comparison) = self.comparison(report, outcome) else { return Ok(None) };
        self.comparisons.push(comparison.clone());
        let work = comparison.work;
        let same = self.comparisons.iter().filter(|one| one.work == work).count();
        let mut surplus = same.saturating_sub(KEPT);
        self.comparisons.retain(|one| {
            let goes = one.work == work && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
        store(home, HISTORY, self)?;
        Ok(Some(comparison))
    }

    fn comparison(&self, report: &Report, outcome: &Outcome) -> Option<Comparison> {
        let is_measured = |path: &String| report.places.iter().any(|place| place.path == *path);
        if outcome.paths.is_empty() || !outcome.paths.iter().all(is_measured) {
            return None;
        }
        let work = work(outcome);
        let uncorrected_secs = uncorrected(report, outcome, work);
        let factor = self.fitted(work).map_or(1.0, |fitted| fitted.value);
        Some(Comparison {
            at_micros: outcome.at_micros,
            paths: outcome.paths.clone(),
            work,
            inspected: outcome.inspected,
            changed: outcome.changed,
            bytes: outcome.bytes,
            predicted_secs: uncorrected_secs * factor,
            elapsed_secs: outcome.elapsed_secs,
            uncorrected_secs,
        })
    }

    /// Returns the factor by which real runs of one kind took longer than predicted: the
    /// geometric mean of the last ones, with their standard deviation. Short ones do not count.
    pub fn fitted(&self, work: Work) -> Option<Estimate> {
        let is_telling =
            |one: &&Comparison| one.work == work && one.uncorrected_secs >= TELLING_SECS;
        let same = self.comparisons.iter().rev().filter(is_telling);
        let ratios = same.map(|one| (one.elapsed_secs / one.uncorrected_secs).ln()).take(FITTED);
        let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        if ratios.is_empty() {
            return None;
        }
        let count = crate::to_f64(ratios.len() as u64);
        let mean = ratios.iter().sum::<f64>() / count;
        let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let deviation =
            if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { pipeline::deviation(work) };
        Some(Estimate { value: mean.exp(), error: mean.exp() * deviation })
    }
}

/// Returns the kind of work that a real run was. A backup that looks only where a journal has seen
/// changes is no first one, even if everything there is new.
fn work(outcome: &Outcome) -> Work {
    let is_most = outcome.changed.saturating_mul(10) >= outcome.inspected.saturating_mul(9);
    match outcome.kind {
        OutcomeKind::Restore => Work::Restore,
        OutcomeKind::Image => Work::Image,
        OutcomeKind::Backup | OutcomeKind::Changes if outcome.changed == 0 => Work::Unchanged,
        OutcomeKind::Backup if is_most => Work::First,
        OutcomeKind::Backup | OutcomeKind::Changes => Work::Day,
    }
}

/// Returns the predicted time of what a run had to do. The places are done one after the other,
/// and share the work in proportion to their objects.
fn uncorrected(report: &Report, outcome: &Outcome, work: Work) -> f64 {
    let places = report.places.iter().filter(|place| outcome.paths.contains(&place.path));
    let all: Vec<_> = places.map(|place| Facts::new(report, place)).collect();
    let objects: f64 = all.iter().map(|facts| facts.objects).sum();
    let seconds = all.iter().map(|facts| {
        let share = if objects > 0.0 { facts.objects / objects } else { 1.0 };
        let amount = amount(facts, outcome, work, share);
        pipeline::predict_amount(facts, work, &amount).secs.likely
    });
    seconds.sum()
}

/// Returns the part `share` of what a run did. Its bytes and files are split into small and
/// large ones as the whole tree is.
fn amount(facts: &Facts, outcome: &Outcome, work: Work, share: f64) -> Amount {
    let [inspected, changed, bytes] = [outcome.inspected, outcome.changed, outcome.bytes]
        .map(|count| crate::to_f64(count) * share);
    let part = |own: f64, whole: f64| if whole > 0.0 { own / whole } else { 0.0 };
    // Nobody could know before how much of a day's changes, or of a disk's blocks, is new. Of a
    // whole tree it is predicted.
    let new_share = matches!(work, Work::Day | Work::Image)
        .then(|| part(crate::to_f64(outcome.new_bytes) * share, bytes));
    if work == Work::Image {
        let large = Files { count: 0.0, bytes };
        let empty_bytes = crate::to_f64(outcome.empty_bytes) * share;
        return Amount { large, empty_bytes, new_share, ..Amount::default() };
    }
    let large_bytes = bytes * part(facts.large.bytes, facts.bytes());
    let large = Files {
        count: facts.large.count * part(large_bytes, facts.large.bytes),
        bytes: large_bytes,
    };
    let files_share = part(facts.small.count + facts.large.count, facts.objects);
    let files = changed * files_share;
    let small = Files { count: (files - large.count).max(0.0), bytes: bytes - large_bytes };
    Amount {
        new_share,
        objects: inspected,
        directories: inspected * part(facts.directories, facts.objects),
        small,
        large,
        empty_bytes: 0.0,
    }
}

fn load<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn store(home: &Path, name: &str, document: &impl Serialize) -> io::Result<()> {
    let folder: PathBuf = home.join(FOLDER);
    sys::durable::create_dir_all(&folder, 0o700)?;
    let bytes = serde_json::to_vec(document).map_err(io::Error::from)?;
    sys::durable::write(&folder.join(name), &bytes, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::document;

    fn comparison(work: Work, ratio: f64) -> Comparison {
        Comparison {
            at_micros: 0,
            paths: vec!["/home".to_owned()],
            work,
            inspected: 10,
            changed: 0,
            bytes: 0,
            predicted_secs: 5.0,
            elapsed_secs: 10.0 * ratio,
            uncorrected_secs: 10.0,
        }
    }

    #[test]
    fn the_last_five_of_a_kind_correct_the_next() {
        let ratios = [100.0, 2.0, 0.5, 2.0, 0.5, 1.0];
        let comparisons = ratios.map(|ratio| comparison(Work::First, ratio)).into();
        let history = History { comparisons };
        let fitted = history.fitted(Work::First).expect("there are five");
        assert!((fitted.value - 1.0).abs() < 1e-9, "{fitted:?}");
        assert!(fitted.error > 0.5, "they differ much: {fitted:?}");
        assert_eq!(history.fitted(Work::Day), None);
        let same = History { comparisons: vec![comparison(Work::Day, 1.5); 3] };
        let fitted = same.fitted(Work::Day).expect("there are three");
        assert!((fitted.value - 1.5).abs() < 1e-9 && fitted.error < 1e-9, "{fitted:?}");
    }

    /// A backup of a small tree in 0.004 s made the prediction for a large one 2.5 times too short.
    #[test]
    fn short_backups_correct_nothing() {
        let short = |ratio: f64| Comparison {
            predicted_secs: 0.01,
            elapsed_secs: 0.01 * ratio,
            uncorrected_secs: 0.01,
            ..comparison(Work::Unchanged, 1.0)
        };
        let mut history = History { comparisons: vec![short(0.4); 5] };
        assert_eq!(history.fitted(Work::Unchanged), None);
        history.comparisons.insert(0, comparison(Work::Unchanged, 1.5));
        let fitted = history.fitted(Work::Unchanged).expect("there is one");
        assert!((fitted.value - 1.5).abs() < 1e-9, "{fitted:?}");
        // A backup that waited for something else does not count, either.
        history.comparisons.push(short(100.0));
        assert_eq!(history.fitted(Work::Unchanged), Some(fitted));
    }

    #[test]
    fn the_kind_of_a_backup_is_what_it_had_to_do() {
        let of = |kind, inspected, changed| {
            let outcome = Outcome {
                kind,
                paths: Vec::new(),
                at_micros: 0,
                inspected,
                changed,
                bytes: 0,
                empty_bytes: 0,
                new_bytes: 0,
                elapsed_secs: 1.0,
            };
            work(&outcome)
        };
        let whole = [0, 1, 9].map(|changed| of(OutcomeKind::Backup, 10, changed));
        assert_eq!(whole, [Work::Unchanged, Work::Day, Work::First]);
        // A journal has named one new directory.
        let named = [0, 10].map(|changed| of(OutcomeKind::Changes, 10, changed));
        assert_eq!(named, [Work::Unchanged, Work::Day]);
    }

    /// Restores differ much among themselves, so one of them says little about the next.
    #[test]
    fn one_run_leaves_the_range_as_wide_as_it_was() {
        for (work, deviation) in [(Work::Restore, 0.7), (Work::First, 0.15)] {
            let history = History { comparisons: vec![comparison(work, 2.0)] };
            let fitted = history.fitted(work).expect("there is one");
            assert!((fitted.error / fitted.value - deviation).abs() < 1e-9, "{fitted:?}");
        }
    }

    /// The disk of the report reads 200 MB in a second; its network carries some hundred bytes.
    #[test]
    fn restores_and_images_are_compared_with_predictions_for_what_they_did() {
        let report: Report = serde_json::from_value(document("/home")).expect("a report");
        let found = |kind, bytes, empty_bytes, new_bytes| {
            let outcome = Outcome {
                kind,
                paths: vec!["/home".to_owned()],
                at_micros: 0,
                inspected: 1000,
                changed: 1000,
                bytes,
                empty_bytes,
                new_bytes,
                elapsed_secs: 12.0,
            };
            let comparison = History::default().comparison(&report, &outcome);
            comparison.expect("the path was measured")
        };
        let compared = |kind, bytes, new_bytes| found(kind, bytes, 0, new_bytes);
        let whole = compared(OutcomeKind::Restore, 2_000_000_000, 0);
        let half = compared(OutcomeKind::Restore, 1_000_000_000, 0);
        assert_eq!([whole.work, half.work], [Work::Restore; 2]);
        let ratio = half.predicted_secs / whole.predicted_secs;
        assert!((ratio - 0.5).abs() < 0.01, "{whole:?} {half:?}");
        let again = compared(OutcomeKind::Image, 2_000_000_000, 0);
        assert_eq!(again.work, Work::Image);
        assert!((10.0..10.5).contains(&again.predicted_secs), "reading is all: {again:?}");
        // Blocks of zeros are read, but not sent.
        let half_empty = found(OutcomeKind::Image, 1_000_000_000, 1_000_000_000, 0);
        assert!((10.0..10.5).contains(&half_empty.predicted_secs), "{half_empty:?}");
        let first = compared(OutcomeKind::Image, 2_000_000_000, 2_000_000_000);
        assert!(first.predicted_secs > 1e6, "everything is sent: {first:?}");
    }

    #[test]
    fn the_history_survives_in_the_home_of_the_node() {
        let home = tempfile::tempdir().expect("a folder");
        assert_eq!(History::load(home.path()).expect("none"), History::default());
        assert_eq!(History::report(home.path()).expect("none"), None);
        let history = History { comparisons: vec![comparison(Work::First, 1.25)] };
        store(home.path(), HISTORY, &history).expect("it is written");
        assert_eq!(History::load(home.path()).expect("it is read"), history);
        fs::write(home.path().join(FOLDER).join(HISTORY), "nonsense").expect("a file");
        assert!(History::load(home.path()).is_err());
    }
}
