//! `holdfast admin node`: who may back up to the server.

use client::admin::{AddNodeReply, Admin, NodeInfo, SetNodeRequest};
use model::{ServerTime, escaped};
use serde::Serialize;

use crate::commands::backup::yes_or_no;
use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::{moment, quantity};

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
    /// List all nodes
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node list")]
    List,
    /// Show one node and its filespaces
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node show web-01")]
    Show(NameArgs),
    /// Refuse a node's sessions until it is unlocked
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node lock web-01")]
    Lock(NameArgs),
    /// Admit a locked node again
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast node unlock web-01")]
    Unlock(NameArgs),
    Rename(RenameArgs),
    Set(SetArgs),
    Remove(RemoveArgs),
}

/// Register a node and print the one-time token that enrolls it
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node add web-01 --expires 2h")]
struct AddArgs {
    /// 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// The policy domain; STANDARD unless given
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// How long the token is good, as in 30m, 24h, 7d; 24h unless given, at most 30d
    #[arg(long, value_name = "LENGTH", value_parser = moment::parse_length)]
    expires: Option<i64>,
    /// Give a node that is registered a new token
    #[arg(long)]
    again: bool,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
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
    /// Its name from then on
    #[arg(value_name = "NEW")]
    new_name: String,
}

/// Change a node's policy domain, option set, collocation group and rights
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node set web-01 --domain LONG --optionset LINUX")]
struct SetArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
    /// The policy domain; its rules hold from the next backup and expiration
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// The include and exclude statements that it gets beside its own; '' takes them away
    #[arg(long, value_name = "NAME")]
    optionset: Option<String>,
    /// Nodes of one group share the volumes of pools that collocate by group; '' takes it away
    #[arg(long, value_name = "NAME")]
    collocation_group: Option<String>,
    /// BACKDELETE: whether the node may delete its backups
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    backdelete: Option<bool>,
    /// ARCHDELETE: whether the node may delete its archives
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    archdelete: Option<bool>,
}

/// Remove a node; it is refused from then on
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast node remove web-01 --with-data")]
struct RemoveArgs {
    /// The node
    #[arg(value_name = "NAME")]
    name: String,
    /// Remove its backups with it
    #[arg(long)]
    with_data: bool,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        NodeCommand::Add(args) => add(&args, admin, context)?,
        NodeCommand::List => list(&admin.nodes(None)?, context),
        NodeCommand::Show(args) => {
            for node in admin.nodes(Some(&args.name))? {
                show(&node, context);
            }
        }
        NodeCommand::Lock(args) => {
            let node = lock(admin, args.name, true)?;
            tell(&node, &format!("Node {} is locked.", node.name), context);
        }
        NodeCommand::Unlock(args) => {
            let node = lock(admin, args.name, false)?;
            tell(&node, &format!("Node {} is unlocked.", node.name), context);
        }
        NodeCommand::Rename(args) => {
            let name = args.name.clone();
            let new_name = Some(args.new_name);
            let request = SetNodeRequest { name, new_name, ..SetNodeRequest::default() };
            let node = admin.set_node(request)?;
            tell(&node, &format!("Node {} is called {}.", args.name, node.name), context);
        }
        NodeCommand::Set(args) => set(args, admin, context)?,
        NodeCommand::Remove(args) => {
            let node = admin.remove_node(&args.name, args.with_data)?;
            tell(&node, &format!("Node {} is removed.", node.name), context);
        }
    }
    Ok(DONE)
}

fn lock(admin: &mut Admin, name: String, locked: bool) -> Result<NodeInfo, CommandError> {
    let request = SetNodeRequest { name, locked: Some(locked), ..SetNodeRequest::default() };
    Ok(admin.set_node(request)?)
}

fn set(args: SetArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let request = SetNodeRequest {
        domain: args.domain,
        option_set: args.optionset,
        deletes_backups: args.backdelete,
        deletes_archives: args.archdelete,
        collocation_group: args.collocation_group,
        ..SetNodeRequest::default()
    };
    if request == SetNodeRequest::default() {
        let message = "say what to set: --domain, --optionset, --collocation-group, --backdelete \
                       or --archdelete";
        return Err(CommandError::usage(message, "holdfast admin node set"));
    }
    let node = admin.set_node(SetNodeRequest { name: args.name, ..request })?;
    tell(&node, &format!("Node {} is changed.", node.name), context);
    Ok(())
}

/// `node add --json`.
#[derive(Serialize)]
struct TokenDocument<'a> {
    node: &'a str,
    token: &'a str,
    expires: String,
}

fn add(args: &AddArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let domain = args.domain.as_deref().unwrap_or_default();
    let reply = admin.add_node(&args.name, domain, args.expires.unwrap_or(0), args.again)?;
    let AddNodeReply { node, token, expires } = reply;
    let name = node.map_or_else(|| args.name.clone(), |node| node.name);
    let expires = ServerTime(expires);
    if context.output.is_json() {
        let expires = moment::rfc3339(expires);
        context.output.json(&TokenDocument { node: &name, token: &token, expires });
    } else if context.output.quiet {
        context.output.text(&token);
    } else {
        let text = format!(
            "Node {name} is registered. Until {} it can enroll once, with:\n\n  \
             holdfast enroll HOST:PORT --token {token}",
            moment::shown(expires)
        );
        context.output.text(&text);
    }
    Ok(())
}

/// `node list --json`, one a line; and what became of a node that was changed.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct NodeDocument<'a> {
    node: &'a str,
    domain: &'a str,
    locked: bool,
    enrolled: bool,
    registered: String,
    option_set: Option<&'a str>,
    collocation_group: Option<&'a str>,
    backdelete: bool,
    archdelete: bool,
    filespaces: Vec<FilespaceDocument<'a>>,
}

#[derive(Serialize)]
struct FilespaceDocument<'a> {
    filespace: JsonPath<'a>,
    active_objects: u64,
    last_backup: Option<String>,
}

impl<'a> NodeDocument<'a> {
    fn new(node: &'a NodeInfo) -> Self {
        let filespaces = node.filespaces.iter();
        Self {
            node: &node.name,
            domain: &node.domain,
            locked: node.locked,
            enrolled: node.enrolled,
            registered: moment::rfc3339(ServerTime(node.registered)),
            option_set: named(&node.option_set),
            collocation_group: named(&node.collocation_group),
            backdelete: node.deletes_backups,
            archdelete: node.deletes_archives,
            filespaces: filespaces
                .map(|filespace| FilespaceDocument {
                    filespace: JsonPath(&filespace.name),
                    active_objects: filespace.active_objects,
                    last_backup: last_backup(filespace.last_backup).map(moment::rfc3339),
                })
                .collect(),
        }
    }
}

/// On the wire a name that is empty is none.
fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

/// On the wire 0 means never.
fn last_backup(micros: i64) -> Option<ServerTime> {
    (micros != 0).then_some(ServerTime(micros))
}

fn tell(node: &NodeInfo, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&NodeDocument::new(node));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

fn state(node: &NodeInfo) -> &'static str {
    match (node.locked, node.enrolled) {
        (true, _) => "locked",
        (false, true) => "enrolled",
        (false, false) => "not enrolled",
    }
}

fn list(nodes: &[NodeInfo], context: &mut Context) {
    if context.output.is_json() {
        for node in nodes {
            context.output.json(&NodeDocument::new(node));
        }
    } else if nodes.is_empty() {
        context.output.note("No node is registered.");
    } else {
        context.output.text(&nodes_table(nodes));
    }
}

fn nodes_table(nodes: &[NodeInfo]) -> String {
    let columns = [
        ("Node", Align::Left),
        ("Domain", Align::Left),
        ("Group", Align::Left),
        ("State", Align::Left),
        ("Filespaces", Align::Right),
        ("Active objects", Align::Right),
        ("Last backup", Align::Left),
    ];
    let row = |node: &NodeInfo| {
        let filespaces = &node.filespaces;
        let newest = filespaces.iter().filter_map(|one| last_backup(one.last_backup)).max();
        [
            node.name.clone(),
            node.domain.clone(),
            named(&node.collocation_group).unwrap_or("-").to_owned(),
            state(node).to_owned(),
            filespaces.len().to_string(),
            quantity::count(filespaces.iter().map(|one| one.active_objects).sum()),
            moment::shown_or_never(newest),
        ]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    table::render(columns, &rows)
}

fn show(node: &NodeInfo, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&NodeDocument::new(node));
        return;
    }
    let head = format!(
        "Node:               {}\nDomain:             {}\nState:              {}\n\
         Registered:         {}\nOption set:         {}\nCollocation group:  {}\n\
         May delete:         {}\n",
        node.name,
        node.domain,
        state(node),
        moment::shown(ServerTime(node.registered)),
        named(&node.option_set).unwrap_or("none"),
        named(&node.collocation_group).unwrap_or("none"),
        match (node.deletes_backups, node.deletes_archives) {
            (true, true) => "backups and archives",
            (true, false) => "backups",
            (false, true) => "archives",
            (false, false) => "nothing",
        }
    );
    context.output.text(&head);
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
            moment::shown_or_never(last_backup(filespace.last_backup)),
        ]
    });
    let table = table::render(columns, &rows.collect::<Vec<_>>());
    context.output.text(&format!("\n{table}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, locked: bool, enrolled: bool) -> NodeInfo {
        NodeInfo {
            id: 1,
            name: name.to_owned(),
            domain: "STANDARD".to_owned(),
            locked,
            enrolled,
            registered: 1_700_000_000_000_000,
            option_set: String::new(),
            deletes_backups: false,
            deletes_archives: true,
            filespaces: Vec::new(),
            collocation_group: if locked { "accounts".to_owned() } else { String::new() },
        }
    }

    #[test]
    fn nodes_stand_in_a_table() {
        let nodes = [
            node("anna", false, true),
            node("bert.example.org", true, true),
            node("c", false, false),
        ];
        insta::assert_snapshot!(nodes_table(&nodes), @r"
        Node              Domain    Group     State         Filespaces  Active objects  Last backup
        anna              STANDARD  -         enrolled               0               0  never
        bert.example.org  STANDARD  accounts  locked                 0               0  never
        c                 STANDARD  -         not enrolled           0               0  never
        ");
    }

    #[test]
    fn a_document_tells_all_of_a_node() {
        let node = node("anna", false, true);
        let document = serde_json::to_string_pretty(&NodeDocument::new(&node));
        insta::assert_snapshot!(document.expect("a document"), @r#"
        {
          "node": "anna",
          "domain": "STANDARD",
          "locked": false,
          "enrolled": true,
          "registered": "2023-11-14T22:13:20Z",
          "option_set": null,
          "collocation_group": null,
          "backdelete": false,
          "archdelete": true,
          "filespaces": []
        }
        "#);
    }
}
