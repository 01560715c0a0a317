//! `--cold`: a bare walk and nothing-changed backups that find nothing in the caches.

use std::ffi::OsStr;

use super::entrant::{Entrant, Role};
use super::turn::{Phase, Play, Stage, Stop};
use crate::output;
use crate::process;
use crate::site::{self, Sample, Site};
use crate::spread::Spread;
use crate::trouble::{Trouble, While as _};
use crate::workplace::{self, Workplace};

/// Number of measurements of a walk and of a backup.
const PAIRS: usize = 3;

const DROP: &str = "/proc/sys/vm/drop_caches";

#[derive(Clone, Debug, Default)]
pub(crate) struct Cold {
    /// Walks, each right before the backup of the same index.
    pub(crate) walks: Vec<Sample>,
    pub(crate) backups: Vec<Sample>,
    /// The peer that was fastest with warm caches.
    pub(crate) peer: Option<(String, Vec<Sample>)>,
}

impl Cold {
    pub(crate) fn walls(samples: &[Sample]) -> Spread {
        Spread::of(samples.iter().map(|sample| sample.wall.as_secs_f64()))
    }

    /// Returns the ratio of the backup's time to that of the bare walk, pair by pair.
    pub(crate) fn ratio(&self) -> Spread {
        let pairs = self.walks.iter().zip(&self.backups);
        Spread::of(pairs.map(|(walk, backup)| backup.wall.as_secs_f64() / walk.wall.as_secs_f64()))
    }
}

/// Fails if caches cannot be dropped.
pub(crate) fn check_allowed() -> Result<(), Trouble> {
    let message = "--cold drops the caches of the machine, which only root may do";
    if sys::process::is_root() { Ok(()) } else { Err(Trouble::new(message)) }
}

/// Measures Holdfast, and `fastest`, the peer that is fastest with warm caches.
pub(crate) fn measure(
    stage: &Stage<'_>,
    fastest: Option<&Entrant>,
    workplace: &Workplace,
) -> Result<Cold, Trouble> {
    let mut cold = Cold::default();
    output::step("cold: holdfast");
    let folder = workplace.folder("cold-holdfast")?;
    let site = Site::new(stage.runner, folder.clone());
    let server = site.enrolled()?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), stage.source.as_os_str()];
    site.client(&backup)?;
    for _ in 0..PAIRS {
        drop_caches()?;
        cold.walks.push(site::bare_walk(stage.source)?);
        drop_caches()?;
        cold.backups.push(site.measured(&server, &backup)?);
    }
    server.stop()?;
    workplace::clear(&folder, stage.in_memory)?;
    if let Some(Entrant { name, role: Role::Peer { recipe, program }, .. }) = fastest {
        output::step(&format!("cold: {name}"));
        let folder = workplace.folder(&format!("cold-{name}"))?;
        match peer(Play::new(stage, (recipe, program), &folder)) {
            Ok(samples) => cold.peer = Some((name.clone(), samples)),
            Err(Stop::Failed(message)) => output::warning(&format!("{name}: {message}")),
            Err(Stop::Ended(trouble)) => return Err(trouble),
        }
        workplace::clear(&folder, stage.in_memory)?;
    }
    Ok(cold)
}

fn peer(play: Result<Play<'_>, Stop>) -> Result<Vec<Sample>, Stop> {
    let mut play = play?;
    play.first()?;
    let mut samples = Vec::new();
    for _ in 0..PAIRS {
        drop_caches()?;
        samples.push(play.backup(Phase::Unchanged)?);
    }
    Ok(samples)
}

fn drop_caches() -> Result<(), Trouble> {
    process::check_interrupted()?;
    // The kernel drops only pages that have been written to the disk.
    rustix::fs::sync();
    std::fs::write(DROP, "3\n").while_doing(|| format!("drop the caches by {DROP}"))
}
