//! `bench stores`: the same work with the catalogue and the packs in different places.
//!
//! ```text
//!   round:  each setting, one after the other:  new server and node -> first backup
//!             -> server again -> incremental x INCREMENTALS -> server again -> restore
//! ```
//!
//! The database and the object store are real. They share the processors and the disk of this
//! machine. A proxy in front of the store counts the requests, and delays each of them in one
//! setting.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::{Cluster, Garage, Proxy};
use serde_json::{Value, json};

use crate::arguments::number;
use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner};
use crate::servers::{NO_DATABASE, NO_STORE};
use crate::site::{Sample, Site};
use crate::spread::{Spread, float};
use crate::trouble::Trouble;
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// Time backups and a restore with the catalogue and the packs in different places
///
/// The catalogue is in SQLite or PostgreSQL. The packs are in a folder or in Garage, once with a
/// delay of each request. '.ci/packages test' and '.ci/garage' install PostgreSQL and Garage. Each
/// round makes eight copies of the tree in TMPDIR.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Number of rounds, each with new servers
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Delay of each request to the slow store, in milliseconds
    #[arg(long, value_name = "MS")]
    #[arg(default_value_t = DELAY_DEFAULT, value_parser = number(1..=DELAY_MAX))]
    delay: usize,
    /// Write one JSON document with every sample
    #[arg(long)]
    json: bool,
}

const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;
const DELAY_DEFAULT: usize = 100;
const DELAY_MAX: usize = 10_000;
const INCREMENTALS: usize = 3;

/// The places of the catalogue and the packs of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setting {
    Embedded,
    Database,
    Both,
    BothSlowly,
}

const SETTINGS: [Setting; 4] =
    [Setting::Embedded, Setting::Database, Setting::Both, Setting::BothSlowly];

impl Setting {
    fn has_store(self) -> bool {
        matches!(self, Self::Both | Self::BothSlowly)
    }

    fn text(self, delay: Duration) -> String {
        match self {
            Self::Embedded => "SQLite, folder".to_owned(),
            Self::Database => "PostgreSQL, folder".to_owned(),
            Self::Both => "PostgreSQL, Garage".to_owned(),
            Self::BothSlowly => {
                format!("PostgreSQL, Garage with {} ms for each request", delay.as_millis())
            }
        }
    }
}

/// Measurements of one server with one setting.
struct Turn {
    first: Sample,
    incrementals: Vec<Sample>,
    restore: Sample,
    /// Numbers of requests to the object store, in the first backup and in the restore.
    requests: (u64, u64),
    /// Numbers of transactions of the database, in the first backup and in the restore.
    transactions: (u64, u64),
    database_bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let rounds = args.rounds;
    let delay = Duration::from_millis(u64::try_from(args.delay).unwrap_or(0));
    let tree = workplace::resolve(&args.tree)?;
    let load_before = machine::load();
    let workplace = Workplace::new(&tree)?;
    let tally = walk::walk(&tree)?;
    workplace.check_room(&tally, rounds * SETTINGS.len())?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    let cluster = Cluster::durable().ok_or_else(|| Trouble::new(NO_DATABASE))?;
    let mut turns: Vec<(Setting, Turn)> = Vec::new();
    for round in 1..=rounds {
        for setting in SETTINGS {
            output::step(&format!("round {round} of {rounds}: {}", setting.text(delay)));
            let folder = workplace.folder(&format!("round-{round}-{setting:?}"))?;
            turns.push((setting, measure((&runner, &cluster), &folder, &tree, (setting, delay))?));
        }
    }
    let loads = (load_before, machine::load());
    if args.json {
        return output::result(&document(&turns, &tally, delay, &loads).to_string());
    }
    output::result(&table(&turns, &tally, delay))
}

fn measure(
    (runner, cluster): (&Runner, &Cluster),
    folder: &Path,
    tree: &Path,
    (setting, delay): (Setting, Duration),
) -> Result<Turn, Trouble> {
    let none = || Trouble::new(NO_STORE);
    let store = if setting.has_store() {
        let garage = Garage::start(&folder.join("garage")).ok_or_else(none)?;
        let proxy = Proxy::start(garage.port());
        if setting == Setting::BothSlowly {
            proxy.weather().delay(delay);
        }
        Some((garage, proxy))
    } else {
        None
    };
    let requests = || store.as_ref().map_or(0, |(_, proxy)| u64::from(proxy.weather().requests()));
    let database = (setting != Setting::Embedded).then(|| cluster.add_database());
    // PostgreSQL counts all transactions of a server only after the connections have ended.
    let transactions = || {
        let select = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        let count = database.as_ref().map(|database| cluster.sql(database, select));
        count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let catalog = database.as_ref().map(|database| cluster.url(database));
    let pool = store.as_ref().map(|(garage, proxy)| garage.url_at(proxy.port(), "bench"));
    let mut options: Vec<&OsStr> = Vec::new();
    if let Some(catalog) = &catalog {
        options.extend(["--catalog".as_ref(), OsStr::new(catalog)]);
    }
    if let Some(pool) = &pool {
        options.extend(["--pool".as_ref(), OsStr::new(pool)]);
    }
    let site = Site::new(runner, folder.to_owned());
    let server = site.enrolled_with(&options)?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), tree.as_os_str()];
    let before = (requests(), transactions());
    let first = site.measured(&server, &backup)?;
    let requests_first = requests() - before.0;
    server.stop()?;
    let transactions_first = transactions() - before.1;
    let server = site.serve()?;
    let mut incrementals = Vec::new();
    for _ in 0..INCREMENTALS {
        incrementals.push(site.measured(&server, &backup)?);
    }
    server.stop()?;
    // The server keeps files of its buckets in its folder. The restore must not read them there.
    let kept = site.server().join("buckets");
    if kept.is_dir() {
        workplace::remove(&kept).map_err(|error| Trouble::new(error.to_string()))?;
    }
    let server = site.serve()?;
    let target = folder.join("restored");
    let restore: [&OsStr; 4] =
        ["restore".as_ref(), tree.as_os_str(), "--to".as_ref(), target.as_os_str()];
    let before = (requests(), transactions());
    let restore = site.measured(&server, &restore)?;
    let requests = (requests_first, requests() - before.0);
    server.stop()?;
    let transactions = (transactions_first, transactions() - before.1);
    let database_bytes = database.map_or(0, |database| {
        let bytes = cluster.sql(&database, "SELECT pg_database_size(current_database())");
        bytes.parse().unwrap_or(0)
    });
    Ok(Turn { first, incrementals, restore, requests, transactions, database_bytes })
}

/// Returns the spread of the times, in seconds, of the samples that `of` takes from each turn with
/// the setting.
fn secs<'a>(
    turns: &'a [(Setting, Turn)],
    setting: Setting,
    of: impl Fn(&'a Turn) -> Vec<&'a Sample>,
) -> Spread {
    let samples = turns.iter().filter(|(other, _)| *other == setting);
    Spread::of(samples.flat_map(|(_, turn)| of(turn)).map(|sample| sample.wall.as_secs_f64()))
}

fn first(turn: &Turn) -> Vec<&Sample> {
    vec![&turn.first]
}

fn incrementals(turn: &Turn) -> Vec<&Sample> {
    turn.incrementals.iter().collect()
}

fn restore(turn: &Turn) -> Vec<&Sample> {
    vec![&turn.restore]
}

fn table(turns: &[(Setting, Turn)], tally: &Tally, delay: Duration) -> String {
    let files = float(tally.objects);
    let mut text = format!(
        "{}. Seconds, and the ratio to SQLite and a folder in the same run.\n\n\
         | catalogue, packs | first backup | incremental | restore | server's memory, first backup \
         and restore | requests to the store in first backup and restore, for a million objects | \
         transactions of the database, for the same | database bytes/object |\n\
         |---|---|---|---|---|---|---|---|\n",
        output::counted(tally.objects, "object")
    );
    for setting in SETTINGS {
        let cell = |of: fn(&Turn) -> Vec<&Sample>| {
            let (own, base) = (secs(turns, setting, of), secs(turns, Setting::Embedded, of));
            let Spread { median, least, most } = own;
            format!("{median:.2} ({least:.2}-{most:.2}), {:.2} x", median / base.median)
        };
        let of_setting = || turns.iter().filter(|(other, _)| *other == setting);
        let memory = |of: fn(&Turn) -> &Sample| {
            let most = of_setting().map(|(_, turn)| of(turn).server_memory_bytes).max();
            most.unwrap_or(0) >> 20
        };
        let million = |requests: u64| float(requests) * 1e6 / files;
        let requests = |of: fn(&Turn) -> u64| {
            Spread::of(of_setting().map(|(_, turn)| million(of(turn)))).median
        };
        let bytes =
            Spread::of(of_setting().map(|(_, turn)| float(turn.database_bytes) / files)).median;
        let both = |is_there: bool, first: fn(&Turn) -> u64, restore: fn(&Turn) -> u64| {
            let both = || format!("{:.0} and {:.0}", requests(first), requests(restore));
            if is_there { both() } else { "-".to_owned() }
        };
        let asked = both(setting.has_store(), |t| t.requests.0, |t| t.requests.1);
        let of_database = setting != Setting::Embedded;
        let transactions = both(of_database, |t| t.transactions.0, |t| t.transactions.1);
        let stored = if bytes > 0.0 { format!("{bytes:.0}") } else { "-".to_owned() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} and {} MiB | {asked} | {transactions} | {stored} |",
            setting.text(delay),
            cell(first),
            cell(incrementals),
            cell(restore),
            memory(|turn| &turn.first),
            memory(|turn| &turn.restore),
        );
    }
    text
}

fn document(
    turns: &[(Setting, Turn)],
    tally: &Tally,
    delay: Duration,
    (before, after): &(String, String),
) -> Value {
    let turn = |(setting, turn): &(Setting, Turn)| {
        json!({
            "setting": setting.text(delay),
            "first": turn.first.json(),
            "incrementals": turn.incrementals.iter().map(Sample::json).collect::<Vec<_>>(),
            "restore": turn.restore.json(),
            "requests_first": turn.requests.0,
            "requests_restore": turn.requests.1,
            "transactions_first": turn.transactions.0,
            "transactions_restore": turn.transactions.1,
            "database_bytes": turn.database_bytes,
        })
    };
    json!({
        "machine": Machine::read().document(before, after),
        "objects": tally.objects,
        "turns": turns.iter().map(turn).collect::<Vec<_>>(),
    })
}
