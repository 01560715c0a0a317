//! How long each part of a measurement may take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{disk, memory, processor, sample, walks};

/// How thorough a measurement is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// At most a minute.
    Quick,
    /// At most 15 minutes.
    Full,
}

/// Times of the parts. Those of a place are divided among the places.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    pub depth: Depth,
    /// True to drop the caches of the machine before trees are walked and read.
    pub cold: bool,
    places: u32,
}

/// Numbers of streams over the network.
pub(crate) const STREAMS: [u32; 2] = [1, 4];
/// Number of measurements over the network: each number of streams in each direction, with TLS and
/// without.
const TRANSFERS: u32 = 2 * 2 * crate::small(STREAMS.len());

/// Time that fio takes to start and to end, beside its job.
const FIO_SECS: f64 = 0.4;

impl Plan {
    /// Makes the plan for `places` places, at least one.
    pub fn new(depth: Depth, cold: bool, places: usize) -> Self {
        let places = u32::try_from(places).unwrap_or(u32::MAX).max(1);
        Self { depth, cold, places }
    }

    fn choose(&self, quick: f64, full: f64) -> Duration {
        Duration::from_secs_f64(if self.depth == Depth::Quick { quick } else { full })
    }

    fn for_place(&self, quick: f64, full: f64) -> Duration {
        self.choose(quick, full) / self.places
    }

    pub(crate) fn rate(&self) -> Duration {
        self.choose(0.35, 3.0)
    }

    /// Time of one transfer over the network.
    pub(crate) fn transfer(&self) -> Duration {
        self.choose(0.8, 8.0)
    }

    /// Returns the most time that the network takes.
    pub(crate) fn network(&self) -> Duration {
        self.transfer() * TRANSFERS
    }

    pub(crate) fn round_trips(&self) -> u32 {
        if self.depth == Depth::Quick { 50 } else { 500 }
    }

    pub(crate) fn survey(&self) -> Duration {
        self.for_place(8.0, 180.0)
    }

    /// Time of one walk.
    pub(crate) fn walk(&self) -> Duration {
        self.for_place(1.0, 8.0)
    }

    /// Numbers of threads of the walks.
    pub(crate) fn threads(&self) -> Vec<u32> {
        let all = walks::THREADS;
        match self.depth {
            Depth::Quick => all.into_iter().step_by(2).collect(),
            Depth::Full => all.into(),
        }
    }

    pub(crate) fn sample_part(&self) -> Duration {
        self.for_place(2.0, 25.0)
    }

    pub(crate) fn disk_job(&self) -> Duration {
        self.for_place(0.8, 18.0)
    }

    pub(crate) fn disk_file_bytes(&self) -> u64 {
        if self.depth == Depth::Quick { 512 << 20 } else { 4 << 30 }
    }

    pub(crate) fn creation(&self) -> Duration {
        self.for_place(1.0, 10.0)
    }

    fn walks(&self) -> u32 {
        let ways = if self.cold { 3 } else { 2 };
        u32::try_from(self.threads().len()).unwrap_or(0) * ways
    }

    /// Returns the most time that all parts of one place take.
    fn place(&self) -> Duration {
        let fio = Duration::from_secs_f64(FIO_SECS) * disk::JOBS;
        self.survey()
            + self.walk() * self.walks()
            + self.sample_part() * sample::PARTS
            + self.creation()
            + self.disk_job() * (disk::JOBS + 4)
            + fio
    }

    /// Returns the most time that the measurement takes.
    pub fn at_most(&self) -> Duration {
        self.rate() * (processor::RATES + memory::RATES)
            + self.network()
            + self.place() * self.places
    }
}

/// Returns a time in words, for a sentence.
pub(crate) fn duration_words(secs: f64) -> String {
    match secs {
        secs if !secs.is_finite() => "a time that is not known".to_owned(),
        secs if secs < 10.0 => format!("{secs:.2} s"),
        secs if secs < 120.0 => format!("{secs:.1} s"),
        secs if secs < 600.0 => format!("{:.1} minutes", secs / 60.0),
        secs if secs < 3600.0 => format!("{:.0} minutes", secs / 60.0),
        secs if secs < 172_800.0 => format!("{:.1} h", secs / 3600.0),
        secs => format!("{:.1} days", secs / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_plan_takes_a_minute_and_a_full_one_a_quarter_of_an_hour() {
        for (cold, places) in [(false, 1), (true, 1), (true, 3)] {
            let quick = Plan::new(Depth::Quick, cold, places).at_most().as_secs_f64();
            let full = Plan::new(Depth::Full, cold, places).at_most().as_secs_f64();
            let fio = FIO_SECS * f64::from(disk::JOBS) * crate::to_f64(places as u64 - 1);
            assert!((40.0..60.0 + fio).contains(&quick), "{quick}");
            assert!((600.0..900.0 + fio).contains(&full), "{full}");
        }
    }

    #[test]
    fn times_are_said_in_fitting_units() {
        assert_eq!(
            [0.02, 75.0, 150.0, 600.0, 32_400.0, 200_000.0].map(duration_words),
            ["0.02 s", "75.0 s", "2.5 minutes", "10 minutes", "9.0 h", "2.3 days"]
        );
    }
}
