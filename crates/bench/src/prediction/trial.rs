//! The runs of one condition.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::conditions::{Condition, Form, Place};
use crate::machine;
use crate::process::Runner;
use crate::relay::Relay;
use crate::site::Site;
use crate::trouble::{Context as _, Trouble};

/// Size of the files that content is collected in.
const LARGE_BYTES: u64 = 128 << 20;
/// Number of these files.
const LARGE_MAX: usize = 10;
/// One file of so many is changed.
const CHANGED_OF: usize = 100;

/// A run beside its prediction, in seconds.
pub(super) struct Run {
    pub(super) work: String,
    pub(super) predicted: f64,
    /// Bounds of the prediction; `None` for work whose amount was not known before it.
    pub(super) bounds: Option<(f64, f64)>,
    pub(super) took: f64,
    pub(super) limit: String,
}

impl Run {
    /// Returns the relative error of the prediction: positive if it was too long.
    pub(super) fn error(&self) -> f64 {
        self.predicted / self.took - 1.0
    }
}

pub(super) fn run(
    condition: &Condition,
    source: &Path,
    folder: &Path,
    runner: &Runner,
) -> Result<Vec<Run>, Trouble> {
    let place = Place::make(condition.storage, folder)?;
    let tree = place.path().join("tree");
    let files = plant(source, &tree, condition.form)?;
    rustix::fs::sync();
    let site = Site::new(runner, folder.join("site"));
    fs::create_dir(site.folder()).while_doing(|| "make the folder of the server".to_owned())?;
    let (server, address) = site.started()?;
    let relay = condition.link.map(|link| Relay::start(&address, link)).transpose()?;
    site.enrol(&relay.as_ref().map_or(address, Relay::address))?;
    let mut words: Vec<&OsStr> = vec!["baseline".as_ref(), tree.as_os_str(), "--quick".as_ref()];
    words.extend(condition.cold.then_some(OsStr::new("--cold")));
    let report = site.client(&words)?.report;
    let ready = || if condition.cold { machine::drop_caches() } else { Ok(()) };
    let backup: [&OsStr; 2] = ["backup".as_ref(), tree.as_os_str()];
    ready()?;
    site.measured(&server, &backup)?;
    ready()?;
    site.measured(&server, &backup)?;
    change(&files)?;
    ready()?;
    site.measured(&server, &backup)?;
    let mut runs = compared(&site, &report)?;
    if condition.storage.has_own_device() {
        let image: [&OsStr; 3] = ["image".as_ref(), "backup".as_ref(), place.path().as_os_str()];
        for is_first in [true, false] {
            ready()?;
            site.measured(&server, &image)?;
            runs.push(imaged(&site, &report, is_first)?);
            if is_first {
                change(&files)?;
            }
        }
    }
    let target = place.path().join("restored");
    ready()?;
    let words: [&OsStr; 4] =
        ["restore".as_ref(), tree.as_os_str(), "--to".as_ref(), target.as_os_str()];
    let restored = site.measured(&server, &words)?;
    runs.extend(prediction(&report, "restore").map(|(predicted, bounds, limit)| Run {
        work: "restore".to_owned(),
        predicted,
        bounds: Some(bounds),
        took: restored.wall.as_secs_f64(),
        limit,
    }));
    server.stop()?;
    Ok(runs)
}

/// Returns the prediction of `work`: likely time, bounds and limit.
fn prediction(report: &Value, work: &str) -> Option<(f64, (f64, f64), String)> {
    let all = report["places"][0]["predictions"].as_array()?;
    let one = all.iter().find(|one| one["work"] == work)?;
    let secs = |bound: &str| one["secs"][bound].as_f64();
    let limit = one["limit"].as_str().unwrap_or_default().to_owned();
    Some((secs("likely")?, (secs("least")?, secs("most")?), limit))
}

/// Returns the backups of the node beside the predictions for what they had to do.
fn compared(site: &Site<'_>, report: &Value) -> Result<Vec<Run>, Trouble> {
    let status = site.client(&["status".as_ref()])?.report;
    let all = status["predictions"].as_array().cloned().unwrap_or_default();
    let run = |one: &Value| {
        let work = one["work"].as_str()?;
        let known = prediction(report, work);
        Some(Run {
            work: work.to_owned(),
            predicted: one["uncorrected_secs"].as_f64()?,
            bounds: known.as_ref().filter(|_| work != "day").map(|known| known.1),
            took: one["elapsed_secs"].as_f64()?,
            limit: known.map(|known| known.2).unwrap_or_default(),
        })
    };
    all.iter()
        .map(|one| run(one).ok_or_else(|| Trouble::new("status has no comparison")))
        .collect()
}

/// Returns the last image of the node beside the prediction for what it had to do.
fn imaged(site: &Site<'_>, report: &Value, is_first: bool) -> Result<Run, Trouble> {
    let status = site.client(&["status".as_ref()])?.report;
    let run = || {
        let all = status["predictions"].as_array()?;
        let one = all.iter().find(|one| one["work"] == "image")?;
        let (_, bounds, limit) = prediction(report, "image")?;
        Some(Run {
            work: if is_first { "image" } else { "image again" }.to_owned(),
            predicted: one["uncorrected_secs"].as_f64()?,
            bounds: is_first.then_some(bounds),
            took: one["elapsed_secs"].as_f64()?,
            limit: if is_first { limit } else { "-".to_owned() },
        })
    };
    run().ok_or_else(|| Trouble::new("status has no comparison of the image"))
}

/// Copies `source` to `tree` in `form`. Returns the new files.
fn plant(source: &Path, tree: &Path, form: Form) -> Result<Vec<PathBuf>, Trouble> {
    let what = || format!("copy the tree to {}", tree.display());
    fs::create_dir(tree).while_doing(what)?;
    let mut planter = Planter { left: usize::MAX, files: Vec::new(), large: None };
    match form {
        Form::Whole => planter.copy(source, tree),
        Form::Part(count) => {
            planter.left = count;
            planter.copy(source, tree)
        }
        Form::Large => {
            planter.large = Some(Large { tree: tree.to_owned(), file: None, bytes: 0 });
            planter.copy(source, tree)
        }
    }
    .while_doing(what)?;
    Ok(planter.files)
}

/// Collector of content in large files.
struct Large {
    tree: PathBuf,
    file: Option<File>,
    bytes: u64,
}

struct Planter {
    /// Number of files that are still wanted.
    left: usize,
    files: Vec<PathBuf>,
    large: Option<Large>,
}

impl Planter {
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(from)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if self.left == 0 || self.files.len() > LARGE_MAX && self.large.is_some() {
                return Ok(());
            }
            let kind = entry.file_type()?;
            let target = to.join(entry.file_name());
            if kind.is_dir() {
                if self.large.is_none() {
                    fs::create_dir(&target)?;
                }
                self.copy(&entry.path(), &target)?;
            } else if kind.is_file() {
                self.file(&entry.path(), target)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: PathBuf) -> io::Result<()> {
        let Some(large) = &mut self.large else {
            fs::copy(from, &to)?;
            self.files.push(to);
            self.left -= 1;
            return Ok(());
        };
        if large.file.is_none() || large.bytes >= LARGE_BYTES {
            let path = large.tree.join(format!("large-{}", self.files.len()));
            large.file = Some(File::create(&path)?);
            large.bytes = 0;
            self.files.push(path);
        }
        let file = large.file.as_mut().expect("it was just made");
        large.bytes += io::copy(&mut File::open(from)?, file)?;
        Ok(())
    }
}

/// Changes one of [`CHANGED_OF`] files, at least one.
fn change(files: &[PathBuf]) -> Result<(), Trouble> {
    for path in files.iter().step_by(CHANGED_OF) {
        let changed = File::options()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(b"changed\n"));
        changed.while_doing(|| format!("change {}", path.display()))?;
    }
    Ok(())
}
