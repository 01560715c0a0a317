//! `holdfast undelete`: undoes deletions at the server.

use std::ffi::{OsStr, OsString};

use client::DeletionSummary;

use super::delete::DeletionDocument;
use super::hsm::undelete_paths;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::waiter::LinkArgs;
use crate::{moment, quantity};

/// Undo a deletion of 'holdfast delete', or list the deletions that can be undone
///
/// A version that was active comes back as an inactive version. With a path, the command makes
/// deleted files that were migrated again, as 'holdfast hsm undelete' does.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast undelete
  holdfast undelete 4
  holdfast undelete /data/2024/run-17")]
pub(crate) struct Args {
    /// The number of the deletion to undo, or the path of a migrated file that was deleted; without
    /// it, the command lists the deletions that can be undone. ./4 is a path
    #[arg(value_name = "NUMBER|PATH")]
    target: Option<OsString>,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let number = args.target.as_deref().and_then(number_of);
    if let (Some(path), None) = (&args.target, number) {
        return undelete_paths(&[path.into()], false, context).map_err(with_other_meaning);
    }
    let waiter = context.waiter(&args.link)?;
    let shown = match number {
        Some(number) => {
            let undone = waiter.client()?.undelete(number);
            let look = "'holdfast undelete' lists the deletions that are left";
            vec![undone.map_err(|error| CommandError::from(error).of_order(look))?]
        }
        None => waiter.run(|client, _| client.deletions())?,
    };
    if context.output.is_json() {
        shown
            .iter()
            .for_each(|deletion| context.output.json(&DeletionDocument::new(deletion)));
    } else if number.is_some() {
        let versions = shown.first().map_or(0, |deletion| deletion.versions);
        context.output.text(&format!(
            "{} {} available again.\n",
            quantity::counted(versions, "version"),
            quantity::are(versions)
        ));
    } else if shown.is_empty() {
        context.output.note("There is nothing to undo.");
    } else {
        context.output.text(&text(&shown));
    }
    Ok(DONE)
}

/// Returns the error about a path with the way for those who mean a deletion at the server.
fn with_other_meaning(error: CommandError) -> CommandError {
    match error.hint {
        Some(_) => error,
        None => error.with_hint(
            "a path is that of a migrated file; deletions of 'holdfast delete' have numbers, which \
             'holdfast undelete' without a path lists",
        ),
    }
}

/// The number of a deletion; `None` for a path.
fn number_of(target: &OsStr) -> Option<u64> {
    target.to_str()?.parse().ok()
}

fn text(deletions: &[DeletionSummary]) -> String {
    let columns = [
        ("Deletion", Align::Right),
        ("Time", Align::Left),
        ("Versions", Align::Right),
        ("Until", Align::Left),
        ("What", Align::Left),
    ];
    let row = |deletion: &DeletionSummary| {
        [
            deletion.number.unwrap_or_default().to_string(),
            moment::shown_or_never(deletion.time),
            quantity::count(deletion.versions),
            moment::shown_or_never(deletion.until),
            deletion.details.clone(),
        ]
    };
    table::render(columns, &deletions.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody who had deleted a path at the server was told to start space management.
    #[test]
    fn a_path_that_cannot_come_back_leads_to_the_deletions() {
        let error = with_other_meaning(CommandError::new("space management is not running"));
        assert!(error.hint.expect("a hint").contains("deletions of 'holdfast delete'"));
        let error = with_other_meaning(CommandError::new("no").with_hint("own"));
        assert_eq!(error.hint.as_deref(), Some("own"));
    }

    #[test]
    fn a_number_names_a_deletion_and_everything_else_a_path() {
        assert_eq!(number_of(OsStr::new("4")), Some(4));
        for path in ["./4", "/4", "4a", "-1", ""] {
            assert_eq!(number_of(OsStr::new(path)), None, "{path}");
        }
    }
}
