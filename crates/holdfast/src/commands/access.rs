//! `holdfast access`: the nodes that may read what this node has stored.

use std::path::PathBuf;

use client::ReadRule;
use model::{ServerTime, escaped};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::path::{self, JsonPath};
use crate::table::{self, Align};
use crate::waiter::LinkArgs;

/// Let other nodes list and restore what this node has stored
///
/// Another node reads with the option --from-node of 'list', 'restore', 'archives' and 'retrieve'.
/// It cannot change or delete anything. Files that this node encrypts stay closed to it. Without a
/// command it lists the rules.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast access allow web-02 /srv/www
  holdfast access forbid web-02 /srv/www
  holdfast access")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<AccessCommand>,
    #[command(flatten)]
    link: LinkArgs,
}

#[derive(clap::Subcommand, Debug)]
enum AccessCommand {
    /// Let a node read what is stored at and below a path
    #[command(after_help = "Example:\n  holdfast access allow web-02 /srv/www --archives")]
    Allow(RuleArgs),
    /// Take a rule back; 'holdfast access' lists the rules
    #[command(after_help = "Example:\n  holdfast access forbid web-02 /srv/www")]
    Forbid(RuleArgs),
}

#[derive(clap::Args, Debug)]
struct RuleArgs {
    /// The node that may read
    #[arg(value_name = "NODE")]
    node: String,
    /// A directory, with everything in it, or a file; / stands for everything
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The rule is about archives, not backups
    #[arg(long)]
    archives: bool,
    #[command(flatten)]
    link: LinkArgs,
}

impl RuleArgs {
    fn rule(&self) -> Result<ReadRule, CommandError> {
        Ok(ReadRule {
            reader: self.node.clone(),
            path: path::absolute(&self.path)?,
            is_archive: self.archives,
            since: ServerTime(0),
        })
    }
}

/// `access --json`, one document per line.
#[derive(Serialize)]
struct RuleDocument<'a> {
    node: &'a str,
    path: JsonPath<'a>,
    archives: bool,
    since: String,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    if args.command.is_some() && args.link.is_given() {
        let message = "options of the connection, such as --wait, stand after the command";
        return Err(CommandError::usage(message, "holdfast access"));
    }
    let rules = match &args.command {
        None => context.waiter(&args.link)?.run(|client, _| client.read_rules())?,
        Some(AccessCommand::Allow(args)) => {
            vec![context.waiter(&args.link)?.client()?.allow_reading(&args.rule()?)?]
        }
        Some(AccessCommand::Forbid(args)) => {
            let rule = context.waiter(&args.link)?.client()?.forbid_reading(&args.rule()?)?;
            tell_forbidden(&rule, context);
            return Ok(DONE);
        }
    };
    if context.output.is_json() {
        rules.iter().for_each(|rule| context.output.json(&document(rule)));
    } else if rules.is_empty() {
        context.output.note("No other node may read what this node has stored.");
    } else {
        context.output.text(&text(&rules));
    }
    Ok(DONE)
}

fn document(rule: &ReadRule) -> RuleDocument<'_> {
    RuleDocument {
        node: &rule.reader,
        path: JsonPath(&rule.path),
        archives: rule.is_archive,
        since: moment::rfc3339(rule.since),
    }
}

fn tell_forbidden(rule: &ReadRule, context: &mut Context) {
    if context.output.is_json() {
        return context.output.json(&document(rule));
    }
    let path = escaped(&rule.path);
    context.output.note(&format!(
        "Node {} may not read the {} at {path} any more.",
        rule.reader,
        kind(rule)
    ));
}

fn kind(rule: &ReadRule) -> &'static str {
    if rule.is_archive { "archives" } else { "backups" }
}

fn text(rules: &[ReadRule]) -> String {
    let columns = [
        ("Node", Align::Left),
        ("Reads", Align::Left),
        ("Since", Align::Left),
        ("Path", Align::Left),
    ];
    let row = |rule: &ReadRule| {
        [rule.reader.clone(), kind(rule).to_owned(), moment::shown(rule.since), escaped(&rule.path)]
    };
    table::render(columns, &rules.iter().map(row).collect::<Vec<_>>())
}
