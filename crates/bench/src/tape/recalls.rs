//! A table of recalls with one LTO-8 drive that IBM has published. It compares a list of files with
//! the same files opened by programs.
//!
//! 1. The published table does not say where the data was on the tape. In each row the first file
//!    is at a place for which the model gives the published time of a list. The other files follow
//!    it.
//! 2. Files are opened as in IBM's test: by groups of a hundred programs, 20 ms apart, and out of
//!    order by up to 47 places. When all have their files, the next hundred begins a second later.
//! 3. The same requests, served one by one with the additional times of IBM's server, give IBM's
//!    figures. This shows how well the model is calibrated, and how much the queue gains.

use std::time::Duration;

use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::schedule::{Config, Kind, Schedule};
use tape::simulation::{Hardware, Simulation};
use tape::timing::Timing;

use super::demand::{ask, fraction, seeded, source};
use crate::random::Random;
use crate::spread::{Spread, float};

/// Number of programs in a group.
const TOGETHER: u64 = 100;
/// Interval between the requests of two programs of a group.
const APART: Duration = Duration::from_millis(20);
/// Pause between the last file of a group and the first request of the next group.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of places by which a program is late, as calibrated with the published table.
const LATE_MAX: f64 = 47.0;
/// Time that IBM's server takes for each opened file besides reading it, in seconds, as calibrated
/// with the published table.
const OPEN_SECS: f64 = 0.43;
/// Time that IBM's server takes for each group after the first, in seconds, as calibrated with the
/// published table.
const PAUSE_SECS: f64 = 23.0;

/// A row of the published table.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedRow {
    pub(super) label: &'static str,
    files: u64,
    pub(super) bytes: u64,
    pub(super) list_secs: u32,
    pub(super) open_secs: u32,
    /// Assumed position of the first file, in bytes.
    first_at: u64,
}

pub(super) const PUBLISHED: [PublishedRow; 5] = [
    row("100 x 4 KB", [100, 4096], [101, 142], 28_600_000_000),
    row("1024 x 4 KB", [1024, 4096], [118, 769], 28_600_000_000),
    row("1000 x 10 MB", [1000, 10 << 20], [150, 8893], 33_600_000_000),
    row("100 x 1 GB", [100, 1 << 30], [343, 3400], 0),
    row("20 x 10 GB", [20, 10 << 30], [691, 1630], 25_800_000_000),
];

const fn row(label: &'static str, of: [u64; 2], secs: [u32; 2], first_at: u64) -> PublishedRow {
    let ([files, bytes], [list_secs, open_secs]) = (of, secs);
    PublishedRow { label, files, bytes, list_secs, open_secs, first_at }
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) published: PublishedRow,
    /// Time to locate the first file from the load point, in seconds.
    pub(super) first_secs: f64,
    pub(super) list_secs: f64,
    pub(super) open_secs: Spread,
    pub(super) as_they_come_secs: Spread,
}

pub(super) fn rows(seeds: u64) -> Vec<Row> {
    PUBLISHED.iter().map(|published| simulated(published, seeds)).collect()
}

fn simulated(published: &PublishedRow, seeds: u64) -> Row {
    let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
    let first = geometry.point(published.first_at);
    Row {
        published: *published,
        first_secs: timing.reach(&geometry.load_point(), &first).1,
        list_secs: list(published, &mut library()),
        open_secs: Spread::of((0..seeds).map(|seed| opens(published, seed, &mut library()))),
        as_they_come_secs: Spread::of((0..seeds).map(|seed| as_they_come(published, seed))),
    }
}

/// Returns a library with one drive, which takes the times that its schedule assumes.
pub(super) fn library() -> Simulation {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let config = Config::new(Timing::lto8(), 1);
    Simulation::new(Schedule::new(config, geometry.clone()), config.timing, geometry, 1)
}

impl PublishedRow {
    fn at(&self, file: u64) -> u64 {
        self.first_at + file * self.bytes
    }

    /// Returns the number of bytes of all files.
    pub(super) fn bytes_all(&self) -> u64 {
        self.files * self.bytes
    }

    /// Returns the position after the last file, in bytes.
    pub(super) fn end(&self) -> u64 {
        self.at(self.files)
    }

    fn add<H: Hardware>(&self, library: &mut Simulation<H>, at: Duration, kind: Kind, file: u64) {
        library.ask(at, ask(file, kind, source(1, self.at(file), self.bytes)));
    }
}

/// Recalls all files as one list. Returns the time in seconds.
pub(super) fn list<H: Hardware>(published: &PublishedRow, library: &mut Simulation<H>) -> f64 {
    for file in 0..published.files {
        published.add(library, Duration::ZERO, Kind::List, file);
    }
    library.run();
    library.now().as_secs_f64()
}

/// Recalls all files as opened by groups of programs. Returns the time in seconds.
pub(super) fn opens<H: Hardware>(
    published: &PublishedRow,
    seed: u64,
    library: &mut Simulation<H>,
) -> f64 {
    let mut random = seeded(seed);
    let mut begin = Duration::ZERO;
    for first in (0..published.files).step_by(usize::try_from(TOGETHER).unwrap_or(usize::MAX)) {
        let mut at = begin;
        for file in arrivals(published, first, &mut random) {
            published.add(library, at, Kind::Open, file);
            at += APART;
        }
        library.run();
        begin = library.now() + PAUSE;
    }
    library.now().as_secs_f64()
}

/// Returns the files of one group, in the order in which they are opened.
fn arrivals(published: &PublishedRow, first: u64, random: &mut Random) -> Vec<u64> {
    let files = first..published.files.min(first + TOGETHER);
    let late = files.map(|file| (float(file) + fraction(random) * LATE_MAX, file));
    let mut late: Vec<(f64, u64)> = late.collect();
    late.sort_by(|a, b| a.0.total_cmp(&b.0));
    late.into_iter().map(|(_, file)| file).collect()
}

/// Returns the time in seconds that the same requests take one by one, in the order of arrival.
fn as_they_come(published: &PublishedRow, seed: u64) -> f64 {
    let (timing, geometry) = (Timing::lto8(), Geometry::even(MEDIUM_LTO8));
    let mut random = seeded(seed);
    let mut head = geometry.point(published.first_at);
    let mut secs = timing.mount_secs() + timing.locate.secs(&geometry.load_point(), &head);
    for first in (0..published.files).step_by(usize::try_from(TOGETHER).unwrap_or(usize::MAX)) {
        secs += if first == 0 { 0.0 } else { PAUSE_SECS };
        for file in arrivals(published, first, &mut random) {
            let start = geometry.point(published.at(file));
            secs += timing.locate.secs(&head, &start) + OPEN_SECS;
            secs += timing.transfer_secs(published.bytes);
            head = geometry.point(published.at(file) + published.bytes);
        }
    }
    secs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_take_no_longer_than_published_and_opened_files_little_more_than_lists() {
        for row in rows(2) {
            let label = row.published.label;
            assert!(row.list_secs.round() <= f64::from(row.published.list_secs), "{label}");
            assert!(row.open_secs.most <= 1.2 * row.list_secs, "{label}");
        }
    }

    #[test]
    fn the_model_gives_back_what_opened_files_took_one_by_one() {
        for row in rows(8) {
            let ratio = row.as_they_come_secs.median / f64::from(row.published.open_secs);
            assert!((0.9..1.1).contains(&ratio), "{}: {ratio}", row.published.label);
        }
    }
}
