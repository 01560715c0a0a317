//! `holdfast tape`: tape libraries and volumes by hand, without a server or a catalogue.
//!
//! ```text
//! site      the meaning of LIB on the command line
//!   label, moves, drives, inventory    one volume or element at a time
//!   write, read, verify                objects
//! meter     progress of a long command
//! trouble   errors of volumes and libraries on one line, with the next step
//! ```

mod drives;
mod inventory;
mod label;
mod libraries;
mod meter;
mod moves;
mod read;
mod site;
mod trouble;
mod values;
mod verify;
mod write;

pub(super) use self::libraries::capacity;
use crate::context::Context;
use crate::error::CommandError;

/// Use tape libraries and volumes by hand: label, write, read and verify, without any server
///
/// LIB is the name of a library from 'holdfast tape add', or a folder (with a '/' in its path) of
/// files that stand for tapes, or the addresses of a changer and its drives, separated by commas.
/// Devices are named as /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape add vault --changer /dev/sg5 --drive /dev/sg3 --drive /dev/sg4
  holdfast tape inventory vault
  holdfast tape label vault A00001L8
  holdfast tape write vault A00001L8 /srv/export/*.tar
  holdfast tape read vault A00001L8 --list")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TapeCommand,
}

#[derive(clap::Subcommand, Debug)]
enum TapeCommand {
    Add(libraries::AddArgs),
    Remove(libraries::RemoveArgs),
    List(libraries::ListArgs),
    Inventory(inventory::Args),
    Drives(drives::Args),
    Label(label::Args),
    Checkin(moves::CheckinArgs),
    Checkout(moves::CheckoutArgs),
    Mount(moves::MountArgs),
    Dismount(moves::DismountArgs),
    Clean(moves::CleanArgs),
    Write(write::Args),
    Read(read::Args),
    Verify(verify::Args),
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    match args.command {
        TapeCommand::Add(args) => libraries::add(args, context),
        TapeCommand::Remove(args) => libraries::remove(&args, context),
        TapeCommand::List(args) => libraries::list(&args, context),
        TapeCommand::Inventory(args) => inventory::run(&args, context),
        TapeCommand::Drives(args) => drives::run(&args, context),
        TapeCommand::Label(args) => label::run(&args, context),
        TapeCommand::Checkin(args) => moves::checkin(&args, context),
        TapeCommand::Checkout(args) => moves::checkout(&args, context),
        TapeCommand::Mount(args) => moves::mount(&args, context),
        TapeCommand::Dismount(args) => moves::dismount(&args, context),
        TapeCommand::Clean(args) => moves::clean(&args, context),
        TapeCommand::Write(args) => write::run(&args, context),
        TapeCommand::Read(args) => read::run(&args, context),
        TapeCommand::Verify(args) => verify::run(&args, context),
    }
}
