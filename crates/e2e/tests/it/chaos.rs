//! Servers, connections and sessions of the database end at random while nodes back up.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `HOLDFAST_CHAOS_SEED` | the time | seed of the random choices |
//! | `HOLDFAST_CHAOS_SECS` | 15 | duration in seconds |
//! | `HOLDFAST_CHAOS_NODES` | 4 | number of nodes that back up |

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use e2e::clock::{now, pause};
use e2e::harness::{Node, Outcome, Proxy, Server};
use e2e::nasty::Random;

use crate::fleet::{Fleet, StopGuard, audit, compare_rounds, run_rounds};

/// Returns the number in the environment variable `name`; `None` if the variable is not set.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Returns the seed in the environment variable `name`, or a new one. Prints it.
pub(crate) fn seed(name: &str) -> u64 {
    let new = || jiff::Timestamp::now().as_millisecond().unsigned_abs();
    let seed = setting(name).unwrap_or_else(new);
    eprintln!("{name}={seed}");
    seed
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// A server is killed, and started again soon.
    Killed(usize),
    /// A server is killed, and stays down for longer than the other servers wait for it.
    Dead(usize),
    /// All nodes are cut off from one server.
    NodesCut(usize),
    /// All servers are cut off from the store.
    StoreCut,
    /// One connection to the database, chosen at random, is cut off.
    SessionCut(u32),
    AllSessionsCut,
}

impl Trouble {
    fn any(random: &mut Random, servers: usize) -> Self {
        let server = random.below(u32::try_from(servers).unwrap()) as usize;
        match random.below(6) {
            0 => Self::Killed(server),
            1 => Self::Dead(server),
            2 => Self::NodesCut(server),
            3 => Self::StoreCut,
            4 => Self::SessionCut(random.below(1000)),
            _ => Self::AllSessionsCut,
        }
    }
}

/// The fleet whose servers and connections the test ends and starts again.
struct Victims {
    fleet: Fleet<'static>,
    store: Proxy,
    servers: Vec<Server>,
    /// Proxies by which nodes reach the servers.
    doors: Vec<Proxy>,
    /// Time until which each server stays down; `None` for a server that is up.
    away: Vec<Option<Instant>>,
    random: Random,
}

/// Checks the output of a server that ended by itself: it must have been held up for so long that
/// the others regarded it as dead.
fn assert_fenced(outcome: Outcome) {
    eprintln!("chaos: a server was held up");
    drop(outcome.says("have declared this server dead"));
}

impl Victims {
    fn new(seed: u64) -> Option<Self> {
        let (mut fleet, store) = Fleet::proxied()?;
        let (second, third) = (fleet.join("second"), fleet.join("third"));
        let absent = Server::absent(fleet.scene.server.dir(), fleet.scene.server.port());
        let first = std::mem::replace(&mut fleet.scene.server, absent);
        let servers = vec![first, second, third];
        let doors = servers.iter().map(|server| Proxy::start(server.port())).collect();
        let away = vec![None; servers.len()];
        Some(Self { fleet, store, servers, doors, away, random: Random::new(seed, b"chaos") })
    }

    /// Makes nodes, each with its own tree. They know all servers, in different orders.
    fn clients(&mut self, count: u64) -> Vec<(Node, PathBuf)> {
        let mut addresses: Vec<_> =
            self.doors.iter().map(|door| format!("127.0.0.1:{}", door.port())).collect();
        std::mem::swap(&mut self.fleet.scene.server, &mut self.servers[0]);
        let clients = (0..count).map(|number| {
            addresses.rotate_left(1);
            self.fleet.client(&format!("node-{number}"), &addresses.join(","))
        });
        let clients = clients.collect();
        std::mem::swap(&mut self.fleet.scene.server, &mut self.servers[0]);
        clients
    }

    fn millis(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(u64::from(from + self.random.below(to - from)))
    }

    /// Makes one trouble after the other until `end`. Then starts all servers.
    fn trouble_until(&mut self, end: Instant) {
        while now() < end {
            let moment = self.millis(200, 2500);
            pause(moment);
            self.begin(now());
            let trouble = Trouble::any(&mut self.random, self.servers.len());
            eprintln!("chaos: {trouble:?}");
            self.put_through(trouble);
        }
        self.away.fill(Some(end));
        self.begin(now().max(end));
    }

    fn put_through(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Killed(server) => {
                let millis = self.millis(0, 2000);
                self.kill(server, millis);
            }
            Trouble::Dead(server) => {
                let millis = self.millis(16_000, 22_000);
                self.kill(server, millis);
            }
            Trouble::NodesCut(server) => {
                let cut = self.doors[server].weather().cut();
                eprintln!("chaos: connections cut: {cut}");
            }
            Trouble::StoreCut => {
                eprintln!("chaos: connections cut: {}", self.store.weather().cut());
            }
            Trouble::SessionCut(number) => self.cut_session(number),
            Trouble::AllSessionsCut => self.fleet.cluster.cut_off(&self.fleet.database),
        }
    }

    /// Kills the server `victim`, which then stays down for the time `away`. Does nothing if no
    /// other server would be left.
    fn kill(&mut self, victim: usize, away: Duration) {
        let others = (0..self.servers.len()).filter(|&server| server != victim);
        if self.away[victim].is_some() || others.clone().all(|server| self.away[server].is_some()) {
            return;
        }
        let outcome = self.servers[victim].kill9();
        if !outcome.was_killed() {
            assert_fenced(outcome);
        }
        self.away[victim] = Some(now() + away);
    }

    fn cut_session(&self, number: u32) {
        let database = &self.fleet.database;
        self.fleet.cluster.sql(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = '{database}'
                 ORDER BY pid OFFSET {number} % greatest(
                   (SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'), 1) LIMIT 1"
            ),
        );
    }

    /// Starts the servers that have been down long enough, as a service manager does.
    fn begin(&mut self, now: Instant) {
        for (server, away) in self.servers.iter_mut().zip(&mut self.away) {
            match away {
                Some(until) if *until <= now => *away = None,
                Some(_) => continue,
                None => {}
            }
            if !server.is_up() {
                *server = Server::start_at(server.dir(), server.port());
            }
        }
    }
}

/// Every acknowledged backup can be restored, whichever server dies.
#[test]
fn nothing_that_was_acknowledged_is_lost_whoever_dies() {
    let Some(mut victims) = Victims::new(seed("HOLDFAST_CHAOS_SEED")) else { return };
    let secs = setting("HOLDFAST_CHAOS_SECS").unwrap_or(15);
    let clients = victims.clients(setting("HOLDFAST_CHAOS_NODES").unwrap_or(4));
    let is_over = AtomicBool::new(false);
    let stored: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..)
            .zip(&clients)
            .map(|(number, (node, tree))| {
                let is_over = &is_over;
                scope.spawn(move || run_rounds(node, tree, number, is_over))
            })
            .collect();
        // The guard stops the nodes even if something fails here. Otherwise the test would wait for
        // them for ever.
        let over = StopGuard(&is_over);
        victims.trouble_until(now() + Duration::from_secs(secs));
        drop(over);
        running
            .into_iter()
            .map(|node| node.join().expect("the thread has not panicked"))
            .collect()
    });
    eprintln!("chaos: backups stored: {}", stored.iter().map(Vec::len).sum::<usize>());
    for ((node, tree), rounds) in clients.iter().zip(&stored) {
        assert!(!rounds.is_empty(), "{} stored nothing", node.name);
        let out = victims.fleet.scene.scratch.folder(&format!("restored-{}", node.name));
        compare_rounds((node, tree), rounds, &out);
        std::fs::remove_dir_all(&out).unwrap();
    }
    audit(&victims.servers.iter().collect::<Vec<_>>());
}
