//! `holdfast admin volume`: the volumes of the libraries that the server uses.

mod label;
mod listing;

use clap::ValueEnum;
use client::admin::{
    Admin, SetVolumeRequest, TendVolumesRequest, VolumeChange, VolumeWork, VolumesRequest,
};
use format::volume::VolumeName;

use self::listing::VolumeDocument;
use super::tend::{self, Telling};
use crate::commands::{Context, DONE, tape};
use crate::error::{CommandError, FAILED, NOT_DONE};
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
    /// Take volumes into their library again
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume onsite A00001L8 A00002L8")]
    Onsite(Selected),
    /// Forget volumes that hold nothing; what is written on them stays
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume remove A00001L8")]
    Remove(Selected),
    Reclaim(ReclaimArgs),
    /// Move all that is needed off volumes, to others of their pools
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume move A00001L8")]
    Move(Selected),
    /// Read volumes from end to end and check what is on them
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast volume audit A00001L8")]
    Audit(Selected),
    Import(ImportArgs),
}

/// List volumes: how full they are, and how much of that is needed
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume list --library vault")]
struct ListArgs {
    /// Of this library alone
    #[arg(long, value_name = "LIBRARY")]
    library: Option<String>,
    /// Of this pool alone
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// This volume alone
    #[arg(value_name = "VOLUME", value_parser = tape::volume_name)]
    volume: Option<VolumeName>,
}

/// Change what a volume may be used for
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume set A00001L8 --access read-only")]
struct SetArgs {
    /// What it may be used for
    #[arg(long, value_name = "ACCESS")]
    access: Access,
    #[command(flatten)]
    selected: Selected,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    /// All
    ReadWrite,
    /// Nothing is written on it any more
    ReadOnly,
    /// It is not mounted, until it is looked after
    Unavailable,
    /// It is lost with all that is on it; what other pools have is served from there
    Destroyed,
}

/// Take volumes out of their library and keep in mind where they are
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume offsite A00001L8 --location 'bank safe'")]
struct OffsiteArgs {
    /// Where they are taken to
    #[arg(long, value_name = "TEXT", default_value = "")]
    location: String,
    #[command(flatten)]
    selected: Selected,
}

/// Volumes, each of which is changed by itself.
#[derive(clap::Args, Debug)]
struct Selected {
    /// The volumes
    #[arg(value_name = "VOLUME", required = true, value_parser = tape::volume_name)]
    volumes: Vec<VolumeName>,
    /// Their library, where several have volumes of that name
    #[arg(long, value_name = "LIBRARY")]
    library: Option<String>,
}

/// Empty volumes of which much is dead, so that they can be written again
///
/// What is still needed moves to other volumes of the pool. The server does it by itself, as the
/// pools say with --reclaim.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume reclaim --pool TAPE --dead 40")]
struct ReclaimArgs {
    /// Of this pool alone
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// So much of a volume must be dead [default: as its pool says]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    dead: Option<u32>,
}

/// Have the catalogue know what volumes say of themselves
///
/// After a loss the catalogue comes from a copy, which knows nothing of what went to volumes since.
/// Name all volumes written since then together: a pack may go on from one to the next.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume import vault A00001L8 A00002L8")]
struct ImportArgs {
    /// Their library
    #[arg(value_name = "LIBRARY")]
    library: String,
    /// The volumes
    #[arg(value_name = "VOLUME", required = true, value_parser = tape::volume_name)]
    volumes: Vec<VolumeName>,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        VolumeCommand::List(args) => {
            let volumes = admin.volumes(args.request())?;
            listing::list(&volumes, context);
            Ok(DONE)
        }
        VolumeCommand::Label(args) => label::run(args, admin, context),
        VolumeCommand::Set(args) => {
            let access = args.access.name();
            let change = VolumeChange::Access(access.clone());
            change_all(&args.selected, &change, &format!("is {access}"), admin, context)
        }
        VolumeCommand::Offsite(args) => {
            let change = VolumeChange::Offsite(args.location);
            change_all(&args.selected, &change, "is offsite: take it out", admin, context)
        }
        VolumeCommand::Onsite(selected) => {
            change_all(&selected, &VolumeChange::Onsite(true), "is onsite", admin, context)
        }
        VolumeCommand::Remove(selected) => {
            change_all(&selected, &VolumeChange::Remove(true), "is forgotten", admin, context)
        }
        VolumeCommand::Reclaim(args) => {
            let request = TendVolumesRequest {
                work: VolumeWork::Reclaim.into(),
                pool: args.pool.unwrap_or_default(),
                volumes: Vec::new(),
                dead_percent: args.dead.unwrap_or(0),
                library: String::new(),
            };
            tend(request, &tend::MOVED, admin, context)
        }
        VolumeCommand::Move(args) => {
            tend(args.request(VolumeWork::Move), &tend::MOVED, admin, context)
        }
        VolumeCommand::Import(args) => {
            let selected = Selected { volumes: args.volumes, library: Some(args.library) };
            tend(selected.request(VolumeWork::Import), &tend::TAKEN_IN, admin, context)
        }
        VolumeCommand::Audit(args) => {
            tend(args.request(VolumeWork::Audit), &tend::READ, admin, context)
        }
    }
}

impl ListArgs {
    fn request(self) -> VolumesRequest {
        VolumesRequest {
            library: self.library.unwrap_or_default(),
            pool: self.pool.unwrap_or_default(),
            volume: self.volume.map(|volume| volume.to_string()).unwrap_or_default(),
        }
    }
}

impl Access {
    fn name(self) -> String {
        let value = self.to_possible_value().expect("none of them is hidden");
        value.get_name().to_owned()
    }
}

impl Selected {
    fn request(&self, work: VolumeWork) -> TendVolumesRequest {
        let volumes = self.volumes.iter().map(ToString::to_string).collect();
        let library = self.library.clone().unwrap_or_default();
        TendVolumesRequest { work: work.into(), volumes, library, ..TendVolumesRequest::default() }
    }
}

fn tend(
    request: TendVolumesRequest,
    telling: &Telling,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    tend::run(telling, context, |visit| admin.tend_volumes(request, visit))
}

/// Changes each of the selected volumes; `became` is what is said of one that was changed.
fn change_all(
    selected: &Selected,
    change: &VolumeChange,
    became: &str,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut failed = 0;
    for name in &selected.volumes {
        let request = SetVolumeRequest {
            library: selected.library.clone().unwrap_or_default(),
            volume: name.to_string(),
            change: Some(change.clone()),
        };
        match admin.set_volume(request) {
            Ok(volume) if context.output.is_json() => {
                context.output.json(&VolumeDocument::new(&volume));
            }
            Ok(_) if context.output.quiet => {}
            Ok(_) => context.output.text(&format!("Volume {name} {became}.")),
            Err(error) if selected.volumes.len() == 1 => return Err(error.into()),
            Err(error) => {
                failed += 1;
                say_failure(name.as_str(), &error.message, context);
                if let Some(hint) = error.hint() {
                    output::say(&format!("  {hint}"));
                }
            }
        }
    }
    Ok(exit_code(selected.volumes.len() - failed, failed))
}

/// Says what went wrong with a volume while others go on.
fn say_failure(volume: &str, problem: &str, context: &mut Context) {
    // What is on standard output comes first.
    context.output.flush();
    output::say(&format!("{volume}: {problem}"));
}

/// The exit code of a command that has done `done` volumes and failed with `failed`.
fn exit_code(done: usize, failed: usize) -> u8 {
    match (done, failed) {
        (_, 0) => DONE,
        (0, _) => NOT_DONE,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_named_as_on_the_wire() {
        let names: Vec<_> = Access::value_variants().iter().map(|access| access.name()).collect();
        assert_eq!(names, ["read-write", "read-only", "unavailable", "destroyed"]);
    }

    #[test]
    fn nothing_is_done_only_where_all_failed() {
        assert_eq!([(2, 0), (1, 1), (0, 2)].map(|(d, f)| exit_code(d, f)), [0, 4, 12]);
        assert_eq!(exit_code(0, 0), DONE);
    }
}
