//! `holdfast admin`: administration over the socket in the server's folder.

mod alert;
mod audit;
mod catalog;
mod domain;
mod enrolment_key;
mod event;
mod expire;
mod key;
mod library;
mod log;
mod node;
mod optionset;
mod policy;
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
use client::admin::Admin;

use super::stats;
use crate::context::Context;
use crate::error::CommandError;
use crate::servers;

/// Administer a server on this machine, as root or its owner
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin node add web-01
  holdfast admin --server /srv/holdfast node list")]
pub(crate) struct Args {
    /// The folder of the server, which must be running, except for 'catalog move' [default:
    /// $HOLDFAST_SERVER; if it is not set, the only server that runs on this machine]
    #[arg(long, value_name = "DIR", global = true)]
    server: Option<PathBuf>,
    /// Time for which the command waits until it has reached the server, as in 30s
    #[arg(long, value_name = "LENGTH", value_parser = model::parse_length, global = true)]
    #[arg(default_value = "0")]
    wait: Duration,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(clap::Subcommand, Debug)]
enum AdminCommand {
    Node(node::Args),
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
    Report(report::Args),
    Tasks(tasks::Args),
    Stats(stats::AdminArgs),
    Servers(server_list::Args),
}

/// Pause between two attempts to reach the server.
const PAUSE: Duration = Duration::from_millis(200);

/// Connects, and waits at most for the time `wait` until the server is there. A connection that is
/// lost later is not made again, because an order must not be given twice.
fn connect(folder: &Path, wait: Duration) -> Result<Admin, CommandError> {
    let began = sys::clock::monotonic();
    loop {
        match Admin::connect(folder, server::ADMIN_SOCKET) {
            Err(error) if error.kind == ErrorKind::Retry && began.elapsed() < wait => {
                sys::clock::sleep(PAUSE);
            }
            connected => return Ok(connected?),
        }
    }
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let folder = servers::choose(args.server)?;
    if let AdminCommand::Catalog(args) = &args.command
        && let Some(done) = catalog::without_server(args, &folder, context)
    {
        return done;
    }
    let mut admin = connect(&folder, args.wait)?;
    match args.command {
        AdminCommand::Node(args) => node::run(args, &mut admin, context),
        AdminCommand::Schedule(args) => schedule::run(args, &mut admin, context),
        AdminCommand::Run(args) => run::run(args, &mut admin, context),
        AdminCommand::Event(args) => event::run(args, &mut admin, context),
        AdminCommand::Domain(args) => domain::run(args, &mut admin, context),
        AdminCommand::Policy(args) => policy::run(args, &mut admin, context),
        AdminCommand::Optionset(args) => optionset::run(args, &mut admin, context),
        AdminCommand::Pool(args) => pool::run(args, &mut admin, context),
        AdminCommand::Library(args) => library::run(args, &mut admin, context),
        AdminCommand::Volume(args) => volume::run(args, &mut admin, context),
        AdminCommand::Queue(args) => queue::run(&args, &mut admin, context),
        AdminCommand::Catalog(args) => catalog::run(&args, &mut admin, context),
        AdminCommand::Expire(args) => expire::run(&args, &mut admin, context),
        AdminCommand::Audit(args) => audit::run(&args, &mut admin, context),
        AdminCommand::Reclaim(args) => reclaim::run(&args, &mut admin, context),
        AdminCommand::Log(args) => log::run(args, &mut admin, context),
        AdminCommand::Tasks(args) => tasks::run(&args, &mut admin, context),
        AdminCommand::Stats(args) => stats::of_nodes(&args, &mut admin, context),
        AdminCommand::Servers(server_list::Args {}) => server_list::run(&mut admin, context),
    }
}
