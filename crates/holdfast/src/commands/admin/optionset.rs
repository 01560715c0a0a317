//! `holdfast admin optionset`: options and statements that the server gives to nodes.

mod show;

use std::path::{Path, PathBuf};

use client::admin::{Admin, OptionSet, OptionSetChange};
use policy::settings::{SetOption, SetOptionError, Share};

use crate::commands::explain;
use crate::context::Context;
use crate::error::{CommandError, DONE};

/// Give options and statements to nodes, in versions, to all of their nodes or to some first
///
/// A forced option comes before the command line and client.toml of a node. Another option holds
/// only if the node does not set it. Statements come after the node's own, and so take precedence.
/// No option set allows what a node forbids the server.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset define LINUX --option compression=auto
  holdfast admin --server /srv/holdfast node set web-01 --optionset LINUX
  holdfast admin --server /srv/holdfast optionset update LINUX --option wait=2h --first 5%
  holdfast admin --server /srv/holdfast optionset promote LINUX

All options are in docs/reference/settings.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: OptionSetCommand,
}

#[derive(clap::Subcommand, Debug)]
enum OptionSetCommand {
    /// List all option sets
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast optionset list")]
    List,
    Show(ShowArgs),
    Define(DefineArgs),
    Update(UpdateArgs),
    /// List all versions of an option set, newest first
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast optionset history LINUX")]
    History(NameArgs),
    Revert(RevertArgs),
    /// Give the version that some nodes have to all nodes of the option set
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast optionset promote LINUX")]
    Promote(NameArgs),
    /// Take the version that some nodes have back from them
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast optionset withdraw LINUX")]
    Withdraw(NameArgs),
    Put(PutArgs),
    Remove(RemoveArgs),
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The option set
    #[arg(value_name = "NAME")]
    name: String,
}

/// Show the options and statements of an option set, and which nodes have which version
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset show LINUX
  holdfast admin --server /srv/holdfast optionset show LINUX --version 3")]
struct ShowArgs {
    /// The option set
    #[arg(value_name = "NAME")]
    name: String,
    /// Show this version instead of the version in force
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

/// Content of a new version
#[derive(clap::Args, Debug)]
struct ContentArgs {
    /// A standing option of the client, as in compression=19; may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option)]
    options: Vec<(String, String)>,
    /// Let the options of this command come before the nodes' own
    #[arg(long, requires = "options")]
    force: bool,
    /// Replace the statements by those in this file, one per line
    #[arg(long, value_name = "FILE")]
    statements: Option<PathBuf>,
    /// Reason for the version
    #[arg(long, value_name = "TEXT", default_value_t)]
    comment: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Make an option set
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset define LINUX --option compression=auto \\
    --statements linux.inclexcl --comment 'all Linux machines'
  holdfast admin --server /srv/holdfast optionset define LAPTOPS --option agent-mode=polling \\
    --option agent-poll-minutes=30 --force")]
struct DefineArgs {
    /// The option set: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    content: ContentArgs,
}

/// Change an option set: make a new version of it
///
/// Options and statements that are not named stay as they are.
#[derive(clap::Args, Debug)]
#[command(visible_alias = "set")]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset update LINUX --option compression=19 --force
  holdfast admin --server /srv/holdfast optionset update LINUX --unset wait --dry-run
  holdfast admin --server /srv/holdfast optionset update LINUX --option snapshot=auto --first 5%")]
struct UpdateArgs {
    /// The option set
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    content: ContentArgs,
    /// Remove this option; may be given several times
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Give the version to this share of the nodes first, at least to one, as in 5%
    #[arg(long, value_name = "SHARE")]
    first: Option<Share>,
}

/// Make a new version with the content of an old one
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset revert LINUX --to 3")]
struct RevertArgs {
    /// The option set
    #[arg(value_name = "NAME")]
    name: String,
    /// The old version
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    to: u64,
    /// Give the version to this share of the nodes first, at least to one, as in 5%
    #[arg(long, value_name = "SHARE")]
    first: Option<Share>,
    /// Reason for the version
    #[arg(long, value_name = "TEXT", default_value_t)]
    comment: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Make an option set of statements, or replace its statements; its options stay
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

/// Remove an option set with its versions, also from the nodes that use it
///
/// Without --confirm nothing is removed, and the command says how many nodes use the option set.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast optionset remove LINUX --confirm")]
struct RemoveArgs {
    /// The option set
    #[arg(value_name = "NAME")]
    name: String,
    /// Confirm that the option set is removed with its versions
    #[arg(long)]
    confirm: bool,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        OptionSetCommand::List => show::list(&admin.option_sets(None)?, context),
        OptionSetCommand::Show(args) => show_one(&args, admin, context)?,
        OptionSetCommand::Define(args) => {
            let change = OptionSetChange { is_new: true, ..change(args.name, args.content)? };
            apply(change, admin, context)?;
        }
        OptionSetCommand::Update(args) => {
            let share = args.first.map_or(0, Share::hundredths);
            let content = change(args.name, args.content)?;
            let change = OptionSetChange { unset: args.unset, share, ..content };
            if change.set.is_empty() && change.unset.is_empty() && change.text.is_none() {
                let message = "give a change: --option, --unset or --statements";
                return Err(CommandError::usage(message, "holdfast admin optionset update"));
            }
            apply(change, admin, context)?;
        }
        OptionSetCommand::History(args) => {
            let set = admin.option_sets(Some(&args.name))?.pop().unwrap_or_default();
            show::history(&set, &admin.option_set_versions(&args.name)?, context);
        }
        OptionSetCommand::Revert(args) => {
            let change = OptionSetChange {
                name: args.name,
                revert_to: Some(args.to),
                comment: args.comment,
                share: args.first.map_or(0, Share::hundredths),
                dry_run: args.dry_run,
                ..OptionSetChange::default()
            };
            apply(change, admin, context)?;
        }
        OptionSetCommand::Promote(args) => {
            let review = admin.end_option_set_stage(&args.name, true)?;
            show::promoted(&review, context);
        }
        OptionSetCommand::Withdraw(args) => {
            let review = admin.end_option_set_stage(&args.name, false)?;
            show::withdrawn(&review, context);
        }
        OptionSetCommand::Put(args) => {
            admin.put_option_set(&args.name, read(&args.file)?)?;
            let set = admin.option_sets(Some(&args.name))?.pop().unwrap_or_default();
            show::stored(&set, context);
        }
        OptionSetCommand::Remove(args) => {
            let set = admin.option_sets(Some(&args.name))?.pop().unwrap_or_default();
            if !args.confirm {
                return Err(unconfirmed(&set));
            }
            admin.remove_option_set(&set.name)?;
            show::removed(&set, context);
        }
    }
    Ok(DONE)
}

/// Returns the error for a removal that is not confirmed.
fn unconfirmed(set: &OptionSet) -> CommandError {
    let nodes: Vec<_> = set.nodes.iter().chain(&set.first_nodes).map(String::as_str).collect();
    let uses = match &nodes[..] {
        [] => "no node uses it".to_owned(),
        [node] => format!("1 node uses it and would lose its options and statements: {node}"),
        nodes => format!(
            "{} nodes use it and would lose its options and statements: {}",
            nodes.len(),
            nodes.join(", ")
        ),
    };
    CommandError::new(format!("the option set {} is not removed; {uses}", set.name))
        .with_hint("to remove it with all its versions, give --confirm")
}

/// Shows an option set, or one version of it.
fn show_one(args: &ShowArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let sets = admin.option_sets(Some(&args.name))?;
    let Some(number) = args.version else {
        sets.iter().for_each(|set| show::show(set, context));
        return Ok(());
    };
    let versions = admin.option_set_versions(&args.name)?;
    let version = versions.iter().find(|version| version.number == number);
    let version = version.ok_or_else(|| {
        CommandError::new(format!(
            "the option set {} has no version {number}; 'holdfast admin optionset history {}' \
             shows all versions",
            args.name, args.name
        ))
    })?;
    sets.iter().for_each(|set| show::version(set, version, context));
    Ok(())
}

/// Makes the change, and shows it.
fn apply(
    change: OptionSetChange,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    let is_dry = change.dry_run;
    let review = admin.change_option_set(change)?;
    show::review(&review, is_dry, context);
    Ok(())
}

fn change(name: String, content: ContentArgs) -> Result<OptionSetChange, CommandError> {
    let is_forced = content.force;
    let parse = |(name, value): (String, String)| {
        SetOption::parse(&name, &value, is_forced).map_err(|error| refusal(&name, &error))
    };
    Ok(OptionSetChange {
        name,
        set: content.options.into_iter().map(parse).collect::<Result<_, _>>()?,
        text: content.statements.as_deref().map(read).transpose()?,
        comment: content.comment,
        dry_run: content.dry_run,
        ..OptionSetChange::default()
    })
}

/// Returns the error for the option `name`, with the option that was meant as a hint.
fn refusal(name: &str, error: &SetOptionError) -> CommandError {
    let is_unknown = matches!(error, SetOptionError::Unknown(_));
    let question = is_unknown.then(|| explain::option_question(name)).flatten();
    let refused = CommandError::new(error.to_string());
    match question {
        Some(question) => refused.with_hint(question),
        None => refused,
    }
}

/// Splits an option at its first `=`.
fn option(text: &str) -> Result<(String, String), &'static str> {
    let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = split.ok_or("an option has the form KEY=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn read(file: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(file)
        .map_err(|error| CommandError::new(format!("cannot read {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_says_which_nodes_use_the_option_set() {
        let message = |nodes: &[&str], first_nodes: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let (nodes, first_nodes) = (names(nodes), names(first_nodes));
            let name = "LINUX".to_owned();
            unconfirmed(&OptionSet { name, nodes, first_nodes, ..OptionSet::default() }).message
        };
        assert_eq!(message(&[], &[]), "the option set LINUX is not removed; no node uses it");
        assert!(message(&["a"], &[]).ends_with(
            "1 node uses it and would lose its options and \
             statements: a"
        ));
        assert!(message(&["a"], &["b"]).contains("2 nodes use it"));
        assert!(message(&["a"], &["b"]).ends_with(": a, b"));
    }

    #[test]
    fn a_mistyped_option_is_answered_with_the_one_that_is_meant() {
        let hint = |name: &str, value: &str| {
            let error = SetOption::parse(name, value, false).expect_err("is refused");
            refusal(name, &error).hint
        };
        let meant = Some("did you mean 'compression'?".to_owned());
        assert_eq!(hint("compresion", "3"), meant);
        assert_eq!(hint("no-such-option-at-all", "3"), None);
        assert_eq!(hint("compression", "perhaps"), None, "the option is known");
    }
}
