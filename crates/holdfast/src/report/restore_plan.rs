//! The plan of a restore that changes nothing.

use client::RestorePlan;
use model::escaped;
use serde::Serialize;

use super::amount::{AmountDocument, amount_row};
use super::backup::PlannedDocument;
use super::lines::{FailureDocument, documents, failure_lines, warning_lines};
use super::restore::BringBack;
use crate::table::{self, Align};

/// `restore --dry-run --json` and `retrieve --dry-run --json`.
#[derive(Serialize)]
pub(crate) struct RestorePlanDocument<'a> {
    command: &'static str,
    node: &'a str,
    dry_run: bool,
    restore: AmountDocument,
    replace: AmountDocument,
    keep: AmountDocument,
    exists: AmountDocument,
    failed: u64,
    exit_code: u8,
    failures: Vec<FailureDocument<'a>>,
    planned: Vec<PlannedDocument<'a>>,
    warnings: &'a [String],
}

impl<'a> RestorePlanDocument<'a> {
    pub(crate) fn new(plan: &'a RestorePlan, what: BringBack) -> Self {
        Self {
            command: what.command(),
            node: &plan.node,
            dry_run: true,
            restore: plan.new.into(),
            replace: plan.replaced.into(),
            keep: plan.kept.into(),
            exists: plan.right.into(),
            failed: plan.failed,
            exit_code: plan.exit_code(),
            failures: documents(&plan.failures),
            planned: PlannedDocument::of(&plan.planned),
            warnings: &plan.warnings,
        }
    }
}

/// Returns the plan as text, with at most `failures_max` failures.
pub(crate) fn restore_plan_text(
    plan: &RestorePlan,
    what: BringBack,
    failures_max: usize,
) -> String {
    let (done, source) = (what.done(), what.source());
    let line = |(verb, path): &(&'static str, Vec<u8>)| {
        let verb = if *verb == "restore" { what.command() } else { *verb };
        format!("{verb:<8} {}\n", escaped(path))
    };
    let lines: String = plan.planned.iter().map(line).collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    let rows = [
        amount_row(done, plan.new),
        amount_row("replaced", plan.replaced),
        amount_row(&format!("kept, different from the {source}"), plan.kept),
        amount_row(&format!("left, as in the {source}"), plan.right),
    ];
    let columns = [("Would be", Align::Left), ("Objects", Align::Right), ("Size", Align::Right)];
    format!(
        "{lines}{gap}Dry run: nothing was {done}.\n\n{}{}{}",
        table::render(columns, &rows),
        failure_lines("Would fail:", &plan.failures, plan.failed, failures_max),
        warning_lines(&plan.warnings),
    )
}

#[cfg(test)]
mod tests {
    use client::{Amount, Failure};

    use super::*;

    #[test]
    fn a_plan_says_what_exists() {
        let failure = Failure { path: b"/srv/c".to_vec(), error: "permission denied".to_owned() };
        let plan = RestorePlan {
            node: "anna".to_owned(),
            new: Amount { objects: 1_234, bytes: 5 << 20 },
            kept: Amount { objects: 1, bytes: 17 },
            right: Amount { objects: 2, bytes: 0 },
            failed: 1,
            failures: vec![failure],
            planned: vec![("restore", b"/srv/a\xff".to_vec()), ("keep", b"/srv/b".to_vec())],
            warnings: vec!["a part".to_owned()],
            ..RestorePlan::default()
        };
        insta::assert_snapshot!(restore_plan_text(&plan, BringBack::Restore, 20));
        let document =
            serde_json::to_string_pretty(&RestorePlanDocument::new(&plan, BringBack::Restore));
        insta::assert_snapshot!(document.expect("a document"));
    }

    #[test]
    fn a_plan_of_a_retrieve_has_its_own_verb() {
        let planned = vec![("restore", b"/srv/a".to_vec()), ("exists", b"/srv/b".to_vec())];
        let plan = RestorePlan { planned, ..RestorePlan::default() };
        let text = restore_plan_text(&plan, BringBack::Retrieve, 20);
        assert!(text.starts_with("retrieve /srv/a\nexists   /srv/b\n\n"), "{text}");
        assert!(!text.contains("restore"), "{text}");
    }
}
