//! `holdfast admin`: administration over the socket in the server's folder.

mod absence;
mod alert;
mod approval;
mod audit;
mod catalog;
mod domain;
mod enrolment_key;
mod event;
mod expire;
mod filespace;
mod key;
mod length;
mod library;
mod log;
mod node;
mod optionset;
mod policy;
mod polling;
mod pool;
mod queue;
mod reclaim;
mod recompression;
mod report;
mod request;
mod run;
mod schedule;
mod server_list;
mod tasks;
mod tend;
mod user;
mod volume;

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::ErrorKind;
use client::admin::{Admin, RemoteServer};

use super::stats;
use crate::context::Context;
use crate::error::CommandError;
use crate::servers;

pub(super) use self::request::{look_up, pages as ask_pages};

/// Heading of the options of the connection in help, as in the commands of a node.
const CONNECTION: &str = "Connection";

/// Administer a server: on this machine as root or its owner, elsewhere with a key
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin node add web-01
  holdfast admin --server /srv/holdfast node list")]
pub(crate) struct Args {
    /// The folder of the server, which must be running, except for 'catalog move', or the address
    /// of the API of a server elsewhere, as in https://backup.example.org:1580 [default:
    /// $HOLDFAST_SERVER; if it is not set, the only server that runs on this machine]
    #[arg(long, value_name = "DIR", global = true, help_heading = CONNECTION)]
    server: Option<PathBuf>,
    /// File with the key of a person, for a server elsewhere [default: the key in $HOLDFAST_KEY]
    #[arg(long, value_name = "FILE", global = true, help_heading = CONNECTION)]
    key_file: Option<PathBuf>,
    /// File with the certificate of the server's authority, its ca.pem, for a server elsewhere
    /// [default: the authorities that this machine trusts]
    #[arg(long, value_name = "FILE", global = true, help_heading = CONNECTION)]
    ca: Option<PathBuf>,
    /// Time for which the command waits until it has reached the server, as in 30s [default: 0];
    /// 'run' waits for a server that goes away later, too [default: 60m]
    #[arg(long, value_name = "LENGTH", value_parser = model::parse_length, global = true)]
    #[arg(help_heading = CONNECTION)]
    wait: Option<Duration>,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(clap::Subcommand, Debug)]
enum AdminCommand {
    Node(node::Args),
    Filespace(filespace::Args),
    User(user::Args),
    Key(key::Args),
    Api(request::Args),
    EnrolmentKey(enrolment_key::Args),
    Schedule(schedule::Args),
    Run(run::Args),
    Event(event::Args),
    Domain(domain::Args),
    Policy(policy::Args),
    Optionset(optionset::Args),
    Pool(pool::Args),
    Library(library::Args),
    Volume(volume::Args),
    Queue(queue::Args),
    Catalog(catalog::Args),
    Expire(expire::Args),
    Reclaim(reclaim::Args),
    Audit(audit::Args),
    Log(log::Args),
    Alert(alert::Args),
    Approval(approval::Args),
    Report(report::Args),
    Tasks(tasks::Args),
    Stats(stats::AdminArgs),
    Servers(server_list::Args),
}

/// Pause between two attempts to reach the server.
const PAUSE: Duration = Duration::from_millis(200);

/// Connects, and waits at most for the time `wait` until the server is there. An order that was
/// given is not given again after a loss of the connection.
pub(super) fn connect(folder: &Path, wait: Duration) -> Result<Admin, CommandError> {
    let began = sys::clock::monotonic();
    loop {
        match Admin::connect(folder, server::ADMIN_SOCKET) {
            Err(error) if error.kind == ErrorKind::Retry && began.elapsed() < wait => {
                sys::clock::sleep(PAUSE);
            }
            Err(error) if error.kind == ErrorKind::Retry && !servers::may_be_folder(folder) => {
                return Err(servers::no_server_in(folder));
            }
            connected => return Ok(connected?),
        }
    }
}

/// Environment variable with the key of a person.
const KEY: &str = "HOLDFAST_KEY";

/// Returns the server elsewhere that `place` is the address of.
fn remote(place: &Path, args: &Args) -> Result<Option<RemoteServer>, CommandError> {
    let Some(url) = place.to_str().filter(|text| text.contains("://")) else {
        return Ok(None);
    };
    let read = |file: &Path| {
        std::fs::read(file)
            .map_err(|error| CommandError::new(format!("cannot read {}: {error}", file.display())))
    };
    let key = match &args.key_file {
        Some(file) => Some(String::from_utf8_lossy(&read(file)?).trim().to_owned()),
        None => std::env::var(KEY).ok().filter(|key| !key.is_empty()),
    };
    let authorities_pem = args.ca.as_deref().map(read).transpose()?;
    Ok(Some(RemoteServer { url: url.to_owned(), key, authorities_pem }))
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let folder = servers::choose(args.server.clone())?;
    if let AdminCommand::Catalog(args) = &args.command
        && let Some(done) = catalog::without_server(args, &folder, context)
    {
        return done;
    }
    let mut admin = match remote(&folder, &args)? {
        Some(server) => Admin::connect_remote(&server)?,
        None => connect(&folder, args.wait.unwrap_or_default())?,
    };
    carry_out(args, &mut admin, context)
}

/// Runs a command over a connection that another command has made. The command must not be one that
/// works without a server.
pub(super) fn run_connected(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    carry_out(args, admin, context)
}

fn carry_out(args: Args, admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let wait = args.wait;
    match args.command {
        AdminCommand::Node(args) => node::run(args, admin, context),
        AdminCommand::Filespace(args) => filespace::run(args, admin, context),
        AdminCommand::User(args) => user::run(args, admin, context),
        AdminCommand::Key(args) => key::run(args, admin, context),
        AdminCommand::Api(args) => request::run(&args, admin, context),
        AdminCommand::EnrolmentKey(args) => enrolment_key::run(args, admin, context),
        AdminCommand::Schedule(args) => schedule::run(args, admin, context),
        AdminCommand::Run(args) => run::run(args, wait, admin, context),
        AdminCommand::Event(args) => event::run(args, admin, context),
        AdminCommand::Domain(args) => domain::run(args, admin, context),
        AdminCommand::Policy(args) => policy::run(args, admin, context),
        AdminCommand::Optionset(args) => optionset::run(args, admin, context),
        AdminCommand::Pool(args) => pool::run(args, admin, context),
        AdminCommand::Library(args) => library::run(args, admin, context),
        AdminCommand::Volume(args) => volume::run(args, admin, context),
        AdminCommand::Queue(args) => queue::run(&args, admin, context),
        AdminCommand::Catalog(args) => catalog::run(&args, admin, context),
        AdminCommand::Expire(args) => expire::run(&args, admin, context),
        AdminCommand::Audit(args) => audit::run(&args, admin, context),
        AdminCommand::Reclaim(args) => reclaim::run(&args, admin, context),
        AdminCommand::Log(args) => log::run(args, admin, context),
        AdminCommand::Alert(args) => alert::run(args, admin, context),
        AdminCommand::Approval(args) => approval::run(args, admin, context),
        AdminCommand::Report(args) => report::run(&args, admin, context),
        AdminCommand::Tasks(args) => tasks::run(&args, admin, context),
        AdminCommand::Stats(args) => stats::of_nodes(&args, admin, context),
        AdminCommand::Servers(server_list::Args {}) => server_list::run(admin, context),
    }
}
