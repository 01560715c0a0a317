//! Power cuts. A server works on a disk that logs what is written and flushed. The power is cut at
//! many moments of the log; after each cut, the file system recovers, the server starts, and
//! everything that was acknowledged before is there.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `HOLDFAST_POWER_CUTS` | none: tests are left out | number of cuts for each file system |
//! | `HOLDFAST_POWER_SEED` | the time | seed of the random choices |
//!
//! The choices follow from the seed, but the log does not: two runs with one seed differ. The first
//! images of a disk after which something was wrong stay in the temporary folder.

mod examination;
mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::harness::{Image, succeeds};
use e2e::nasty::Random;
use e2e::power::{Cut, Disk, Entry, Log, Loss, Position, Replay, Write};
use e2e::scratch::Scratch;

use self::examination::{Examination, Trial};
use self::workload::History;
use crate::chaos::{seed, setting};
use crate::scene::root_or_skip;

const DISK_BYTES: u64 = 512 << 20;
/// Number of images that stay if something was wrong after their cuts.
const IMAGES_KEPT_MAX: usize = 3;

#[derive(Clone, Copy)]
struct FileSystem {
    name: &'static str,
    mkfs: &'static [&'static str],
}

const EXT4: FileSystem = FileSystem { name: "ext4", mkfs: &["mkfs.ext4", "-q", "-F"] };
const XFS: FileSystem = FileSystem { name: "xfs", mkfs: &["mkfs.xfs", "-q"] };
const BTRFS: FileSystem = FileSystem { name: "btrfs", mkfs: &["mkfs.btrfs", "-q"] };

#[test]
fn a_power_cut_on_ext4_loses_nothing_that_was_acknowledged() {
    cut_power(EXT4);
}

#[test]
fn a_power_cut_on_xfs_loses_nothing_that_was_acknowledged() {
    cut_power(XFS);
}

#[test]
fn a_power_cut_on_btrfs_loses_nothing_that_was_acknowledged() {
    cut_power(BTRFS);
}

/// The examination sees what is lost: here, everything that the disk only promised to keep.
#[test]
fn a_disk_that_ignores_flushes_loses_what_was_acknowledged() {
    let Some(work) = Work::record(EXT4) else { return };
    let mut log = Log::default();
    for (index, entry) in work.log.entries().iter().enumerate() {
        let is_ignored = *entry == Entry::Flush && Position(index) >= work.history.made;
        // A write of nothing takes the place of a flush, so that all positions stay the same.
        let nothing = Entry::Write(Write { offset: 0, data: Vec::new() });
        log.push(if is_ignored { nothing } else { entry.clone() });
    }
    let mut random = Random::new(1, b"a disk that ignores flushes");
    let cut = Cut::choose(&log, log.end(), Loss::Everything, &mut random);
    let image = work.site.scratch.join("after");
    let mut replay = Replay::begin(&log, &work.site.base()).expect("the image of the new disk");
    replay.after(&cut, &image).expect("room for an image");
    assert!(!work.survives(&image, &cut, Trial::Start, &mut random));
}

fn cut_power(kind: FileSystem) {
    let Some(work) = Work::record(kind) else { return };
    let seed = seed("HOLDFAST_POWER_SEED");
    let mut random = Random::new(seed, kind.name.as_bytes());
    let cuts = setting("HOLDFAST_POWER_CUTS").expect("the work was recorded");
    let moments = moments(&work.log, work.history.made, cuts, &mut random);
    let findings = work.cut_at(&moments, &mut random);
    assert!(findings.is_empty(), "{} power cuts:\n{}", findings.len(), findings.join("\n"));
}

/// Returns the moments of `cuts` power cuts, in their order. Half of them are just before a flush,
/// where most writes are not on the medium yet.
fn moments(log: &Log, first: Position, cuts: u64, random: &mut Random) -> Vec<Position> {
    let flushes: Vec<Position> = log.before_flushes().filter(|at| *at >= first).collect();
    let below = |random: &mut Random, limit: usize| {
        random.below(u32::try_from(limit).expect("a log is short")) as usize
    };
    let any = |random: &mut Random| match random.below(2) {
        0 => flushes[below(random, flushes.len())],
        _ => Position(first.0 + below(random, log.end().0 - first.0 + 1)),
    };
    let mut moments: Vec<Position> = (0..cuts).map(|_| any(random)).collect();
    moments.sort();
    moments
}

/// Places of images and mounts.
struct Site {
    scratch: Scratch,
    /// Mount point of the file system. The paths of the server stay the same after a power cut.
    mount: PathBuf,
}

impl Site {
    fn new() -> Self {
        let scratch = Scratch::new();
        let mount = scratch.folder("mount");
        Self { scratch, mount }
    }

    fn base(&self) -> PathBuf {
        self.scratch.join("base")
    }

    fn server(&self) -> PathBuf {
        self.mount.join("server")
    }

    /// Makes a file system and lets a server work on it. Returns the log of its disk; `None` if
    /// this machine cannot do that.
    fn record(&self, kind: FileSystem) -> Option<(Log, History)> {
        if !Image::make(&self.base(), DISK_BYTES, kind.mkfs) {
            return None;
        }
        let disk = Disk::attach(&self.base(), &self.scratch.join("disk"))?;
        let mounted = self.mount(disk.file())?;
        let history = workload::run(&disk, &self.server(), &self.scratch);
        assert!(mounted.unmount(), "nothing uses the file system");
        drop(mounted);
        Some((disk.detach(), history))
    }

    /// Mounts the file system in an image or on a disk; `None` if that is not possible.
    fn mount(&self, image: &Path) -> Option<Image> {
        // btrfs would take the image for a stale part of a file system that it has seen before.
        succeeds(Command::new("btrfs").args(["device", "scan", "--forget"]));
        Image::of(image, &self.mount)
    }
}

/// The work of a server on a file system, and the log of its disk.
struct Work {
    kind: FileSystem,
    site: Site,
    log: Log,
    history: History,
}

impl Work {
    /// Lets a server work. `None` if power cuts are not asked for, or if this machine cannot do
    /// that; the reason is printed.
    fn record(kind: FileSystem) -> Option<Self> {
        let name = kind.name;
        if setting("HOLDFAST_POWER_CUTS").is_none() {
            e2e::skip::say(&format!("power cuts on {name} (make power-test)"));
            return None;
        }
        if !root_or_skip(&format!("a power cut on {name}")) {
            return None;
        }
        let site = Site::new();
        let recorded = site.record(kind);
        if recorded.is_none() {
            e2e::skip::say(&format!("power cuts: {name} or FUSE is not available here"));
        }
        let (log, history) = recorded?;
        Some(Self { kind, site, log, history })
    }

    /// Cuts the power at each moment. Returns a line for each cut after which something was wrong.
    fn cut_at(&self, moments: &[Position], random: &mut Random) -> Vec<String> {
        let log = &self.log;
        let mut replay = Replay::begin(log, &self.site.base()).expect("the image of the new disk");
        let image = self.site.scratch.join("after");
        let (mut findings, mut unflushed) = (Vec::new(), 0);
        for (number, position) in moments.iter().enumerate() {
            let loss = Loss::ALL[random.below(6) as usize];
            let cut = Cut::choose(log, *position, loss, random);
            unflushed += cut.unflushed;
            replay.after(&cut, &image).expect("room for an image");
            let trial = Trial::of(number);
            if self.survives(&image, &cut, trial, random) {
                continue;
            }
            let mut image_kept = String::new();
            if findings.len() < IMAGES_KEPT_MAX {
                let name = format!("holdfast-power-{}-{number}.image", self.kind.name);
                let path = std::env::temp_dir().join(name);
                replay.after(&cut, &path).expect("room for an image");
                image_kept = format!("; the image is {}", path.display());
            }
            let finding = format!(
                "cut {number} at {} of {} entries, loss {loss:?}, {trial:?}, {}{image_kept}",
                position.0,
                log.end().0,
                self.history.shown(*position)
            );
            eprintln!("power: {}: {finding}", self.kind.name);
            findings.push(finding);
        }
        eprintln!(
            "power: {}: {} cuts in {} entries of a log ({} flushes, {} MB); \
             {unflushed} writes were not flushed; {} cuts lost something",
            self.kind.name,
            moments.len(),
            log.end().0,
            log.before_flushes().count(),
            log.bytes() >> 20,
            findings.len()
        );
        findings
    }

    /// Examines the image of the disk after a cut. Returns false if something is wrong.
    fn survives(&self, image: &Path, cut: &Cut, trial: Trial, random: &mut Random) -> bool {
        let examination = Examination { site: &self.site, history: &self.history };
        let run = || examination.run(image, cut.position, trial, random);
        catch_unwind(AssertUnwindSafe(run)).is_ok()
    }
}
