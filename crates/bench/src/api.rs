//! `bench api`: how long the lists of the REST API take with many nodes and events, and what their
//! readers cost a backup that runs meanwhile.
//!
//! ```text
//!   for each database:  new server -> fill its catalogue while it is stopped -> start it
//!     -> a backup of the node whose objects are listed -> each list many times, in turns
//!     round:  a first backup alone, a first backup beside readers
//! ```
//!
//! One curl asks for everything over one connection, so that a time is that of a request alone,
//! measured by the caller. Server, database and callers share the machine.

mod fill;
mod lists;
mod text;

use std::path::Path;
use std::time::Duration;

use e2e::harness::{Cluster, Node, Server, api};

use crate::arguments::{PageArgs, number};
use crate::machine;
use crate::output;
use crate::page;
use crate::servers::{NO_DATABASE, plant};
use crate::trouble::Trouble;
use crate::workplace::Workplace;
use fill::Extent;
use lists::{BROWSED, Lists, Readers, Times};

/// Measure the lists of the REST API with many nodes and events, and a backup beside their readers
///
/// Fills the catalogues of two servers, one in SQLite and one in PostgreSQL, which
/// '.ci/packages test' installs. HOLDFAST_BIN names the measured program.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of registered nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 10_000, value_parser = number(10..=100_000))]
    nodes: usize,
    /// Number of events of schedules, spread over the nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 1_000_000, value_parser = number(1000..=10_000_000))]
    events: usize,
    /// Number of requests of each list
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 200, value_parser = number(10..=10_000))]
    requests: usize,
    /// Number of objects of a backup
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 100_000, value_parser = number(1000..=10_000_000))]
    objects: usize,
    /// Number of rounds, each with one backup alone and one beside readers
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 15, value_parser = number(1..=100))]
    rounds: usize,
    /// Number of requests of the readers in a second, beside a backup
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = 4, value_parser = number(1..=40))]
    readers: usize,
    #[command(flatten)]
    page: PageArgs,
}

/// Database of a catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Database {
    Sqlite,
    Postgres,
}

impl Database {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// Figures with one database.
struct Results {
    database: Database,
    lists: Vec<Times>,
    /// Times of backups alone, and beside readers; one pair for each round.
    backups: Vec<(Duration, Duration)>,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let load_before = machine::load();
    let workplace = Workplace::new(Path::new("/nowhere"))?;
    let tree = workplace.folder("tree")?;
    plant(&tree, args.objects)?;
    let cluster = Cluster::durable().ok_or_else(|| Trouble::new(NO_DATABASE))?;
    let mut results = Vec::new();
    for database in [Database::Sqlite, Database::Postgres] {
        let folder = workplace.folder(database.name())?;
        results.push(measure(args, database, &cluster, (&folder, &tree))?);
    }
    let loads = (load_before, machine::load());
    let text = text::page(args, &results);
    page::write(&args.page.out, "api.md", &text)?;
    let document = || text::document(args, &results, &loads).to_string();
    output::result(&if args.page.json { document() } else { text })
}

fn measure(
    args: &Args,
    database: Database,
    cluster: &Cluster,
    (folder, tree): (&Path, &Path),
) -> Result<Results, Trouble> {
    let step = |text: &str| output::step(&format!("{}: {text}", database.name()));
    let url = (database == Database::Postgres).then(|| cluster.url(&cluster.add_database()));
    let options: Vec<&str> = url.iter().flat_map(|url| ["--catalog", url.as_str()]).collect();
    let (mut server, stranger) = api::start_with(&folder.join("server"), &options);
    let key = key(&server, folder)?;
    let define = "schedule define nightly --action incremental --object /srv --time 22:00";
    server.admin(&define.split(' ').collect::<Vec<_>>());
    server.terminate().expect(&[0]);
    step("filling the catalogue");
    let extent = Extent { nodes: args.nodes, events: args.events };
    match &url {
        Some(url) => fill::postgres(url, extent)?,
        None => fill::sqlite(&folder.join("server/catalog.sqlite"), extent)?,
    }
    server.restart();
    backup(&server, BROWSED, tree);
    step("asking for lists");
    let caller = stranger.with_key(&key);
    let lists = Lists::new(&caller, extent, tree);
    let times = lists.measure(args.requests)?;
    let mut backups = Vec::new();
    for round in 0..args.rounds {
        step(&format!("backups of round {} of {}", round + 1, args.rounds));
        let alone = backup(&server, &format!("alone-{round}"), tree);
        let readers = Readers::start(&lists, args.readers)?;
        let beside = backup(&server, &format!("beside-{round}"), tree);
        readers.stop()?;
        backups.push((alone, beside));
    }
    server.terminate().expect(&[0]);
    Ok(Results { database, lists: times, backups })
}

/// Adds a person who may read everything. Returns the token of a key of that person.
fn key(server: &Server, folder: &Path) -> Result<String, Trouble> {
    let file = folder.join("password");
    let write = std::fs::write(&file, "correct horse battery");
    write.map_err(|error| Trouble::new(format!("cannot write {}: {error}", file.display())))?;
    let file = file.display().to_string();
    server.admin(&["user", "add", "root", "--role", "system", "--password-file", &file]);
    let key = server.admin(&["key", "add", "--user", "root", "--kind", "full"]);
    let token = key["token"].as_str().map(str::to_owned);
    token.ok_or_else(|| Trouble::new("the server gave a key without a token"))
}

/// Enrols the node `name` and returns the time of its first backup of `tree`.
fn backup(server: &Server, name: &str, tree: &Path) -> Duration {
    let node = Node::enrol(server, name);
    let began = sys::clock::monotonic();
    node.backup(tree, &[]).expect(&[0]);
    began.elapsed()
}
