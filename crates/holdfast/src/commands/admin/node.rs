//! `holdfast admin node`: the nodes that may back up to the server.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use client::ArchiveSummary;
use client::admin::{
    Admin, IssuedToken, NameChange, Node, NodeChange, NodeContact, NodeRegistration, Revocation,
};
use client::authority::Fingerprint;
use model::{escaped, matches_wildcards, mount_point};
use serde::Serialize;

use crate::commands::list;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;
use crate::report::{LastDrillsDocument, drills};
use crate::table::{self, Align};
use crate::{moment, quantity, secret, values};

/// Register, show and remove nodes
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node add web-01 --expires 2h
  holdfast admin --server /srv/holdfast node lock web-01")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(clap::Subcommand, Debug)]
enum NodeCommand {
    Add(AddArgs),
    List(ListArgs),
    /// Show one node and its filespaces
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node show web-01")]
    Show(NameArgs),
    /// Refuse the sessions of nodes until they are unlocked
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node lock web-01")]
    Lock(NamesArgs),
    /// Admit locked nodes again
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node unlock web-01")]
    Unlock(NamesArgs),
    /// End a node's certificates, which somebody else may have; a new token enrols it again
    #[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node revoke web-01
  holdfast admin --server /srv/holdfast node add web-01 --again")]
    Revoke(NameArgs),
    Rename(RenameArgs),
    Set(SetArgs),
    Remove(RemoveArgs),
    Versions(VersionsArgs),
}

/// List nodes
///
/// All conditions must hold for a node that is listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node list
  holdfast admin --server /srv/holdfast node list --label db --domain LONG --name 'web-*'
  holdfast admin --server /srv/holdfast node list --agent away")]
struct ListArgs {
    /// Only nodes with this label
    #[arg(long, value_name = "LABEL", value_parser = values::not_empty)]
    label: Option<String>,
    /// Only nodes of this policy domain
    #[arg(long, value_name = "DOMAIN", value_parser = values::not_empty)]
    domain: Option<String>,
    /// Only nodes whose names match, with the wildcards * and ?; upper and lower case are the same
    #[arg(long, value_name = "PATTERN", value_parser = values::not_empty)]
    name: Option<String>,
    /// Only nodes with an agent in this state
    #[arg(long, value_name = "STATE", value_enum)]
    agent: Option<AgentState>,
}

/// State of a node's agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum AgentState {
    Connected,
    /// It polls, and has called in time
    Polls,
    Away,
}

impl AgentState {
    /// Returns the state of a node's agent; `None` from an older server, which does not tell.
    fn of(node: &Node) -> Option<Self> {
        match (node.has_agent, node.agent_polled) {
            (Some(true), _) => Some(Self::Connected),
            (_, Some(_)) => Some(Self::Polls),
            (Some(false), None) => Some(Self::Away),
            (None, None) => None,
        }
    }
}

impl ListArgs {
    fn has_conditions(&self) -> bool {
        let Self { label, domain, name, agent } = self;
        label.is_some() || domain.is_some() || name.is_some() || agent.is_some()
    }

    fn chooses(&self, node: &Node) -> bool {
        let has_name = |pattern: &String| {
            matches_wildcards(&pattern.to_ascii_lowercase(), &node.name.to_ascii_lowercase())
        };
        self.label.as_ref().is_none_or(|label| node.labels.contains(label))
            && self.domain.as_ref().is_none_or(|name| node.domain.eq_ignore_ascii_case(name))
            && self.name.as_ref().is_none_or(has_name)
            && self.agent.is_none_or(|state| AgentState::of(node) == Some(state))
    }
}

/// Register a node and print the one-time token that enrols it
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node add web-01 --expires 2h")]
struct AddArgs {
    /// The node: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// The policy domain [default: STANDARD]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Time until the token expires, as in 30m, 24h, 7d; at most 30d [default: 24h]
    #[arg(long, value_name = "LENGTH", value_parser = moment::parse_length)]
    expires: Option<i64>,
    /// Issue a new token to a node that is registered already
    #[arg(long)]
    again: bool,
    /// Let the node enrol with this password in place of the token, as TSM's nodes do; - reads it
    /// from standard input
    #[arg(long, value_name = "PASSWORD", allow_hyphen_values = true)]
    password: Option<String>,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(clap::Args, Debug)]
struct NamesArgs {
    /// The nodes
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// Give a node another name; its backups stay with it
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node rename web-01 web-02")]
struct RenameArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
    /// The new name
    #[arg(value_name = "NEW")]
    new_name: String,
}

/// Change the policy domain, option set, collocation group, rights and labels of nodes
///
/// Nothing changes if one of the nodes does not exist.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node set web-01 --domain LONG --optionset LINUX
  holdfast admin --server /srv/holdfast node set web-01 web-02 web-03 --label berlin")]
struct SetArgs {
    /// The nodes
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// The policy domain; its rules apply from the next backup and expiration on
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// The option set, whose statements are added to the node's own; '' for none
    #[arg(long, value_name = "NAME")]
    optionset: Option<String>,
    /// The collocation group, whose nodes share volumes in pools that collocate by group; '' for
    /// none
    #[arg(long, value_name = "NAME")]
    collocation_group: Option<String>,
    /// BACKDELETE: allow the node to delete its backups
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    backdelete: Option<bool>,
    /// ARCHDELETE: allow the node to delete its archives
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    archdelete: Option<bool>,
    /// Give the node a label, by which schedules find it; may be given several times
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// Take a label from the node; may be given several times
    #[arg(long, value_name = "LABEL")]
    unlabel: Vec<String>,
}

/// Remove a node; the server refuses it from then on
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node remove web-01 --confirm")]
struct RemoveArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
    /// Remove the node even if it has backups or archives, and these with it
    #[arg(long)]
    confirm: bool,
}

/// List the versions that a node has stored, active and inactive
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node versions web-01 /home
  holdfast admin --server /srv/holdfast node versions web-01 --archives")]
struct VersionsArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
    /// The mount point of the filespace [default: all filespaces]
    #[arg(value_name = "FILESPACE")]
    filespace: Option<OsString>,
    /// List the archive copies instead
    #[arg(long)]
    archives: bool,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        NodeCommand::Add(args) => add(args, admin, context)?,
        NodeCommand::List(args) => {
            let mut nodes = admin.nodes(None)?;
            nodes.retain(|node| args.chooses(node));
            if nodes.is_empty()
                && let Some(domain) = &args.domain
            {
                check_domain(domain, admin)?;
            }
            list(&nodes, args.has_conditions(), context);
        }
        NodeCommand::Show(args) => {
            for node in admin.nodes(Some(&args.name))? {
                show(&node, context);
            }
        }
        NodeCommand::Lock(args) => {
            change_all(&args.names, &lock(true), "locked", admin, context)?;
        }
        NodeCommand::Unlock(args) => {
            change_all(&args.names, &lock(false), "unlocked", admin, context)?;
        }
        NodeCommand::Revoke(args) => revoke(&admin.revoke_node(&args.name)?, context),
        NodeCommand::Rename(args) => {
            let new_name = Some(args.new_name);
            let change = NodeChange { new_name, ..NodeChange::default() };
            let node = admin.set_node(&args.name, change)?;
            tell(&node, &format!("Node {} is now called {}.", args.name, node.name), context);
        }
        NodeCommand::Set(args) => set(args, admin, context)?,
        NodeCommand::Remove(args) => {
            let node = admin.remove_node(&args.name, args.confirm)?;
            tell(&node, &format!("Node {} is removed.", node.name), context);
        }
        NodeCommand::Versions(args) => versions(&args, admin, context)?,
    }
    Ok(DONE)
}

fn versions(
    args: &VersionsArgs,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    let filespaces: Vec<Vec<u8>> = if args.archives {
        let archives = admin.archives(&args.name)?;
        let names = archives.iter().flat_map(ArchiveSummary::filespaces);
        names.map(<[u8]>::to_vec).collect()
    } else {
        let nodes = admin.nodes(Some(&args.name))?.into_iter();
        nodes.flat_map(|node| node.filespaces).map(|filespace| filespace.name).collect()
    };
    let wanted = args.filespace.as_ref().map(|name| name.as_bytes());
    let is_wanted = |name: &&Vec<u8>| wanted.is_none_or(|wanted| mount_point(name) == wanted);
    let chosen: Vec<&Vec<u8>> = filespaces.iter().filter(is_wanted).collect();
    if let Some(wanted) = wanted
        && chosen.is_empty()
    {
        let (what, shows) =
            if args.archives { ("archive of", "versions") } else { ("filespace", "show") };
        let message = format!("node {} has no {what} {}", args.name, escaped(wanted));
        let more = if args.archives { " --archives" } else { "" };
        let hint = format!("'holdfast admin node {shows} {}{more}' shows what it has", args.name);
        return Err(CommandError::new(message).with_hint(hint));
    }
    let mut headed = context.output.is_json() || context.output.quiet;
    for filespace in chosen {
        let output = &mut context.output;
        admin.versions(&args.name, filespace, &mut |version| {
            if !headed {
                output.line(&list::heading());
                headed = true;
            }
            list::write(&version, output);
            output.is_open()
        })?;
    }
    Ok(())
}

fn lock(is_locked: bool) -> NodeChange {
    NodeChange { is_locked: Some(is_locked), ..NodeChange::default() }
}

/// Changes all nodes in `names` alike. Changes none if one of them does not exist. `done` is what
/// each of them is then.
fn change_all(
    names: &[String],
    change: &NodeChange,
    done: &str,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    if names.len() > 1 {
        for name in names {
            admin.nodes(Some(name))?;
        }
    }
    for name in names {
        let node = admin.set_node(name, change.clone())?;
        tell(&node, &format!("Node {} is {done}.", node.name), context);
    }
    Ok(())
}

fn set(args: SetArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    for name in &args.names {
        check_labels(name, &args, admin)?;
    }
    let change = NodeChange {
        domain: args.domain,
        option_set: args.optionset.map(NameChange::from),
        deletes_backups: args.backdelete,
        deletes_archives: args.archdelete,
        collocation_group: args.collocation_group.map(NameChange::from),
        added_labels: args.label,
        removed_labels: args.unlabel,
        ..NodeChange::default()
    };
    if change == NodeChange::default() {
        let message = "give a setting: --domain, --optionset, --collocation-group, --backdelete, \
                       --archdelete, --label or --unlabel";
        return Err(CommandError::usage(message, "holdfast admin node set"));
    }
    change_all(&args.names, &change, "changed", admin, context)
}

/// Fails if a label is both given and taken, or if the node does not have a label that is taken.
fn check_labels(name: &str, args: &SetArgs, admin: &mut Admin) -> Result<(), CommandError> {
    if args.unlabel.is_empty() {
        return Ok(());
    }
    let nodes = admin.nodes(Some(name))?;
    let labels: Vec<&str> =
        nodes.iter().flat_map(|node| &node.labels).map(String::as_str).collect();
    match refused_label(name, args, &labels) {
        Some(message) => Err(CommandError::new(message)
            .with_hint(format!("'holdfast admin node show {name}' names its labels"))),
        None => Ok(()),
    }
}

/// Returns why the labels of the node, which has `labels`, cannot be changed, if they cannot.
fn refused_label(name: &str, args: &SetArgs, labels: &[&str]) -> Option<String> {
    args.unlabel.iter().find_map(|label| {
        if args.label.contains(label) {
            return Some(format!("the label {label} is both given and taken"));
        }
        let is_known = labels.contains(&label.as_str());
        (!is_known).then(|| format!("node {name} has no label {label}"))
    })
}

/// `node revoke --json`.
#[derive(Serialize)]
struct RevocationDocument<'a> {
    node: &'a str,
    certificates: u64,
}

fn revoke(Revocation { node, certificates }: &Revocation, context: &mut Context) {
    let (name, certificates) = (node.name.as_str(), *certificates);
    if context.output.is_json() {
        context.output.json(&RevocationDocument { node: name, certificates });
    } else if !context.output.quiet {
        let ended = quantity::counted(certificates, "certificate");
        let text = format!(
            "{ended} of node {name} cannot be used any more. To admit the node again, make a token \
             with 'holdfast admin node add {name} --again'."
        );
        context.output.text(&text);
    }
}

/// `node add --json`.
#[derive(Serialize)]
struct TokenDocument<'a> {
    node: &'a str,
    token: &'a str,
    expires: String,
    /// Fingerprint of the server's CA.
    authority: Option<String>,
}

fn add(args: AddArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let password = args.password.map(|word| secret::given(&word, "password")).transpose()?;
    let has_password = password.is_some();
    let IssuedToken { node: name, token, expires } = admin.add_node(NodeRegistration {
        name: args.name,
        domain: args.domain,
        token_lifetime: args.expires.map(|secs| Duration::from_secs(secs.unsigned_abs())),
        again: args.again,
        password: password.unwrap_or_default(),
    })?;
    let authority = Fingerprint::of_token(&token).map(|authority| authority.to_string());
    if context.output.is_json() {
        let expires = moment::rfc3339(expires);
        context
            .output
            .json(&TokenDocument { node: &name, token: &token, expires, authority });
    } else if context.output.quiet {
        context.output.text(&token);
    } else if has_password {
        let text = format!(
            "Node {name} is registered. Until {} it can be enrolled once, with its password:\n\n  \
             holdfast enroll HOST:PORT --name {name} --password -\n\nThe node asks whether the CA \
             of this server has the fingerprint (SHA-256)\n{}.",
            moment::shown(expires),
            authority.unwrap_or_default()
        );
        context.output.text(&text);
    } else {
        let text = format!(
            "Node {name} is registered. Until {} it can be enrolled once, with:\n\n  \
             holdfast enroll HOST:PORT --token {token}",
            moment::shown(expires)
        );
        context.output.text(&text);
    }
    Ok(())
}

/// `node list --json`, one document per line. Also a node after a change.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct NodeDocument<'a> {
    node: &'a str,
    domain: &'a str,
    locked: bool,
    enrolled: bool,
    /// True while the node's agent is connected; `None` from an older server.
    agent_connected: Option<bool>,
    /// Time at which the node's agent was connected last, if it polls and calls in time.
    agent_polled: Option<String>,
    /// Time of that agent's next call at the latest.
    agent_next_poll: Option<String>,
    /// Last time at which a program of the node has greeted a server, from where, and the name of
    /// its machine.
    last_contact: Option<String>,
    last_address: Option<&'a str>,
    last_host: Option<&'a str>,
    registered: String,
    option_set: Option<&'a str>,
    option_set_version: Option<u64>,
    collocation_group: Option<&'a str>,
    labels: &'a [String],
    backdelete: bool,
    archdelete: bool,
    #[serde(flatten)]
    drills: LastDrillsDocument<'a>,
    filespaces: Vec<FilespaceDocument<'a>>,
}

#[derive(Serialize)]
struct FilespaceDocument<'a> {
    filespace: JsonPath<'a>,
    active_objects: u64,
    last_backup: Option<String>,
}

impl<'a> NodeDocument<'a> {
    fn new(node: &'a Node) -> Self {
        let filespaces = node.filespaces.iter();
        let contact = node.last_contact.as_ref();
        let host = contact.map(|contact| contact.host.as_str());
        Self {
            node: &node.name,
            domain: &node.domain,
            locked: node.is_locked,
            enrolled: node.is_enrolled,
            agent_connected: node.has_agent,
            agent_polled: node.agent_polled.map(moment::rfc3339),
            agent_next_poll: node.agent_next_poll.map(moment::rfc3339),
            last_contact: contact.map(|contact| moment::rfc3339(contact.at)),
            last_address: contact.map(|contact| contact.address.as_str()),
            last_host: host.filter(|host| !host.is_empty()),
            registered: moment::rfc3339(node.registered),
            option_set: node.option_set.as_deref(),
            option_set_version: Some(node.option_set_version).filter(|version| *version > 0),
            collocation_group: node.collocation_group.as_deref(),
            labels: &node.labels,
            backdelete: node.deletes_backups,
            archdelete: node.deletes_archives,
            drills: LastDrillsDocument::new(node.drills.as_ref()),
            filespaces: filespaces
                .map(|filespace| FilespaceDocument {
                    filespace: JsonPath(&filespace.name),
                    active_objects: filespace.active_objects,
                    last_backup: filespace.last_backup.map(moment::rfc3339),
                })
                .collect(),
        }
    }
}

fn tell(node: &Node, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&NodeDocument::new(node));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

fn state(node: &Node) -> &'static str {
    match (node.is_locked, node.is_enrolled) {
        (true, _) => "locked",
        (false, true) => "enrolled",
        (false, false) => "not enrolled",
    }
}

/// Returns whether the node's agent is connected, or when one that polls has called last and calls
/// next. An older server does not tell.
fn agent_words(node: &Node) -> String {
    match (AgentState::of(node), node.agent_polled) {
        (Some(AgentState::Connected), _) => "connected".to_owned(),
        (Some(AgentState::Polls), Some(at)) => {
            let next = node.agent_next_poll.map(|next| moment::shown_after(next, at));
            let next = next.map_or_else(String::new, |next| format!(", next by {next}"));
            format!("polls, last {}{next}", moment::shown(at))
        }
        (Some(AgentState::Away), _) => "away".to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Returns when a program of the node has greeted a server last, and from where.
fn contact_words(contact: Option<&NodeContact>) -> String {
    let Some(NodeContact { at, address, host }) = contact else { return moment::NEVER.to_owned() };
    let words = format!("{} from {address}", moment::shown(*at));
    match host.as_str() {
        "" => words,
        host => format!("{words} ({})", model::printable(host)),
    }
}

/// Fails for a policy domain that does not exist.
fn check_domain(name: &str, admin: &mut Admin) -> Result<(), CommandError> {
    if admin.domains(Some(name))?.is_empty() {
        return Err(CommandError::new(format!("there is no policy domain {name}"))
            .with_hint("'holdfast admin domain list' shows all"));
    }
    Ok(())
}

fn list(nodes: &[Node], has_conditions: bool, context: &mut Context) {
    if context.output.is_json() {
        for node in nodes {
            context.output.json(&NodeDocument::new(node));
        }
    } else if nodes.is_empty() {
        context.output.note(match has_conditions {
            true => "No node meets the conditions.",
            false => "No node is registered.",
        });
    } else {
        context.output.text(&nodes_table(nodes));
    }
}

fn nodes_table(nodes: &[Node]) -> String {
    let columns = [
        ("Node", Align::Left),
        ("Domain", Align::Left),
        ("Group", Align::Left),
        ("Labels", Align::Left),
        ("State", Align::Left),
        ("Agent", Align::Left),
        ("Filespaces", Align::Right),
        ("Active objects", Align::Right),
        ("Last backup", Align::Left),
        ("Last proven", Align::Left),
    ];
    let row = |node: &Node| {
        let filespaces = &node.filespaces;
        let newest = filespaces.iter().filter_map(|filespace| filespace.last_backup).max();
        [
            node.name.clone(),
            node.domain.clone(),
            node.collocation_group.as_deref().unwrap_or("-").to_owned(),
            if node.labels.is_empty() { "-".to_owned() } else { node.labels.join(", ") },
            state(node).to_owned(),
            agent_words(node),
            filespaces.len().to_string(),
            quantity::count(
                filespaces.iter().map(|one| one.active_objects).fold(0, u64::saturating_add),
            ),
            moment::shown_or_never(newest),
            drills::proven(node.drills.as_ref()),
        ]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    table::render(columns, &rows)
}

fn show(node: &Node, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&NodeDocument::new(node));
        return;
    }
    let head = format!(
        "Node:               {}\nDomain:             {}\nState:              {}\n\
         Agent:              {}\nLast contact:       {}\n\
         Registered:         {}\nOption set:         {}\nCollocation group:  {}\n\
         Labels:             {}\n\
         May delete:         {}\n",
        node.name,
        node.domain,
        state(node),
        agent_words(node),
        contact_words(node.last_contact.as_ref()),
        moment::shown(node.registered),
        option_set(node),
        node.collocation_group.as_deref().unwrap_or("none"),
        if node.labels.is_empty() { "none".to_owned() } else { node.labels.join(", ") },
        match (node.deletes_backups, node.deletes_archives) {
            (true, true) => "backups and archives",
            (true, false) => "backups",
            (false, true) => "archives",
            (false, false) => "nothing",
        }
    );
    context.output.text(&format!("{head}{}", proof_lines(node)));
    if node.filespaces.is_empty() {
        return;
    }
    let columns = [
        ("Filespace", Align::Left),
        ("Active objects", Align::Right),
        ("Last backup", Align::Left),
    ];
    let rows = node.filespaces.iter().map(|filespace| {
        [
            escaped(&filespace.name),
            quantity::count(filespace.active_objects),
            moment::shown_or_never(filespace.last_backup),
        ]
    });
    let table = table::render(columns, &rows.collect::<Vec<_>>());
    context.output.text(&format!("\n{table}"));
}

/// Returns the lines about restore drills of a node.
fn proof_lines(node: &Node) -> String {
    let proof = drills::proof(node.drills.as_ref());
    let mut lines = format!("Proven restorable:  {proof}\n");
    if let Some(failure) = drills::failure(node.drills.as_ref()) {
        lines.push_str("Failed drill:       ");
        lines.push_str(&failure);
        lines.push('\n');
    }
    lines
}

/// Option set of a node with its version, for people.
fn option_set(node: &Node) -> String {
    match (&node.option_set, node.option_set_version) {
        (None, _) => "none".to_owned(),
        (Some(name), 0) => name.clone(),
        (Some(name), version) => format!("{name} version {version}"),
    }
}

#[cfg(test)]
mod tests;
