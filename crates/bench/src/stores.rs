//! `bench stores`: the same work with the catalogue and the packs in different places.
//!
//! ```text
//!   round:  each setting, one after the other:  new server and node -> first backup
//!             -> server again -> incremental x INCREMENTALS -> server again -> restore
//! ```
//!
//! The database and the object store are real. They share the processors and the disk of this
//! machine. A proxy in front of the store counts the requests, and delays each of them in one
//! setting. In three settings a relay between the server and the database counts the round trips,
//! and delays them in two. They are compared with each other, because the relay has its own cost.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::{Cluster, Garage, Proxy};
use serde_json::{Value, json};

use crate::arguments::number;
use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner};
use crate::relay::{Link, Relay};
use crate::servers::{NO_DATABASE, NO_STORE};
use crate::site::{Sample, Site};
use crate::spread::{Spread, float};
use crate::trouble::Trouble;
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// Time backups and a restore with the catalogue and the packs in different places
///
/// The catalogue is in SQLite or PostgreSQL, also in a PostgreSQL that is 1 ms and 10 ms away. The
/// packs are in a folder or in Garage, once with a delay of each request. '.ci/packages test' and
/// '.ci/garage' install PostgreSQL and Garage. Each round makes two copies of the tree in TMPDIR
/// for each of the seven settings, or of the five without Garage.
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
    /// Leave out the settings with the object store
    #[arg(long)]
    database_only: bool,
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
    /// PostgreSQL behind a relay that delays nothing.
    Relayed,
    Near,
    Far,
    Both,
    BothSlowly,
}

const SETTINGS: [Setting; 7] = [
    Setting::Embedded,
    Setting::Database,
    Setting::Relayed,
    Setting::Near,
    Setting::Far,
    Setting::Both,
    Setting::BothSlowly,
];

impl Setting {
    fn has_store(self) -> bool {
        matches!(self, Self::Both | Self::BothSlowly)
    }

    /// Returns the link to the database; `None` without a relay.
    fn link(self) -> Option<Link> {
        let away = |millis| Link { round_trip: Duration::from_millis(millis), ..Link::BARE };
        match self {
            Self::Relayed => Some(Link::BARE),
            Self::Near => Some(away(1)),
            Self::Far => Some(away(10)),
            Self::Embedded | Self::Database | Self::Both | Self::BothSlowly => None,
        }
    }

    fn text(self, delay: Duration) -> String {
        match self {
            Self::Embedded => "SQLite, folder".to_owned(),
            Self::Database => "PostgreSQL, folder".to_owned(),
            Self::Relayed => "PostgreSQL behind a relay, folder".to_owned(),
            Self::Near => "PostgreSQL 1 ms away, folder".to_owned(),
            Self::Far => "PostgreSQL 10 ms away, folder".to_owned(),
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
    /// Numbers of round trips to the database, in the first backup, in all incrementals, and in the
    /// restore; zeros without a relay.
    round_trips: [u64; 3],
    database_bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let rounds = args.rounds;
    let delay = Duration::from_millis(u64::try_from(args.delay).unwrap_or(0));
    let tree = workplace::resolve(&args.tree)?;
    let load_before = machine::load();
    let has_store = !args.database_only;
    let settings: Vec<Setting> = SETTINGS
        .into_iter()
        .filter(|setting| has_store || !setting.has_store())
        .collect();
    let workplace = Workplace::new(&tree)?;
    let tally = walk::walk(&tree)?;
    workplace.check_room(&tally, rounds * settings.len())?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    let cluster = Cluster::durable_with_address().ok_or_else(|| Trouble::new(NO_DATABASE))?;
    let mut turns: Vec<(Setting, Turn)> = Vec::new();
    for round in 1..=rounds {
        for &setting in &settings {
            output::step(&format!("round {round} of {rounds}: {}", setting.text(delay)));
            let folder = workplace.folder(&format!("round-{round}-{setting:?}"))?;
            let places = Places::new(&cluster, &folder, setting, delay)?;
            turns.push((setting, measure(&runner, &places, &folder, &tree)?));
        }
    }
    let loads = (load_before, machine::load());
    if args.json {
        return output::result(&document(&turns, &tally, delay, &loads).to_string());
    }
    output::result(&table(&settings, &turns, &tally, delay))
}

/// The catalogue and the pool of one server.
struct Places<'a> {
    cluster: &'a Cluster,
    /// Name of the database; `None` if the catalogue is in SQLite.
    database: Option<String>,
    relay: Option<Relay>,
    store: Option<(Garage, Proxy)>,
}

/// Requests and round trips so far.
#[derive(Clone, Copy)]
struct Counts {
    requests: u64,
    round_trips: u64,
}

impl<'a> Places<'a> {
    fn new(
        cluster: &'a Cluster,
        folder: &Path,
        setting: Setting,
        delay: Duration,
    ) -> Result<Self, Trouble> {
        let store = if setting.has_store() {
            let none = || Trouble::new(NO_STORE);
            let garage = Garage::start(&folder.join("garage")).ok_or_else(none)?;
            let proxy = Proxy::start(garage.port());
            if setting == Setting::BothSlowly {
                proxy.weather().delay(delay);
            }
            Some((garage, proxy))
        } else {
            None
        };
        let link = setting.link();
        let relay = link.map(|link| Relay::start(&cluster.address(), link)).transpose()?;
        let database = (setting != Setting::Embedded).then(|| cluster.add_database());
        Ok(Self { cluster, database, relay, store })
    }

    /// Returns the options of `server init`.
    fn options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        if let Some(database) = &self.database {
            let url = match &self.relay {
                Some(relay) => self.cluster.url_at(&relay.address(), database),
                None => self.cluster.url(database),
            };
            options.push("--catalog".into());
            options.push(url.into());
        }
        if let Some((garage, proxy)) = &self.store {
            options.push("--pool".into());
            options.push(garage.url_at(proxy.port(), "bench").into());
        }
        options
    }

    fn counts(&self) -> Counts {
        let requests = self.store.as_ref().map(|(_, proxy)| proxy.weather().requests());
        let traffic = self.relay.as_ref().map(Relay::traffic).unwrap_or_default();
        Counts { requests: requests.map_or(0, u64::from), round_trips: traffic.round_trips }
    }

    /// Returns the number of transactions of the database. PostgreSQL counts all transactions of a
    /// server only after the connections have ended.
    fn transactions(&self) -> u64 {
        let select = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
        self.ask(select)
    }

    fn database_bytes(&self) -> u64 {
        self.ask("SELECT pg_database_size(current_database())")
    }

    /// Returns a number from the database; 0 if there is no database.
    fn ask(&self, select: &str) -> u64 {
        let answer = self.database.as_ref().map(|database| self.cluster.sql(database, select));
        answer.and_then(|answer| answer.trim().parse().ok()).unwrap_or(0)
    }
}

fn measure(
    runner: &Runner,
    places: &Places<'_>,
    folder: &Path,
    tree: &Path,
) -> Result<Turn, Trouble> {
    let options = places.options();
    let options: Vec<&OsStr> = options.iter().map(OsString::as_os_str).collect();
    let site = Site::new(runner, folder.to_owned());
    let server = site.enrolled_with(&options)?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), tree.as_os_str()];
    let (before, transactions) = (places.counts(), places.transactions());
    let first = site.measured(&server, &backup)?;
    let counts = places.counts();
    let requests_first = counts.requests - before.requests;
    let trips_first = counts.round_trips - before.round_trips;
    server.stop()?;
    let transactions_first = places.transactions() - transactions;
    let server = site.serve()?;
    let before = places.counts();
    let mut incrementals = Vec::new();
    for _ in 0..INCREMENTALS {
        incrementals.push(site.measured(&server, &backup)?);
    }
    let trips_again = places.counts().round_trips - before.round_trips;
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
    let (before, transactions) = (places.counts(), places.transactions());
    let restore = site.measured(&server, &restore)?;
    let counts = places.counts();
    server.stop()?;
    Ok(Turn {
        first,
        incrementals,
        restore,
        requests: (requests_first, counts.requests - before.requests),
        transactions: (transactions_first, places.transactions() - transactions),
        round_trips: [trips_first, trips_again, counts.round_trips - before.round_trips],
        database_bytes: places.database_bytes(),
    })
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

/// Returns the cells about the database that may be away: the round trips for a thousand objects,
/// and the speed compared with a database behind the same relay without a delay. Each has the first
/// backup, an incremental and the restore.
fn away_cells(turns: &[(Setting, Turn)], setting: Setting, objects: f64) -> (String, String) {
    if setting.link().is_none() {
        return ("-".to_owned(), "-".to_owned());
    }
    let works = [1, INCREMENTALS, 1];
    let of: [fn(&Turn) -> Vec<&Sample>; 3] = [first, incrementals, restore];
    let trips = |work: usize| {
        let own = turns.iter().filter(|(other, _)| *other == setting);
        let times = float(u64::try_from(works[work]).unwrap_or(1));
        Spread::of(own.map(|(_, turn)| float(turn.round_trips[work]) * 1e3 / times / objects))
    };
    let speed = |work: usize| {
        let median = |setting| secs(turns, setting, of[work]).median;
        median(Setting::Relayed) / median(setting)
    };
    let trips = [0, 1, 2].map(|work| format!("{:.1}", trips(work).median)).join(", ");
    let speeds = [0, 1, 2].map(|work| format!("{:.2}", speed(work))).join(", ");
    (trips, speeds)
}

fn table(
    settings: &[Setting],
    turns: &[(Setting, Turn)],
    tally: &Tally,
    delay: Duration,
) -> String {
    let files = float(tally.objects);
    let mut text = format!(
        "{}. Seconds, and the ratio to SQLite and a folder in the same run.\n\n\
         | catalogue, packs | first backup | incremental | restore | server's memory, first backup \
         and restore | requests to the store in first backup and restore, for a million objects | \
         transactions of the database, for the same | database bytes/object | round trips to the \
         database in first backup, incremental and restore, for 1,000 objects | speed of the same, \
         without a delay = 1 |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        output::counted(tally.objects, "object")
    );
    for &setting in settings {
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
        let (trips, speeds) = away_cells(turns, setting, files);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} and {} MiB | {asked} | {transactions} | {stored} | {trips} | \
             {speeds} |",
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
            "round_trips_first": turn.round_trips[0],
            "round_trips_incrementals": turn.round_trips[1],
            "round_trips_restore": turn.round_trips[2],
            "database_bytes": turn.database_bytes,
        })
    };
    json!({
        "machine": Machine::read().document(before, after),
        "objects": tally.objects,
        "turns": turns.iter().map(turn).collect::<Vec<_>>(),
    })
}
