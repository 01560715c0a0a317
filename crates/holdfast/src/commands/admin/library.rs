//! `holdfast admin library`: the tape libraries that the server uses.

mod listing;

use std::path::Path;

use ::tape::transport::Address;
use client::admin::{Admin, Library, LibraryWork, PutLibraryRequest};
use format::volume::VolumeName;

use self::listing::LibraryDocument;
use crate::commands::{Context, DONE, tape};
use crate::error::CommandError;

/// Add, change and remove tape libraries, show what is in them, and serve them
///
/// A library is a changer with its drives, or a folder of files that stand for tapes. While the
/// server runs, the library is its own: 'holdfast tape' is for libraries that no server uses.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library add vault --changer /dev/sg5 --drive /dev/sg3
  holdfast admin --server /srv/holdfast volume label vault
  holdfast admin --server /srv/holdfast pool add TAPE tape:vault
  holdfast admin --server /srv/holdfast library show vault")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: LibraryCommand,
}

#[derive(clap::Subcommand, Debug)]
enum LibraryCommand {
    Add(Box<AddArgs>),
    /// List all libraries
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast library list")]
    List,
    /// Show one library: its drives, its elements, and the volumes in them
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library show vault")]
    Show(NameArgs),
    Set(SetArgs),
    /// Stop using a library of which no pool has volumes; nothing on any volume changes
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library remove vault")]
    Remove(NameArgs),
    /// Take what is in the import/export elements into slots
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library checkin vault")]
    Checkin(NameArgs),
    Checkout(CheckoutArgs),
    /// Clean a drive with a cleaning cartridge of the library
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library clean vault 500")]
    Clean(DriveArgs),
    /// Use a drive again that had failed and has been looked after
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library restore-drive vault 500")]
    RestoreDrive(DriveArgs),
    /// Have the robot look into every element; takes minutes
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library scan vault")]
    Scan(NameArgs),
}

/// Have the server use a library: a changer with its drives, or a folder
///
/// Nothing on any volume changes. Give the drives in the order of their elements: not every changer
/// tells which is which.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library add vault --changer /dev/sg5 \\
      --drive /dev/sg3 --drive /dev/sg4
  holdfast admin --server /srv/holdfast library add files --folder /srv/tapes --capacity 100G")]
struct AddArgs {
    /// The library: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// The changer: /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN
    #[arg(long, value_name = "ADDR", value_parser = tape::address, requires = "drives")]
    #[arg(required_unless_present = "folder", conflicts_with = "folder")]
    changer: Option<Address>,
    /// A drive of it; may be given several times
    #[arg(long = "drive", value_name = "ADDR", value_parser = tape::address)]
    #[arg(requires = "changer")]
    drives: Vec<Address>,
    /// The folder, from the root on
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    folder: Option<String>,
    /// What each volume in the folder takes, as in 100G [default: as much as there is room for]
    #[arg(long, value_name = "SIZE", value_parser = tape::capacity, requires = "folder")]
    capacity: Option<u64>,
    #[command(flatten)]
    traits: Traits,
}

/// Change how the server uses a library
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library set vault --mounts 3 --retain 600")]
struct SetArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    traits: Traits,
    /// Whether opening a migrated file is refused, so that only lists and restores bring packs
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    optimised_only: Option<bool>,
}

/// What of a library may be chosen.
#[derive(clap::Args, Debug)]
struct Traits {
    /// So many volumes are mounted at the same time, at most [default of a new one: its drives]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    mounts: Option<u32>,
    /// A volume stays mounted so long after its last use, in case it is needed again
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    retain: Option<u32>,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
}

/// Hand a volume over, for a person to take
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library checkout vault A00007L8

'volume offsite' does the same, and keeps in mind where the volume is.")]
struct CheckoutArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    /// The volume
    #[arg(value_name = "VOLUME", value_parser = tape::volume_name)]
    volume: VolumeName,
}

#[derive(clap::Args, Debug)]
struct DriveArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    /// The drive, by its element as 'library show' shows it
    #[arg(value_name = "DRIVE")]
    drive: u16,
}

fn absolute(text: &str) -> Result<String, String> {
    if Path::new(text).is_absolute() {
        return Ok(text.to_owned());
    }
    Err("the server needs the whole path, as in /srv/tapes".to_owned())
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is on or off".to_owned()),
    }
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        LibraryCommand::Add(args) => {
            let library = admin.put_library(args.request())?;
            tell(&library, &format!("Library {} is added.", library.name), context);
        }
        LibraryCommand::List => listing::list(&admin.libraries(None, false)?, context),
        LibraryCommand::Show(args) => {
            for library in admin.libraries(Some(&args.name), true)? {
                listing::show(&library, context);
            }
        }
        LibraryCommand::Set(args) => set(args, admin, context)?,
        LibraryCommand::Remove(args) => {
            let library = admin.remove_library(&args.name)?;
            tell(&library, &format!("Library {} is removed.", library.name), context);
        }
        LibraryCommand::Checkin(args) => {
            let text = "What was in the import/export elements is checked in.";
            serve(&args.name, LibraryWork::CheckIn(true), text, admin, context)?;
        }
        LibraryCommand::Checkout(args) => {
            let volume = args.volume.to_string();
            let work = LibraryWork::CheckOut(volume.clone());
            let library = admin.serve_library(&args.name, work)?;
            tell(&library, &listing::handed_over(&library, &volume), context);
        }
        LibraryCommand::Clean(args) => {
            let text = format!("Drive {} is cleaned.", args.drive);
            serve(&args.name, LibraryWork::Clean(args.drive.into()), &text, admin, context)?;
        }
        LibraryCommand::RestoreDrive(args) => {
            let text = format!("Drive {} is used again.", args.drive);
            let work = LibraryWork::RestoreDrive(args.drive.into());
            serve(&args.name, work, &text, admin, context)?;
        }
        LibraryCommand::Scan(args) => {
            let text = format!("The robot of library {} has looked into every element.", args.name);
            serve(&args.name, LibraryWork::LookAgain(true), &text, admin, context)?;
        }
    }
    Ok(DONE)
}

impl AddArgs {
    fn request(self) -> PutLibraryRequest {
        PutLibraryRequest {
            name: self.name,
            is_new: true,
            changer: self.changer.map(|changer| changer.to_string()).unwrap_or_default(),
            drive_addresses: self.drives.iter().map(ToString::to_string).collect(),
            folder: self.folder.unwrap_or_default(),
            capacity_bytes: self.capacity,
            drives_max: self.traits.mounts,
            retain_secs: self.traits.retain,
            optimised_only: None,
        }
    }
}

fn set(args: SetArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let request = PutLibraryRequest {
        drives_max: args.traits.mounts,
        retain_secs: args.traits.retain,
        optimised_only: args.optimised_only,
        ..PutLibraryRequest::default()
    };
    if request == PutLibraryRequest::default() {
        let message = "say what to set: --mounts, --retain or --optimised-only";
        return Err(CommandError::usage(message, "holdfast admin library set"));
    }
    let library = admin.put_library(PutLibraryRequest { name: args.name, ..request })?;
    tell(&library, &format!("Library {} is changed.", library.name), context);
    Ok(())
}

/// Has the robot or a drive do something, and says `text` when it is done.
fn serve(
    name: &str,
    work: LibraryWork,
    text: &str,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    let library = admin.serve_library(name, work)?;
    tell(&library, text, context);
    Ok(())
}

fn tell(library: &Library, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&LibraryDocument::new(library));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}
