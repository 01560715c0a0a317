//! All rounds. In each round every entrant has a turn, and each round begins with another entrant.

use std::path::PathBuf;

use super::cold::{self, ColdRun};
use super::entrant::{self, Entrant, MissingPeer, Standing};
use super::mutation::{self, Mutation};
use super::turn::{Phase, Stage, Turn};
use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner};
use crate::site::Sample;
use crate::spread::Spread;
use crate::trouble::Trouble;
use crate::walk::{self, Tally};
use crate::workplace::{self, Workplace};

/// The measurements to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub(crate) tree: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) only: Vec<String>,
    pub(crate) work: PathBuf,
    pub(crate) is_cold: bool,
    pub(crate) mutates: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) tree: PathBuf,
    pub(crate) tally: Tally,
    pub(crate) machine: Machine,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    pub(crate) in_memory: bool,
    pub(crate) rounds: usize,
    pub(crate) entries: Vec<Entry>,
    pub(crate) missing: Vec<MissingPeer>,
    pub(crate) cold: Option<ColdRun>,
    pub(crate) mutation: Option<Mutation>,
}

/// An entrant and its turns, one for each round.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) entrant: Entrant,
    pub(crate) turns: Vec<Turn>,
}

impl Entry {
    pub(crate) fn spread(&self, phase: Phase, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        let samples: Vec<&Sample> = self
            .turns
            .iter()
            .filter_map(|turn| turn.samples.get(&phase))
            .flatten()
            .collect();
        (!samples.is_empty()).then(|| Spread::of(samples.into_iter().map(figure)))
    }

    pub(crate) fn wall(&self, phase: Phase) -> Option<Spread> {
        self.spread(phase, |sample| sample.wall.as_secs_f64())
    }

    pub(crate) fn stored(&self) -> Option<Spread> {
        let bytes: Vec<u64> = self.turns.iter().filter_map(|turn| turn.stored_bytes).collect();
        let spread = || Spread::of(bytes.iter().map(|bytes| crate::spread::float(*bytes)));
        (!bytes.is_empty()).then(spread)
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.turns.iter().find_map(|turn| turn.failure.as_deref())
    }
}

impl Results {
    pub(crate) fn holdfast(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.entrant.standing() == Standing::Holdfast)
    }

    /// Returns the peer with the least `figure`, and the figure. Baselines do not count as peers.
    pub(crate) fn least(&self, figure: impl Fn(&Entry) -> Option<f64>) -> Option<(&Entry, f64)> {
        self.entries
            .iter()
            .filter(|entry| entry.entrant.standing() == Standing::Peer)
            .filter_map(|entry| Some((entry, figure(entry)?)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
    }
}

pub(crate) fn hold(order: &Order) -> Result<Results, Trouble> {
    let program = process::find_program()?;
    let tree = workplace::resolve(&order.tree)?;
    let load_before = machine::load();
    let (entrants, missing) = entrant::gather(&order.only, &program)?;
    let workplace = Workplace::below(&order.work, &tree)?;
    let in_memory = workplace.is_memory()?;
    let tally = walk::walk(&tree)?;
    check_room(&workplace, &tally, order, if in_memory { 1 } else { entrants.len() })?;
    let runner = Runner::new(program, workplace.folder("outputs")?);
    let outputs = workplace.path().join("outputs");
    let mut results = Results {
        tree: tree.clone(),
        tally,
        machine: Machine::read(),
        load_before,
        load_after: String::new(),
        in_memory,
        rounds: order.rounds,
        entries: entrants
            .into_iter()
            .map(|entrant| Entry { entrant, turns: Vec::new() })
            .collect(),
        missing,
        cold: None,
        mutation: None,
    };
    for round in 0..order.rounds {
        let stage = Stage {
            source: &tree,
            runner: &runner,
            outputs: &outputs,
            compares_peers: round == 0,
            in_memory,
        };
        for index in entrant::order(round, results.entries.len()) {
            let entry = &mut results.entries[index];
            let name = &entry.entrant.name;
            output::step(&format!("round {} of {}: {name}", round + 1, order.rounds));
            let folder = workplace.folder(&format!("{name}-{}", round + 1))?;
            entry.turns.push(stage.turn(&entry.entrant, &folder)?);
            workplace::clear(&folder, in_memory)?;
        }
    }
    let stage = Stage {
        source: &tree,
        runner: &runner,
        outputs: &outputs,
        compares_peers: false,
        in_memory,
    };
    if order.is_cold {
        let fastest = results.least(|entry| Some(entry.wall(Phase::Unchanged)?.median));
        let fastest = fastest.map(|(entry, _)| &entry.entrant);
        results.cold = Some(cold::measure(&stage, fastest, &workplace)?);
    }
    if order.mutates {
        results.mutation = Some(mutation::measure(&stage, order.rounds, &workplace)?);
    }
    results.load_after = machine::load();
    Ok(results)
}

fn check_room(
    workplace: &Workplace,
    tally: &Tally,
    order: &Order,
    kept: usize,
) -> Result<(), Trouble> {
    let rounds = if kept == 1 { 1 } else { order.rounds };
    // Each program stores one copy of the tree and restores one copy. On a disk Holdfast keeps two
    // more: the files that `creation` makes, and a second restored tree.
    let copies = u64::try_from(2 * (kept + usize::from(kept > 1)) * rounds).unwrap_or(u64::MAX);
    let needed = workplace::tree_bytes(tally).saturating_mul(copies);
    workplace
        .check_bytes(needed, &format!("{} of all programs", output::counted(order.rounds, "round")))
}
