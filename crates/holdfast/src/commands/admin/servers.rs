//! `holdfast admin servers`: the servers of one catalogue.

use client::admin::{Admin, Server};
use model::ServerTime;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::moment;
use crate::table::{self, Align};

/// Since a server was heard of last, shown from here on.
const SILENT_SHOWN_MILLIS: u64 = 3000;

/// List the servers that serve this catalogue, and which of them keeps house
///
/// Every server takes backups and restores. One keeps house: it expires, reclaims, copies and moves
/// packs, and it is where commands about these are given. When it ends, another one does.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast servers")]
pub(crate) struct Args {}

/// `servers --json`, one a line.
#[derive(Serialize)]
struct ServerDocument<'a> {
    address: &'a str,
    version: &'a str,
    started: String,
    silent_seconds: f64,
    keeps_house: bool,
    is_this: bool,
    backups: u64,
}

pub(super) fn run(admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let servers = admin.servers()?;
    if context.output.is_json() {
        for server in &servers {
            context.output.json(&ServerDocument {
                address: &server.address,
                version: &server.version,
                started: moment::rfc3339(ServerTime(server.started)),
                silent_seconds: std::time::Duration::from_millis(server.silent_millis)
                    .as_secs_f64(),
                keeps_house: server.keeps_house,
                is_this: server.is_this,
                backups: server.backups,
            });
        }
    } else {
        context.output.text(&text(&servers));
    }
    Ok(DONE)
}

fn text(servers: &[Server]) -> String {
    let columns = [
        ("Address", Align::Left),
        ("Version", Align::Left),
        ("Since", Align::Left),
        ("Backups", Align::Right),
        ("", Align::Left),
    ];
    let row = |server: &Server| {
        let mut notes = Vec::new();
        if server.keeps_house {
            notes.push("keeps house".to_owned());
        }
        if server.is_this {
            notes.push("this one".to_owned());
        }
        if server.silent_millis >= SILENT_SHOWN_MILLIS {
            notes.push(format!("silent for {} s", server.silent_millis / 1000));
        }
        let started = moment::shown(ServerTime(server.started));
        let (address, version) = (server.address.clone(), server.version.clone());
        [address, version, started, server.backups.to_string(), notes.join(", ")]
    };
    table::render(columns, &servers.iter().map(row).collect::<Vec<_>>())
}
