//! `holdfast admin domain`: the scopes of policy.

use client::admin::{Admin, Domain, LimitChange};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::quantity;
use crate::table::{self, Align};
use crate::values::{self, ValueError};

/// List, add, limit and remove policy domains
///
/// A domain has its own management classes, and limits on what its nodes store. Each node belongs
/// to one domain.
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
    /// Change the limits of a domain
    ///
    /// A backup or archive that would bring the domain above a limit is refused. What is stored
    /// already stays. All versions count, with their sizes on the nodes.
    #[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast domain set LAB --bytes 20T --objects nolimit")]
    Set(SetArgs),
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

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = true)]
struct LimitArgs {
    /// Maximum number of nodes, or nolimit
    #[arg(long, value_name = "N", value_parser = number)]
    nodes: Option<Max>,
    /// Maximum number of stored versions of objects, or nolimit
    #[arg(long, value_name = "N", value_parser = number)]
    objects: Option<Max>,
    /// Maximum size of the stored versions, as in 20T, or nolimit
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<Max>,
    /// Share of a limit from which the domain is at risk
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    warning: Option<u8>,
}

#[derive(clap::Args, Debug)]
struct SetArgs {
    /// The domain
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    limits: LimitArgs,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug)]
struct Max(Option<u64>);

const NO_LIMIT: &str = "nolimit";

fn number(text: &str) -> Result<Max, ValueError> {
    if text.eq_ignore_ascii_case(NO_LIMIT) {
        return Ok(Max(None));
    }
    let wrong = ValueError::Rule("the limit must be a number, or nolimit");
    text.parse().map(|number| Max(Some(number))).map_err(|_| wrong)
}

fn size(text: &str) -> Result<Max, ValueError> {
    if text.eq_ignore_ascii_case(NO_LIMIT) {
        return Ok(Max(None));
    }
    values::size(text).map(|bytes| Max(Some(bytes)))
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
        DomainCommand::Set(SetArgs { name, limits }) => {
            let change = LimitChange {
                nodes: limits.nodes.map(|max| max.0),
                objects: limits.objects.map(|max| max.0),
                bytes: limits.bytes.map(|max| max.0),
                warning_percent: limits.warning,
            };
            let domain = admin.set_domain(&name, change)?;
            tell(&domain, &format!("Domain {} has new limits.", domain.name), context);
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
    objects: u64,
    bytes: u64,
    nodes_max: Option<u64>,
    objects_max: Option<u64>,
    bytes_max: Option<u64>,
}

impl<'a> DomainDocument<'a> {
    fn new(domain: &'a Domain) -> Self {
        Self {
            domain: &domain.name,
            nodes: domain.nodes,
            classes: domain.active.classes.iter().map(|class| class.name.as_str()).collect(),
            default_class: &domain.active.default_class,
            has_draft: domain.draft.is_some(),
            objects: domain.objects,
            bytes: domain.bytes,
            nodes_max: domain.nodes_max,
            objects_max: domain.objects_max,
            bytes_max: domain.bytes_max,
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

/// Returns a number, with its limit if there is one.
fn with_limit(number: u64, max: Option<u64>, text: fn(u64) -> String) -> String {
    match max {
        Some(max) => format!("{} of {}", text(number), text(max)),
        None => text(number),
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
        ("Objects", Align::Right),
        ("Stored", Align::Right),
        ("Default class", Align::Left),
        ("Classes", Align::Left),
        ("Draft", Align::Left),
    ];
    let row = |document: &DomainDocument<'_>| {
        [
            document.domain.to_owned(),
            with_limit(document.nodes, document.nodes_max, quantity::count),
            with_limit(document.objects, document.objects_max, quantity::count),
            with_limit(document.bytes, document.bytes_max, quantity::bytes_with_unit),
            document.default_class.to_owned(),
            document.classes.join(" "),
            if document.has_draft { "yes" } else { "no" }.to_owned(),
        ]
    };
    let rows: Vec<_> = documents.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}
