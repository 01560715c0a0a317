//! `--cold`: bare walks and nothing-changed backups with empty caches of the kernel.

use std::ffi::OsStr;

use super::entrant::{Entrant, Role};
use super::turn::{PeerRun, Phase, Stage, Stop};
use crate::machine;
use crate::output;
use crate::site::{self, Sample, Site};
use crate::spread::Spread;
use crate::trouble::Trouble;
use crate::workplace::{self, Workplace};

/// Number of measured pairs of a walk and a backup.
const PAIRS: usize = 3;

/// Walks and backups with empty caches.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColdRun {
    /// Bare walks, each measured right before the backup of Holdfast with the same index.
    pub(crate) walks: Vec<Sample>,
    pub(crate) backups: Vec<Sample>,
    /// Name and backups of the peer that was fastest with warm caches.
    pub(crate) peer: Option<(String, Vec<Sample>)>,
}

impl ColdRun {
    pub(crate) fn walls(samples: &[Sample]) -> Spread {
        Spread::of(samples.iter().map(|sample| sample.wall.as_secs_f64()))
    }

    /// Returns the ratio of the time of each backup to the time of the walk before it.
    pub(crate) fn ratio(&self) -> Spread {
        let pairs = self.walks.iter().zip(&self.backups);
        Spread::of(pairs.map(|(walk, backup)| backup.wall.as_secs_f64() / walk.wall.as_secs_f64()))
    }
}

/// Fails if caches cannot be dropped.
pub(crate) fn check_allowed() -> Result<(), Trouble> {
    let message = "--cold must be run as root, because it drops the caches of the kernel";
    if sys::process::is_root() { Ok(()) } else { Err(Trouble::new(message)) }
}

/// Measures Holdfast, and the peer `fastest`, which is the fastest with warm caches.
pub(crate) fn measure(
    stage: &Stage<'_>,
    fastest: Option<&Entrant>,
    workplace: &Workplace,
) -> Result<ColdRun, Trouble> {
    let mut cold = ColdRun::default();
    output::step("cold: holdfast");
    let folder = workplace.folder("cold-holdfast")?;
    let site = Site::new(stage.runner, folder.clone());
    let server = site.enrolled()?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), stage.source.as_os_str()];
    site.client(&backup)?;
    for _ in 0..PAIRS {
        machine::drop_caches()?;
        cold.walks.push(site::bare_walk(stage.source)?);
        machine::drop_caches()?;
        cold.backups.push(site.measured(&server, &backup)?);
    }
    server.stop()?;
    workplace::clear(&folder, stage.in_memory)?;
    if let Some(Entrant { name, role: Role::Peer { recipe, program }, .. }) = fastest {
        output::step(&format!("cold: {name}"));
        let folder = workplace.folder(&format!("cold-{name}"))?;
        match peer(PeerRun::new(stage, (recipe, program), &folder)) {
            Ok(samples) => cold.peer = Some((name.clone(), samples)),
            Err(Stop::Failed(message)) => output::warning(&format!("{name}: {message}")),
            Err(Stop::Ended(trouble)) => return Err(trouble),
        }
        workplace::clear(&folder, stage.in_memory)?;
    }
    Ok(cold)
}

fn peer(peer_run: Result<PeerRun<'_>, Stop>) -> Result<Vec<Sample>, Stop> {
    let mut peer_run = peer_run?;
    peer_run.first()?;
    let mut samples = Vec::new();
    for _ in 0..PAIRS {
        machine::drop_caches()?;
        samples.push(peer_run.backup(Phase::Unchanged)?);
    }
    Ok(samples)
}
