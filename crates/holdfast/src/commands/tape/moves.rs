//! `holdfast tape checkin`, `checkout`, `mount`, `dismount` and `clean`: what the robot does.

use std::ffi::OsString;

use ::tape::library::LibraryError;
use ::tape::scsi::ElementKind;
use ::tape::volume::{self, Identified};
use format::volume::VolumeName;
use serde::Serialize;

use super::place::{self, Opened};
use super::site::Site;
use super::trouble;
use crate::commands::Context;
use crate::error::CommandError;

/// Move what is in the import/export elements into slots
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape checkin vault
  holdfast tape checkin vault A00007L8")]
pub(super) struct CheckinArgs {
    /// The library, or the addresses of its changer and drives
    #[arg(value_name = "LIB")]
    library: OsString,
    /// This one alone
    #[arg(value_name = "VOLUME", value_parser = super::volume_name)]
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

/// Put a volume into a drive and tell what is on it; it stays there for the commands that follow
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape mount vault A00001L8")]
pub(super) struct MountArgs {
    #[command(flatten)]
    target: Target,
}

/// Take a volume out of its drive and put it away
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
    #[arg(value_name = "VOLUME", value_parser = super::volume_name)]
    volume: VolumeName,
}

/// What was moved, for `--json`.
#[derive(Serialize, Default)]
struct MoveDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    /// Where it is now.
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

fn done(mut opened: Opened, context: &mut Context) -> u8 {
    opened.note_alerts();
    trouble::tell(&[], &opened.warnings, 1, context)
}

fn open(library: &OsString, context: &Context) -> Result<Opened, CommandError> {
    let mut opened = Opened::open(&Site::of(library, context)?)?;
    // A folder is refused whatever is asked of it.
    opened.library()?;
    Ok(opened)
}

fn failed(error: LibraryError) -> CommandError {
    trouble::of_library(&error)
}

pub(super) fn checkin(args: &CheckinArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = open(&args.library, context)?;
    let library = opened.library()?;
    let names = match &args.volume {
        None => library.check_in().map_err(failed)?,
        Some(name) if library.check_in_volume(name).map_err(failed)? => vec![name.clone()],
        Some(name) => {
            let message = format!("volume {name} is not in an import/export element");
            return Err(CommandError::new(message));
        }
    };
    for name in &names {
        let listed = library.volumes().into_iter().find(|listed| listed.name == *name);
        let element = listed.map(|listed| listed.address);
        let slot = element.map_or_else(String::new, |slot| format!(", in slot {slot}"));
        let document =
            MoveDocument { volume: Some(name.to_string()), element, ..MoveDocument::default() };
        say(&format!("Volume {name} is checked in{slot}.\n"), &document, context);
    }
    if names.is_empty() {
        context
            .output
            .note("No volume with a barcode was in the import/export elements.");
    }
    Ok(done(opened, context))
}

pub(super) fn checkout(args: &CheckoutArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = open(&args.target.library, context)?;
    let name = &args.target.volume;
    let portal = opened.library()?.check_out(name).map_err(failed)?;
    let document = MoveDocument {
        volume: Some(name.to_string()),
        element: Some(portal),
        ..MoveDocument::default()
    };
    let text = format!("Volume {name} is in import/export element {portal}: take it out.\n");
    say(&text, &document, context);
    Ok(done(opened, context))
}

pub(super) fn mount(args: &MountArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = open(&args.target.library, context)?;
    let name = &args.target.volume;
    let library = opened.library()?;
    place::prepare(library, name)?;
    let mut mounted = library.mount_any(name).map_err(failed)?;
    let address = mounted.address();
    let found = volume::identify(&mut mounted.drive);
    library.leave(mounted);
    let state = match found.map_err(|error| trouble::of_volume(&error))? {
        Identified::Ours(label) if label.name == *name => format!("labelled, pool {}", label.pool),
        Identified::Ours(label) => format!("labelled {}, which is not its barcode", label.name),
        Identified::Blank => "unlabelled and blank".to_owned(),
        Identified::Foreign(foreign) => format!("foreign: it holds {foreign}"),
        Identified::Damaged(damaged) => format!("its label is damaged: {damaged}"),
    };
    let text = format!("Volume {name} is in drive {address}: {state}.\n");
    let document =
        MoveDocument { volume: Some(name.to_string()), element: Some(address), state: Some(state) };
    say(&text, &document, context);
    Ok(done(opened, context))
}

pub(super) fn dismount(args: &DismountArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = open(&args.target.library, context)?;
    let name = &args.target.volume;
    let library = opened.library()?;
    let find = |listed: &::tape::library::ListedVolume| listed.name == *name;
    let listed = library.volumes().into_iter().find(find);
    let listed = listed.ok_or_else(|| failed(LibraryError::NotFound(name.clone())))?;
    if listed.kind != ElementKind::Drive {
        return Err(CommandError::new(format!("volume {name} is not in a drive")));
    }
    let mounted = library.mount_any(name).map_err(failed)?;
    library.dismount(mounted).map_err(failed)?;
    library.refresh().map_err(failed)?;
    let listed = library.volumes().into_iter().find(find);
    let element = listed.map(|listed| listed.address);
    let slot = element.map_or_else(String::new, |slot| format!(", in slot {slot}"));
    let document =
        MoveDocument { volume: Some(name.to_string()), element, ..MoveDocument::default() };
    say(&format!("Volume {name} is put away{slot}.\n"), &document, context);
    Ok(done(opened, context))
}

pub(super) fn clean(args: &CleanArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = open(&args.library, context)?;
    let library = opened.library()?;
    if !library.drives().iter().any(|drive| drive.address == args.drive) {
        return Err(CommandError {
            message: format!("there is no drive {}", args.drive),
            hint: Some("'holdfast tape drives' shows them, by their elements".to_owned()),
        });
    }
    library.clean(args.drive).map_err(failed)?;
    let document = MoveDocument {
        element: Some(args.drive),
        state: Some("cleaned".to_owned()),
        ..MoveDocument::default()
    };
    say(&format!("Drive {} is cleaned.\n", args.drive), &document, context);
    Ok(done(opened, context))
}
