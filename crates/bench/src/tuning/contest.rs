//! The measurements of each setting, in their order. See the drawing in `tuning.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::settings::{SETTINGS, Setting};
use crate::machine;
use crate::output;
use crate::process::{self, Runner};
use crate::relay::{Link, Relay};
use crate::site::{Sample, Site};
use crate::trouble::{Context as _, Trouble};
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// Number of incrementals. Because they are short, only the fastest incremental counts.
const INCREMENTALS: usize = 3;

/// Figures of a setting in a round.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) first: Sample,
    /// Backup with `--full`, which reads everything and finds nothing new.
    pub(super) again: Sample,
    /// The fastest incremental with nothing changed.
    pub(super) nothing: Sample,
    pub(super) stored_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) tree: PathBuf,
    pub(super) tally: Tally,
    pub(super) link: Option<Link>,
    pub(super) load_before: String,
    pub(super) load_after: String,
    /// Figures of each round, in the order of the settings.
    pub(super) rounds: Vec<Vec<Trial>>,
}

pub(super) fn measure(
    tree: &Path,
    work: &Path,
    link: Option<Link>,
    count: usize,
) -> Result<Results, Trouble> {
    let tree = workplace::resolve(tree)?;
    let load_before = machine::load();
    let workplace = Workplace::below(work, &tree)?;
    let tally = walk::walk(&tree)?;
    let keeps = !workplace.is_memory()?;
    workplace.check_room(&tally, if keeps { count * SETTINGS.len() } else { 1 })?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    output::step("reading the tree once");
    walk::read_all(&tree)?;
    let mut rounds = Vec::new();
    for number in 0..count {
        let trial = |(at, setting): (usize, &Setting)| {
            output::step(&format!("round {} of {count}: {}", number + 1, setting.shown()));
            let folder = workplace.folder(&format!("round-{number}-{at}"))?;
            let trial = trial(&Site::new(&runner, folder.clone()), &tree, setting, link)?;
            if !keeps {
                workplace::remove(&folder)
                    .while_doing(|| format!("remove {}", folder.display()))?;
            }
            Ok(trial)
        };
        rounds.push(SETTINGS.iter().enumerate().map(trial).collect::<Result<_, Trouble>>()?);
    }
    Ok(Results { tree, tally, link, load_before, load_after: machine::load(), rounds })
}

fn trial(
    site: &Site<'_>,
    tree: &Path,
    setting: &Setting,
    link: Option<Link>,
) -> Result<Trial, Trouble> {
    let (server, address) = site.started()?;
    let relay = link.map(|link| Relay::start(&address, link)).transpose()?;
    site.enrol(&relay.as_ref().map_or(address, Relay::address))?;
    set(&site.home().join("client.toml"), setting)?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), tree.as_os_str()];
    let first = site.measured(&server, &backup)?;
    let full: [&OsStr; 3] = ["backup".as_ref(), "--full".as_ref(), tree.as_os_str()];
    let again = site.measured(&server, &full)?;
    let mut nothing: Vec<Sample> = (0..INCREMENTALS)
        .map(|_| site.measured(&server, &backup))
        .collect::<Result<_, _>>()?;
    nothing.sort_by_key(|sample| sample.wall);
    server.stop()?;
    let stored_bytes = site.stored()?.pool_bytes;
    Ok(Trial { first, again, nothing: nothing.swap_remove(0), stored_bytes })
}

fn set(path: &Path, setting: &Setting) -> Result<(), Trouble> {
    let config = std::fs::read_to_string(path);
    let config = config.while_doing(|| format!("read {}", path.display()))?;
    let set = std::fs::write(path, setting.added_to(&config));
    set.while_doing(|| format!("write {}", path.display()))
}
