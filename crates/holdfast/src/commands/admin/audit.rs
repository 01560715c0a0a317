//! `holdfast admin audit`: whether the pool holds what was stored.

use client::admin::{Admin, AuditReply, AuditRequest};
use model::escaped;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::{CommandError, FAILED, WARNED};
use crate::output;
use crate::path::JsonPath;
use crate::quantity;

/// Read all pools and compare them with their checksums; repair, and name what is lost
///
/// What one pool has damaged is made whole from another that has it.
/// With --data every chunk is decompressed and compared with its digest: all that a restore does.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast audit
  holdfast admin --server /srv/holdfast audit --data --rate 100M")]
pub(crate) struct Args {
    /// Compare every chunk with its digest too
    #[arg(long)]
    data: bool,
    /// Read so many bytes a second at most
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,
}

fn rate(text: &str) -> Result<u64, String> {
    match quantity::parse_bytes(text, 1)? {
        0 => Err("it is more than 0".to_owned()),
        bytes => Ok(bytes),
    }
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = AuditRequest { data: args.data, rate: args.rate.unwrap_or(0) };
    let global = &context.global;
    let shows = !global.quiet && (global.progress || output::stderr_is_terminal());
    let outcome = admin.audit(request, &mut |reply| {
        if shows {
            output::say(&format!(
                "{} of {} packs, {} read, {} quanta damaged",
                quantity::count(reply.packs_done),
                quantity::count(reply.packs),
                quantity::bytes_with_unit(reply.bytes),
                quantity::count(reply.damaged),
            ));
        }
    })?;
    if context.output.is_json() {
        context.output.json(&AuditDocument::new(&outcome, args.data));
    } else {
        context.output.text(&text(&outcome, context.failures_max()));
    }
    Ok(if outcome.damages.is_empty() {
        if outcome.away.is_empty() { DONE } else { WARNED }
    } else if outcome.damages.iter().all(|damage| damage.repaired) {
        WARNED
    } else {
        FAILED
    })
}

fn text(outcome: &AuditReply, named_max: usize) -> String {
    let mut text = format!(
        "{} quanta of {} packs were read, {}; {} are damaged.\n",
        quantity::count(outcome.quanta),
        quantity::count(outcome.packs),
        quantity::bytes_with_unit(outcome.bytes),
        quantity::count(outcome.damages.len() as u64),
    );
    for pool in &outcome.away {
        text.push_str(
            &["Pool ", pool, " is not there: what it holds was not looked at.\n"].concat(),
        );
    }
    for pool in &outcome.on_volumes {
        let how = " lies on volumes, which 'holdfast admin volume audit' reads.\n";
        text.push_str(&["Pool ", pool, how].concat());
    }
    for damage in outcome.damages.iter().take(named_max) {
        let chunks = match (damage.first_chunk, damage.end_chunk) {
            (0, 0) => "all of it".to_owned(),
            (from, u32::MAX) => format!("chunks from {from} on, if any"),
            (from, to) => format!("chunks {from} to {}", to.saturating_sub(1)),
        };
        text.push_str(
            &[
                format!("  pack {} in pool {}, {chunks}: ", damage.pack, damage.pool).as_str(),
                &damage.reason,
                if damage.repaired { "; repaired\n" } else { "\n" },
            ]
            .concat(),
        );
    }
    if outcome.damages.iter().any(|damage| !damage.repaired) {
        text.push_str(
            "Nothing new leans on the packs that are not repaired. 'holdfast backup --full' on the \
             nodes\nbelow stores again what they still have.\n",
        );
    }
    if outcome.victim_count > 0 {
        let count = quantity::count(outcome.victim_count);
        text.push_str(&["Versions that need them: ", &count, "\n"].concat());
        for victim in outcome.victims.iter().take(named_max) {
            let state = if victim.active { "active" } else { "inactive" };
            let path = escaped(&victim.path);
            text.push_str(&["  ", &victim.node, ":", &path, " (", state, ")\n"].concat());
        }
    }
    if outcome.damages.len().max(outcome.victims.len()) > named_max {
        text.push_str("There are more: --verbose names up to a thousand versions.\n");
    }
    text
}

/// `audit --json`.
#[derive(Serialize)]
struct AuditDocument<'a> {
    packs: u64,
    quanta: u64,
    bytes: u64,
    data: bool,
    pools_away: &'a [String],
    pools_on_volumes: &'a [String],
    damages: Vec<DamageDocument<'a>>,
    versions_lost: u64,
    versions: Vec<VictimDocument<'a>>,
}

#[derive(Serialize)]
struct DamageDocument<'a> {
    pack: u64,
    pool: &'a str,
    repaired: bool,
    first_chunk: u32,
    end_chunk: u32,
    reason: &'a str,
}

#[derive(Serialize)]
struct VictimDocument<'a> {
    node: &'a str,
    path: JsonPath<'a>,
    active: bool,
}

impl<'a> AuditDocument<'a> {
    fn new(outcome: &'a AuditReply, data: bool) -> Self {
        let damages = outcome.damages.iter().map(|damage| DamageDocument {
            pack: damage.pack,
            pool: &damage.pool,
            repaired: damage.repaired,
            first_chunk: damage.first_chunk,
            end_chunk: damage.end_chunk,
            reason: &damage.reason,
        });
        let versions = outcome.victims.iter().map(|victim| VictimDocument {
            node: &victim.node,
            path: JsonPath(&victim.path),
            active: victim.active,
        });
        Self {
            packs: outcome.packs,
            quanta: outcome.quanta,
            bytes: outcome.bytes,
            data,
            pools_away: &outcome.away,
            pools_on_volumes: &outcome.on_volumes,
            damages: damages.collect(),
            versions_lost: outcome.victim_count,
            versions: versions.collect(),
        }
    }
}
