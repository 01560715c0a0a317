//! The page `prediction.md`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::trial::Run;
use crate::page;

type Results = [(&'static str, Vec<Run>)];

/// Largest relative error in the median that is aimed at, for backups.
const AIM: f64 = 0.25;

pub(super) fn page(results: &Results) -> String {
    let mut text = page::head("Predictions beside what came");
    text.push_str(
        "\nEach row is one run of one new node, after `holdfast baseline --quick` of its tree. \
         Nothing is corrected by\nearlier runs. The error is that of the prediction: above 0 it \
         was too long. A prediction for a backup of changes is\nthat for what was changed, and \
         so is that for a second image.\n\n",
    );
    let row =
        |name: &str, run: &Run| {
            let within = run.bounds.map_or("-", |(least, most)| {
                if (least..=most).contains(&run.took) { "yes" } else { "no" }
            });
            vec![
                name.to_owned(),
                run.work.clone(),
                run.limit.clone(),
                format!("{:.2}", run.predicted),
                format!("{:.2}", run.took),
                format!("{:+.0} %", 100.0 * run.error()),
                within.to_owned(),
            ]
        };
    let rows: Vec<_> = results
        .iter()
        .flat_map(|(name, runs)| runs.iter().map(|run| row(name, run)))
        .collect();
    let head =
        ["condition", "work", "limit", "predicted, s", "took, s", "error", "within its range"];
    text.push_str(&page::table(&head, &rows));
    let median = median(results);
    let reached = if median <= AIM { "reached" } else { "**missed**" };
    let _written = writeln!(
        text,
        "\nMedian of the errors of backups, without their signs: {:.0} %; aim {:.0} %: {reached}.",
        100.0 * median,
        100.0 * AIM
    );
    text
}

/// Returns the median of the errors of backups, without their signs.
fn median(results: &Results) -> f64 {
    let backups = results.iter().flat_map(|(_, runs)| runs).filter(|run| run.work != "restore");
    let mut errors: Vec<f64> = backups.map(|run| run.error().abs()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

pub(super) fn document(results: &Results) -> Value {
    let runs = results.iter().flat_map(|(name, runs)| {
        runs.iter().map(move |run| {
            json!({
                "condition": name, "work": run.work, "limit": run.limit,
                "predicted_secs": run.predicted, "took_secs": run.took, "error": run.error(),
            })
        })
    });
    json!({ "runs": runs.collect::<Vec<_>>(), "median_error_of_backups": median(results) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(work: &str, predicted: f64) -> Run {
        let (bounds, limit) = (Some((8.0, 12.0)), "disk".to_owned());
        Run { work: work.to_owned(), predicted, bounds, took: 10.0, limit }
    }

    #[test]
    fn the_median_counts_backups_only() {
        let results = [
            ("a", vec![run("first", 11.0), run("restore", 90.0)]),
            ("b", vec![run("first", 5.0), run("unchanged", 8.0)]),
            ("c", vec![run("image", 7.0), run("image again", 10.0)]),
        ];
        assert!((median(&results) - 0.2).abs() < 1e-9);
        let text = page(&results);
        assert!(text.contains("| a | first | disk | 11.00 | 10.00 | +10 % | yes |"), "{text}");
        assert!(text.contains("| c | image | disk | 7.00 | 10.00 | -30 % | yes |"), "{text}");
        assert!(text.contains("20 %; aim 25 %: reached"), "{text}");
    }
}
