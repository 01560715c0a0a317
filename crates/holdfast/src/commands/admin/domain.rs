//! `holdfast admin domain`: the scopes of policy.

use client::admin::{Admin, Domain};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};

/// List, add and remove policy domains
///
/// A domain has its own management classes. Each node belongs to one domain.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast domain add LONG
  holdfast admin --server /srv/holdfast node set web-01 --domain LONG")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: DomainCommand,
}

#[derive(clap::Subcommand, Debug)]
enum DomainCommand {
    /// List all domains
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast domain list")]
    List,
    /// Make a domain with the standard class
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast domain add LONG")]
    Add(NameArgs),
    /// Remove a domain without nodes
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast domain remove LONG")]
    Remove(NameArgs),
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The domain: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        DomainCommand::List => list(&admin.domains(None)?, context),
        DomainCommand::Add(args) => {
            let domain = admin.add_domain(&args.name)?;
            tell(&domain, &format!("Domain {} is created.", domain.name), context);
        }
        DomainCommand::Remove(args) => {
            let domain = admin.remove_domain(&args.name)?;
            tell(&domain, &format!("Domain {} is removed.", domain.name), context);
        }
    }
    Ok(DONE)
}

/// `domain list --json`, one document per line.
#[derive(Serialize)]
struct DomainDocument<'a> {
    domain: &'a str,
    nodes: u64,
    classes: Vec<&'a str>,
    default_class: &'a str,
    has_draft: bool,
}

impl<'a> DomainDocument<'a> {
    fn new(domain: &'a Domain) -> Self {
        Self {
            domain: &domain.name,
            nodes: domain.nodes,
            classes: domain.active.classes.iter().map(|class| class.name.as_str()).collect(),
            default_class: &domain.active.default_class,
            has_draft: domain.draft.is_some(),
        }
    }
}

fn tell(domain: &Domain, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&DomainDocument::new(domain));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

fn list(domains: &[Domain], context: &mut Context) {
    let documents: Vec<_> = domains.iter().map(DomainDocument::new).collect();
    if context.output.is_json() {
        documents.iter().for_each(|document| context.output.json(document));
        return;
    }
    let columns = [
        ("Domain", Align::Left),
        ("Nodes", Align::Right),
        ("Default class", Align::Left),
        ("Classes", Align::Left),
        ("Draft", Align::Left),
    ];
    let row = |document: &DomainDocument<'_>| {
        [
            document.domain.to_owned(),
            document.nodes.to_string(),
            document.default_class.to_owned(),
            document.classes.join(" "),
            if document.has_draft { "yes" } else { "no" }.to_owned(),
        ]
    };
    let rows: Vec<_> = documents.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}
