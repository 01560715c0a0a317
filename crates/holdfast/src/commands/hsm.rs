//! `holdfast hsm`: files migrate off file systems to the server, and come back when they are used.

mod files;
mod filesystem;
mod guard;
mod holder;
mod plan;
mod policy;
mod run;
mod show;
mod supervisor;

use std::path::PathBuf;

use ::hsm::{Reply, Request, Settings};
use model::escaped;

pub(crate) use files::make_stubs;

use super::Context;
use crate::error::CommandError;

/// Migrate files off file systems to the server, and recall them when they are used
///
/// A migrated file keeps its name, size and times and takes no space. Whoever opens it waits until
/// its content is back. 'holdfast hsm run' must run while a managed file system is mounted.
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
    Hold(holder::Args),
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
        HsmCommand::Worker(args) => run::work(&args, context),
        HsmCommand::Hold(args) => holder::hold(&args, context),
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

/// Asks the worker; every reply but the last goes to `visit`.
fn ask(
    context: &Context,
    request: &Request,
    visit: &mut dyn FnMut(Reply) -> bool,
) -> Result<(), CommandError> {
    let folder = socket_folder(context)?;
    let asked = ::hsm::ask(&folder, request, visit).map_err(|error| not_running(&error))?;
    asked.map_err(CommandError::new)
}

/// Where the worker is asked: in the node's folder; where everybody may go, for a user who has no
/// folder with a worker of his own and has named none.
fn socket_folder(context: &Context) -> Result<PathBuf, CommandError> {
    let home = context.home()?;
    let is_named = context.global.home.is_some() || std::env::var_os("HOLDFAST_HOME").is_some();
    let is_there = home.join(::hsm::SOCKET).try_exists().unwrap_or(false);
    if is_named || is_there || sys::process::is_root() {
        return Ok(home);
    }
    Ok(PathBuf::from(::hsm::PUBLIC_FOLDER))
}

/// Fails where no worker answers, or one of the paths is in no file system that is managed.
pub(crate) fn check_managed(paths: &[Vec<u8>], context: &Context) -> Result<(), CommandError> {
    ask(context, &Request::Status, &mut |_| true)?;
    let settings = Settings::load(&context.home()?);
    let settings = settings.map_err(|error| CommandError::chain(&error))?;
    let is_managed = |path: &[u8]| {
        settings.filesystems.iter().any(|filesystem| {
            let rest = path.strip_prefix(&filesystem.mount_point[..]);
            filesystem.mount_point == b"/"
                || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    };
    match paths.iter().find(|path| !is_managed(path)) {
        None => Ok(()),
        Some(path) => Err(CommandError {
            message: format!("{} is in no file system that is managed", escaped(path)),
            hint: Some(
                "'holdfast hsm add' has one managed; without --stubs-from all comes as files"
                    .to_owned(),
            ),
        }),
    }
}

fn not_running(error: &std::io::Error) -> CommandError {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            CommandError::new("space management does not run; start 'holdfast hsm run'")
        }
        _ => CommandError::new(format!("cannot ask space management: {error}")),
    }
}
