//! Random files, half of whose stored data dies, and the reclamation of its space.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Outcome, Runner};
use crate::random::Random;
use crate::site::Site;
use crate::trouble::{Context as _, Trouble};

const FILES: u64 = 1024;
const FILE_BYTES: usize = 1 << 20;
/// Name of a management class whose inactive versions are due at once.
const CLASS: &str = "LATEST-ONLY";

/// Figures of one run of reclamation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reclamation {
    pub(super) wall: Duration,
    /// Number of pages and versions that were read.
    pub(super) examined: u64,
    /// Size of all packs before the run, compressed, in bytes.
    pub(super) pack_bytes: u64,
    pub(super) bytes_removed: u64,
    /// Number of bytes of live chunks that were written again, uncompressed.
    pub(super) bytes_rewritten: u64,
}

/// Files that are backed up, and whose content is then replaced. The content is random, so that it
/// can neither be compressed nor deduplicated.
pub(super) struct RandomFiles<'a> {
    site: &'a Site<'a>,
    files: PathBuf,
    rules: PathBuf,
    generation: u64,
}

impl<'a> RandomFiles<'a> {
    /// Writes the files into `folder`, and backs them up with a class whose inactive versions
    /// expire at once.
    pub(super) fn new(runner: &Runner, site: &'a Site<'a>, folder: &Path) -> Result<Self, Trouble> {
        let (files, rules) = (folder.join("files"), folder.join("inclexcl"));
        std::fs::create_dir(&files).while_doing(|| format!("make {}", files.display()))?;
        std::fs::write(&rules, format!("include /.../* {CLASS}\n"))
            .while_doing(|| format!("write {}", rules.display()))?;
        let class = ["policy", "class", CLASS, "--verexists", "1"];
        admin(runner, site, &class.map(OsStr::new))?;
        admin(runner, site, &["policy", "activate"].map(OsStr::new))?;
        let mut random_files = Self { site, files, rules, generation: 0 };
        random_files.write(|_| true)?;
        Ok(random_files)
    }

    /// Makes half of the stored data die: half of the files get new content, and the old content
    /// expires.
    pub(super) fn half_dies(&mut self, runner: &Runner) -> Result<(), Trouble> {
        let half = self.generation % 2;
        self.write(|file| (file >> half).is_multiple_of(2))?;
        let expire = ["expire", "--node", crate::site::NODE];
        admin(runner, self.site, &expire.map(OsStr::new))?;
        Ok(())
    }

    fn write(&mut self, changes: impl Fn(u64) -> bool) -> Result<(), Trouble> {
        let mut content = vec![0; FILE_BYTES];
        for file in (0..FILES).filter(|file| changes(*file)) {
            // Neighbouring seeds give the same numbers, moved by one. So the first number of a seed
            // is used as the seed.
            let seed = Random::new(self.generation * FILES + file).next();
            Random::new(seed).fill(&mut content);
            let path = self.files.join(file.to_string());
            std::fs::write(&path, &content).while_doing(|| format!("write {}", path.display()))?;
        }
        self.generation += 1;
        let words = ["backup".as_ref(), self.files.as_os_str(), "--inclexcl".as_ref()];
        self.site.client(&[&words[..], &[self.rules.as_os_str()]].concat())?;
        Ok(())
    }
}

/// Runs reclamation once.
pub(super) fn reclaim(runner: &Runner, site: &Site<'_>) -> Result<Reclamation, Trouble> {
    let words = ["reclaim", "--dead-percent", "20"].map(OsStr::new);
    let Outcome { wall, report, .. } = admin(runner, site, &words)?;
    let count = |key: &str| report[key].as_u64().unwrap_or(0);
    Ok(Reclamation {
        wall,
        examined: count("examined"),
        pack_bytes: count("pack_bytes"),
        bytes_removed: count("bytes_removed"),
        bytes_rewritten: count("bytes_rewritten"),
    })
}

/// Runs the command `holdfast admin` with `words`.
pub(super) fn admin(
    runner: &Runner,
    site: &Site<'_>,
    words: &[&OsStr],
) -> Result<Outcome, Trouble> {
    let folder = site.server();
    let head = ["admin".as_ref(), "--server".as_ref(), folder.as_os_str()];
    runner.run(&[&head[..], words].concat())
}
