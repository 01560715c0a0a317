//! `holdfast hsm`: moves files off file systems to the server, and recalls them when they are used.

mod ask;
mod files;
mod filesystem;
mod launch;
mod plan;
mod policy;
mod run;
mod show;
mod supervisor;

use ::hsm::{Request, Settings};
use model::{escaped, is_at_or_below};

pub(crate) use files::{make_stubs, undelete_paths};

use self::ask::ask;
use crate::context::Context;
use crate::error::CommandError;

/// Migrate files off file systems to the server, and recall them when they are used
///
/// A migrated file keeps its name, size and times and takes no space. A program that opens it waits
/// until the content is back. 'holdfast hsm run' must be running while a managed file system is
/// mounted.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm add /data
  holdfast hsm run &
  holdfast hsm migrate /data/2024
  holdfast hsm ls /data/2024")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: HsmCommand,
}

#[derive(clap::Subcommand, Debug)]
enum HsmCommand {
    Add(filesystem::AddArgs),
    Remove(filesystem::RemoveArgs),
    List(filesystem::ListArgs),
    Run(run::Args),
    #[command(hide = true)]
    Worker(run::WorkerArgs),
    #[command(hide = true)]
    Hold(run::HoldArgs),
    Migrate(files::MigrateArgs),
    Premigrate(files::MigrateArgs),
    Recall(files::RecallArgs),
    Relieve(files::RelieveArgs),
    Reconcile(files::ReconcileArgs),
    Undelete(files::UndeleteArgs),
    Policy(policy::PolicyArgs),
    Ls(show::LsArgs),
    Du(show::DuArgs),
    Df(show::DfArgs),
    Status(show::StatusArgs),
    Cancel(files::CancelArgs),
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    match args.command {
        HsmCommand::Add(args) => filesystem::add(args, context),
        HsmCommand::Remove(args) => filesystem::remove(&args, context),
        HsmCommand::List(args) => filesystem::list(&args, context),
        HsmCommand::Run(args) => run::run(&args, context),
        HsmCommand::Worker(args) => run::worker(&args, context),
        HsmCommand::Hold(args) => run::hold(&args, context),
        HsmCommand::Migrate(args) => files::migrate(&args, false, context),
        HsmCommand::Premigrate(args) => files::migrate(&args, true, context),
        HsmCommand::Recall(args) => files::recall(&args, context),
        HsmCommand::Relieve(args) => files::relieve(&args, context),
        HsmCommand::Reconcile(args) => files::reconcile(&args, context),
        HsmCommand::Undelete(args) => files::undelete(&args, context),
        HsmCommand::Policy(args) => policy::policy(&args, context),
        HsmCommand::Ls(args) => show::ls(&args, context),
        HsmCommand::Du(args) => show::du(&args, context),
        HsmCommand::Df(args) => show::df(&args, context),
        HsmCommand::Status(args) => show::status(&args, context),
        HsmCommand::Cancel(args) => files::cancel(&args, context),
    }
}

/// Fails if no worker answers, or if one of the paths is in no managed file system.
pub(crate) fn check_managed(paths: &[Vec<u8>], context: &Context) -> Result<(), CommandError> {
    ask(context, &Request::Status, &mut |_| true)?;
    let settings = Settings::load(&context.home()?);
    let settings = settings.map_err(|error| CommandError::chain(&error))?;
    let is_managed = |path: &[u8]| {
        let mut managed = settings.filesystems.iter();
        managed.any(|filesystem| is_at_or_below(path, &filesystem.mount_point))
    };
    match paths.iter().find(|path| !is_managed(path)) {
        None => Ok(()),
        Some(path) => {
            let message = format!("{} is in no managed file system", escaped(path));
            Err(CommandError::new(message).with_hint(
                "manage its file system with 'holdfast hsm add', or restore without --stubs-from",
            ))
        }
    }
}
