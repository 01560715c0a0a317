//! The measurements, in their order. See the drawing in `expiry.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::past;
use super::space::{self, RandomFiles, Reclamation};
use crate::machine;
use crate::output;
use crate::process::{self, Outcome, Runner, Server};
use crate::site::{Sample, Site};
use crate::trouble::{Context as _, Trouble};
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// Number of backups of the tree while nothing else is running.
const BACKUPS: usize = 3;
/// Names of the nodes whose inactive versions are written into the catalogue.
const PAST_NODES: [&str; 2] = ["past-1", "past-2"];

/// Figures of one copy of the catalogue to the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CatalogCopy {
    pub(super) wall: Duration,
    pub(super) bytes: u64,
    pub(super) bytes_new: u64,
}

/// Figures of one run of expiration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) wall: Duration,
    pub(super) examined: u64,
    pub(super) expired: u64,
    pub(super) expired_bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) tree: PathBuf,
    pub(super) tally: Tally,
    pub(super) versions: usize,
    pub(super) catalog_bytes: u64,
    pub(super) counted: Run,
    pub(super) alone: Run,
    pub(super) beside: Run,
    pub(super) backups_alone: Vec<Sample>,
    pub(super) backups_beside: Vec<Sample>,
    pub(super) reclaimed: Reclamation,
    pub(super) reclaimed_beside: Reclamation,
    pub(super) backups_beside_reclaim: Vec<Sample>,
    /// Three copies of the catalogue: the first, one after an incremental without changes, and one
    /// after a full backup.
    pub(super) copies: [CatalogCopy; 3],
    /// Peak memory of the server until reclamation began. The next field has the peak of the whole
    /// run.
    pub(super) expiry_memory_bytes: u64,
    pub(super) server_memory_bytes: u64,
    pub(super) load_before: String,
    pub(super) load_after: String,
}

pub(super) fn measure(tree: &Path, work: &Path, versions: usize) -> Result<Results, Trouble> {
    let tree = workplace::resolve(tree)?;
    let load_before = machine::load();
    let workplace = Workplace::below(work, &tree)?;
    let tally = walk::walk(&tree)?;
    workplace.check_room(&tally, 1)?;
    let outputs = [workplace.folder("outputs")?, workplace.folder("outputs-beside")?];
    let runner = Runner::new(process::find_program()?, outputs[0].clone());
    let site = Site::new(&runner, workplace.folder("site")?);
    let server = site.enrolled()?;
    for node in PAST_NODES {
        site.token(node)?;
    }
    output::step("first backup of the tree");
    site.client(&["backup".as_ref(), tree.as_os_str()])?;
    server.stop()?;
    expire_on_demand(&site.server().join("server.toml"))?;
    let directories = past::directories(versions / PAST_NODES.len());
    let catalog = site.server().join("catalog.sqlite");
    for node in PAST_NODES {
        output::step(&format!("writing inactive versions of {node}"));
        past::write(&catalog, node, directories)?;
    }
    let catalog_bytes = site.stored()?.catalog_bytes;
    let server = site.serve()?;
    output::step("backups alone");
    let mut backups_alone = Vec::new();
    for _ in 0..BACKUPS {
        backups_alone.push(back_up(&site, &server, &tree)?);
    }
    output::step("expiration alone");
    let [first, second] = PAST_NODES;
    let counted = expire(&runner, &site, first, &["--dry-run", "--all"])?;
    let alone = expire(&runner, &site, first, &[])?;
    output::step("expiration during backups");
    let other = Runner::new(process::find_program()?, outputs[1].clone());
    let expire_second = || expire(&other, &site, second, &[]);
    let (expired_beside, backups_beside) = beside(&site, &server, &tree, expire_second)?;
    let expiry_memory_bytes = machine::peak_memory_of(server.pid())?;
    output::step("writing random files");
    let mut random_files = RandomFiles::new(&runner, &site, &workplace.folder("data")?)?;
    random_files.half_dies(&runner)?;
    output::step("reclamation alone");
    let reclaimed = space::reclaim(&runner, &site)?;
    random_files.half_dies(&runner)?;
    output::step("reclamation during backups");
    let reclaim = || space::reclaim(&other, &site);
    let (reclaimed_beside, backups_beside_reclaim) = beside(&site, &server, &tree, reclaim)?;
    let copies = copies(&runner, &site, &server, &tree)?;
    let server_memory_bytes = machine::peak_memory_of(server.pid())?;
    server.stop()?;
    Ok(Results {
        tree,
        tally,
        versions: past::versions(directories).0 * PAST_NODES.len(),
        catalog_bytes,
        counted,
        alone,
        beside: expired_beside,
        reclaimed,
        reclaimed_beside,
        backups_alone,
        backups_beside,
        backups_beside_reclaim,
        copies,
        expiry_memory_bytes,
        server_memory_bytes,
        load_before,
        load_after: machine::load(),
    })
}

/// Changes the configuration so that the server expires, reclaims and copies its catalogue only on
/// command.
fn expire_on_demand(config: &Path) -> Result<(), Trouble> {
    const KEYS: [&str; 2] = ["expire_every_hours", "catalog_copy_hours"];
    let what = || format!("change {}", config.display());
    let text = std::fs::read_to_string(config).while_doing(what)?;
    let is_other = |line: &&str| !KEYS.iter().any(|key| line.starts_with(key));
    let others: String = text.split_inclusive('\n').filter(is_other).collect();
    let own: String = KEYS.iter().map(|key| format!("{key} = 0\n")).collect();
    std::fs::write(config, own + &others).while_doing(what)
}

fn copies(
    runner: &Runner,
    site: &Site<'_>,
    server: &Server,
    tree: &Path,
) -> Result<[CatalogCopy; 3], Trouble> {
    output::step("copies of the catalogue");
    let first = copy_catalog(runner, site)?;
    site.client(&["backup".as_ref(), tree.as_os_str()])?;
    let second = copy_catalog(runner, site)?;
    back_up(site, server, tree)?;
    Ok([first, second, copy_catalog(runner, site)?])
}

fn copy_catalog(runner: &Runner, site: &Site<'_>) -> Result<CatalogCopy, Trouble> {
    let words = ["catalog", "backup"].map(OsStr::new);
    let Outcome { wall, report, .. } = space::admin(runner, site, &words)?;
    let count = |key: &str| report[key].as_u64().unwrap_or(0);
    Ok(CatalogCopy { wall, bytes: count("bytes"), bytes_new: count("bytes_new") })
}

fn back_up(site: &Site<'_>, server: &Server, tree: &Path) -> Result<Sample, Trouble> {
    site.measured(server, &["backup".as_ref(), "--full".as_ref(), tree.as_os_str()])
}

fn expire(runner: &Runner, site: &Site<'_>, node: &str, options: &[&str]) -> Result<Run, Trouble> {
    let words = ["expire", "--node", node].into_iter().chain(options.iter().copied());
    let words: Vec<_> = words.map(OsStr::new).collect();
    let Outcome { wall, report, .. } = space::admin(runner, site, &words)?;
    let count = |key: &str| report[key].as_u64().unwrap_or(0);
    let (examined, expired) = (count("examined"), count("expired"));
    Ok(Run { wall, examined, expired, expired_bytes: count("expired_bytes") })
}

/// Performs `work` while the tree is backed up again and again. Returns the result of `work`, the
/// first backup, and all other backups that ended before `work` did.
fn beside<T: Send>(
    site: &Site<'_>,
    server: &Server,
    tree: &Path,
    work: impl FnOnce() -> Result<T, Trouble> + Send,
) -> Result<(T, Vec<Sample>), Trouble> {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let working = threads.spawn(|| {
            let result = work();
            done.store(true, Ordering::Relaxed);
            result
        });
        let mut samples = Vec::new();
        while samples.is_empty() || !done.load(Ordering::Relaxed) {
            let sample = back_up(site, server, tree)?;
            if samples.is_empty() || !done.load(Ordering::Relaxed) {
                samples.push(sample);
            }
        }
        let result = working
            .join()
            .map_err(|_| Trouble::new("the work beside the backups panicked"))??;
        Ok((result, samples))
    })
}
