//! `holdfast undelete`: undoes deletions at the server.

use client::DeletionSummary;

use super::delete::DeletionDocument;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::{moment, quantity};

/// Undo a deletion of 'holdfast delete', or list the deletions that can be undone
///
/// A version that was active comes back as an inactive version.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast undelete
  holdfast undelete 4")]
pub(crate) struct Args {
    /// The deletion to undo; without a number, the command lists the deletions that can be undone
    #[arg(value_name = "NUMBER")]
    number: Option<u64>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let client = context.client()?;
    let shown = match args.number {
        Some(number) => vec![client.undelete(number)?],
        None => client.deletions()?,
    };
    if context.output.is_json() {
        shown
            .iter()
            .for_each(|deletion| context.output.json(&DeletionDocument::new(deletion)));
    } else if args.number.is_some() {
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
