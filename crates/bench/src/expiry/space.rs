//! Data that dies in part, and the reclamation of its space.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Finished, Runner};
use crate::random::Random;
use crate::site::Site;
use crate::trouble::{Trouble, While as _};

const FILES: u64 = 1024;
const FILE_BYTES: usize = 1 << 20;
/// A class whose inactive versions are due at once.
const CLASS: &str = "LATEST-ONLY";

/// Result of one run of reclamation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reclaimed {
    pub(super) wall: Duration,
    /// Pages and versions read.
    pub(super) examined: u64,
    /// Bytes in packs before, compressed.
    pub(super) pack_bytes: u64,
    pub(super) bytes_removed: u64,
    /// Bytes of live chunks in packs that were removed, before compression.
    pub(super) bytes_rewritten: u64,
}

/// Files that are backed up and then deleted: random, so they neither compress nor deduplicate.
pub(super) struct Dying<'a> {
    site: &'a Site<'a>,
    files: PathBuf,
    rules: PathBuf,
    generation: u64,
}

impl<'a> Dying<'a> {
    /// Writes the files into `folder` and backs them up.
    pub(super) fn new(runner: &Runner, site: &'a Site<'a>, folder: &Path) -> Result<Self, Trouble> {
        let (files, rules) = (folder.join("files"), folder.join("inclexcl"));
        std::fs::create_dir(&files).while_doing(|| format!("make {}", files.display()))?;
        std::fs::write(&rules, format!("include /.../* {CLASS}\n"))
            .while_doing(|| format!("write {}", rules.display()))?;
        let class = ["policy", "class", CLASS, "--verexists", "1"];
        admin(runner, site, &class.map(OsStr::new))?;
        admin(runner, site, &["policy", "activate"].map(OsStr::new))?;
        let mut dying = Self { site, files, rules, generation: 0 };
        dying.write(|_| true)?;
        Ok(dying)
    }

    /// Makes half of the stored data die: every second pair of files gets new content, and the old
    /// content expires.
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
            // The first number of a neighbouring seed is the next number of this one, so it is used
            // as the seed.
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

/// Reclaims once.
pub(super) fn reclaim(runner: &Runner, site: &Site<'_>) -> Result<Reclaimed, Trouble> {
    let words = ["reclaim", "--dead-percent", "20"].map(OsStr::new);
    let Finished { wall, report, .. } = admin(runner, site, &words)?;
    let count = |key: &str| report[key].as_u64().unwrap_or(0);
    Ok(Reclaimed {
        wall,
        examined: count("examined"),
        pack_bytes: count("pack_bytes"),
        bytes_removed: count("bytes_removed"),
        bytes_rewritten: count("bytes_rewritten"),
    })
}

/// Runs a command of the administrator.
pub(super) fn admin(
    runner: &Runner,
    site: &Site<'_>,
    words: &[&OsStr],
) -> Result<Finished, Trouble> {
    let folder = site.server();
    let head = ["admin".as_ref(), "--server".as_ref(), folder.as_os_str()];
    runner.run(&[&head[..], words].concat())
}
