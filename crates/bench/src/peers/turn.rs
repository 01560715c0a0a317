//! The turn of one entrant: all its phases, in folders of its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::entrant::{Entrant, Role};
use super::recipe::{Ground, Recipe};
use crate::effort::Effort;
use crate::machine;
use crate::output;
use crate::process::{self, Runner, Usage};
use crate::site::{self, Sample, Site};
use crate::trouble::{Context as _, Trouble};
use crate::workplace;

/// Number of pairs of a bare walk and a nothing-changed backup of Holdfast in a turn.
const PAIRS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    First,
    Unchanged,
    Restore,
}

impl Phase {
    pub(crate) const ALL: [Self; 3] = [Self::First, Self::Unchanged, Self::Restore];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::First => "first backup",
            Self::Unchanged => "nothing changed",
            Self::Restore => "restore",
        }
    }

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Unchanged => "unchanged",
            Self::Restore => "restore",
        }
    }
}

/// Results of one turn. If a turn fails, its measurements from before the failure are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) samples: BTreeMap<Phase, Vec<Sample>>,
    /// Bare walks, each measured right before the nothing-changed backup of Holdfast with the same
    /// index.
    pub(crate) walks: Vec<Sample>,
    pub(crate) pair: Option<Pair>,
    pub(crate) stored_bytes: Option<u64>,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) failure: Option<String>,
}

/// A creation of the tree's files by one thread, and a restore of Holdfast right after it. In a
/// tmpfs, each of the two writes to memory that was freed right before.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) creation: Sample,
    pub(crate) restore: Sample,
}

/// Differences of a restored tree from its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Comparison {
    pub(crate) differences: u64,
    pub(crate) first: Vec<String>,
}

/// Reason why a turn ended early.
pub(crate) enum Stop {
    /// The program failed. Its row shows the failure, and the other programs are measured.
    Failed(String),
    /// The bench itself failed.
    Ended(Trouble),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Ended(trouble)
    }
}

/// The parts that all turns share: the tree, the runner of Holdfast and the folder of outputs.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) source: &'a Path,
    pub(crate) runner: &'a Runner,
    pub(crate) outputs: &'a Path,
    /// True if the trees that peers restore are compared. Trees that Holdfast restores are always
    /// compared.
    pub(crate) compares_peers: bool,
    /// True if the work folder is in memory, where files are removed as early as possible.
    pub(crate) in_memory: bool,
}

impl Stage<'_> {
    /// Runs all phases of `entrant` in the new folder `folder`.
    pub(crate) fn turn(&self, entrant: &Entrant, folder: &Path) -> Result<Turn, Trouble> {
        let mut turn = Turn::default();
        let result = match &entrant.role {
            Role::Holdfast => self.holdfast(folder, &mut turn),
            Role::Peer { recipe, program } => {
                let peer_run = PeerRun::new(self, (recipe, program), folder);
                peer_run.and_then(|mut peer_run| peer_run.all(&mut turn))
            }
            Role::Creation { threads } => self.creation(*threads, folder, &mut turn),
        };
        match result {
            Ok(()) => {}
            Err(Stop::Failed(message)) => turn.failure = Some(message),
            Err(Stop::Ended(trouble)) => {
                process::check_interrupted()?;
                turn.failure = Some(trouble.to_string());
            }
        }
        if let Some(failure) = &turn.failure {
            output::warning(&format!("{}: {failure}", entrant.name));
        }
        Ok(turn)
    }

    fn holdfast(&self, folder: &Path, turn: &mut Turn) -> Result<(), Stop> {
        let site = Site::new(self.runner, folder.to_owned());
        let server = site.enrolled()?;
        let backup: [&OsStr; 2] = ["backup".as_ref(), self.source.as_os_str()];
        read_all(self.source)?;
        machine::settle();
        turn.add(Phase::First, site.measured(&server, &backup)?);
        for _ in 0..PAIRS {
            turn.walks.push(site::bare_walk(self.source)?);
            turn.add(Phase::Unchanged, site.measured(&server, &backup)?);
        }
        server.stop()?;
        let stored = site.stored()?;
        turn.stored_bytes = Some(stored.pool_bytes + stored.catalog_bytes + stored.index_bytes);
        let server = site.serve()?;
        let target = folder.join("restored");
        let restore = |target: &Path| {
            let words: [&OsStr; 4] =
                ["restore".as_ref(), self.source.as_os_str(), "--to".as_ref(), target.as_os_str()];
            site.measured(&server, &words)
        };
        machine::settle();
        turn.add(Phase::Restore, restore(&target)?);
        // A restore makes a folder with the name of the tree in the folder of `--to`.
        let name = self.source.file_name().unwrap_or_default();
        let compared = self.compare(&target.join(name))?;
        turn.comparison = Some(compared.clone());
        workplace::clear(&target, self.in_memory)?;
        let made = folder.join("made");
        let creation = self.created(1, &made)?;
        workplace::clear(&made, self.in_memory)?;
        let again = folder.join("again");
        turn.pair = Some(Pair { creation, restore: restore(&again)? });
        server.stop()?;
        let compared_again = self.compare(&again.join(name))?;
        turn.comparison = [compared, compared_again].into_iter().max_by_key(|one| one.differences);
        Ok(())
    }

    fn creation(&self, threads: usize, folder: &Path, turn: &mut Turn) -> Result<(), Stop> {
        machine::settle();
        turn.add(Phase::Restore, self.created(threads, &folder.join("restored"))?);
        Ok(())
    }

    /// Makes the files of the tree in the new folder `target`.
    fn created(&self, threads: usize, target: &Path) -> Result<Sample, Stop> {
        let threads = threads.to_string();
        let arguments: [&OsStr; 5] = [
            "creation".as_ref(),
            self.source.as_os_str(),
            target.as_os_str(),
            "--threads".as_ref(),
            threads.as_ref(),
        ];
        let answer = process::run_part(&arguments, self.outputs)?;
        let Effort { wall, cpu: client_cpu } = Effort::parse(&answer["spent"])?;
        Ok(Sample { wall, client_cpu, ..Sample::default() })
    }

    fn compare(&self, restored: &Path) -> Result<Comparison, Trouble> {
        let arguments: [&OsStr; 3] =
            ["compare".as_ref(), self.source.as_os_str(), restored.as_os_str()];
        let answer = process::run_part(&arguments, self.outputs)?;
        let differences = answer["differences"].as_u64();
        let message = || Trouble::new("bench compare returned no number of differences");
        let first = answer["first"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Comparison {
            differences: differences.ok_or_else(message)?,
            first: first.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

impl Turn {
    fn add(&mut self, phase: Phase, sample: Sample) {
        self.samples.entry(phase).or_default().push(sample);
    }
}

/// The commands of one peer, in its folders.
pub(crate) struct PeerRun<'a> {
    stage: &'a Stage<'a>,
    recipe: &'static Recipe,
    program: &'a Path,
    ground: Ground,
    /// Number of the last backup.
    number: usize,
}

impl<'a> PeerRun<'a> {
    /// Makes an empty repository in `folder`.
    pub(crate) fn new(
        stage: &'a Stage<'a>,
        (recipe, program): (&'static Recipe, &'a Path),
        folder: &Path,
    ) -> Result<Self, Stop> {
        let ground = Ground::in_folder(stage.source, folder);
        for path in [&ground.cache, &ground.restored] {
            std::fs::create_dir(path).while_doing(|| format!("make {}", path.display()))?;
        }
        let peer_run = Self { stage, recipe, program, ground, number: 0 };
        for mut command in recipe.inits(program, &peer_run.ground) {
            peer_run.measured(&mut command, "init")?;
        }
        Ok(peer_run)
    }

    fn all(&mut self, turn: &mut Turn) -> Result<(), Stop> {
        turn.add(Phase::First, self.first()?);
        turn.stored_bytes = Some(machine::bytes_below(&self.ground.repo)?);
        turn.add(Phase::Unchanged, self.backup(Phase::Unchanged)?);
        let mut restore = self.recipe.restore(self.program, &self.ground, self.number);
        machine::settle();
        turn.add(Phase::Restore, self.measured(&mut restore, Phase::Restore.title())?);
        if self.stage.compares_peers {
            turn.comparison = Some(self.stage.compare(&self.restored())?);
        }
        Ok(())
    }

    pub(crate) fn first(&mut self) -> Result<Sample, Stop> {
        read_all(self.stage.source)?;
        machine::settle();
        self.backup(Phase::First)
    }

    pub(crate) fn backup(&mut self, phase: Phase) -> Result<Sample, Stop> {
        self.number += 1;
        let mut command = self.recipe.backup(self.program, &self.ground, self.number);
        self.measured(&mut command, phase.title())
    }

    /// Returns the folder with the restored tree. Some programs restore the tree with its whole
    /// path below the target folder.
    fn restored(&self) -> PathBuf {
        let top = &self.ground.restored;
        let whole = self.ground.source.strip_prefix("/").map(|path| top.join(path));
        whole.ok().filter(|path| path.is_dir()).unwrap_or_else(|| top.clone())
    }

    /// Runs a command and measures it. An exit code for remarks is no error.
    fn measured(&self, command: &mut Command, what: &str) -> Result<Sample, Stop> {
        let stderr = self.stage.outputs.join("stderr");
        command.stdin(Stdio::null()).stderr(process::create(&stderr)?);
        command.stdout(process::create(&self.stage.outputs.join("stdout"))?);
        rustix::fs::sync();
        let own_before = sys::process::cpu_time();
        let all_before = machine::cpu_of_all()?;
        let Usage { wall, cpu, memory_bytes, status, .. } = process::run_to_end(command)?;
        let all = machine::cpu_of_all()?.saturating_sub(all_before);
        let own = sys::process::cpu_time().saturating_sub(own_before);
        let exit_code = status.code().unwrap_or(-1);
        if exit_code != 0 && !self.recipe.remarks.contains(&exit_code) {
            let last = process::last_line(&stderr);
            return Err(Stop::Failed(format!("{what} failed ({status}): {last}")));
        }
        Ok(Sample {
            wall,
            client_cpu: cpu,
            client_memory_bytes: memory_bytes,
            other_cpu: all.saturating_sub(own + cpu),
            exit_code,
            ..Sample::default()
        })
    }
}

/// Reads every file of `tree`, so that no program has to read it from the disk.
fn read_all(tree: &Path) -> Result<(), Trouble> {
    let mut buffer = vec![0; 1 << 20];
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        process::check_interrupted()?;
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    // Unreadable files are skipped: the measured programs report them.
                    let Ok(mut file) = std::fs::File::open(entry.path()) else { continue };
                    while matches!(std::io::Read::read(&mut file, &mut buffer), Ok(1..)) {}
                }
                _ => {}
            }
        }
    }
    Ok(())
}
