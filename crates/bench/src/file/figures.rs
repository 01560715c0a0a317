//! The results of `bench file`: sums, limits, shares of the limits, and the growth of memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::stages::Stages;
use crate::effort::Effort;
use crate::machine::Machine;
use crate::output;
use crate::site::Sample;
use crate::spread::{Spread, float};

const MIB: f64 = 1_048_576.0;
const LABEL_COLUMNS: usize = 34;
const VALUE_COLUMNS: usize = 28;

pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// Results of the two sizes, the smaller size first.
    pub(crate) sizes: Vec<Series>,
}

/// All rounds with one size of the file.
pub(crate) struct Series {
    pub(crate) bytes: u64,
    pub(crate) rounds: Vec<Round>,
}

pub(crate) struct Round {
    pub(crate) stages: Stages,
    /// Time for writing the compressed data, including the wait until it is on the disk.
    pub(crate) store: Effort,
    /// Time for writing a copy of the file, without a wait for the disk, because a restore does not
    /// wait for the disk either.
    pub(crate) make: Effort,
    pub(crate) first: Sample,
    pub(crate) pool_bytes: u64,
    pub(crate) restore: Sample,
    pub(crate) differences: u64,
}

impl Round {
    /// Returns the time of the stages of a first backup one after the other, in seconds. A stage
    /// uses all cores if it can.
    fn first_sum(&self) -> f64 {
        let Stages { read, cut, compress, check, .. } = self.stages;
        [read, cut, compress, check, self.store]
            .iter()
            .map(|spent| spent.wall.as_secs_f64())
            .sum()
    }

    /// Returns the time of the stages of a restore one after the other, in seconds.
    fn restore_sum(&self) -> f64 {
        (self.stages.check.wall + self.make.wall).as_secs_f64()
    }

    /// Returns the time of a first backup whose stages overlap perfectly, in seconds.
    fn first_limit(&self, cores: usize) -> f64 {
        let Stages { read, cut, compress, .. } = self.stages;
        let all = [read, cut, compress, self.store].map(|spent| spent.cpu);
        limit(all, cores, self.store.wall)
    }

    /// Returns the same limit for a server that checks all data that it receives.
    fn checked_limit(&self, cores: usize) -> f64 {
        let Stages { read, cut, compress, check, .. } = self.stages;
        let all = [read, cut, compress, check, self.store].map(|spent| spent.cpu);
        limit(all, cores, self.store.wall)
    }

    /// Returns the time of a restore whose stages overlap perfectly, in seconds. Only one thread at
    /// a time can write to a file. A restore does not wait for the disk, but the kernel does not
    /// let a thread write far ahead of the disk.
    fn restore_limit(&self, cores: usize) -> f64 {
        limit([self.stages.check, self.make].map(|spent| spent.cpu), cores, self.make.wall)
    }
}

/// Returns the time of stages that overlap perfectly, in seconds. `alone` is the time of the stage
/// that uses the disk.
fn limit<const N: usize>(cpu: [Duration; N], cores: usize, alone: Duration) -> f64 {
    let cores = float(u64::try_from(cores).unwrap_or(1).max(1));
    let cpu: Duration = cpu.iter().sum();
    (cpu.as_secs_f64() / cores).max(alone.as_secs_f64())
}

impl Results {
    pub(crate) fn text(&self) -> String {
        let machine = &self.machine;
        let mut lines = vec![
            format!(
                "Machine   {}, {:.1} GiB memory, Linux {}",
                output::counted(machine.cores, "core"),
                float(machine.memory_bytes) / MIB / 1024.0,
                machine.kernel
            ),
            "Values    medians, with the least and the greatest value".to_owned(),
            String::new(),
        ];
        let sizes = self.sizes.iter().map(|one| format!("{:.0} MiB", float(one.bytes) / MIB));
        lines.push(row("file", sizes));
        lines.extend(self.lines());
        lines.extend(self.growth());
        lines.join("\n")
    }

    fn lines(&self) -> Vec<String> {
        let cores = self.machine.cores;
        let line = |label: &str, figure: &dyn Fn(&Series, &Round) -> f64| {
            let spread =
                |one: &Series| Spread::of(one.rounds.iter().map(|round| figure(one, round)));
            row(label, self.sizes.iter().map(|one| cell(spread(one))))
        };
        let secs = |sample: &Sample| sample.wall.as_secs_f64();
        let mut lines = Vec::new();
        for (index, (name, _)) in Stages::default().named().into_iter().enumerate() {
            let cpu = |_: &Series, round: &Round| round.stages.named()[index].1.cpu.as_secs_f64();
            lines.push(line(&format!("stage {name}, CPU s"), &cpu));
        }
        lines.push(line("stage store, CPU s", &|_, one| one.store.cpu.as_secs_f64()));
        lines.push(line("stage store, s", &|_, one| one.store.wall.as_secs_f64()));
        lines.push(line("stage make, CPU s", &|_, one| one.make.cpu.as_secs_f64()));
        lines.push(line("stage make, s", &|_, one| one.make.wall.as_secs_f64()));
        lines.push(line("stored by the stages, MiB", &|_, one| {
            float(one.stages.stored_bytes) / MIB
        }));
        lines.push(line("stored in the pool, MiB", &|_, one| float(one.pool_bytes) / MIB));
        lines.push(line("first backup, s", &|_, one| secs(&one.first)));
        lines.push(line("  MiB/s", &|size, one| float(size.bytes) / MIB / secs(&one.first)));
        lines.push(line("  client CPU, s", &|_, one| one.first.client_cpu.as_secs_f64()));
        lines.push(line("  server CPU, s", &|_, one| one.first.server_cpu.as_secs_f64()));
        lines.push(line("  sum of the stages, s", &|_, one| one.first_sum()));
        lines.push(line("  rate / rate of the sum", &|_, one| one.first_sum() / secs(&one.first)));
        lines.push(line("  limit, s", &|_, one| one.first_limit(cores)));
        lines.push(line("  rate / rate of the limit", &|_, one| {
            one.first_limit(cores) / secs(&one.first)
        }));
        lines.push(line("  the same with the server's check", &|_, one| {
            one.checked_limit(cores) / secs(&one.first)
        }));
        lines.push(line("  client peak memory, MiB", &|_, one| client_mib(&one.first)));
        lines.push(line("  server peak memory, MiB", &|_, one| server_mib(&one.first)));
        lines.push(line("restore, s", &|_, one| secs(&one.restore)));
        lines.push(line("  MiB/s", &|size, one| float(size.bytes) / MIB / secs(&one.restore)));
        lines.push(line("  client CPU, s", &|_, one| one.restore.client_cpu.as_secs_f64()));
        lines.push(line("  server CPU, s", &|_, one| one.restore.server_cpu.as_secs_f64()));
        lines.push(line("  sum of the stages, s", &|_, one| one.restore_sum()));
        lines.push(line("  rate / rate of the sum", &|_, one| {
            one.restore_sum() / secs(&one.restore)
        }));
        lines.push(line("  limit, s", &|_, one| one.restore_limit(cores)));
        lines.push(line("  rate / rate of the limit", &|_, one| {
            one.restore_limit(cores) / secs(&one.restore)
        }));
        lines.push(line("  client peak memory, MiB", &|_, one| client_mib(&one.restore)));
        lines.push(line("  server peak memory, MiB", &|_, one| server_mib(&one.restore)));
        lines.push(line("differences", &|_, one| float(one.differences)));
        lines
    }

    /// Returns the lines about the growth of memory from the smaller to the larger file.
    fn growth(&self) -> Vec<String> {
        let [smaller, larger] = self.sizes.as_slice() else { return Vec::new() };
        let growth = |figure: &dyn Fn(&Round) -> f64| {
            let median = |one: &Series| Spread::of(one.rounds.iter().map(figure)).median;
            median(larger) / median(smaller).max(f64::MIN_POSITIVE)
        };
        vec![
            String::new(),
            format!(
                "Memory    larger file / smaller file: backup client {:.2}, server {:.2}; \
                 restore client {:.2}, server {:.2}",
                growth(&|one| client_mib(&one.first)),
                growth(&|one| server_mib(&one.first)),
                growth(&|one| client_mib(&one.restore)),
                growth(&|one| server_mib(&one.restore)),
            ),
        ]
    }

    pub(crate) fn document(&self) -> Value {
        let cores = self.machine.cores;
        let round = |round: &Round| {
            json!({
                "alone": round.stages.json(),
                "store": round.store.json(),
                "make": round.make.json(),
                "first": round.first.json(),
                "first_sum_secs": round.first_sum(),
                "first_limit_secs": round.first_limit(cores),
                "first_checked_limit_secs": round.checked_limit(cores),
                "pool_bytes": round.pool_bytes,
                "restore": round.restore.json(),
                "restore_sum_secs": round.restore_sum(),
                "restore_limit_secs": round.restore_limit(cores),
                "differences": round.differences,
            })
        };
        let sizes = self.sizes.iter().map(|one| {
            let rounds: Vec<Value> = one.rounds.iter().map(round).collect();
            json!({"bytes": one.bytes, "rounds": rounds})
        });
        json!({
            "machine": {
                "cores": cores,
                "kernel": self.machine.kernel,
                "memory_bytes": self.machine.memory_bytes,
            },
            "sizes": sizes.collect::<Vec<_>>(),
        })
    }
}

fn client_mib(sample: &Sample) -> f64 {
    float(sample.client_memory_bytes) / MIB
}

fn server_mib(sample: &Sample) -> f64 {
    float(sample.server_memory_bytes) / MIB
}

fn row(label: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("{cell:>VALUE_COLUMNS$}")).collect();
    format!("{label:<LABEL_COLUMNS$}{cells}")
}

fn cell(Spread { median, least, most }: Spread) -> String {
    let is_count = [median, least, most].iter().all(|value| value.fract() == 0.0);
    let decimals = match median.abs() {
        _ if is_count => 0,
        ..10.0 => 2,
        _ => 1,
    };
    if least.total_cmp(&most).is_eq() {
        return format!("{median:.decimals$}");
    }
    format!("{median:.decimals$} ({least:.decimals$} .. {most:.decimals$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_processors_or_the_disk() {
        let secs = Duration::from_secs;
        assert!((limit([secs(3), secs(5)], 2, secs(1)) - 4.0).abs() < 1e-9);
        assert!((limit([secs(3), secs(5)], 2, secs(9)) - 9.0).abs() < 1e-9);
    }

    #[test]
    fn cells_show_how_far_values_spread() {
        assert_eq!(cell(Spread::of([0.0, 0.0])), "0");
        assert_eq!(cell(Spread::of([1.25])), "1.25");
        assert_eq!(cell(Spread::of([10.0, 20.5, 40.0])), "20.5 (10.0 .. 40.0)");
    }
}
