//! `holdfast admin key`: keys of programs that use the REST API.

use client::admin::Admin;
use serde_json::json;

use super::request::{ask, pages};
use super::user::{path, tell, text};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::table::{self, Align};

/// Make, show and end keys of programs that use the REST API
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin key add --user anna --kind readonly
  holdfast admin key revoke hf-abcdefghijklmnop")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(clap::Subcommand, Debug)]
enum KeyCommand {
    Add(AddArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a key and print it; it is not shown again
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin key add --user anna --kind full --expires 90d
  holdfast admin key add --user anna --kind enroller --count 50")]
struct AddArgs {
    /// The user whose rights the key has
    #[arg(long, value_name = "LOGIN")]
    user: String,
    /// Rights of the key: all that the user may do, reading, registering nodes, or acting for
    /// other users
    #[arg(long, value_name = "KIND", default_value = "full")]
    #[arg(value_parser = ["full", "readonly", "enroller", "impersonator"])]
    kind: String,
    /// Maximum number of nodes that an enroller registers
    #[arg(long, value_name = "NUMBER")]
    count: Option<u32>,
    /// Time until the key expires, as in 90d [default: never]
    #[arg(long, value_name = "LENGTH", value_parser = moment::parse_length)]
    expires: Option<i64>,
    /// Purpose of the key
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
}

/// List the keys of a user
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  holdfast admin key list --user anna")]
struct ListArgs {
    /// The user
    #[arg(long, value_name = "LOGIN")]
    user: String,
}

/// End a key
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  holdfast admin key revoke hf-abcdefghijklmnop")]
struct RevokeArgs {
    /// The id of the key: its part before the colon
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        KeyCommand::Add(args) => add(&args, admin, context)?,
        KeyCommand::List(args) => list(&args, admin, context)?,
        KeyCommand::Revoke(args) => {
            path(&args.id)?;
            ask(admin, "DELETE", &format!("/v1/keys/{}", args.id), None)?;
            let ended = json!({ "id": args.id });
            tell(&ended, &format!("Key {} is ended.", args.id), context);
        }
    }
    Ok(DONE)
}

fn add(args: &AddArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let mut body = json!({
        "user": args.user,
        "kind": args.kind,
        "description": args.description,
    });
    if let Some(count) = args.count {
        body["count"] = count.into();
    }
    if let Some(secs) = args.expires {
        let expires = model::ServerTime(sys::clock::now().0 + secs * 1_000_000);
        body["expires"] = moment::rfc3339(expires).into();
    }
    let made = ask(admin, "POST", "/v1/keys", Some(&body))?;
    let shown = format!(
        "The key is made. Programs send it with each request, and nobody can show it again:\n\n  \
         Authorization: Token {}",
        text(&made, "token")
    );
    tell(&made, &shown, context);
    Ok(())
}

fn list(args: &ListArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    path(&args.user)?;
    let keys = pages(admin, &format!("/v1/keys?user={}", args.user))?;
    if context.output.is_json() {
        keys.iter().for_each(|key| context.output.json(key));
        return Ok(());
    }
    let columns = [
        ("Key", Align::Left),
        ("Kind", Align::Left),
        ("Valid", Align::Left),
        ("Uses", Align::Right),
        ("Expires", Align::Left),
        ("Description", Align::Left),
    ];
    let rows = keys.iter().map(|key| {
        [
            text(key, "id").to_owned(),
            text(key, "kind").to_owned(),
            if key["is_valid"] == true { "yes" } else { "no" }.to_owned(),
            key["uses"].to_string(),
            text(key, "expires").to_owned(),
            text(key, "description").to_owned(),
        ]
    });
    let table = table::render(columns, &rows.collect::<Vec<_>>());
    context.output.text(&table);
    Ok(())
}
