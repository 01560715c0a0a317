//! `holdfast server recovery|recover|rebuild-catalog|join|adopt`: servers from a recovery file or
//! from a copy of a folder.

use std::path::{Path, PathBuf};

use model::escaped;
use serde::Serialize;
use store::lifecycle::recovery::{self, CopyOrigin, RecoveryReport};

use crate::address;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, WARNED};
use crate::moment;
use crate::path::{self, JsonPath};
use crate::quantity;
use crate::values::ValueError;

/// Write the recovery file, with which a server can be made again from its pools
///
/// The file holds the server's keys. Write it again after adding a pool, and keep it apart from the
/// pools.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server recovery /srv/holdfast /media/usb/holdfast.recovery")]
pub(super) struct FileArgs {
    /// The folder of the server, which may be running
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The recovery file, readable by its owner only [default: standard output]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Make a server again in a new folder, from a recovery file and the server's pools
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server recover /srv/holdfast --from holdfast.recovery
  holdfast server recover /srv/holdfast --from holdfast.recovery \\
      --pool OFFSITE=file:///mnt/usb/pool")]
pub(super) struct RecoverArgs {
    /// The folder, which must be empty or absent
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
    /// The recovery file
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// New place of a pool, as in OFFSITE=file:///mnt/usb/pool; may be given once for each pool
    #[arg(long = "pool", value_name = "NAME=URL", value_parser = pool_place)]
    pools: Vec<(String, String)>,
}

/// Make the catalogue again from its copies and the tables of the packs
///
/// The server must not be running. The old catalogue is kept beside the new one. Everything that is
/// lost is listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server rebuild-catalog /srv/holdfast")]
pub(super) struct RebuildArgs {
    /// The folder of the server
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
    /// New place of a pool, as in OFFSITE=file:///mnt/usb/pool; may be given once for each pool
    #[arg(long = "pool", value_name = "NAME=URL", value_parser = pool_place)]
    pools: Vec<(String, String)>,
}

/// Make a copy of a server's folder the server, because the original is permanently lost
///
/// Without this command a copy is refused: two servers of one catalogue would destroy each other's
/// packs. Use the command also for a folder that was brought back from a backup or copied to a new
/// disk. Afterwards the original does not start again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server adopt /srv/holdfast")]
pub(super) struct AdoptArgs {
    /// The copy of the server's folder
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
}

/// Parses the name and the URL of a pool.
fn pool_place(text: &str) -> Result<(String, String), ValueError> {
    match text.split_once('=') {
        Some((name, url))
            if !name.is_empty() && ["file:///", "s3://"].iter().any(|s| url.starts_with(s)) =>
        {
            Ok((name.to_owned(), url.to_owned()))
        }
        _ => Err(ValueError::Rule(
            "the value must be NAME=file:///FOLDER or NAME=s3://BUCKET/PREFIX?...",
        )),
    }
}

/// Make another server for a catalogue in a database and a pool in an object store
///
/// All servers of the catalogue work at the same time. When one of them or its machine fails, the
/// others continue its work. Give each node the addresses of all servers: 'holdfast enroll
/// ONE,OTHER'.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server recovery /srv/holdfast holdfast.recovery
  scp holdfast.recovery other.example.org:
  holdfast server join /srv/holdfast --from holdfast.recovery   # on other.example.org")]
pub(super) struct JoinArgs {
    /// The folder, which must be empty or absent
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
    /// The recovery file of an existing server
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Address to listen on; the default port is 1500
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:1500")]
    listen: String,
}

pub(super) fn join(args: &JoinArgs, context: &mut Context) -> Result<u8, CommandError> {
    let text = std::fs::read_to_string(&args.from).map_err(|error| {
        CommandError::new(format!("cannot read {}: {error}", args.from.display()))
    })?;
    let listen = address::with_port(&args.listen);
    let config = recovery::join(&args.folder, &text, &listen)
        .map_err(|error| CommandError::chain(&error))?;
    let next = "It shares the work with the other servers; 'holdfast admin servers' lists them.";
    super::show_new(&args.folder, &config, next, context);
    Ok(DONE)
}

pub(super) fn write_file(args: &FileArgs, context: &mut Context) -> Result<u8, CommandError> {
    let text = recovery::export(&args.folder).map_err(|error| CommandError::chain(&error))?;
    let Some(file) = &args.file else {
        context.output.text(&text);
        return Ok(DONE);
    };
    sys::durable::write(file, text.as_bytes(), 0o600)
        .map_err(|error| CommandError::new(format!("cannot write {}: {error}", file.display())))?;
    context.output.note(&format!(
        "With {} and its pools, this server can be made again. The file holds its keys.",
        file.display()
    ));
    Ok(DONE)
}

/// `server adopt --json`.
#[derive(Serialize)]
struct AdoptedDocument<'a> {
    folder: JsonPath<'a>,
    /// Folders of the pools that the server owns now.
    pools: Vec<JsonPath<'a>>,
}

pub(super) fn adopt(args: &AdoptArgs, context: &mut Context) -> Result<u8, CommandError> {
    let pools = recovery::adopt(&args.folder).map_err(|error| CommandError::chain(&error))?;
    if context.output.is_json() {
        let folder = path::bytes(&args.folder);
        let pools: Vec<_> = pools.iter().map(|pool| path::bytes(pool)).collect();
        let pools = pools.iter().map(|pool| JsonPath(pool)).collect();
        context.output.json(&AdoptedDocument { folder: JsonPath(&folder), pools });
        return Ok(DONE);
    }
    adopted(&args.folder, &pools).lines().for_each(|line| context.output.note(line));
    Ok(DONE)
}

/// Returns the text about a server that has taken its folder and its pools.
fn adopted(folder: &Path, pools: &[PathBuf]) -> String {
    let folder = escaped(&path::bytes(folder));
    if pools.is_empty() {
        return format!("The server in {folder} now owns its folder.");
    }
    let lines = pools.iter().map(|pool| format!("\n  {}", escaped(&path::bytes(pool))));
    let lines = lines.collect::<String>();
    format!("The server in {folder} now owns its folder, and the pools at:{lines}")
}

pub(super) fn recover(args: &RecoverArgs, context: &mut Context) -> Result<u8, CommandError> {
    let text = std::fs::read_to_string(&args.from).map_err(|error| {
        CommandError::new(format!("cannot read {}: {error}", args.from.display()))
    })?;
    sys::process::raise_open_files();
    let rebuilt = recovery::recover(&args.folder, &text, &args.pools)
        .map_err(|error| CommandError::chain(&error))?;
    Ok(tell(&args.folder, &rebuilt, context))
}

pub(super) fn rebuild(args: &RebuildArgs, context: &mut Context) -> Result<u8, CommandError> {
    sys::process::raise_open_files();
    let rebuilt = recovery::rebuild(&args.folder, &args.pools)
        .map_err(|error| CommandError::chain(&error))?;
    Ok(tell(&args.folder, &rebuilt, context))
}

fn tell(folder: &Path, rebuilt: &RecoveryReport, context: &mut Context) -> u8 {
    if context.output.is_json() {
        context.output.json(&RebuiltDocument::new(rebuilt));
    } else {
        context.output.text(&text(folder, rebuilt));
    }
    if rebuilt.victims.count > 0 || !rebuilt.damaged.is_empty() {
        FAILED
    } else if rebuilt.copy.is_none() || !rebuilt.passed_over.is_empty() {
        WARNED
    } else {
        DONE
    }
}

fn text(folder: &Path, rebuilt: &RecoveryReport) -> String {
    let mut lines = Vec::new();
    for (number, why) in &rebuilt.passed_over {
        lines.push(format!("Copy {number} of the catalogue cannot be used: {why}"));
    }
    match rebuilt.copy {
        Some(CopyOrigin { number, taken, bytes }) => lines.push(format!(
            "The catalogue comes from copy {number} of {}, {}, with {}. It lacks later changes:\n\
             the next backup of each node finds the difference.",
            moment::shown(taken),
            quantity::bytes_with_unit(bytes),
            quantity::counted(rebuilt.nodes, "node")
        )),
        None => lines.push(
            "No copy of the catalogue can be used: nodes, policies, versions and archives are\n\
             lost. Register the nodes again. They need not send again the data that the packs\n\
             hold, as long as nothing is reclaimed."
                .to_owned(),
        ),
    }
    lines.push(format!(
        "{} with {} {} found; the catalogue did not know {} of these packs.",
        quantity::counted(rebuilt.packs, "pack"),
        quantity::counted(rebuilt.chunks, "chunk"),
        if rebuilt.packs == 1 { "was" } else { "were" },
        quantity::count(rebuilt.packs_new)
    ));
    for (pack, why) in &rebuilt.damaged {
        lines.push(format!("Pack {pack} cannot be read: {why}"));
    }
    if !rebuilt.missing.is_empty() {
        let missing: Vec<String> = rebuilt.missing.iter().map(ToString::to_string).collect();
        let packs = quantity::plural(missing.len() as u64, "pack");
        lines.push(format!("No available pool has {packs} {}.", missing.join(", ")));
    }
    if rebuilt.victims.count > 0 {
        lines.push(format!(
            "{} cannot be restored as a whole:",
            quantity::counted(rebuilt.victims.count, "version")
        ));
        for victim in &rebuilt.victims.named {
            let state = if victim.is_active { "active" } else { "inactive" };
            lines.push(format!("  {}:{} ({state})", victim.node, escaped(&victim.path)));
        }
    }
    if let Some(aside) = &rebuilt.aside {
        lines.push(format!("The old catalogue was kept as {}.", aside.display()));
    }
    lines.push(format!("Start the server with:\n\n  holdfast server run {}", folder.display()));
    lines.join("\n") + "\n"
}

/// `server recover|rebuild-catalog --json`.
#[derive(Serialize)]
struct RebuiltDocument<'a> {
    copy: Option<u64>,
    taken: Option<String>,
    copies_passed_over: Vec<u64>,
    nodes: u64,
    packs: u64,
    packs_new: u64,
    chunks: u64,
    packs_damaged: Vec<u64>,
    packs_missing: Vec<u64>,
    versions_lost: u64,
    versions: Vec<VictimDocument<'a>>,
    aside: Option<String>,
}

#[derive(Serialize)]
struct VictimDocument<'a> {
    node: &'a str,
    path: JsonPath<'a>,
    active: bool,
}

impl<'a> RebuiltDocument<'a> {
    fn new(rebuilt: &'a RecoveryReport) -> Self {
        let victims = rebuilt.victims.named.iter().map(|victim| VictimDocument {
            node: &victim.node,
            path: JsonPath(&victim.path),
            active: victim.is_active,
        });
        Self {
            copy: rebuilt.copy.map(|copy| copy.number),
            taken: rebuilt.copy.map(|copy| moment::rfc3339(copy.taken)),
            copies_passed_over: rebuilt.passed_over.iter().map(|(number, _)| *number).collect(),
            nodes: rebuilt.nodes,
            packs: rebuilt.packs,
            packs_new: rebuilt.packs_new,
            chunks: rebuilt.chunks,
            packs_damaged: rebuilt.damaged.iter().map(|(pack, _)| pack.0).collect(),
            packs_missing: rebuilt.missing.iter().map(|pack| pack.0).collect(),
            versions_lost: rebuilt.victims.count,
            versions: victims.collect(),
            aside: rebuilt.aside.as_ref().map(|path| escaped(&path::bytes(path))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_are_taken_stand_below_each_other() {
        let (folder, large) = (Path::new("/srv/holdfast"), PathBuf::from("/mnt/large"));
        let text = "The server in /srv/holdfast now owns its folder.";
        assert_eq!(adopted(folder, &[]), text);
        let text = "The server in /srv/holdfast now owns its folder, and the pools at:\n  \
                    /srv/holdfast/pool\n  /mnt/large";
        assert_eq!(adopted(folder, &[folder.join("pool"), large]), text);
    }
}
