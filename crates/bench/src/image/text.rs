//! The page `image.md`, and the document with all samples.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::rounds::{Round, Run};
use crate::output;
use crate::page;
use crate::site::{OTHER_CORES_MAX, Sample, other_cores};
use crate::spread::{Spread, float};

const MB: f64 = 1e6;
/// Least ratio of a rate to the rate of its limit that is aimed at.
const RATIO_TARGET: f64 = 0.9;
/// Largest time for the extraction of a small file that is aimed at, in seconds.
const EXTRACT_SECS_TARGET: f64 = 2.0;
/// Largest number of bytes for it.
const EXTRACT_BYTES_TARGET: f64 = 5e6;

pub(super) struct Results {
    pub(super) disk_bytes: u64,
    pub(super) cores: usize,
    pub(super) load_before: String,
    pub(super) load_after: String,
    pub(super) rounds: Vec<Round>,
}

/// Selection of one work of a round.
type OfRound = fn(&Round) -> &Run;

/// Works that have a limit.
const WORKS: [(&str, OfRound); 3] = [
    ("first image", |round| &round.first),
    ("second image, 1 % changed", |round| &round.second),
    ("restore to a new file", |round| &round.restore),
];

impl Results {
    pub(super) fn page(&self) -> String {
        [self.head(), self.works(), self.extraction(), self.by_round(), self.parts(), self.foot()]
            .concat()
    }

    fn spread(&self, figure: impl Fn(&Round) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }

    fn head(&self) -> String {
        let mb = |figure: fn(&Round) -> u64| {
            page::cell(self.spread(|round| float(figure(round)) / MB), 0)
        };
        format!(
            "{}\nA disk of {} GiB with ext4, a loop device. In use: {} MB, of which {} MB are not \
             zeros; stored: {} MB. Before the second image {} MB are overwritten, half of them in \
             single blocks of 4 KiB at random places; {} MB of chunks are new then.\n\n\
             Rounds: {}, each with a new server and node. Load: {} before, {} after. \
             Median (least .. most).\n\n",
            page::head("Images of a disk"),
            self.disk_bytes >> 30,
            mb(|round| round.first.bytes),
            mb(|round| round.data_bytes),
            mb(|round| round.pool_bytes),
            mb(|round| round.changed_bytes),
            mb(|round| round.new_bytes),
            self.rounds.len(),
            self.load_before,
            self.load_after,
        )
    }

    fn works(&self) -> String {
        let row = |(name, run): (&str, OfRound)| {
            let rate = |secs: &dyn Fn(&Run) -> f64| {
                let rate =
                    |round: &Round| float(run(round).bytes) / MB / secs(run(round)).max(1e-9);
                page::cell(self.spread(rate), 0)
            };
            let ratio = self.spread(|round| run(round).ratio(self.cores));
            vec![
                name.to_owned(),
                page::cell(self.spread(|round| run(round).secs()), 2),
                rate(&Run::secs),
                rate(&|run| run.disk.wall.as_secs_f64()),
                rate(&|run| run.processors_secs(self.cores)),
                rate(&|run| run.limit_secs(self.cores)),
                page::cell(ratio, 2),
                verdict(ratio.median >= RATIO_TARGET),
            ]
        };
        let ratio = format!("rate / limit, aim {RATIO_TARGET}");
        let head = ["", "s", "MB/s", "disk, MB/s", "processors, MB/s", "limit, MB/s", &ratio, ""];
        let rows: Vec<_> = WORKS.into_iter().map(row).collect();
        format!(
            "{}\nThe rate of an image counts all bytes in use, that of a restore the bytes that \
             are not zeros. The limit is the slower of the\ndisk, measured alone, and the \
             processors; for the second image it is the disk. Client and server share the \
             processors and\nthe disk. The limits count no write to the pool, and no read from \
             it.\n",
            page::table(&head, &rows)
        )
    }

    fn extraction(&self) -> String {
        let secs = self.spread(|round| round.extract.wall.as_secs_f64());
        let bytes = self.spread(|round| float(round.extract.bytes_transferred));
        let mb = self.spread(|round| float(round.extract.bytes_transferred) / MB);
        let row = |name: &str, cell: String, aim: f64, is_reached: bool| {
            vec![name.to_owned(), cell, format!("{aim}"), verdict(is_reached)]
        };
        let rows = [
            row("s", page::cell(secs, 2), EXTRACT_SECS_TARGET, secs.median <= EXTRACT_SECS_TARGET),
            row(
                "MB transferred",
                page::cell(mb, 2),
                EXTRACT_BYTES_TARGET / MB,
                bytes.median <= EXTRACT_BYTES_TARGET,
            ),
        ];
        let head = ["extraction of a small file", "", "aim, at most", ""];
        format!("\n{}", page::table(&head, &rows))
    }

    fn by_round(&self) -> String {
        let row = |(number, round): (usize, &Round)| {
            let ratios = WORKS.map(|(_, run)| format!("{:.2}", run(round).ratio(self.cores)));
            let others = WORKS.map(|(_, run)| format!("{:.2}", other_cores(&[&run(round).sample])));
            [Vec::from([number.to_string()]), ratios.into(), others.into()].concat()
        };
        let rows: Vec<_> = (1..).zip(&self.rounds).map(row).collect();
        let others = "cores that others keep busy: first";
        let head = ["round", "first", "second", "restore", others, "second", "restore"];
        format!(
            "\nRatios of each round, against the limits of the same round. Other programs make a \
             ratio smaller, because a limit has all\nprocessors for itself:\n\n{}",
            page::table(&head, &rows)
        )
    }

    fn parts(&self) -> String {
        let Some(names) = self.rounds.first().map(|round| round.parts.rates()) else {
            return String::new();
        };
        let row = |(index, (name, _)): (usize, (&str, f64))| {
            let rate = self.spread(|round| round.parts.rates()[index].1 / MB);
            vec![name.to_owned(), page::cell(rate, 0)]
        };
        let rows: Vec<_> = names.into_iter().enumerate().map(row).collect();
        let table = page::table(&["part, alone on one core", "MB/s of data"], &rows);
        let ratio = page::cell(self.spread(|round| round.parts.ratio()), 2);
        let cpu = |name: &str, run: OfRound| {
            let secs = |figure: fn(&Sample) -> f64| {
                page::cell(self.spread(|round| figure(&run(round).sample)), 2)
            };
            vec![
                name.to_owned(),
                secs(|sample| sample.client_cpu.as_secs_f64()),
                secs(|sample| sample.server_cpu.as_secs_f64()),
                page::cell(self.spread(|round| run(round).cpu_secs), 2),
            ]
        };
        let rows = WORKS.map(|(name, run)| cpu(name, run));
        let used = page::table(&["processor time, s", "client", "server", "parts alone"], &rows);
        format!("\n{table}\nCompressed to {ratio}.\n\n{used}")
    }

    fn foot(&self) -> String {
        let mut text = String::new();
        let differences: u64 = self.rounds.iter().map(|round| round.differences).sum();
        let ratio = other_cores(&self.rounds.iter().flat_map(samples).collect::<Vec<_>>());
        if ratio > OTHER_CORES_MAX {
            let _written = writeln!(
                text,
                "\nOther programs and the kernel's threads, those of the loop device among them, \
                 kept {ratio:.1} cores busy."
            );
        }
        let _written = match differences {
            0 => writeln!(text, "\nThe restored disks and the extracted files were equal."),
            count => {
                let found = output::counted(count, "difference");
                writeln!(text, "\n**Restored disks and extracted files had {found}.**")
            }
        };
        text
    }

    pub(super) fn document(&self) -> Value {
        let round = |round: &Round| {
            let Round { parts, first, second, restore, extract, .. } = round;
            json!({
                "parts": parts.json(),
                "first": first.json(self.cores),
                "second": second.json(self.cores),
                "restore": restore.json(self.cores),
                "extract": extract.json(),
                "data_bytes": round.data_bytes,
                "changed_bytes": round.changed_bytes,
                "new_bytes": round.new_bytes,
                "pool_bytes": round.pool_bytes,
                "differences": round.differences,
            })
        };
        let ratio = |run: OfRound| self.spread(|round| run(round).ratio(self.cores)).json();
        let extract_secs = self.spread(|round| round.extract.wall.as_secs_f64());
        json!({
            "disk_bytes": self.disk_bytes,
            "cores": self.cores,
            "load_before": self.load_before,
            "load_after": self.load_after,
            "first_ratio": ratio(|round| &round.first),
            "second_ratio": ratio(|round| &round.second),
            "restore_ratio": ratio(|round| &round.restore),
            "extract_secs": extract_secs.json(),
            "rounds": self.rounds.iter().map(round).collect::<Vec<_>>(),
        })
    }
}

fn samples(round: &Round) -> Vec<&Sample> {
    Vec::from([&round.first.sample, &round.second.sample, &round.restore.sample, &round.extract])
}

fn verdict(is_reached: bool) -> String {
    if is_reached { "reached" } else { "**missed**" }.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::effort::Effort;
    use crate::image::parts::Parts;

    fn run(secs: u64, disk_secs: u64, cpu_secs: f64, is_of_disk: bool) -> Run {
        let sample = Sample { wall: Duration::from_secs(secs), ..Sample::default() };
        let disk = Effort { wall: Duration::from_secs(disk_secs), ..Effort::default() };
        Run { sample, bytes: 1_000_000_000, disk, cpu_secs, is_of_disk }
    }

    #[test]
    fn a_ratio_is_that_to_the_slower_of_disk_and_processors() {
        let round = Round {
            parts: Parts::default(),
            first: run(10, 2, 16.0, false),
            second: run(10, 5, 16.0, true),
            restore: run(10, 10, 2.0, false),
            extract: Sample { bytes_transferred: 6_000_000, ..Sample::default() },
            data_bytes: 0,
            changed_bytes: 0,
            new_bytes: 0,
            pool_bytes: 0,
            differences: 0,
        };
        let load = || "0".to_owned();
        let (load_before, load_after, rounds) = (load(), load(), Vec::from([round]));
        let results = Results { disk_bytes: 1 << 30, cores: 2, load_before, load_after, rounds };
        let page = results.page();
        for row in [
            "| first image | 10.00 | 100 | 500 | 125 | 125 | 0.80 | **missed** |",
            "| second image, 1 % changed | 10.00 | 100 | 200 | 125 | 200 | 0.50 | **missed** |",
            "| restore to a new file | 10.00 | 100 | 100 | 1000 | 100 | 1.00 | reached |",
            "| s | 0.00 | 2 | reached |",
            "| MB transferred | 6.00 | 5 | **missed** |",
            "| 1 | 0.80 | 0.50 | 1.00 | 0.00 | 0.00 | 0.00 |",
        ] {
            assert!(page.contains(row), "{row} is not in\n{page}");
        }
        assert_eq!(results.document()["second_ratio"]["median"], 0.5);
    }
}
