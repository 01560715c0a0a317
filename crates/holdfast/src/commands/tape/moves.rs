//! `holdfast tape checkin`, `checkout`, `mount`, `dismount` and `clean`: moves of the changer.

use std::ffi::OsString;

use ::tape::depot::{Depot, DepotError, Location, MountReport};
use ::tape::volume::Identification;
use format::volume::VolumeName;
use serde::Serialize;

use super::{site, trouble};
use crate::context::Context;
use crate::error::CommandError;

/// Move volumes from the import/export elements into slots
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape checkin vault
  holdfast tape checkin vault A00007L8")]
pub(super) struct CheckinArgs {
    /// The library, or the addresses of its changer and drives
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The volume [default: all volumes]
    #[arg(value_name = "VOLUME", value_parser = crate::values::volume_name)]
    volume: Option<VolumeName>,
}

/// Move a volume to an import/export element, for a person to take
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape checkout vault A00007L8")]
pub(super) struct CheckoutArgs {
    #[command(flatten)]
    target: Target,
}

/// Mount a volume and show its label; the volume stays in the drive for later commands
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape mount vault A00001L8")]
pub(super) struct MountArgs {
    #[command(flatten)]
    target: Target,
}

/// Take a volume out of its drive and put it into a slot
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape dismount vault A00001L8")]
pub(super) struct DismountArgs {
    #[command(flatten)]
    target: Target,
}

/// Clean a drive with a cleaning cartridge of the library
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape drives vault
  holdfast tape clean vault 500")]
pub(super) struct CleanArgs {
    /// The library, or the addresses of its changer and drives
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The drive, by its element as 'holdfast tape inventory' shows it
    #[arg(value_name = "DRIVE")]
    drive: u16,
}

/// A volume in a library.
#[derive(clap::Args, Debug)]
struct Target {
    /// The library, or the addresses of its changer and drives
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The volume
    #[arg(value_name = "VOLUME", value_parser = crate::values::volume_name)]
    volume: VolumeName,
}

/// A volume that was moved, or a drive that was cleaned, for `--json`.
#[derive(Serialize, Default)]
struct MoveDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    /// Element where the volume is now, or element of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    element: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

fn say(text: &str, document: &MoveDocument, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(document);
    } else if !context.global.quiet {
        context.output.text(text);
    }
}

fn done(depot: &mut Depot, context: &mut Context) -> u8 {
    trouble::tell(&[], &trouble::warnings(depot), 1, context)
}

fn open(library: &OsString, context: &Context) -> Result<Depot, CommandError> {
    let site = site::of_word(library, context)?;
    Depot::open(&site).map_err(|error| trouble::of_opening(&error))
}

fn failed(error: DepotError) -> CommandError {
    trouble::of_depot(&error)
}

fn say_location(location: Location, done: &str, context: &mut Context) {
    let Location { name, element } = location;
    let slot = element.map_or_else(String::new, |slot| format!(", in slot {slot}"));
    let volume = Some(name.to_string());
    let document = MoveDocument { volume, element, ..MoveDocument::default() };
    say(&format!("Volume {name} is {done}{slot}.\n"), &document, context);
}

pub(super) fn checkin(args: &CheckinArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut depot = open(&args.library, context)?;
    let locations = depot.check_in(args.volume.as_ref()).map_err(failed)?;
    if locations.is_empty() {
        context
            .output
            .note("No volume with a barcode was in the import/export elements.");
    }
    for location in locations {
        say_location(location, "checked in", context);
    }
    Ok(done(&mut depot, context))
}

pub(super) fn checkout(args: &CheckoutArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut depot = open(&args.target.library, context)?;
    let name = &args.target.volume;
    let portal = depot.check_out(name).map_err(failed)?;
    let document = MoveDocument {
        volume: Some(name.to_string()),
        element: Some(portal),
        ..MoveDocument::default()
    };
    let text = format!("Volume {name} is in import/export element {portal}: take it out.\n");
    say(&text, &document, context);
    Ok(done(&mut depot, context))
}

pub(super) fn mount(args: &MountArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut depot = open(&args.target.library, context)?;
    let name = &args.target.volume;
    let MountReport { drive, content } = depot.mount(name).map_err(failed)?;
    let state = match content {
        Identification::Ours(label) if label.name == *name => {
            format!("labelled, pool {}", label.pool)
        }
        Identification::Ours(label) => {
            format!("labelled {}, which differs from its barcode", label.name)
        }
        Identification::Blank => "unlabelled and blank".to_owned(),
        Identification::Foreign(foreign) => format!("foreign: it holds {foreign}"),
        Identification::Damaged(damaged) => format!("its label is damaged: {damaged}"),
    };
    let text = format!("Volume {name} is in drive {drive}: {state}.\n");
    let document =
        MoveDocument { volume: Some(name.to_string()), element: Some(drive), state: Some(state) };
    say(&text, &document, context);
    Ok(done(&mut depot, context))
}

pub(super) fn dismount(args: &DismountArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut depot = open(&args.target.library, context)?;
    let location = depot.dismount(&args.target.volume).map_err(failed)?;
    say_location(location, "put away", context);
    Ok(done(&mut depot, context))
}

pub(super) fn clean(args: &CleanArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut depot = open(&args.library, context)?;
    depot.clean(args.drive).map_err(failed)?;
    let document = MoveDocument {
        element: Some(args.drive),
        state: Some("cleaned".to_owned()),
        ..MoveDocument::default()
    };
    say(&format!("Drive {} is cleaned.\n", args.drive), &document, context);
    Ok(done(&mut depot, context))
}
