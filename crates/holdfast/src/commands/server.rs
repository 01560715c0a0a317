//! `holdfast server`: makes a server, runs it, and recovers it.

mod recovery;

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sd_notify::NotifyState;
use serde::Serialize;
use server::Readiness;
use store::NewServer;
use tokio::sync::watch;

use crate::address;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::folder_owner;
use crate::interrupt::Signals;
use crate::moment;
use crate::output::Output;
use crate::path::{self, JsonPath};
use crate::servers;

/// Time in which the threads of the runtime must end after an orderly stop.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Make a server, run it, and recover it after a disaster
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server init /srv/holdfast
  holdfast server run /srv/holdfast")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(clap::Subcommand, Debug)]
enum ServerCommand {
    Init(InitArgs),
    Run(RunArgs),
    Join(recovery::JoinArgs),
    Recovery(recovery::FileArgs),
    Recover(recovery::RecoverArgs),
    RebuildCatalog(recovery::RebuildArgs),
    Adopt(recovery::AdoptArgs),
}

impl ServerCommand {
    /// Returns the folder in which the command makes files.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Init(args) => Some(&args.folder),
            Self::Run(args) => Some(&args.folder),
            Self::Join(args) => Some(&args.folder),
            Self::Recovery(_) => None,
            Self::Recover(args) => Some(&args.folder),
            Self::RebuildCatalog(args) => Some(&args.folder),
            Self::Adopt(args) => Some(&args.folder),
        }
    }
}

/// Make a server in an empty or new folder
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server init /srv/holdfast --pool file:///mnt/large/pool")]
struct InitArgs {
    /// The folder of the new server
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address to listen on; the default port is 1500
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:1500")]
    listen: String,
    /// The place for the data, as file:///FOLDER or s3://BUCKET/PREFIX?endpoint=URL [default: a
    /// folder in DIR]
    #[arg(long, value_name = "URL")]
    pool: Option<String>,
    /// The place for the catalogue, as postgres://USER@HOST/DATABASE [default: SQLite in DIR]
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,
    /// Address of the REST API; the default port is 1580 [default: none, the API is off]
    #[arg(long, value_name = "ADDR")]
    api: Option<String>,
}

/// Run the server of a folder until SIGTERM or SIGINT
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast server run /srv/holdfast")]
struct RunArgs {
    /// The folder that 'holdfast server init' made
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Put the server's clock, by which expiration goes, ahead of the system's, as in 40d. Only for
    /// tests on a copy of a server with pools of its own
    #[arg(long, value_name = "LENGTH", value_parser = moment::parse_length, hide_short_help = true)]
    clock_ahead: Option<i64>,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    // Variables that are not UTF-8 hold no settings of object stores.
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    store::use_variables(std::env::vars_os().filter_map(text));
    if let Some(folder) = args.command.folder() {
        folder_owner::check(folder)?;
    }
    match args.command {
        ServerCommand::Init(args) => init(&args, context),
        ServerCommand::Run(args) => {
            if let Some(secs) = args.clock_ahead {
                sys::clock::put_ahead(Duration::from_secs(secs.unsigned_abs()));
            }
            serve(&args.folder, &mut context.output)
        }
        ServerCommand::Join(args) => recovery::join(&args, context),
        ServerCommand::Recovery(args) => recovery::write_file(&args, context),
        ServerCommand::Recover(args) => recovery::recover(&args, context),
        ServerCommand::RebuildCatalog(args) => recovery::rebuild(&args, context),
        ServerCommand::Adopt(args) => recovery::adopt(&args, context),
    }
}

/// `server init --json`, and `server join --json`.
#[derive(Serialize)]
struct NewServerDocument<'a> {
    folder: JsonPath<'a>,
    listen: &'a str,
    pool: &'a str,
    catalog: &'a str,
}

fn init(args: &InitArgs, context: &mut Context) -> Result<u8, CommandError> {
    let listen = address::with_port(&args.listen);
    let api = args.api.as_deref().map(|address| address::with_default(address, API_PORT));
    let new = NewServer {
        listen: &listen,
        pool: args.pool.as_deref(),
        catalog: args.catalog.as_deref(),
        api: api.as_deref(),
    };
    let config = server::init(&args.folder, new).map_err(|error| CommandError::chain(&error))?;
    let folder = args.folder.display();
    let next =
        format!("Then register a node with:\n\n  holdfast admin --server {folder} node add NAME");
    show_new(&args.folder, &config, &next, context);
    Ok(DONE)
}

/// Shows the folder of a new server, the command that starts it, and `next`, the step after that.
fn show_new(folder: &Path, config: &store::folder::Config, next: &str, context: &mut Context) {
    if context.output.is_json() {
        let folder = path::bytes(folder);
        context.output.json(&NewServerDocument {
            folder: JsonPath(&folder),
            listen: &config.listen,
            pool: &config.pool,
            catalog: &config.catalog,
        });
    } else if !context.global.quiet {
        let folder = folder.display();
        context.output.text(&format!(
            "The server is in {folder}. Start it with:\n\n  holdfast server run {folder}\n\n{next}"
        ));
    }
}

/// Port of the REST API by default.
const API_PORT: u16 = 1580;
/// Environment variable with the points at which threads are to panic, for tests of panics; see
/// [`sys::fault::plant`].
const FAULTS: &str = "HOLDFAST_FAULTS";

fn serve(folder: &Path, output: &mut Output) -> Result<u8, CommandError> {
    if let Ok(points) = std::env::var(FAULTS) {
        sys::fault::plant(&points);
    }
    sys::process::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::new(format!("cannot start threads: {error}")))?;
    let served = runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        // Signals are caught before anything is opened, so that each of them ends the server in an
        // orderly way.
        let signals = Signals::catch()?;
        tokio::spawn(stop_on_signal(signals, stop));
        let output = RefCell::new(output);
        let waits = || announce_waiting(&mut output.borrow_mut());
        let announcement = RefCell::new(None);
        let ready = |ready, api| {
            announcement.replace(servers::announce(folder));
            announce(ready, api, &mut output.borrow_mut());
        };
        let api = Cell::new(None);
        let beside =
            async |office| Box::pin(api::start(office, |address| api.set(Some(address)))).await;
        let ready = |readiness| ready(readiness, api.get());
        let run = server::run(folder, (waits, ready), beside, stopped);
        Box::pin(run).await.map_err(|error| CommandError::chain(&error))
    });
    runtime.shutdown_timeout(SHUTDOWN);
    served.map(|()| DONE)
}

async fn stop_on_signal(mut signals: Signals, stop: watch::Sender<bool>) {
    signals.next().await;
    tracing::info!("the server is stopping");
    notify(&[NotifyState::Stopping]);
    stop.send_replace(true);
    signals.end_at_once().await;
}

/// `server run --json`.
#[derive(Serialize)]
struct ReadyDocument {
    ready: String,
    /// Address of the REST API, if it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<String>,
}

/// `server run --json` while another program has exclusive use of the catalogue.
#[derive(Serialize)]
struct WaitingDocument {
    waits: bool,
}

/// Tells the service manager the state of the server. Without one there is nobody to tell.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be told the state of the server");
    }
}

fn announce_waiting(output: &mut Output) {
    notify(&[NotifyState::Status("waits: another program has exclusive use of the catalogue")]);
    if output.is_json() {
        output.json(&WaitingDocument { waits: true });
    } else if !output.quiet {
        output.text(
            "Another program has exclusive use of the catalogue: a move, or an older server. This \
             server waits until that program ends.",
        );
    }
    output.flush();
}

/// Tells the service manager that the server is ready, and writes the line by which scripts know
/// it.
fn announce(ready: Readiness, api: Option<SocketAddr>, output: &mut Output) {
    let ready = ready.address.to_string();
    let api = api.map(|address| address.to_string());
    notify(&[NotifyState::Ready, NotifyState::Status(&format!("ready on {ready}"))]);
    if output.is_json() {
        output.json(&ReadyDocument { ready, api });
    } else if !output.quiet {
        output.text(&format!("The server is ready on {ready}."));
        if let Some(api) = api {
            output.text(&format!("The REST API is ready on https://{api}."));
        }
    }
    output.flush();
}
