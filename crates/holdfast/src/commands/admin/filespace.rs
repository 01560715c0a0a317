//! `holdfast admin filespace`: the filespaces of nodes.

use client::admin::Admin;
use serde_json::{Value, json};

use super::request::{ask, pages};
use super::user::{tell, text};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};

/// List and remove the filespaces of a node
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin filespace list web-01
  holdfast admin filespace remove web-01 /srv/old --confirm")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: FilespaceCommand,
}

#[derive(clap::Subcommand, Debug)]
enum FilespaceCommand {
    /// List the filespaces of a node
    #[command(after_help = "Example:\n  holdfast admin filespace list web-01")]
    List(ListArgs),
    Remove(RemoveArgs),
}

#[derive(clap::Args, Debug)]
struct ListArgs {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
}

/// Remove a filespace of a node with all its backups
///
/// Archives stay. The next backup of the file system stores everything again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin filespace remove web-01 /srv/old --confirm")]
struct RemoveArgs {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// The filespace, as 'filespace list' shows it
    #[arg(value_name = "FILESPACE")]
    filespace: String,
    /// Confirm that all versions of its files are removed
    #[arg(long, required = true)]
    confirm: bool,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        FilespaceCommand::List(ListArgs { node }) => {
            list(&pages(admin, &path(&node)?)?, context);
        }
        FilespaceCommand::Remove(RemoveArgs { node, filespace, confirm: _ }) => {
            let path = format!("{}?filespace={}", path(&node)?, encoded(&filespace));
            ask(admin, "DELETE", &path, None)?;
            let removed = json!({ "node": node, "filespace": filespace });
            let text = format!("Filespace {filespace} of node {node} is removed.");
            tell(&removed, &text, context);
        }
    }
    Ok(DONE)
}

/// Returns the path of a node's filespaces. The name of the node must be plain.
fn path(node: &str) -> Result<String, CommandError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if node.is_empty() || !node.bytes().all(is_plain) {
        let message = format!("'{}' is not the name of a node", node.escape_debug());
        return Err(CommandError::usage(&message, "holdfast admin filespace"));
    }
    Ok(format!("/v1/nodes/{node}/filespaces"))
}

/// Returns text as a value in a query.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn list(filespaces: &[Value], context: &mut Context) {
    if context.output.is_json() {
        filespaces.iter().for_each(|one| context.output.json(one));
        return;
    }
    let columns = [
        ("Filespace", Align::Left),
        ("Active objects", Align::Right),
        ("Last backup", Align::Left),
    ];
    let rows = filespaces.iter().map(|one| {
        [
            one["name"].as_str().unwrap_or("(not UTF-8)").to_owned(),
            one["active_objects"].to_string(),
            text(one, "last_backup").to_owned(),
        ]
    });
    let table = table::render(columns, &rows.collect::<Vec<_>>());
    context.output.text(&table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_for_a_query() {
        assert_eq!(encoded("/srv/a b&c"), "/srv/a%20b%26c");
        assert_eq!(encoded("/\u{e9}"), "/%C3%A9");
        assert!(path("web-01").is_ok() && path("a/b").is_err() && path("").is_err());
    }
}
