//! `--mutate`: backups of Holdfast after some files of a copy of the tree have changed.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::turn::Stage;
use crate::output;
use crate::process;
use crate::random::Random;
use crate::site::{Sample, Site};
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::walk;
use crate::workplace::Workplace;

/// Number of files in a thousand to which a line is appended.
const CHANGED_PER_MILLE: u64 = 10;

/// Number of files in a thousand that are deleted.
const DELETED_PER_MILLE: u64 = 2;

/// Limit of the time of a backup after changes, without the time for sending, as a multiple of the
/// time of a nothing-changed backup.
const UNCHANGED_SHARE: f64 = 1.5;

#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    pub(crate) first: Sample,
    /// Size of the whole copy, in bytes.
    pub(crate) bytes: u64,
    pub(crate) steps: Vec<Step>,
}

/// One nothing-changed backup, a change, and the backup after it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) unchanged: Sample,
    pub(crate) after: Sample,
    pub(crate) changes: Changes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) changed: u64,
    pub(crate) deleted: u64,
    /// Size of the changed files together, in bytes.
    pub(crate) bytes: u64,
}

impl Mutation {
    /// Returns the ratio of the time of each backup after changes to its limit.
    pub(crate) fn share_of_limit(&self) -> Spread {
        let per_byte = self.first.wall.as_secs_f64() / float(self.bytes.max(1));
        Spread::of(self.steps.iter().map(|step| {
            let limit = UNCHANGED_SHARE * step.unchanged.wall.as_secs_f64()
                + per_byte * float(step.changes.bytes);
            step.after.wall.as_secs_f64() / limit
        }))
    }

    pub(crate) fn wall(&self, of: impl Fn(&Step) -> &Sample) -> Spread {
        Spread::of(self.steps.iter().map(|step| of(step).wall.as_secs_f64()))
    }
}

pub(crate) fn measure(
    stage: &Stage<'_>,
    count: usize,
    workplace: &Workplace,
) -> Result<Mutation, Trouble> {
    output::step("copying the tree");
    let folder = workplace.folder("changed")?;
    let copy = folder.join("copy");
    copy_tree(stage.source, &copy)?;
    let bytes = walk::walk(&copy)?.bytes;
    let site = Site::new(stage.runner, folder);
    let server = site.enrolled()?;
    let backup: [&OsStr; 2] = ["backup".as_ref(), copy.as_os_str()];
    let first = site.measured(&server, &backup)?;
    let mut steps = Vec::new();
    for step in 0..count {
        output::step(&format!("change {} of {count}", step + 1));
        // This backup is not measured. It finishes work that remains from the backup before.
        site.client(&backup)?;
        let unchanged = site.measured(&server, &backup)?;
        let changes = change(&copy, u64::try_from(step).unwrap_or(0))?;
        let after = site.measured(&server, &backup)?;
        steps.push(Step { unchanged, after, changes });
    }
    server.stop()?;
    Ok(Mutation { first, bytes, steps })
}

fn copy_tree(source: &Path, copy: &Path) -> Result<(), Trouble> {
    let mut command = Command::new("cp");
    command.arg("-a").arg("--").arg(source).arg(copy);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = process::run_to_end(&mut command)?.status;
    let message = || format!("cannot copy {} ({status})", source.display());
    if status.success() { Ok(()) } else { Err(Trouble::new(message())) }
}

/// Changes and deletes some files of `copy`. The same `seed` chooses the same files.
fn change(copy: &Path, seed: u64) -> Result<Changes, Trouble> {
    let mut changes = Changes::default();
    let mut random = Random::new(seed);
    for path in files(copy)? {
        let what = || format!("change {}", path.display());
        match fate(&mut random) {
            Fate::Kept => {}
            Fate::Changed => {
                // A file with several names changes under all of them. Only root can change
                // read-only files.
                let mut file = fs::OpenOptions::new().append(true).open(&path).while_doing(what)?;
                file.write_all(b"one line more\n").while_doing(what)?;
                changes.changed += 1;
                changes.bytes += file.metadata().while_doing(what)?.len();
            }
            Fate::Deleted => {
                fs::remove_file(&path).while_doing(what)?;
                changes.deleted += 1;
            }
        }
    }
    Ok(changes)
}

/// Returns the regular files below `top`, always in the same order.
fn files(top: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let (mut files, mut folders) = (Vec::new(), vec![top.to_owned()]);
    while let Some(folder) = folders.pop() {
        let what = || format!("list {}", folder.display());
        for entry in fs::read_dir(&folder).while_doing(what)? {
            let entry = entry.while_doing(what)?;
            let kind = entry.file_type().while_doing(what)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[derive(PartialEq, Eq, Debug)]
enum Fate {
    Kept,
    Changed,
    Deleted,
}

fn fate(random: &mut Random) -> Fate {
    match random.below(1000) {
        0..CHANGED_PER_MILLE => Fate::Changed,
        drawn if drawn < CHANGED_PER_MILLE + DELETED_PER_MILLE => Fate::Deleted,
        _ => Fate::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_a_hundred_changes() {
        let mut random = Random::new(1);
        let fates: Vec<Fate> = (0..100_000).map(|_| fate(&mut random)).collect();
        let count = |fate: &Fate| fates.iter().filter(|one| *one == fate).count();
        assert!((900..1100).contains(&count(&Fate::Changed)));
        assert!((150..250).contains(&count(&Fate::Deleted)));
    }

    #[test]
    fn the_same_seed_changes_the_same_files() {
        let make = |seed| {
            let dir = tempfile::tempdir().unwrap();
            for number in 0..500 {
                fs::write(dir.path().join(format!("{number:03}")), b"1").unwrap();
            }
            let changes = change(dir.path(), seed).unwrap();
            (changes, e2e::manifest::Manifest::take(dir.path()).unwrap().stat_bytes())
        };
        assert_eq!(make(7), make(7));
        let (changes, _) = make(7);
        assert_eq!(changes.bytes, changes.changed * 15);
        assert!(changes.changed > 0, "{changes:?}");
    }
}
