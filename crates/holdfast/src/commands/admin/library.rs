//! `holdfast admin library`: the tape libraries that the server uses.

mod listing;

use std::path::Path;

use ::tape::address::Address;
use client::admin::{Admin, Library, LibraryChange, LibraryPlace, LibraryWork, NewLibrary};
use format::volume::VolumeName;

use self::listing::LibraryDocument;
use crate::commands::tape;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::values::{self, ValueError};

/// Add, change, show and remove tape libraries, and move their volumes and clean their drives
///
/// A library is a changer with its drives, or a folder of files that stand for tapes. A running
/// server keeps its libraries to itself: 'holdfast tape' is for libraries that no server uses.
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
    /// Remove a library that has no volumes of any pool; nothing on any volume changes
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library remove vault")]
    Remove(NameArgs),
    Checkin(CheckinArgs),
    Checkout(CheckoutArgs),
    /// Clean a drive with a cleaning cartridge of the library
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library clean vault 500")]
    Clean(DriveArgs),
    /// Use a failed drive again after its repair
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library restore-drive vault 500")]
    RestoreDrive(DriveArgs),
    /// Make the changer inspect every element; takes minutes
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast library scan vault")]
    Scan(NameArgs),
}

/// Add a library: a changer with its drives, or a folder
///
/// Nothing on any volume changes. Give the drives in the order of their elements, because not every
/// changer reports which drive is which.
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
    #[arg(long, value_name = "ADDR", value_parser = crate::values::address, requires = "drives")]
    #[arg(required_unless_present = "folder", conflicts_with = "folder")]
    changer: Option<Address>,
    /// A drive of the changer; may be given several times
    #[arg(long = "drive", value_name = "ADDR", value_parser = crate::values::address)]
    #[arg(requires = "changer")]
    drives: Vec<Address>,
    /// The folder, as a path that starts with /
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    folder: Option<String>,
    /// Size of each volume in the folder, as in 100G [default: no limit except the disk]
    #[arg(long, value_name = "SIZE", value_parser = tape::capacity, requires = "folder")]
    capacity: Option<u64>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Change how the server uses a library
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library set vault --mounts 3 --retain 10m")]
struct SetArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Refuse to open migrated files, so that only lists and restores recall packs
    #[arg(long, value_name = "YES|NO", value_parser = values::yes_or_no)]
    optimised_only: Option<bool>,
}

/// Settings of a library.
#[derive(clap::Args, Debug)]
struct SettingsArgs {
    /// Maximum number of volumes mounted at the same time [default for a new library: one for each
    /// drive]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    mounts: Option<u32>,
    /// Time that a volume stays mounted after its last use, in case it is needed again, as in 10m
    #[arg(long, value_name = "LENGTH", value_parser = values::seconds(0..=86_400))]
    retain: Option<u32>,
    /// Maximum number of drives that write at the same time [default for a new library: all drives
    /// but one, one for each 4 GiB]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    writers: Option<u32>,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
}

/// Move volumes from the import/export elements into slots
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library checkin vault
  holdfast admin --server /srv/holdfast library checkin vault A00007L8")]
struct CheckinArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    /// The volume [default: all volumes]
    #[arg(value_name = "VOLUME", value_parser = crate::values::volume_name)]
    volume: Option<VolumeName>,
}

/// Move a volume to an import/export element, for a person to take
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast library checkout vault A00007L8

'volume offsite' does the same, and records the volume's new place.")]
struct CheckoutArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    /// The volume
    #[arg(value_name = "VOLUME", value_parser = crate::values::volume_name)]
    volume: VolumeName,
}

#[derive(clap::Args, Debug)]
struct DriveArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
    /// The element of the drive, as 'library show' lists it
    #[arg(value_name = "DRIVE")]
    drive: u16,
}

fn absolute(text: &str) -> Result<String, ValueError> {
    if Path::new(text).is_absolute() {
        return Ok(text.to_owned());
    }
    Err(ValueError::Rule("the path must start with /, as in /srv/tapes"))
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        LibraryCommand::Add(args) => {
            let library = admin.add_library(args.library())?;
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
        LibraryCommand::Checkin(CheckinArgs { name, volume: Some(volume) }) => {
            let text = format!("Volume {volume} is checked in.");
            let work = LibraryWork::CheckInVolume { volume: volume.to_string() };
            serve(&name, work, &text, admin, context)?;
        }
        LibraryCommand::Checkin(CheckinArgs { name, volume: None }) => {
            let text = "The volumes in the import/export elements are checked in.";
            serve(&name, LibraryWork::CheckIn, text, admin, context)?;
        }
        LibraryCommand::Checkout(args) => {
            let volume = args.volume.to_string();
            let work = LibraryWork::CheckOut { volume: volume.clone() };
            let library = admin.serve_library(&args.name, work)?;
            tell(&library, &listing::handed_over(&library, &volume), context);
        }
        LibraryCommand::Clean(args) => {
            let text = format!("Drive {} is cleaned.", args.drive);
            let work = LibraryWork::Clean { drive: args.drive.into() };
            serve(&args.name, work, &text, admin, context)?;
        }
        LibraryCommand::RestoreDrive(args) => {
            let text = format!("Drive {} is used again.", args.drive);
            let work = LibraryWork::RestoreDrive { drive: args.drive.into() };
            serve(&args.name, work, &text, admin, context)?;
        }
        LibraryCommand::Scan(args) => {
            let text = format!("The changer of library {} has inspected every element.", args.name);
            serve(&args.name, LibraryWork::Scan, &text, admin, context)?;
        }
    }
    Ok(DONE)
}

impl AddArgs {
    fn library(self) -> NewLibrary {
        let place = match self.changer {
            Some(changer) => LibraryPlace::Changer { address: changer.to_string() },
            None => LibraryPlace::Folder {
                path: self.folder.expect("clap requires a folder where there is no changer"),
                capacity_bytes: self.capacity,
            },
        };
        NewLibrary {
            name: self.name,
            place,
            drive_addresses: self.drives.iter().map(ToString::to_string).collect(),
            change: self.settings.change(),
        }
    }
}

impl SettingsArgs {
    fn change(&self) -> LibraryChange {
        let Self { mounts: mounts_max, retain: retain_secs, writers: writers_max } = *self;
        LibraryChange { mounts_max, retain_secs, optimised_only: None, writers_max }
    }
}

fn set(args: SetArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let optimised_only = args.optimised_only;
    let change = LibraryChange { optimised_only, ..args.settings.change() };
    if change == LibraryChange::default() {
        let message = "give a setting: --mounts, --retain, --writers or --optimised-only";
        return Err(CommandError::usage(message, "holdfast admin library set"));
    }
    let library = admin.set_library(args.name, change)?;
    tell(&library, &format!("Library {} is changed.", library.name), context);
    Ok(())
}

/// Starts `work` of the library, and writes `text` when the work is done.
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
