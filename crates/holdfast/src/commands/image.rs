//! `holdfast image`: backs up and restores whole disks.

mod backup;
mod delete;
mod extract;
mod files;
mod list;
mod named;
mod opened;
mod restore;
mod verify;

pub(super) use named::find as find_image;

use crate::context::Context;
use crate::error::CommandError;

/// Back up and restore whole disks, as images
///
/// An image has every block of a disk that is in use, with its table of partitions and its boot
/// area. It restores a machine to a bare disk. For all else, a backup of files is quicker and takes
/// less room.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image backup /dev/sda
  holdfast image restore /dev/sda /dev/sdb --confirm
  holdfast image extract /dev/sda /etc/fstab --to /tmp")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Backup(backup::Args),
    Restore(restore::Args),
    List(list::Args),
    Verify(verify::Args),
    Files(files::Args),
    Extract(extract::Args),
    Delete(delete::Args),
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    match args.command {
        Command::Backup(args) => backup::run(args, context),
        Command::Restore(args) => restore::run(&args, context),
        Command::List(args) => list::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Files(args) => files::run(&args, context),
        Command::Extract(args) => extract::run(&args, context),
        Command::Delete(args) => delete::run(&args, context),
    }
}
