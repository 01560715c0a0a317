//! The page `mount.md`.

use std::time::Duration;

use serde_json::{Value, json};

use super::trial::{Reading, Round};
use crate::page;
use crate::spread::{Spread, float};

const FIND_AIM: f64 = 100_000.0;
const TAR_AIM: f64 = 0.7;
const LARGE_AIM: f64 = 400e6;
const MEMORY_AIM: f64 = 150e6;

pub(super) struct Results {
    pub(super) large_bytes: u64,
    pub(super) rounds: Vec<Round>,
}

/// A figure that has an aim.
struct Figure {
    work: &'static str,
    unit: &'static str,
    spread: Spread,
    aim: f64,
    /// True if less is better.
    is_limit: bool,
}

impl Figure {
    fn is_reached(&self) -> bool {
        match self.is_limit {
            true => self.spread.median <= self.aim,
            false => self.spread.median >= self.aim,
        }
    }

    fn row(&self, decimals: usize) -> Vec<String> {
        let reached = if self.is_reached() { "reached" } else { "**missed**" };
        vec![
            format!("{}, {}", self.work, self.unit),
            page::cell(self.spread, decimals),
            format!("{:.decimals$}", self.aim),
            reached.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "work": self.work,
            "unit": self.unit,
            "value": self.spread.json(),
            "aim": self.aim,
            "is_reached": self.is_reached(),
        })
    }
}

impl Results {
    fn spread(&self, value: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(value))
    }

    fn rates(&self) -> [Figure; 3] {
        let large_bytes = float(self.large_bytes);
        let figure = |work, unit, spread, aim| Figure { work, unit, spread, aim, is_limit: false };
        let objects = |round: &Round| float(round.objects) / secs(round.find.wall);
        let restore = |round: &Round| secs(round.restore) / secs(round.tar.wall);
        let large = |round: &Round| large_bytes / secs(round.large.wall);
        [
            figure("find", "objects/s", self.spread(objects), FIND_AIM),
            figure("tar", "rate of a restore", self.spread(restore), TAR_AIM),
            figure("large file", "bytes/s", self.spread(large), LARGE_AIM),
        ]
    }

    fn memory(&self) -> [Figure; 3] {
        let figure = |work, reading: fn(&Round) -> &Reading| Figure {
            work,
            unit: "MB of memory",
            spread: self.spread(|round| float(reading(round).memory_bytes) / 1e6),
            aim: MEMORY_AIM / 1e6,
            is_limit: true,
        };
        [
            figure("find", |round| &round.find),
            figure("tar", |round| &round.tar),
            figure("large file", |round| &round.large),
        ]
    }

    pub(super) fn page(&self) -> String {
        let decimals = |figure: &Figure| if figure.aim < 1.0 { 2 } else { 0 };
        let figures = self.rates().into_iter().chain(self.memory());
        let rows: Vec<_> = figures.map(|figure| figure.row(decimals(&figure))).collect();
        let reading = |work, of: fn(&Round) -> &Reading| {
            let wall = self.spread(|round| secs(of(round).wall));
            let cpu = self.spread(|round| secs(of(round).cpu));
            (work, wall, Some(cpu))
        };
        let times = [
            ("restore", self.spread(|round| secs(round.restore)), None),
            reading("find", |round| &round.find),
            reading("tar", |round| &round.tar),
            reading("large file", |round| &round.large),
        ];
        let time = |(work, wall, cpu): (&str, Spread, Option<Spread>)| {
            let cpu = cpu.map_or_else(|| "-".to_owned(), |cpu| page::cell(cpu, 1));
            vec![work.to_owned(), page::cell(wall, 1), cpu]
        };
        let times: Vec<_> = times.into_iter().map(time).collect();
        format!(
            "{}\nEach program reads a new mount of one backup. The memory is the peak of the \
             mount. The processor\ntime is that of the program, the mount and the server \
             together.\n\n{}\n{}",
            page::head("A backup through a mount"),
            page::table(&["figure", "median (least-most)", "aim", ""], &rows),
            page::table(&["work", "time, s", "processor time, s"], &times),
        )
    }

    pub(super) fn document(&self) -> Value {
        let figures = self.rates().into_iter().chain(self.memory());
        json!({
            "command": page::own_command_line(),
            "rounds": self.rounds.len(),
            "figures": figures.map(|figure| figure.json()).collect::<Vec<_>>(),
        })
    }
}

fn secs(time: Duration) -> f64 {
    time.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_aim_is_reached_or_missed() {
        let reading = |millis, memory_bytes| Reading {
            wall: Duration::from_millis(millis),
            cpu: Duration::ZERO,
            memory_bytes,
        };
        let round = Round {
            objects: 100_000,
            restore: Duration::from_secs(7),
            find: reading(900, 140_000_000),
            tar: reading(11_000, 200_000_000),
            large: reading(2000, 90_000_000),
        };
        let results = Results { large_bytes: 1_000_000_000, rounds: vec![round] };
        let reached = |figures: [Figure; 3]| figures.map(|figure| figure.is_reached());
        assert_eq!(reached(results.rates()), [true, false, true]);
        assert_eq!(reached(results.memory()), [true, false, true]);
        let page = results.page();
        assert_eq!(page.matches("**missed**").count(), 2, "{page}");
        assert!(page.contains("0.64"), "{page}");
    }
}
