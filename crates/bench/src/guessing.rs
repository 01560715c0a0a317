//! `bench guessing`: whether the time of a backup tells a node what another node has.
//!
//! ```text
//!   for each length:  the owner backs up some contents -> for each content, in random order:
//!                       the guesser backs up the same content
//!                       the guesser backs up a content that nobody has
//! ```
//!
//! If the time tells nothing, the content of the owner is as often the quicker one as the other.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::{Node, Server};
use serde_json::{Value, json};

use crate::arguments::{WorkArgs, number};
use crate::machine::{self, Machine};
use crate::output;
use crate::random::Random;
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;

/// Compare the times of backups of contents that another node has and of contents that nobody has
///
/// Nodes share chunks of 64 KiB and more. The times of shorter contents should tell nothing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of guesses of each length
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number(1..=10_000))]
    guesses: usize,
    #[command(flatten)]
    work: WorkArgs,
    /// Write one JSON document with every sample
    #[arg(long)]
    json: bool,
}

/// Lengths of contents: two that nodes do not share, and two that they share.
const LENGTHS: [usize; 4] = [5000, (64 << 10) - 1, 64 << 10, 200_000];
/// Added to the seeds of the contents that nobody has.
const NEW: u64 = 1 << 32;

/// The backups of one content of each kind by the guesser.
struct Pair {
    /// Time for the content that the owner has.
    known: Duration,
    /// Time for the content that nobody has.
    new: Duration,
}

/// The guesses of contents of one length.
struct Guesses {
    length: usize,
    pairs: Vec<Pair>,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let load_before = machine::load();
    let workplace = Workplace::below(&args.work.folder(), Path::new("/nowhere"))?;
    let mut server = Server::start(&workplace.path().join("server"));
    let [owner, guesser] = ["owner", "guesser"].map(|name| Node::enrol(&server, name));
    let mut all = Vec::new();
    for length in LENGTHS {
        output::step(&format!("contents of {length} bytes"));
        let folder = workplace.folder(&length.to_string())?;
        let contents = Contents { folder, length };
        all.push(Guesses { length, pairs: contents.guess(&owner, &guesser, args.guesses)? });
    }
    drop(server.terminate());
    let loads = (load_before, machine::load());
    if args.json {
        return output::result(&document(&all, &loads).to_string());
    }
    output::result(&table(&all))
}

/// Contents of one length, each in a folder of its own.
struct Contents {
    folder: PathBuf,
    length: usize,
}

impl Contents {
    fn guess(&self, owner: &Node, guesser: &Node, count: usize) -> Result<Vec<Pair>, Trouble> {
        let count = count as u64;
        for seed in 0..count {
            self.plant("owner", seed)?;
        }
        owner.backup(&self.folder.join("owner"), &[]).expect(&[0]);
        let mut order = Random::new(self.length as u64);
        let mut pair = |seed: u64| -> Result<Pair, Trouble> {
            let is_known_first = order.below(2) == 0;
            let first = self.time(guesser, if is_known_first { seed } else { NEW + seed })?;
            let second = self.time(guesser, if is_known_first { NEW + seed } else { seed })?;
            let (known, new) = if is_known_first { (first, second) } else { (second, first) };
            Ok(Pair { known, new })
        };
        (0..count).map(&mut pair).collect()
    }

    /// Backs up the content of this seed alone. Returns the time that it took.
    fn time(&self, guesser: &Node, seed: u64) -> Result<Duration, Trouble> {
        let folder = self.plant("guesser", seed)?;
        let began = sys::clock::monotonic();
        guesser.backup(&folder, &[]).expect(&[0]);
        Ok(began.elapsed())
    }

    /// Makes a file with the content of this seed. Returns its folder.
    fn plant(&self, node: &str, seed: u64) -> Result<PathBuf, Trouble> {
        let folder = self.folder.join(node).join(seed.to_string());
        let mut content = vec![0; self.length];
        Random::new(seed ^ ((self.length as u64) << 40)).fill(&mut content);
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("file"), content));
        written.while_doing(|| format!("make a file in {}", folder.display()))?;
        Ok(folder)
    }
}

impl Guesses {
    fn spread(&self, time: impl Fn(&Pair) -> Duration) -> Spread {
        Spread::of(self.pairs.iter().map(|pair| time(pair).as_secs_f64() * 1000.0))
    }

    /// Returns the share of the guesses in which the content of the owner was the quicker one.
    fn quicker(&self) -> f64 {
        let quicker = self.pairs.iter().filter(|pair| pair.known < pair.new).count();
        float(quicker as u64) / float(self.pairs.len() as u64)
    }
}

fn table(all: &[Guesses]) -> String {
    let mut text =
        "| bytes | another node has it, ms | nobody has it, ms | the first is quicker |\n\
                    |---|---|---|---|\n"
            .to_owned();
    for guesses in all {
        let (known, new) = (guesses.spread(|pair| pair.known), guesses.spread(|pair| pair.new));
        let quicker = 100.0 * guesses.quicker();
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {quicker:.0} % of {} |",
            guesses.length,
            known.median,
            new.median,
            guesses.pairs.len()
        );
    }
    text
}

fn document(all: &[Guesses], (before, after): &(String, String)) -> Value {
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let pair = |pair: &Pair| json!({"known_ms": millis(pair.known), "new_ms": millis(pair.new)});
    let length = |guesses: &Guesses| {
        json!({
            "bytes": guesses.length,
            "known_quicker": guesses.quicker(),
            "guesses": guesses.pairs.iter().map(pair).collect::<Vec<_>>(),
        })
    };
    json!({
        "machine": Machine::read().document(before, after),
        "lengths": all.iter().map(length).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_quicker_contents_is_that_of_the_pairs() {
        let pair = |known, new| Pair {
            known: Duration::from_millis(known),
            new: Duration::from_millis(new),
        };
        let pairs = vec![pair(1, 2), pair(3, 2), pair(2, 2), pair(1, 4)];
        let guesses = Guesses { length: 5000, pairs };
        assert!((guesses.quicker() - 0.5).abs() < f64::EPSILON);
        let row = "| 5000 | 1.5 | 2.0 | 50 % of 4 |";
        assert!(table(&[guesses]).contains(row));
    }
}
