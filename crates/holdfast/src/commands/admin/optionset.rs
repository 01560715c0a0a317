//! `holdfast admin optionset`: include and exclude statements that the server gives to nodes.

use std::path::{Path, PathBuf};

use client::admin::{Admin, OptionSet};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};

/// Store include and exclude statements that nodes get in addition to their own
///
/// These statements come after the node's own, and so take precedence.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset put LINUX linux.inclexcl
  holdfast admin --server /srv/holdfast node set web-01 --optionset LINUX")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: OptionSetCommand,
}

#[derive(clap::Subcommand, Debug)]
enum OptionSetCommand {
    /// List all option sets
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast optionset list")]
    List,
    /// Show the statements of an option set
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast optionset show LINUX")]
    Show(NameArgs),
    Put(PutArgs),
    /// Remove an option set, also from the nodes that use it
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast optionset remove LINUX")]
    Remove(NameArgs),
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The option set
    #[arg(value_name = "NAME")]
    name: String,
}

/// Make or replace an option set
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset put LINUX linux.inclexcl")]
struct PutArgs {
    /// The option set: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// The statements, one per line
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        OptionSetCommand::List => list(&admin.option_sets(None)?, context),
        OptionSetCommand::Show(args) => {
            for set in admin.option_sets(Some(&args.name))? {
                show(&set, context);
            }
        }
        OptionSetCommand::Put(args) => {
            let text = read(&args.file)?;
            let set = OptionSet { name: args.name, text };
            admin.put_option_set(set.clone())?;
            tell(&set, &format!("Option set {} is stored.", set.name), context);
        }
        OptionSetCommand::Remove(args) => {
            admin.remove_option_set(&args.name)?;
            let set = OptionSet { name: args.name, ..OptionSet::default() };
            tell(&set, &format!("Option set {} is removed.", set.name), context);
        }
    }
    Ok(DONE)
}

fn read(file: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(file)
        .map_err(|error| CommandError::new(format!("cannot read {}: {error}", file.display())))
}

/// `optionset list --json`, one document per line.
#[derive(Serialize)]
struct SetDocument<'a> {
    option_set: &'a str,
    statements: Vec<String>,
}

fn document(set: &OptionSet) -> SetDocument<'_> {
    let lines = set
        .text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    SetDocument { option_set: &set.name, statements: lines.map(model::escaped).collect() }
}

fn tell(set: &OptionSet, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&document(set));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

fn show(set: &OptionSet, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&document(set));
    } else {
        context.output.text(&format!("{}\n", document(set).statements.join("\n")));
    }
}

fn list(sets: &[OptionSet], context: &mut Context) {
    if !context.output.is_json() && sets.is_empty() {
        context.output.note("There is no option set.");
    }
    for set in sets {
        if context.output.is_json() {
            context.output.json(&document(set));
        } else {
            context.output.text(&set.name);
        }
    }
}
