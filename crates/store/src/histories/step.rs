//! The steps of a history, as they follow from its seed. Pure.

use disk::{Fault, Loss, Random};

use super::expectation::Content;

/// Number of directories.
pub(super) const DIRECTORIES: usize = 3;
/// Number of names in a directory.
pub(super) const NAMES: usize = 4;
/// Names of the pools: the first pool, its next pool, and the copy pool.
pub(super) const POOLS: [&str; 3] = ["PRIMARY", "NEXT", "COPIES"];
/// Number of different chunks in all contents. It is small, so that contents share chunks.
pub(super) const CHUNKS: u64 = 40;
/// Number of operations from which the failing operation of a step is chosen.
const OPERATIONS: u64 = 60;

/// The directory in the second filespace. All others are in the first.
pub(super) const SECOND: usize = DIRECTORIES - 1;

/// Files for one directory: the index of each name, and the content.
pub(super) type Files = Vec<(usize, Content)>;

/// Work of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Work {
    BackUp {
        directory: usize,
        files: Files,
    },
    /// The beginning of a backup of the second filespace, which stores its data.
    Begin {
        files: Files,
    },
    /// The commit of this backup.
    Finish,
    /// A backup that finds the files gone.
    Remove {
        directory: usize,
        names: Vec<usize>,
    },
    Expire,
    Reclaim,
    /// Copying of packs to the copy pool.
    CopyPacks,
    Drain,
    CopyCatalog,
    Audit,
    /// Stopping and starting.
    Restart,
    /// Starts of two more servers, which are refused: in the same folder, and in a copy of it.
    SecondServer,
    /// Recovery of a server whose disk is lost, from its pools and the recovery file.
    Recover,
    /// Rebuilding of the catalogue, which is lost.
    Rebuild,
    /// A start with the catalogue as it was after this part of the changes since the last power
    /// cut, in thousandths. The pools stay as they are. Then the newer catalogue is rebuilt from
    /// its copy, after a release if `is_released` is true.
    OlderCatalog {
        part: u64,
        is_released: bool,
    },
    /// A start without a pool, which comes back while the server runs. If `is_killed` is true, the
    /// server before was killed, with packs that wait for their footers.
    PoolAway {
        pool: &'static str,
        is_killed: bool,
    },
}

/// An event in the middle of the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Nothing,
    /// The power is cut after this part of the changes, in thousandths. If `at_sync` is true, it is
    /// cut at the nearest sync.
    PowerCut {
        part: u64,
        at_sync: bool,
        loss: Loss,
    },
    Fault(Fault),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) work: Work,
    pub(super) event: Event,
}

/// Returns the steps of the history with this seed.
pub(super) fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    // Errors make many states possible. So half of the histories have power cuts only.
    let has_faults = random.below(2) == 0;
    let step = |_| {
        // Each step has a generator of its own, so that it is the same in a shorter history.
        let mut random = Random::new(random.seed());
        Step { work: work(&mut random), event: event(&mut random, has_faults) }
    };
    (0..count).map(step).collect()
}

fn work(random: &mut Random) -> Work {
    match random.below(28) {
        24..=25 => Work::Begin { files: files(random) },
        26..=27 => Work::Finish,
        0..=9 => Work::BackUp { directory: random.index(DIRECTORIES), files: files(random) },
        10..=11 => {
            Work::Remove { directory: random.index(DIRECTORIES), names: vec![random.index(NAMES)] }
        }
        12 => Work::Expire,
        13..=15 => Work::Reclaim,
        16 => Work::CopyPacks,
        17 => Work::Drain,
        18 => Work::CopyCatalog,
        19 => Work::Audit,
        20 => Work::SecondServer,
        21 if random.below(2) == 0 => Work::Recover,
        21 => Work::Rebuild,
        22 if random.below(2) == 0 => {
            let pool = POOLS[random.index(POOLS.len())];
            Work::PoolAway { pool, is_killed: random.below(2) == 0 }
        }
        23 if random.below(2) == 0 => {
            Work::OlderCatalog { part: random.below(1001), is_released: random.below(2) == 0 }
        }
        _ => Work::Restart,
    }
}

fn files(random: &mut Random) -> Files {
    let mut files = Vec::new();
    for name in 0..NAMES {
        if random.below(2) == 0 {
            let length = 1 + random.below(6);
            files.push((name, (0..length).map(|_| random.below(CHUNKS)).collect()));
        }
    }
    files
}

fn event(random: &mut Random, has_faults: bool) -> Event {
    match random.below(6) {
        0 if has_faults => Event::Fault(fault(random)),
        0 | 1 => Event::PowerCut {
            part: random.below(1001),
            at_sync: random.below(2) == 0,
            loss: match random.below(6) {
                0 => Loss::Everything,
                1 => Loss::Nothing,
                _ => Loss::Random(random.seed()),
            },
        },
        _ => Event::Nothing,
    }
}

fn fault(random: &mut Random) -> Fault {
    let number = random.below(OPERATIONS);
    match random.below(4) {
        0 => Fault::Read { number },
        1 => Fault::Full { number: number / 2 },
        _ => Fault::Change { number },
    }
}
