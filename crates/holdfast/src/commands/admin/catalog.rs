//! `holdfast admin catalog`: copies of the catalogue in the pools.

use std::path::Path;

use client::admin::{Admin, CatalogCopy, CatalogCopyProgress};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, WARNED};
use crate::folder_owner;
use crate::moment;
use crate::output;
use crate::quantity;
use crate::table::{self, Align};

/// Back up the catalogue to the pools, and list its copies
///
/// 'holdfast server recover' makes the server again on an empty machine, from a copy and the file
/// that 'holdfast server recovery' writes.
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
    /// List the copies of the catalogue in the pools
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast catalog list")]
    List,
    /// Store the changes since the last copy; the server does this by itself each day
    ///
    /// The copy is checked. A copy of a damaged catalogue, or of one that has lost most of its
    /// rows, replaces no other copy, and the command ends with 8.
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast catalog backup")]
    Backup {
        /// Let the copy replace others although the catalogue has lost most of its rows
        #[arg(long)]
        confirm: bool,
    },
    /// Move the catalogue to a database, or back to the server's folder
    ///
    /// The server must not be running. It uses the old catalogue until all rows have been copied
    /// and compared. A move that was interrupted begins again.
    #[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast catalog move postgres://holdfast@db.example.org/holdfast
  holdfast admin --server /srv/holdfast catalog move sqlite:")]
    Move {
        /// The new place: postgres://USER@HOST/DATABASE with an empty database, or sqlite:
        #[arg(value_name = "URL")]
        url: String,
    },
}

/// Runs a command that needs no running server. Returns `None` for the other commands.
pub(super) fn without_server(
    args: &Args,
    folder: &Path,
    context: &mut Context,
) -> Option<Result<u8, CommandError>> {
    let CatalogCommand::Move { url } = &args.command else { return None };
    Some(move_to(folder, url, context))
}

/// `catalog move --json`.
#[derive(Serialize)]
struct MoveDocument<'a> {
    catalog: &'a str,
    rows: u64,
}

fn move_to(folder: &Path, url: &str, context: &mut Context) -> Result<u8, CommandError> {
    folder_owner::check(folder)?;
    let shows = context.shows_steps();
    let mut last = None;
    let moved = store::folder::move_catalog(folder, url, &mut |table, rows| {
        let is_new = last != Some(table);
        if shows && (is_new || rows.is_multiple_of(100_000)) {
            output::say(&format!("{table}: {} so far", quantity::counted(rows, "row")));
        }
        last = Some(table);
    });
    let rows = moved.map_err(|error| CommandError::chain(&error))?;
    if context.output.is_json() {
        context.output.json(&MoveDocument { catalog: url, rows });
    } else {
        let rows = quantity::counted(rows, "row");
        context
            .output
            .note(&format!("The catalogue is now at {url}: {rows} copied and compared."));
    }
    Ok(DONE)
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match &args.command {
        CatalogCommand::List => list(&admin.catalog_copies()?, context),
        CatalogCommand::Backup { confirm } => return back_up(*confirm, admin, context),
        CatalogCommand::Move { .. } => {
            return Err(CommandError::new("stop the server before you move its catalogue"));
        }
    }
    Ok(DONE)
}

/// `catalog backup --json`.
#[derive(Serialize)]
struct BackupDocument<'a> {
    copy: u64,
    bytes: u64,
    bytes_new: u64,
    doubt: Option<&'a str>,
}

fn back_up(accept: bool, admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let shows = context.shows_steps();
    let done = admin.copy_catalog(accept, &mut |state| {
        if shows {
            output::say(&format!(
                "{} of {} compared, {} new",
                quantity::bytes_with_unit(state.bytes_done),
                quantity::bytes_with_unit(state.bytes),
                quantity::bytes_with_unit(state.bytes_new),
            ));
        }
    })?;
    let CatalogCopyProgress { number, bytes, bytes_new, doubt, .. } = done;
    let doubt = doubt.as_deref();
    if context.output.is_json() {
        context.output.json(&BackupDocument { copy: number, bytes, bytes_new, doubt });
    } else {
        context.output.text(&format!(
            "Copy {number} of the catalogue is stored: {}, {} of it new.\n",
            quantity::bytes_with_unit(bytes),
            quantity::bytes_with_unit(bytes_new)
        ));
    }
    let Some(doubt) = doubt else { return Ok(DONE) };
    output::say(&format!(
        "The copy replaces no other one: {doubt}. 'holdfast admin audit' names what is damaged; if \
         the rows were removed on purpose, give --confirm."
    ));
    Ok(WARNED)
}

/// `catalog list --json`, one document per line.
#[derive(Serialize)]
struct CopyDocument<'a> {
    copy: u64,
    taken: String,
    bytes: u64,
    pools: &'a [String],
    doubtful: bool,
}

fn list(copies: &[CatalogCopy], context: &mut Context) {
    if context.output.is_json() {
        for copy in copies {
            context.output.json(&CopyDocument {
                copy: copy.number,
                taken: moment::rfc3339(copy.taken),
                bytes: copy.bytes,
                pools: &copy.pools,
                doubtful: copy.is_doubtful,
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
        ("State", Align::Left),
        ("In the pools", Align::Left),
    ];
    let row = |copy: &CatalogCopy| {
        [
            copy.number.to_string(),
            moment::shown(copy.taken),
            quantity::bytes_with_unit(copy.bytes),
            if copy.is_doubtful { "doubtful" } else { "sound" }.to_owned(),
            copy.pools.join(" "),
        ]
    };
    let rows: Vec<_> = copies.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}
