//! `holdfast preview`: how a backup or an archive would treat each object of a tree.

use std::path::PathBuf;

use clap::ValueEnum;
use client::{Decision, PreviewOptions};
use model::{Kind, escaped};

use super::backup;
use super::explain::{RuledDocument, RulesArgs};
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, WARNED};
use crate::output::Output;
use crate::quantity;
use crate::waiter::LinkArgs;

/// List the objects that a backup would include or leave out, and the rule that decides
///
/// Objects in a directory that is left out are not listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast preview /home/ann --filter excluded
  holdfast preview /srv/project-17 --archive --class TEN-YEARS")]
pub(crate) struct Args {
    /// Directories or files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The objects to list
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    filter: Filter,
    /// Preview an archive, which has statements of its own, and no statement on directories
    #[arg(long)]
    archive: bool,
    /// The management class of all objects of the archive
    #[arg(long, value_name = "CLASS", requires = "archive")]
    class: Option<String>,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    link: LinkArgs,
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
    /// Directories among the objects that are left out. Their contents are not counted.
    excluded_directories: u64,
}

impl Totals {
    fn count(&mut self, ruled: &Decision) {
        if ruled.included {
            self.included += 1;
            self.included_bytes = self.included_bytes.saturating_add(ruled.bytes);
        } else {
            self.excluded += 1;
            self.excluded_directories += u64::from(ruled.kind == Some(Kind::Directory));
        }
    }

    fn text(&self) -> String {
        let content = match self.excluded_directories {
            0 => String::new(),
            directories => {
                let directories = quantity::counted(directories, "directory");
                let them = if self.excluded_directories == 1 { "it" } else { "them" };
                format!(", among them {directories} with everything in {them}")
            }
        };
        format!(
            "{} with {} {} included, {} {} left out{content}.\n",
            quantity::counted(self.included, "object"),
            quantity::bytes_with_unit(self.included_bytes),
            quantity::are(self.included),
            quantity::count(self.excluded),
            quantity::are(self.excluded),
        )
    }
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let options = args.rules.options(&args.paths)?;
    let options = PreviewOptions {
        is_archive: args.archive,
        class: args.class,
        managed: backup::managed(&context.standing(&args.link)?, context)?,
        ..options
    };
    let client = context.waiter(&args.link)?.client()?;
    let (mut totals, mut is_first) = (Totals::default(), true);
    let previewed = client.preview(&options, &mut |ruled| {
        let is_listed = match args.filter {
            Filter::All => true,
            Filter::Included => ruled.included,
            Filter::Excluded => !ruled.included,
        };
        if is_listed {
            if is_first && !context.output.is_json() && !context.output.quiet {
                context.output.line(&line(" ", "Size", "Class", "Path  Rule"));
            }
            is_first = false;
            write(ruled, &mut context.output);
        }
        totals.count(ruled);
        context.output.is_open()
    })?;
    if !context.output.is_json() && !context.output.quiet {
        context.output.text(&totals.text());
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
    output.line(&line(sign, &bytes, class, &format!("{path}{}", rule.unwrap_or_default())));
}

fn line(sign: &str, bytes: &str, class: &str, path: &str) -> String {
    format!("{sign} {bytes:>15}  {class:<12}  {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_say_what_is_not_counted() {
        let mut totals = Totals { included: 1, included_bytes: 2048, ..Totals::default() };
        assert_eq!(totals.text(), "1 object with 2.00 KB is included, 0 are left out.\n");
        (totals.excluded, totals.excluded_directories) = (3, 2);
        assert_eq!(
            totals.text(),
            "1 object with 2.00 KB is included, 3 are left out, among them 2 directories with \
             everything in them.\n"
        );
    }
}
