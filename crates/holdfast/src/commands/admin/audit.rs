//! `holdfast admin audit`: checks that the pools hold what was stored.

use client::Rate;
use client::admin::{Admin, Audit, AuditRequest, CatalogFindings, CatalogLoss, ChunkRange};
use model::escaped;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, WARNED};
use crate::moment;
use crate::output;
use crate::path::JsonPath;
use crate::quantity;

/// Read all pools and compare their data with its checksums, repair damage, and list the lost
/// versions
///
/// A pack that is damaged in one pool is repaired from another pool that has it. With --data every
/// chunk is decompressed and compared with its digest, as in a restore.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast audit
  holdfast admin --server /srv/holdfast audit --data --rate 100M")]
pub(crate) struct Args {
    /// Also compare every chunk with its digest
    #[arg(long)]
    data: bool,
    /// Maximum number of bytes to read in a second, as in 100M
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = AuditRequest { data: args.data, bytes_per_sec_max: args.rate.map(Rate::get) };
    let shows = context.shows_steps();
    let outcome = admin.audit(request, &mut |state| {
        if shows {
            output::say(&format!(
                "{} of {}, {} read, {} damaged",
                quantity::count(state.packs_done),
                quantity::counted(state.packs, "pack"),
                quantity::bytes_with_unit(state.bytes),
                quantity::counted(state.damaged, "quantum"),
            ));
        }
    })?;
    if context.output.is_json() {
        context.output.json(&AuditDocument::new(&outcome, args.data));
    } else {
        context.output.text(&text(&outcome, context.failures_max()));
    }
    if outcome.catalog.is_damaged() {
        return Ok(FAILED);
    }
    Ok(if outcome.damages.is_empty() {
        if outcome.pools_away.is_empty() { DONE } else { WARNED }
    } else if outcome.damages.iter().all(|damage| damage.is_repaired) {
        WARNED
    } else {
        FAILED
    })
}

fn text(outcome: &Audit, named_max: usize) -> String {
    let damaged = outcome.damages.len() as u64;
    let mut text = format!(
        "{} of {} {} read, {}; {} {} damaged.\n",
        quantity::counted(outcome.quanta, "quantum"),
        quantity::counted(outcome.packs, "pack"),
        if outcome.quanta == 1 { "was" } else { "were" },
        quantity::bytes_with_unit(outcome.bytes),
        quantity::count(damaged),
        quantity::are(damaged),
    );
    text.push_str(&catalog_text(&outcome.catalog, named_max));
    for pool in &outcome.pools_away {
        text.push_str(&["Pool ", pool, " is not available: its packs were not read.\n"].concat());
    }
    for pool in &outcome.pools_on_volumes {
        let advice = " is on volumes, which 'holdfast admin volume audit' reads.\n";
        text.push_str(&["Pool ", pool, advice].concat());
    }
    for damage in outcome.damages.iter().take(named_max) {
        let chunks = match damage.chunks {
            ChunkRange::All => "all of it".to_owned(),
            ChunkRange::From { first } => format!("chunks from {first} on, if any"),
            ChunkRange::Between { first, end } => match end.saturating_sub(1) {
                last if last <= first => format!("chunk {first}"),
                last => format!("chunks {first} to {last}"),
            },
        };
        text.push_str(
            &[
                format!("  pack {} in pool {}, {chunks}: ", damage.pack, damage.pool).as_str(),
                &damage.reason,
                if damage.is_repaired { "; repaired\n" } else { "\n" },
            ]
            .concat(),
        );
    }
    if outcome.damages.iter().any(|damage| !damage.is_repaired) {
        text.push_str(
            "New backups do not use the damaged packs. Run 'holdfast backup --full' on the nodes\n\
             below, and 'holdfast image backup' for images, to store again what they still have.\n",
        );
    }
    if outcome.lost_versions_count > 0 {
        let count = quantity::count(outcome.lost_versions_count);
        text.push_str(&["Versions that cannot be restored as a whole: ", &count, "\n"].concat());
        for version in outcome.lost_versions.iter().take(named_max) {
            let state = if version.is_active { "active" } else { "inactive" };
            let path = escaped(&version.path);
            text.push_str(&["  ", &version.node, ":", &path, " (", state, ")\n"].concat());
        }
    }
    if outcome.damages.len().max(outcome.lost_versions.len()) > named_max {
        text.push_str("There are more; --verbose names up to a thousand versions.\n");
    }
    text
}

fn catalog_text(catalog: &CatalogFindings, named_max: usize) -> String {
    if !catalog.is_damaged() {
        return String::new();
    }
    let mut text = String::new();
    for fault in catalog.faults.iter().take(named_max) {
        text.push_str(&["The catalogue is damaged: ", &escaped(fault.as_bytes()), "\n"].concat());
    }
    if catalog.damaged_rows > 0 {
        let rows = quantity::counted(catalog.damaged_rows, "row");
        text.push_str(&["Rows of the catalogue that cannot be read: ", &rows, "\n"].concat());
        for directory in catalog.directories.iter().take(named_max) {
            let path = escaped(&directory.path);
            text.push_str(&["  ", &directory.node, ":", &path, "\n"].concat());
        }
    }
    text + &advice(catalog.loss)
}

/// Returns the way to a sound catalogue, and the loss on that way.
fn advice(loss: Option<CatalogLoss>) -> String {
    let Some(CatalogLoss { copy, taken, versions, backups }) = loss else {
        return "No pool that is available has a sound copy of the catalogue. Make the missing\n\
                pools available before you stop the server and run 'holdfast server\n\
                rebuild-catalog'.\n"
            .to_owned();
    };
    format!(
        "Stop the server and run 'holdfast server rebuild-catalog': it takes copy {copy} of {},\n\
         the newest sound copy of the catalogue. Lost since then: {} of {}.\n\
         The next backups store again what the nodes still have.\n",
        moment::shown(taken),
        quantity::counted(versions, "version"),
        quantity::counted(backups, "backup"),
    )
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
    catalog_faults: &'a [String],
    catalog_rows_damaged: u64,
    catalog_directories: Vec<DirectoryDocument<'a>>,
    /// The newest sound copy, if the catalogue is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_loss: Option<LossDocument>,
    damages: Vec<DamageDocument<'a>>,
    versions_lost: u64,
    versions: Vec<VersionDocument<'a>>,
}

#[derive(Serialize)]
struct DirectoryDocument<'a> {
    node: &'a str,
    path: JsonPath<'a>,
}

/// Part of a damaged catalogue that its newest sound copy lacks.
#[derive(Serialize)]
struct LossDocument {
    copy: u64,
    taken: String,
    versions: u64,
    backups: u64,
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
struct VersionDocument<'a> {
    node: &'a str,
    path: JsonPath<'a>,
    active: bool,
}

impl<'a> AuditDocument<'a> {
    fn new(outcome: &'a Audit, data: bool) -> Self {
        let damages = outcome.damages.iter().map(|damage| {
            let (first_chunk, end_chunk) = damage.chunks.bounds();
            DamageDocument {
                pack: damage.pack,
                pool: &damage.pool,
                repaired: damage.is_repaired,
                first_chunk,
                end_chunk,
                reason: &damage.reason,
            }
        });
        let versions = outcome.lost_versions.iter().map(|version| VersionDocument {
            node: &version.node,
            path: JsonPath(&version.path),
            active: version.is_active,
        });
        let directories = outcome.catalog.directories.iter().map(|directory| DirectoryDocument {
            node: &directory.node,
            path: JsonPath(&directory.path),
        });
        Self {
            packs: outcome.packs,
            quanta: outcome.quanta,
            bytes: outcome.bytes,
            data,
            pools_away: &outcome.pools_away,
            pools_on_volumes: &outcome.pools_on_volumes,
            catalog_faults: &outcome.catalog.faults,
            catalog_rows_damaged: outcome.catalog.damaged_rows,
            catalog_directories: directories.collect(),
            catalog_loss: outcome.catalog.loss.map(|loss| LossDocument {
                copy: loss.copy,
                taken: moment::rfc3339(loss.taken),
                versions: loss.versions,
                backups: loss.backups,
            }),
            damages: damages.collect(),
            versions_lost: outcome.lost_versions_count,
            versions: versions.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    #[test]
    fn the_way_to_a_sound_catalogue_and_its_loss_are_named() {
        let loss = CatalogLoss { copy: 7, taken: ServerTime(0), versions: 3, backups: 1 };
        let text = advice(Some(loss));
        for part in ["'holdfast server rebuild-catalog'", "copy 7 of", "3 versions of 1 backup"] {
            assert!(text.contains(part), "{text}");
        }
        let text = advice(None);
        assert!(text.contains("Make the missing\npools available"), "{text}");
    }
}
