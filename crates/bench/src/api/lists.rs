//! Requests of lists by curl, and their times.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use e2e::harness::api::Caller;
use model::ServerTime;

use super::fill::{self, Extent};
use crate::process::check_interrupted;
use crate::random::Random;
use crate::trouble::{Context as _, Trouble};

/// Number of requests of one caller in a second. The server allows 40.
const RATE: usize = 35;
/// Number of pages of a list that are looked at for cursors.
const PAGES: usize = 20;
/// Number of requests of readers beside a backup, which is ended before.
const READER_REQUESTS: usize = 20_000;

/// Name of the node that has objects.
pub(super) const BROWSED: &str = "browsed";

/// The lists, with an example of a request for each; NODE is replaced by the name of a node,
/// BROWSED by that of the node with objects, and FILESPACE and FOLDER by those of its tree.
const LISTS: [(&str, &str); 54] = [
    ("nodes", "/v1/nodes"),
    ("nodes, pages of 1000", "/v1/nodes?limit=1000"),
    ("nodes by a word", "/v1/nodes?search=NODE"),
    ("nodes by host name", "/v1/nodes?hostname=NODE.example.org"),
    ("nodes by owner", "/v1/nodes?owner=root"),
    ("nodes by last backup", "/v1/nodes?sort=last-backup"),
    ("nodes by time of registration", "/v1/nodes?sort=registered&descending=true"),
    ("events", "/v1/events"),
    ("events, pages of 1000", "/v1/events?limit=1000"),
    ("events with reports", "/v1/events?reports=true"),
    ("events of a node", "/v1/events?node=NODE"),
    ("events of a schedule", "/v1/events?schedule=SCHEDULE"),
    ("events that failed", "/v1/events?state=failed"),
    ("events under way", "/v1/events?state=started,in-progress,restarted"),
    ("events that failed in a time", "/v1/events?state=failed&from=FROM&to=TO"),
    ("events of a time", "/v1/events?from=FROM&to=TO"),
    ("events of the server", "/v1/events?place=server"),
    ("nights", "/v1/nights"),
    ("risks", "/v1/risks"),
    ("log", "/v1/log"),
    ("log by node", "/v1/log?node=NODE"),
    ("log by text", "/v1/log?text=nowhere"),
    ("sessions", "/v1/sessions"),
    ("backups of a node", "/v1/nodes/NODE/backups"),
    ("series of a node", "/v1/nodes/NODE/series"),
    ("filespaces of a node", "/v1/nodes/NODE/filespaces"),
    ("schedules of a node", "/v1/nodes/NODE/schedules"),
    ("baselines of a node", "/v1/nodes/NODE/baselines"),
    ("schedules", "/v1/schedules"),
    ("domains", "/v1/domains"),
    ("users", "/v1/users"),
    ("keys", "/v1/keys"),
    ("option sets", "/v1/option-sets"),
    ("enrolment keys", "/v1/enrolment-keys"),
    ("tasks", "/v1/tasks"),
    ("pools", "/v1/pools"),
    ("alerts", "/v1/alerts"),
    ("restores", "/v1/restores"),
    ("restores of a node", "/v1/restores?node=NODE"),
    ("archives of a node", "/v1/nodes/NODE/archives"),
    ("policies of a node", "/v1/nodes/NODE/policies"),
    ("settings of a node", "/v1/nodes/NODE/settings"),
    ("occupancy of a node", "/v1/nodes/BROWSED/occupancy"),
    ("versions in a folder", "/v1/nodes/BROWSED/versions?filespace=FILESPACE&path=FOLDER"),
    ("search in a node", "/v1/nodes/BROWSED/search?filespace=FILESPACE&pattern=/.../file-7"),
    ("growth", "/v1/growth"),
    ("platforms", "/v1/platforms"),
    ("applications", "/v1/applications"),
    ("servers", "/v1/servers"),
    ("approvals", "/v1/approvals"),
    ("libraries", "/v1/libraries"),
    ("volumes", "/v1/volumes"),
    ("recall queue", "/v1/recall-queue"),
    ("copies of the catalogue", "/v1/catalog-copies"),
];

/// Times of the requests of one list, in milliseconds, in ascending order.
pub(super) struct Times {
    pub(super) list: &'static str,
    pub(super) millis: Vec<f64>,
}

impl Times {
    /// Returns the time that `percent` of the requests did not exceed.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.millis.len() * percent).div_ceil(100).max(1);
        self.millis.get(rank - 1).copied().unwrap_or_default()
    }
}

/// All lists of a server.
pub(super) struct Lists<'a> {
    caller: &'a Caller,
    extent: Extent,
    /// Cursors of pages of nodes, and of events.
    cursors: (Vec<String>, Vec<String>),
    /// Filespace of the node that has objects, and a folder in it.
    browsed: (String, String),
}

/// Somebody who asks for lists all the time.
pub(super) struct Readers {
    curl: Child,
    _orders: tempfile::NamedTempFile,
}

impl<'a> Lists<'a> {
    /// The node [`BROWSED`] has backed up `tree`.
    pub(super) fn new(caller: &'a Caller, extent: Extent, tree: &Path) -> Self {
        let cursors = (cursors(caller, "/v1/nodes"), cursors(caller, "/v1/events"));
        Self { caller, extent, cursors, browsed: browsed(caller, tree) }
    }

    /// Asks for each list this number of times, in turns.
    pub(super) fn measure(&self, requests: usize) -> Result<Vec<Times>, Trouble> {
        let orders: Vec<_> = self.orders().take(requests * LISTS.len()).collect();
        let file = self.write(orders.iter().map(|(_, path)| path.as_str()))?;
        let output = self.curl(RATE, file.path()).output();
        let output = output.while_doing(|| "run curl".to_owned())?;
        check_interrupted()?;
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut all: Vec<Times> =
            LISTS.iter().map(|(list, _)| Times { list, millis: Vec::new() }).collect();
        let mut lines = lines.lines();
        for (list, path) in orders {
            let line = lines.next().unwrap_or_default();
            let Some(("200", secs)) = line.split_once(' ') else {
                return Err(Trouble::new(format!("{path} is answered with: {line}")));
            };
            let secs: f64 = secs.parse().while_doing(|| format!("read the time {secs}"))?;
            all[list].millis.push(secs * 1000.0);
        }
        all.iter_mut().for_each(|times| times.millis.sort_by(f64::total_cmp));
        Ok(all)
    }

    /// Returns requests without end, as the number of the list and the path.
    fn orders(&self) -> impl Iterator<Item = (usize, String)> {
        let mut random = Random::new(7);
        (0..).map(move |number| {
            let list = number % LISTS.len();
            (list, self.path(LISTS[list].1, &mut random))
        })
    }

    fn path(&self, example: &str, random: &mut Random) -> String {
        let mut below =
            |bound: usize| usize::try_from(random.below(bound.max(1) as u64)).unwrap_or_default();
        let days = i64::try_from(1 + below(fill::days(self.extent))).unwrap_or(1);
        let day = policy::review::day(ServerTime(sys::clock::now().0 - days * fill::DAY_MICROS));
        let path = example
            .replace("NODE", &fill::node_name(below(self.extent.nodes)))
            .replace("SCHEDULE", fill::SCHEDULE)
            .replace("FROM", &format!("{day}T00:00:00Z"))
            .replace("TO", &format!("{day}T23:59:59Z"))
            // Last, as the name of a folder may contain the words above.
            .replace("BROWSED", BROWSED)
            .replace("FILESPACE", &self.browsed.0)
            .replace("FOLDER", &self.browsed.1);
        // Each second request of the long lists is for a page in the middle.
        let cursors = match path.as_str() {
            "/v1/nodes" => &self.cursors.0,
            "/v1/events" => &self.cursors.1,
            _ => return path,
        };
        match cursors.get(below(2 * cursors.len())) {
            Some(cursor) => format!("{path}?cursor={cursor}"),
            None => path,
        }
    }

    /// Writes requests in the form of curl's configuration.
    fn write<'p>(
        &self,
        paths: impl Iterator<Item = &'p str>,
    ) -> Result<tempfile::NamedTempFile, Trouble> {
        let what = || "write the requests of curl".to_owned();
        let mut text = String::new();
        for path in paths {
            let url = self.caller.url();
            let _ = writeln!(text, "url = \"{url}{path}\"\noutput = \"/dev/null\"");
        }
        let mut file = tempfile::NamedTempFile::new().while_doing(what)?;
        file.write_all(text.as_bytes()).while_doing(what)?;
        Ok(file)
    }

    /// Returns a curl that makes the requests of `orders`, `rate` in a second. It writes the status
    /// and the seconds of each.
    fn curl(&self, rate: usize, orders: &Path) -> Command {
        let mut curl = self.caller.curl();
        curl.args(["--rate", &format!("{rate}/s")])
            .args(["--write-out", "%{http_code} %{time_total}\\n", "--config"])
            .arg(orders);
        curl
    }
}

/// Returns the cursors of the first pages of a list.
fn cursors(caller: &Caller, list: &str) -> Vec<String> {
    let mut cursors: Vec<String> = Vec::new();
    while cursors.len() < PAGES {
        let place = cursors.last().map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let page = caller.get(&format!("{list}?limit=1000{place}")).expect(200).json();
        match page["next"].as_str() {
            Some(next) => cursors.push(next.to_owned()),
            None => break,
        }
    }
    cursors
}

/// Returns the filespace of `tree` at the node that has backed it up, and a folder in it.
fn browsed(caller: &Caller, tree: &Path) -> (String, String) {
    let page = caller.get(&format!("/v1/nodes/{BROWSED}/filespaces")).expect(200).json();
    let filespace = page["items"][0]["name"].as_str().unwrap_or("/").to_owned();
    let folder = tree.join("000/000").display().to_string();
    let inside = folder
        .strip_prefix(filespace.trim_end_matches('/'))
        .unwrap_or(&folder)
        .to_owned();
    (filespace, inside)
}

impl Readers {
    /// Starts readers of all lists, in turns, with `rate` requests in a second.
    pub(super) fn start(lists: &Lists<'_>, rate: usize) -> Result<Self, Trouble> {
        let orders: Vec<_> = lists.orders().take(READER_REQUESTS).collect();
        let file = lists.write(orders.iter().map(|(_, path)| path.as_str()))?;
        let curl = lists.curl(rate, file.path()).stdout(Stdio::null()).spawn();
        Ok(Self { curl: curl.while_doing(|| "run curl".to_owned())?, _orders: file })
    }

    /// Ends the readers. Fails if they have ended by themselves: then they did not read all the
    /// time.
    pub(super) fn stop(mut self) -> Result<(), Trouble> {
        let what = || "end curl".to_owned();
        let ended = self.curl.try_wait().while_doing(what)?;
        self.curl.kill().while_doing(what)?;
        self.curl.wait().while_doing(what)?;
        let message = |status| Trouble::new(format!("curl ended before the backup: {status}"));
        ended.map_or(Ok(()), |status| Err(message(status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times = Times { list: "nodes", millis: (1..=200).map(f64::from).collect() };
        let figures = [50, 99, 100].map(|percent| times.percentile(percent));
        assert_eq!(figures.map(|figure| figure.round()), [100.0, 198.0, 200.0]);
    }
}
