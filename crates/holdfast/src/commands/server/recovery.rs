//! `holdfast server recovery|recover|rebuild-catalog`: after a disaster.

use std::path::{Path, PathBuf};

use model::escaped;
use serde::Serialize;
use server::Rebuilt;

use crate::address;
use crate::commands::{Context, DONE};
use crate::error::{CommandError, FAILED, WARNED};
use crate::moment;
use crate::path::{self, JsonPath};
use crate::quantity;

/// Write the recovery file: all that a server needs beside its pools to be made again
///
/// It holds the server's keys. Write it anew when a pool was added, and keep it away from the
/// pools.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server recovery /srv/holdfast /media/usb/holdfast.recovery")]
pub(super) struct FileArgs {
    /// The folder of the server, which may be running
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to write it, readable by its owner only; to standard output unless given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Make a server again in a new folder, from a recovery file and its pools
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server recover /srv/holdfast --from holdfast.recovery
  holdfast server recover /srv/holdfast --from holdfast.recovery \\
      --pool OFFSITE=file:///mnt/usb/pool")]
pub(super) struct RecoverArgs {
    /// The folder, which must be empty or absent
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The recovery file
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// A pool is there now, as in OFFSITE=file:///mnt/usb/pool; may be given for each
    #[arg(long = "pool", value_name = "NAME=URL", value_parser = moved)]
    pools: Vec<(String, String)>,
}

/// Make the catalogue again from its copies and what the packs tell of themselves
///
/// The server must not run. The catalogue that is there is kept beside it. What cannot be had back
/// is said.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server rebuild-catalog /srv/holdfast")]
pub(super) struct RebuildArgs {
    /// The folder of the server
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A pool is there now, as in OFFSITE=file:///mnt/usb/pool; may be given for each
    #[arg(long = "pool", value_name = "NAME=URL", value_parser = moved)]
    pools: Vec<(String, String)>,
}

fn moved(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url))
            if !name.is_empty() && ["file:///", "s3://"].iter().any(|s| url.starts_with(s)) =>
        {
            Ok((name.to_owned(), url.to_owned()))
        }
        _ => Err("give NAME=file:///FOLDER or NAME=s3://BUCKET/PREFIX?...".to_owned()),
    }
}

/// Make another server for a catalogue in a database and a pool in an object store
///
/// All of the servers serve at once; the others go on where one of them was when it ends, or its
/// machine does. Nodes are told the addresses of all: 'holdfast enroll ONE,OTHER'.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server recovery /srv/holdfast holdfast.recovery
  scp holdfast.recovery other.example.org:
  holdfast server join /srv/holdfast --from holdfast.recovery   # on other.example.org")]
pub(super) struct JoinArgs {
    /// The folder, which must be empty or absent
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The recovery file of a server that is there already
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Address to listen on; without a port it is 1500
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:1500")]
    listen: String,
}

pub(super) fn join(args: &JoinArgs, context: &mut Context) -> Result<u8, CommandError> {
    let text = std::fs::read_to_string(&args.from).map_err(|error| {
        CommandError::new(format!("cannot read {}: {error}", args.from.display()))
    })?;
    let listen = address::with_port(&args.listen);
    let config =
        server::join(&args.folder, &text, &listen).map_err(|error| CommandError::chain(&error))?;
    let next = "It serves together with the others, which 'holdfast admin servers' lists.";
    super::made(&args.folder, &config, next, context);
    Ok(DONE)
}

pub(super) fn write_file(args: &FileArgs, context: &mut Context) -> Result<u8, CommandError> {
    let text = server::export(&args.folder).map_err(|error| CommandError::chain(&error))?;
    let Some(file) = &args.file else {
        context.output.text(&text);
        return Ok(DONE);
    };
    sys::durable::write(file, text.as_bytes(), 0o600)
        .map_err(|error| CommandError::new(format!("cannot write {}: {error}", file.display())))?;
    context.output.note(&format!(
        "{} can make this server again, with its pools. It holds the server's keys.",
        file.display()
    ));
    Ok(DONE)
}

pub(super) fn recover(args: &RecoverArgs, context: &mut Context) -> Result<u8, CommandError> {
    let text = std::fs::read_to_string(&args.from).map_err(|error| {
        CommandError::new(format!("cannot read {}: {error}", args.from.display()))
    })?;
    sys::process::raise_open_files();
    let rebuilt = server::recover(&args.folder, &text, &args.pools)
        .map_err(|error| CommandError::chain(&error))?;
    Ok(tell(&args.folder, &rebuilt, context))
}

pub(super) fn rebuild(args: &RebuildArgs, context: &mut Context) -> Result<u8, CommandError> {
    sys::process::raise_open_files();
    let rebuilt =
        server::rebuild(&args.folder, &args.pools).map_err(|error| CommandError::chain(&error))?;
    Ok(tell(&args.folder, &rebuilt, context))
}

fn tell(folder: &Path, rebuilt: &Rebuilt, context: &mut Context) -> u8 {
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

fn text(folder: &Path, rebuilt: &Rebuilt) -> String {
    let mut lines = Vec::new();
    for (number, why) in &rebuilt.passed_over {
        lines.push(format!("Copy {number} of the catalogue cannot be used: {why}"));
    }
    match rebuilt.copy {
        Some((number, taken, bytes)) => lines.push(format!(
            "The catalogue is copy {number} of {}, {}, with {} nodes. What came later is not in \
             it: the\nnext backup of each node sees the difference.",
            moment::shown(taken),
            quantity::bytes_with_unit(bytes),
            quantity::count(rebuilt.nodes)
        )),
        None => lines.push(
            "There is no copy of the catalogue that could be used: nodes, policies, versions and \
             archives are\nlost. Nodes are registered anew; what the packs hold need not be sent \
             again as long as\nnothing is reclaimed."
                .to_owned(),
        ),
    }
    lines.push(format!(
        "{} packs with {} chunks were found; the catalogue did not know {} of them.",
        quantity::count(rebuilt.packs),
        quantity::count(rebuilt.chunks),
        quantity::count(rebuilt.packs_new)
    ));
    for (pack, why) in &rebuilt.damaged {
        lines.push(format!("Pack {pack} cannot be read: {why}"));
    }
    if !rebuilt.missing.is_empty() {
        let missing: Vec<String> = rebuilt.missing.iter().map(ToString::to_string).collect();
        lines.push(format!("No pool that is there has the packs {}.", missing.join(", ")));
    }
    if rebuilt.victims.count > 0 {
        lines.push(format!(
            "{} versions cannot be restored as a whole:",
            quantity::count(rebuilt.victims.count)
        ));
        for victim in &rebuilt.victims.named {
            let state = if victim.is_active { "active" } else { "inactive" };
            lines.push(format!("  {}:{} ({state})", victim.node, escaped(&victim.path)));
        }
    }
    if let Some(aside) = &rebuilt.aside {
        lines.push(format!("The catalogue that was there is {}.", aside.display()));
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
    fn new(rebuilt: &'a Rebuilt) -> Self {
        let victims = rebuilt.victims.named.iter().map(|victim| VictimDocument {
            node: &victim.node,
            path: JsonPath(&victim.path),
            active: victim.is_active,
        });
        Self {
            copy: rebuilt.copy.map(|(number, ..)| number),
            taken: rebuilt.copy.map(|(_, taken, _)| moment::rfc3339(taken)),
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
