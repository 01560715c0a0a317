//! The measurements, in their order. See the drawing in `tree.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner};
use crate::site::{self, Sample, Site, StoredSizes};
use crate::trouble::Trouble;
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// Number of pairs of a bare walk and an incremental in a round.
pub(crate) const INCREMENTALS: usize = 5;

#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) first: Sample,
    pub(crate) stored: StoredSizes,
    /// Bare walks, each measured right before the incremental with the same index.
    pub(crate) walks: Vec<Sample>,
    pub(crate) incrementals: Vec<Sample>,
    pub(crate) restore: Sample,
}

#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) tree: PathBuf,
    pub(crate) tally: Tally,
    pub(crate) program: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    pub(crate) rounds: Vec<Round>,
}

/// Measures `tree` in `count` rounds.
pub(crate) fn measure(tree: &Path, count: usize) -> Result<Results, Trouble> {
    let program = process::find_program()?;
    let tree = workplace::resolve(tree)?;
    let load_before = machine::load();
    let workplace = Workplace::new(&tree)?;
    let tally = walk::walk(&tree)?;
    workplace.check_room(&tally, count)?;
    let runner = Runner::new(program.clone(), workplace.folder("outputs")?);
    let mut rounds = Vec::new();
    for number in 1..=count {
        output::step(&format!("round {number} of {count}"));
        let folder = workplace.folder(&format!("round-{number}"))?;
        rounds.push(round(&Site::new(&runner, folder), &tree)?);
    }
    let machine = Machine::read();
    let load_after = machine::load();
    Ok(Results { tree, tally, program, machine, load_before, load_after, rounds })
}

fn round(site: &Site<'_>, tree: &Path) -> Result<Round, Trouble> {
    let server = site.enrolled()?;
    output::step("first backup");
    let first = site.measured(&server, &["backup".as_ref(), tree.as_os_str()])?;
    server.stop()?;
    let stored = site.stored()?;
    let (walks, incrementals) = incrementals(site, tree)?;
    output::step("restore");
    let server = site.serve()?;
    let target = site.folder().join("restored");
    let restore: [&OsStr; 4] =
        ["restore".as_ref(), tree.as_os_str(), "--to".as_ref(), target.as_os_str()];
    let restore = site.measured(&server, &restore)?;
    server.stop()?;
    Ok(Round { first, stored, walks, incrementals, restore })
}

fn incrementals(site: &Site<'_>, tree: &Path) -> Result<(Vec<Sample>, Vec<Sample>), Trouble> {
    let server = site.serve()?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), tree.as_os_str()];
    output::step("incrementals");
    // This backup is not measured. It fills the caches of the server, which has just started.
    site.client(&backup)?;
    let (mut walks, mut incrementals) = (Vec::new(), Vec::new());
    for _ in 0..INCREMENTALS {
        walks.push(site::bare_walk(tree)?);
        incrementals.push(site.measured(&server, &backup)?);
    }
    server.stop()?;
    Ok((walks, incrementals))
}
