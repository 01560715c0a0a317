//! `holdfast admin volume`: the volumes of the libraries that the server uses.

mod label;
mod listing;

use client::ErrorKind;
use client::admin::{Admin, VolumeAccess, VolumeChange, VolumeFilter, VolumeList, VolumeTask};
use format::volume::VolumeName;

use self::listing::VolumeDocument;
use super::tend::{self, Wording};
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, NOT_DONE};
use crate::output;

/// List, label and change volumes; reclaim, empty and check them
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume label vault
  holdfast admin --server /srv/holdfast volume list --pool TAPE
  holdfast admin --server /srv/holdfast volume offsite A00001L8 --location 'bank safe'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: VolumeCommand,
}

#[derive(clap::Subcommand, Debug)]
enum VolumeCommand {
    List(ListArgs),
    Label(label::Args),
    Set(SetArgs),
    Offsite(OffsiteArgs),
    /// Use volumes again that are back in their library
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume onsite A00001L8 A00002L8")]
    Onsite(VolumeArgs),
    /// Remove empty volumes from the catalogue; nothing on them changes
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume remove A00001L8")]
    Remove(VolumeArgs),
    Reclaim(ReclaimArgs),
    /// Move the needed packs off volumes to other volumes of their pools
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume move A00001L8")]
    Move(VolumeArgs),
    /// Read volumes from end to end and check their packs
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume audit A00001L8")]
    Audit(VolumeArgs),
    Import(ImportArgs),
}

/// List volumes: how full they are, and how much of their data is needed
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume list --library vault")]
struct ListArgs {
    /// Volumes of this library only
    #[arg(long, value_name = "LIBRARY")]
    library: Option<String>,
    /// Volumes of this pool only
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// This volume only
    #[arg(value_name = "VOLUME", value_parser = crate::values::volume_name)]
    volume: Option<VolumeName>,
}

/// Change the access to volumes
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume set A00001L8 --access read-only")]
struct SetArgs {
    /// The new access
    #[arg(long, value_name = "ACCESS")]
    access: Access,
    /// With --access destroyed: confirm that the volumes and everything on them are lost
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    volumes: VolumeArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    /// Volumes are read and written
    ReadWrite,
    /// Volumes are read, but no longer written
    ReadOnly,
    /// Volumes are not mounted until their access is changed again
    Unavailable,
    /// Volumes are lost with their data; packs that other pools have are read from there
    Destroyed,
}

/// Take volumes out of their library and record their place
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume offsite A00001L8 --location 'bank safe'")]
struct OffsiteArgs {
    /// The place to which the volumes are taken
    #[arg(long, value_name = "TEXT", default_value = "")]
    location: String,
    #[command(flatten)]
    volumes: VolumeArgs,
}

/// Volumes of one library.
#[derive(clap::Args, Debug)]
struct VolumeArgs {
    /// The volumes
    #[arg(value_name = "VOLUME", required = true, value_parser = crate::values::volume_name)]
    volumes: Vec<VolumeName>,
    /// The library of the volumes; needed if several libraries have volumes of these names
    #[arg(long, value_name = "LIBRARY")]
    library: Option<String>,
}

/// Empty volumes with much dead data, so that they can be written again
///
/// The packs that are still needed move to other volumes of the pool. The server does this by
/// itself, as the setting --reclaim of each pool says.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume reclaim TAPE --dead-percent 40
  holdfast admin --server /srv/holdfast volume reclaim A00001L8")]
struct ReclaimArgs {
    /// Volumes of this pool only, or this volume only
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The library of the volume; needed if several libraries, or a pool, have its name
    #[arg(long, value_name = "LIBRARY", requires = "name")]
    library: Option<String>,
    /// Share of a volume that must be dead [default: the setting of its pool]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    dead_percent: Option<u32>,
}

/// Add to the catalogue the packs that volumes hold
///
/// A catalogue that was recovered from a copy does not know the packs that were written to volumes
/// after the copy. Give all volumes that were written since then together: a pack may continue on
/// the next volume.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume import vault A00001L8 A00002L8")]
struct ImportArgs {
    /// The library of the volumes
    #[arg(value_name = "LIBRARY")]
    library: String,
    /// The volumes
    #[arg(value_name = "VOLUME", required = true, value_parser = crate::values::volume_name)]
    volumes: Vec<VolumeName>,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        VolumeCommand::List(args) => {
            let volumes = admin.volumes(&args.filter())?;
            let libraries = admin.libraries(None, false)?;
            listing::list(&volumes, &libraries, context);
            Ok(DONE)
        }
        VolumeCommand::Label(args) => label::run(args, admin, context),
        VolumeCommand::Set(args) => {
            if args.access == Access::Destroyed && !args.confirm {
                let message = "a destroyed volume and everything on it are given up for good; \
                               confirm it with --confirm";
                return Err(CommandError::usage(message, "holdfast admin volume set"));
            }
            let access = VolumeAccess::from(args.access);
            let result = format!("is {}", access.word());
            let change = VolumeChange::Access(access);
            change_all(&args.volumes, &change, &result, admin, context)
        }
        VolumeCommand::Offsite(args) => {
            let change = VolumeChange::Offsite { location: args.location };
            change_all(&args.volumes, &change, "is offsite: take it out", admin, context)
        }
        VolumeCommand::Onsite(volumes) => {
            change_all(&volumes, &VolumeChange::Onsite, "is onsite", admin, context)
        }
        VolumeCommand::Remove(volumes) => {
            change_all(&volumes, &VolumeChange::Remove, "is removed", admin, context)
        }
        VolumeCommand::Reclaim(args) => {
            let task = reclamation(args, admin)?;
            tend(task, &tend::MOVED, admin, context)
        }
        VolumeCommand::Move(args) => {
            tend(VolumeTask::Move(args.list()), &tend::MOVED, admin, context)
        }
        VolumeCommand::Import(args) => {
            let volumes = VolumeArgs { volumes: args.volumes, library: Some(args.library) };
            tend(VolumeTask::Import(volumes.list()), &tend::IMPORTED, admin, context)
        }
        VolumeCommand::Audit(args) => {
            tend(VolumeTask::Audit(args.list()), &tend::READ, admin, context)
        }
    }
}

impl ListArgs {
    fn filter(self) -> VolumeFilter {
        let volume = self.volume.map(|volume| volume.to_string());
        VolumeFilter { library: self.library, pool: self.pool, volume }
    }
}

impl From<Access> for VolumeAccess {
    fn from(access: Access) -> Self {
        match access {
            Access::ReadWrite => Self::ReadWrite,
            Access::ReadOnly => Self::ReadOnly,
            Access::Unavailable => Self::Unavailable,
            Access::Destroyed => Self::Destroyed,
        }
    }
}

impl VolumeArgs {
    fn list(self) -> VolumeList {
        let names = self.volumes.iter().map(ToString::to_string).collect();
        VolumeList { library: self.library, names }
    }
}

/// Returns the work of `volume reclaim`. A name without a library is first looked for among the
/// pools.
fn reclamation(args: ReclaimArgs, admin: &mut Admin) -> Result<VolumeTask, CommandError> {
    let ReclaimArgs { name, library, dead_percent } = args;
    let of = |pool, volumes| VolumeTask::Reclaim { pool, volumes, dead_percent };
    let Some(name) = name else { return Ok(of(None, VolumeList::default())) };
    if library.is_none() && is_pool(&name, admin)? {
        return Ok(of(Some(name), VolumeList::default()));
    }
    Ok(of(None, VolumeList { library, names: vec![name] }))
}

/// Returns true for the name of a pool, and false for that of a volume. Fails if it is neither.
pub(super) fn is_pool(name: &str, admin: &mut Admin) -> Result<bool, CommandError> {
    if admin.pools(None)?.iter().any(|pool| pool.name.eq_ignore_ascii_case(name)) {
        return Ok(true);
    }
    let filter = VolumeFilter { volume: Some(name.to_owned()), ..VolumeFilter::default() };
    match admin.volumes(&filter) {
        Ok(_) => Ok(false),
        Err(error) if error.kind == ErrorKind::NotFound => {
            let message = format!("there is no pool and no volume {name}");
            let hint = "'holdfast admin pool list' and 'holdfast admin volume list' show all";
            let error = client::ClientError::new(ErrorKind::NotFound, message);
            Err(CommandError::from(error).with_hint(hint))
        }
        Err(error) => Err(error.into()),
    }
}

fn tend(
    task: VolumeTask,
    wording: &Wording,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    tend::run(wording, context, |visit| admin.tend_volumes(task, visit))
}

/// Changes each of the volumes. `result` is the predicate of the message about a changed volume.
fn change_all(
    volumes: &VolumeArgs,
    change: &VolumeChange,
    result: &str,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut failed = 0;
    for name in &volumes.volumes {
        let library = volumes.library.as_deref();
        match admin.set_volume(library, name.as_str(), change.clone()) {
            Ok(volume) if context.output.is_json() => {
                context.output.json(&VolumeDocument::new(&volume));
            }
            Ok(_) if context.output.quiet => {}
            Ok(_) => context.output.text(&format!("Volume {name} {result}.")),
            Err(error) if volumes.volumes.len() == 1 => return Err(error.into()),
            Err(error) => {
                failed += 1;
                say_failure(name.as_str(), &error.message, context);
                if let Some(hint) = error.hint() {
                    output::say(&format!("  {hint}"));
                }
            }
        }
    }
    Ok(exit_code(volumes.volumes.len() - failed, failed))
}

/// Writes the problem of one volume while the work on the others continues.
fn say_failure(volume: &str, problem: &str, context: &mut Context) {
    // The flush shows the earlier results first.
    context.output.flush();
    output::say(&format!("{volume}: {problem}"));
}

/// Returns the exit code of a command that is done with `done` volumes and failed with `failed`.
fn exit_code(done: usize, failed: usize) -> u8 {
    match (done, failed) {
        (_, 0) => DONE,
        (0, _) => NOT_DONE,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn access_is_given_by_the_word_that_lists_show() {
        for access in Access::value_variants() {
            let value = access.to_possible_value().expect("no value is hidden");
            assert_eq!(value.get_name(), VolumeAccess::from(*access).word());
        }
    }

    #[test]
    fn a_command_is_not_done_only_where_all_volumes_failed() {
        assert_eq!([(2, 0), (1, 1), (0, 2)].map(|(d, f)| exit_code(d, f)), [0, 4, 12]);
        assert_eq!(exit_code(0, 0), DONE);
    }
}
