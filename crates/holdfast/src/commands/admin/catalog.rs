//! `holdfast admin catalog`: copies of the catalogue in the pools.

use client::admin::{Admin, CatalogCopy, CopyCatalogReply};
use model::ServerTime;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::moment;
use crate::output;
use crate::quantity;
use crate::table::{self, Align};

/// Back up the catalogue to the pools, and list its copies
///
/// With a copy, and the file that 'holdfast server recovery' writes, 'holdfast server recover'
/// makes the server again on an empty machine.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast catalog backup
  holdfast admin --server /srv/holdfast catalog list")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: CatalogCommand,
}

#[derive(clap::Subcommand, Debug)]
enum CatalogCommand {
    /// List the copies that the pools have
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast catalog list")]
    List,
    /// Store what has changed since the last copy; the server does it by itself each day
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast catalog backup")]
    Backup,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        CatalogCommand::List => list(&admin.catalog_copies()?, context),
        CatalogCommand::Backup => back_up(admin, context)?,
    }
    Ok(DONE)
}

/// `catalog backup --json`.
#[derive(Serialize)]
struct BackupDocument {
    copy: u64,
    bytes: u64,
    bytes_new: u64,
}

fn back_up(admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let global = &context.global;
    let shows = !global.quiet && (global.progress || output::stderr_is_terminal());
    let done = admin.copy_catalog(&mut |reply| {
        if shows {
            output::say(&format!(
                "{} of {} looked at, {} new",
                quantity::bytes_with_unit(reply.bytes_done),
                quantity::bytes_with_unit(reply.bytes),
                quantity::bytes_with_unit(reply.bytes_new),
            ));
        }
    })?;
    let CopyCatalogReply { number, bytes, bytes_new, .. } = done;
    if context.output.is_json() {
        context.output.json(&BackupDocument { copy: number, bytes, bytes_new });
    } else {
        context.output.text(&format!(
            "Copy {number} of the catalogue is stored: {}, of which {} are new.\n",
            quantity::bytes_with_unit(bytes),
            quantity::bytes_with_unit(bytes_new)
        ));
    }
    Ok(())
}

/// `catalog list --json`, one a line.
#[derive(Serialize)]
struct CopyDocument<'a> {
    copy: u64,
    taken: String,
    bytes: u64,
    pools: &'a [String],
}

fn list(copies: &[CatalogCopy], context: &mut Context) {
    if context.output.is_json() {
        for copy in copies {
            context.output.json(&CopyDocument {
                copy: copy.number,
                taken: moment::rfc3339(ServerTime(copy.taken)),
                bytes: copy.bytes,
                pools: &copy.pools,
            });
        }
        return;
    }
    if copies.is_empty() {
        context.output.note("There is no copy of the catalogue.");
        return;
    }
    let columns = [
        ("Copy", Align::Right),
        ("Taken", Align::Left),
        ("Size", Align::Right),
        ("In the pools", Align::Left),
    ];
    let row = |copy: &CatalogCopy| {
        [
            copy.number.to_string(),
            moment::shown(ServerTime(copy.taken)),
            quantity::bytes_with_unit(copy.bytes),
            copy.pools.join(" "),
        ]
    };
    let rows: Vec<_> = copies.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}
