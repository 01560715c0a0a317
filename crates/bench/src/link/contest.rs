//! The measurements over loopback and over the link, in their order. See the drawing in `link.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::machine;
use crate::output;
use crate::process::{self, Runner, Server};
use crate::relay::{Link, Relay, Traffic};
use crate::site::{Sample, Site};
use crate::trouble::Trouble;
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// Number of measured incrementals over each way in a round.
pub(super) const INCREMENTALS: usize = 3;

/// A way from the node to its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Loopback,
    Link,
}

impl Way {
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Link => "link",
        }
    }
}

/// Figures of one backup, with the traffic of the relay. Over loopback the traffic is 0.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) sample: Sample,
    pub(super) traffic: Traffic,
}

/// The backups over one way in a round.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) first: Backup,
    pub(super) incrementals: Vec<Backup>,
}

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) loopback: Leg,
    pub(super) link: Leg,
}

#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) tree: PathBuf,
    pub(super) tally: Tally,
    pub(super) link: Link,
    pub(super) load_before: String,
    pub(super) load_after: String,
    pub(super) rounds: Vec<Round>,
}

/// Measures `tree` in `count` rounds. All files are made in `work`.
pub(super) fn measure(
    tree: &Path,
    work: &Path,
    link: Link,
    count: usize,
) -> Result<Results, Trouble> {
    let tree = workplace::resolve(tree)?;
    let load_before = machine::load();
    let workplace = Workplace::below(work, &tree)?;
    let tally = walk::walk(&tree)?;
    workplace.check_room(&tally, count)?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    output::step("reading the tree once");
    walk::read_all(&tree)?;
    let mut rounds = Vec::new();
    for number in 0..count {
        output::step(&format!("round {} of {count}", number + 1));
        let over = |way: Way| {
            let folder = workplace.folder(&format!("round-{number}-{}", way.key()))?;
            leg(&Site::new(&runner, folder), &tree, way, link)
        };
        // The measurement of the first way changes the state of the machine for the second
        // measurement, so the order alternates.
        rounds.push(if number % 2 == 0 {
            let loopback = over(Way::Loopback)?;
            Round { loopback, link: over(Way::Link)? }
        } else {
            let link = over(Way::Link)?;
            Round { loopback: over(Way::Loopback)?, link }
        });
    }
    Ok(Results { tree, tally, link, load_before, load_after: machine::load(), rounds })
}

fn leg(site: &Site<'_>, tree: &Path, way: Way, link: Link) -> Result<Leg, Trouble> {
    let (server, address) = site.started()?;
    let relay = match way {
        Way::Loopback => None,
        Way::Link => Some(Relay::start(&address, link)?),
    };
    site.enrol(&relay.as_ref().map_or(address, Relay::address))?;
    output::step(&format!("first backup, {}", way.key()));
    let first = backup(site, &server, relay.as_ref(), tree)?;
    output::step(&format!("incrementals, {}", way.key()));
    // This backup is not measured. It fills the caches of the server after the first backup.
    site.client(&["backup".as_ref(), tree.as_os_str()])?;
    let mut incrementals = Vec::new();
    for _ in 0..INCREMENTALS {
        incrementals.push(backup(site, &server, relay.as_ref(), tree)?);
    }
    server.stop()?;
    Ok(Leg { first, incrementals })
}

fn backup(
    site: &Site<'_>,
    server: &Server,
    relay: Option<&Relay>,
    tree: &Path,
) -> Result<Backup, Trouble> {
    let traffic = || relay.map(Relay::traffic).unwrap_or_default();
    let before = traffic();
    let command: [&OsStr; 2] = ["backup".as_ref(), tree.as_os_str()];
    let sample = site.measured(server, &command)?;
    Ok(Backup { sample, traffic: traffic().since(before) })
}
