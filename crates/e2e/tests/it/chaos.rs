//! Servers, connections and sessions of the database die by chance while nodes back up.
//!
//! | variable | unless given | |
//! |---|---|---|
//! | `HOLDFAST_CHAOS_SEED` | the time | what dies, and when |
//! | `HOLDFAST_CHAOS_SECS` | 15 | for how long |
//! | `HOLDFAST_CHAOS_NODES` | 4 | how many back up |

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use e2e::clock::{now, pause};
use e2e::harness::{Node, Outcome, Proxy, Server};
use e2e::nasty::Random;

use crate::site::{Over, Site, audit, compare_rounds, run_rounds};

/// A number from the environment.
fn setting(name: &str, default: impl FnOnce() -> u64) -> u64 {
    std::env::var(name).map_or_else(|_| default(), |text| text.parse().expect("a number"))
}

fn seed() -> u64 {
    let seed =
        setting("HOLDFAST_CHAOS_SEED", || jiff::Timestamp::now().as_millisecond().unsigned_abs());
    eprintln!("HOLDFAST_CHAOS_SEED={seed}");
    seed
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It is killed, and started again soon.
    Killed(usize),
    /// A server that dies, and is away for longer than others wait for it.
    Dead(usize),
    /// Its nodes are cut off.
    NodesCut(usize),
    /// All are cut off from the store.
    StoreCut,
    /// One connection to the database is cut off, as chance has it.
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

/// Processes that die and come back.
struct Victims {
    site: Site<'static>,
    store: Proxy,
    servers: Vec<Server>,
    /// Proxies by which nodes reach the servers.
    doors: Vec<Proxy>,
    /// Until when they are away.
    away: Vec<Option<Instant>>,
    random: Random,
}

/// Checks the output of a server that ends by itself: it was held up, and others could not know.
fn assert_fenced(outcome: Outcome) {
    eprintln!("chaos: a server was held up");
    drop(outcome.says("take this one for dead"));
}

impl Victims {
    fn new(seed: u64) -> Option<Self> {
        let (mut site, store) = Site::proxied()?;
        let (second, third) = (site.join("second"), site.join("third"));
        let absent = Server::absent(site.scene.server.dir(), site.scene.server.port());
        let first = std::mem::replace(&mut site.scene.server, absent);
        let servers = vec![first, second, third];
        let doors = servers.iter().map(|server| Proxy::start(server.port())).collect();
        let away = vec![None; servers.len()];
        Some(Self { site, store, servers, doors, away, random: Random::new(seed, b"chaos") })
    }

    /// Nodes that know all servers, in different orders, with trees of their own.
    fn clients(&mut self, count: u64) -> Vec<(Node, PathBuf)> {
        let mut addresses: Vec<_> =
            self.doors.iter().map(|door| format!("127.0.0.1:{}", door.port())).collect();
        std::mem::swap(&mut self.site.scene.server, &mut self.servers[0]);
        let clients = (0..count).map(|number| {
            addresses.rotate_left(1);
            self.site.client(&format!("node-{number}"), &addresses.join(","))
        });
        let clients = clients.collect();
        std::mem::swap(&mut self.site.scene.server, &mut self.servers[0]);
        clients
    }

    fn millis(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(u64::from(from + self.random.below(to - from)))
    }

    /// One thing after the other, until `end`; then all servers run.
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
                eprintln!("chaos: {cut} connections");
            }
            Trouble::StoreCut => eprintln!("chaos: {} connections", self.store.weather().cut()),
            Trouble::SessionCut(number) => self.cut_session(number),
            Trouble::AllSessionsCut => self.site.cluster.cut_off(&self.site.database),
        }
    }

    /// One of them stays.
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
        let database = &self.site.database;
        self.site.cluster.sql(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = '{database}'
                 ORDER BY pid OFFSET {number} % greatest(
                   (SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'), 1) LIMIT 1"
            ),
        );
    }

    /// Starts those whose time it is, as a service manager does.
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

/// Everything that nodes were told is stored is there, whichever server dies.
#[test]
fn nothing_that_was_acknowledged_is_lost_whoever_dies() {
    let Some(mut victims) = Victims::new(seed()) else { return };
    let secs = setting("HOLDFAST_CHAOS_SECS", || 15);
    let clients = victims.clients(setting("HOLDFAST_CHAOS_NODES", || 4));
    let is_over = AtomicBool::new(false);
    let stored: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..)
            .zip(&clients)
            .map(|(number, (node, tree))| {
                let is_over = &is_over;
                scope.spawn(move || run_rounds(node, tree, number, is_over))
            })
            .collect();
        // Also where something fails here: nobody is waited for who would never end.
        let over = Over(&is_over);
        victims.trouble_until(now() + Duration::from_secs(secs));
        drop(over);
        running.into_iter().map(|node| node.join().expect("no panic")).collect()
    });
    eprintln!("chaos: {} backups", stored.iter().map(Vec::len).sum::<usize>());
    for ((node, tree), rounds) in clients.iter().zip(&stored) {
        assert!(!rounds.is_empty(), "{} got nothing stored", node.name);
        let out = victims.site.scene.scratch.folder(&format!("restored-{}", node.name));
        compare_rounds((node, tree), rounds, &out);
        std::fs::remove_dir_all(&out).unwrap();
    }
    audit(&victims.servers.iter().collect::<Vec<_>>());
}
