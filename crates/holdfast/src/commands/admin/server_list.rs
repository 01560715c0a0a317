//! `holdfast admin servers`: the servers of one catalogue.

use std::time::Duration;

use client::admin::{Admin, Server};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, WARNED};
use crate::moment;
use crate::quantity;
use crate::table::{self, Align};

/// Shortest silence of a server that the table shows.
const SILENCE_SHOWN: Duration = Duration::from_secs(3);

/// List the servers of this catalogue, and the server that keeps house
///
/// Every server takes backups and restores. One of them keeps house: it expires, reclaims, copies
/// and moves packs, and takes the commands for this work. When it ends, another server keeps house.
/// The server that answers also reports the errors of its disks since it started, and whether it
/// runs without a chunk index. A server that is held removes nothing that its catalogue does not
/// name; the text below the table says why, and what ends the hold.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast servers")]
pub(crate) struct Args {}

/// `servers --json`, one document per line.
#[derive(Serialize)]
struct ServerDocument<'a> {
    address: &'a str,
    version: &'a str,
    started: String,
    silent_seconds: f64,
    keeps_house: bool,
    is_this: bool,
    backups: u64,
    /// Null for other servers than the one that answers, like the next three: each knows only its
    /// own disks.
    disk_errors: Option<u64>,
    last_disk_error: Option<&'a str>,
    lacks_index: Option<bool>,
    refuses_data: Option<bool>,
    /// Why the servers are held; null if they are not.
    hold: Option<&'a str>,
}

pub(super) fn run(admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let servers = admin.servers()?;
    if context.output.is_json() {
        for server in &servers {
            context.output.json(&ServerDocument {
                address: &server.address,
                version: &server.version,
                started: moment::rfc3339(server.started),
                silent_seconds: server.silence.as_secs_f64(),
                keeps_house: server.keeps_house,
                is_this: server.is_this,
                backups: server.backups,
                disk_errors: server.is_this.then_some(server.health.disk_errors),
                last_disk_error: server.health.last_disk_error.as_deref(),
                lacks_index: server.is_this.then_some(server.health.lacks_index),
                refuses_data: server.is_this.then_some(server.health.refuses_data),
                hold: server.hold.as_deref(),
            });
        }
    } else {
        context.output.text(&text(&servers));
    }
    let is_impaired = servers.iter().any(Server::is_impaired);
    Ok(if is_impaired { WARNED } else { DONE })
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
            notes.push("this server".to_owned());
        }
        if server.health.disk_errors > 0 {
            notes.push(quantity::counted(server.health.disk_errors, "disk error"));
        }
        if server.health.lacks_index {
            notes.push("no chunk index".to_owned());
        }
        if server.health.refuses_data {
            notes.push("refuses data: the pools are full".to_owned());
        }
        if server.hold.is_some() {
            notes.push("held".to_owned());
        }
        if server.silence >= SILENCE_SHOWN {
            notes.push(format!("silent for {} s", server.silence.as_secs()));
        }
        let started = moment::shown(server.started);
        let (address, version) = (server.address.clone(), server.version.clone());
        [address, version, started, server.backups.to_string(), notes.join(", ")]
    };
    let mut text = table::render(columns, &servers.iter().map(row).collect::<Vec<_>>());
    for error in servers.iter().filter_map(|server| server.health.last_disk_error.as_ref()) {
        text.push_str(&["Last disk error: ", error, "\n"].concat());
    }
    // All servers of a catalogue are held for the same reason.
    if let Some(hold) = servers.iter().find_map(|server| server.hold.as_ref()) {
        text.push_str(&["Held: ", hold, "\n"].concat());
    }
    text
}
