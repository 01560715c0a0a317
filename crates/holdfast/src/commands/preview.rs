//! `holdfast preview`: how a backup would treat each object of a tree.

use std::path::PathBuf;

use clap::ValueEnum;
use client::Decision;
use model::escaped;

use super::explain::{RuledDocument, RulesArgs};
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, WARNED};
use crate::output::Output;
use crate::quantity;

/// List the objects that a backup would include or leave out, and the rule that decides
///
/// Objects in a directory that is left out are not listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast preview /home/ann --filter excluded")]
pub(crate) struct Args {
    /// Directories or files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The objects to list
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    filter: Filter,
    #[command(flatten)]
    rules: RulesArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Filter {
    #[default]
    All,
    Included,
    Excluded,
}

/// Counts of all objects, listed or not.
#[derive(Default)]
struct Totals {
    included: u64,
    included_bytes: u64,
    excluded: u64,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let options = args.rules.options(&args.paths)?;
    let client = context.client()?;
    let mut totals = Totals::default();
    let previewed = client.preview(&options, &mut |ruled| {
        let is_listed = match args.filter {
            Filter::All => true,
            Filter::Included => ruled.included,
            Filter::Excluded => !ruled.included,
        };
        if is_listed {
            write(ruled, &mut context.output);
        }
        if ruled.included {
            totals.included += 1;
            totals.included_bytes = totals.included_bytes.saturating_add(ruled.bytes);
        } else {
            totals.excluded += 1;
        }
        context.output.is_open()
    })?;
    if !context.output.is_json() && !context.output.quiet {
        context.output.text(&format!(
            "{} of {} would be backed up, {} {} left out.\n",
            quantity::counted(totals.included, "object"),
            quantity::bytes_with_unit(totals.included_bytes),
            quantity::count(totals.excluded),
            quantity::are(totals.excluded),
        ));
    }
    for failure in &previewed.failures {
        context.output.note(&format!("{}: {}", escaped(&failure.path), failure.error));
    }
    previewed.warnings.iter().for_each(|warning| context.output.note(warning));
    Ok(match (previewed.failures.is_empty(), previewed.warnings.is_empty()) {
        (false, _) => FAILED,
        (true, false) => WARNED,
        (true, true) => DONE,
    })
}

fn write(ruled: &Decision, output: &mut Output) {
    if output.is_json() {
        output.json(&RuledDocument::new(ruled));
        return;
    }
    let rule = ruled.rule.as_ref().map(|rule| format!("  '{}', {}", rule.text, rule.source));
    let (sign, class) = if ruled.included { ("+", ruled.class.as_str()) } else { ("-", "") };
    let path = escaped(&ruled.path);
    let bytes = quantity::count(ruled.bytes);
    output.line(&format!("{sign} {bytes:>15}  {class:<12}  {path}{}", rule.unwrap_or_default()));
}
