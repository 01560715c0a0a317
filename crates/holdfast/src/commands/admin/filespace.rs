//! `holdfast admin filespace`: the filespaces of nodes.

use std::ffi::{OsStr, OsString};

use client::admin::Admin;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::request::{ask, pages};
use super::user::{tell, text};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::path::{self, JsonPath};
use crate::quantity;
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
  holdfast admin filespace remove web-01 /srv/old --confirm
  holdfast admin filespace remove web-01 base64:L21udC9jYWbp --confirm")]
struct RemoveArgs {
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
    /// The filespace, as 'filespace list' shows it: a name that is not plain text is 'base64:' and
    /// its bytes in Base64
    #[arg(value_name = "FILESPACE")]
    filespace: OsString,
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
            list(&pages(admin, &address(&node)?)?, context);
        }
        FilespaceCommand::Remove(RemoveArgs { node, filespace, confirm: _ }) => {
            let name = name(&filespace)?;
            let shown = path::name_text(&name);
            let encoded = utf8_percent_encode(&shown, NON_ALPHANUMERIC);
            let address = format!("{}?filespace={encoded}", address(&node)?);
            ask(admin, "DELETE", &address, None)?;
            let removed = json!({ "node": node, "filespace": JsonPath(&name) });
            let text = format!("Filespace {shown} of node {node} is removed.");
            tell(&removed, &text, context);
        }
    }
    Ok(DONE)
}

/// Returns the name of the filespace that a person has given.
fn name(given: &OsStr) -> Result<Vec<u8>, CommandError> {
    path::from_name_text(given).ok_or_else(|| {
        let message = format!(
            "{} is not the name of a filespace: after 'base64:' come bytes in Base64; \
             'holdfast admin filespace list' shows the names",
            given.display()
        );
        CommandError::usage(&message, "holdfast admin filespace remove")
    })
}

/// Returns the address of a node's filespaces. The name of the node must be plain.
fn address(node: &str) -> Result<String, CommandError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if node.is_empty() || !node.bytes().all(is_plain) {
        let message = format!("'{}' is not the name of a node", node.escape_debug());
        return Err(CommandError::usage(&message, "holdfast admin filespace"));
    }
    Ok(format!("/v1/nodes/{node}/filespaces"))
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
    let table = table::render(columns, &filespaces.iter().map(row).collect::<Vec<_>>());
    context.output.text(&table);
}

/// Returns the row of a filespace, in which numbers and times are shown as other tables show them.
fn row(filespace: &Value) -> [String; 3] {
    let objects = filespace["active_objects"].as_u64().unwrap_or_default();
    [shown(&filespace["name"]), quantity::count(objects), last_backup(filespace)]
}

/// Returns the time of the last backup of a filespace, as tables show it.
fn last_backup(filespace: &Value) -> String {
    moment::shown_or_never(moment::parse(text(filespace, "last_backup")).ok())
}

/// Returns the name in a document as a person can give it back.
fn shown(name: &Value) -> String {
    path::from_json(name).map_or_else(|| name.to_string(), |name| path::name_text(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_for_a_query() {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        assert_eq!(encoded("/srv/a b&c"), "%2Fsrv%2Fa%20b%26c");
        assert_eq!(encoded("/\u{e9}"), "%2F%C3%A9");
        assert_eq!(encoded("base64:L2+="), "base64%3AL2%2B%3D");
        assert!(address("web-01").is_ok() && address("a/b").is_err() && address("").is_err());
    }

    #[test]
    fn a_name_that_is_no_text_is_given_back_as_it_is_shown() {
        let document = json!({ "bytes": "L21udC9jYWbp" });
        let text = shown(&document);
        assert_eq!(text, "base64:L21udC9jYWbp");
        assert_eq!(name(OsStr::new(&text)).expect("is a name"), b"/mnt/caf\xe9");
        assert_eq!(shown(&json!("/srv")), "/srv");
        assert!(name(OsStr::new("base64:?")).is_err());
    }

    #[test]
    fn numbers_are_shown_as_other_tables_show_them() {
        let document = json!({ "name": "/srv", "active_objects": 28_298 });
        assert_eq!(row(&document), ["/srv", "28,298", "never"]);
    }

    #[test]
    fn the_last_backup_is_shown_as_other_tables_show_times() {
        let document = json!({ "last_backup": "2026-11-30T04:40:54.55818Z" });
        let time = moment::parse("2026-11-30T04:40:54.55818Z").expect("is a time");
        assert_eq!(last_backup(&document), moment::shown(time));
        assert_eq!(last_backup(&document).len(), "2026-11-30 04:40:54".len());
        assert_eq!(last_backup(&json!({})), "never");
    }
}
