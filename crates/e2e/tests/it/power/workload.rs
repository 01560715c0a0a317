//! The work of a server before its power is cut: backups of two nodes, archives, expiration,
//! reclamation and copies of the catalogue. The history says what was acknowledged when.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::harness::{Node, Server, succeeds};
use e2e::manifest::Manifest;
use e2e::nasty::Random;
use e2e::power::{Disk, Position};
use e2e::scratch::Scratch;

use crate::scene::{file_name, keep_only_active, manifest, plant_files};

const ROUNDS: u64 = 12;
const FILES: usize = 60;
const FILE_BYTES: usize = 30_000;
const CHANGED_FILES: usize = 12;
/// Number of changes for which a tree keeps the files that a change has made.
const CHANGES_KEPT: u64 = 3;

pub(super) struct History {
    pub(super) port: u16,
    /// The moment at which the server had said for the first time that it is ready.
    pub(super) made: Position,
    pub(super) actors: [Actor; 2],
    pub(super) archives: Vec<Archive>,
    pub(super) copies: Vec<Span>,
}

/// The time of a command, from its start to its acknowledgement.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) begun: Position,
    pub(super) acknowledged: Position,
}

/// A node, its tree, and all states of the tree that it has backed up.
pub(super) struct Actor {
    pub(super) node: Node,
    pub(super) tree: PathBuf,
    pub(super) states: Vec<State>,
    homes: Vec<Home>,
    /// Number of changes of the tree.
    changes: u64,
    random: Random,
}

pub(super) struct State {
    pub(super) manifest: Manifest,
    pub(super) span: Span,
}

/// A copy of the home of a node.
struct Home {
    since: Position,
    copy: PathBuf,
}

pub(super) struct Archive {
    pub(super) number: u64,
    pub(super) manifest: Manifest,
    pub(super) acknowledged: Position,
}

impl History {
    /// Returns the archives that were acknowledged before `position`.
    pub(super) fn archives_before(&self, position: Position) -> impl Iterator<Item = &Archive> {
        self.archives.iter().filter(move |archive| archive.acknowledged <= position)
    }

    /// Returns the moment of the newest copy of the catalogue that was acknowledged before
    /// `position`: the copy has everything that was acknowledged before that moment.
    pub(super) fn copied_before(&self, position: Position) -> Option<Position> {
        let before = self.copies.iter().rev().find(|span| span.acknowledged <= position);
        before.map(|span| span.begun)
    }

    /// Returns what had been acknowledged at `position`, for people.
    pub(super) fn shown(&self, position: Position) -> String {
        let [anna, bert] = self.actors.each_ref().map(|actor| {
            let before = |state: &&State| state.span.acknowledged <= position;
            actor.states.iter().filter(before).count()
        });
        let archives = self.archives_before(position).count();
        let before = |span: &&Span| span.acknowledged <= position;
        let copies = self.copies.iter().filter(before).count();
        format!(
            "after {anna} and {bert} backups, {archives} archives, {copies} copies of the catalogue"
        )
    }
}

impl Actor {
    fn enrol(server: &Server, name: &str, disk: &Disk, scratch: &Scratch) -> Self {
        let node = Node::enrol(server, name);
        let tree = scratch.folder(&format!("source/{name}"));
        // All trees begin with the same files, which the server stores once.
        plant_files(&tree, FILES, FILE_BYTES, 1);
        fs::create_dir(scratch.folder("homes").join(name)).unwrap();
        let random = Random::new(1, name.as_bytes());
        let (states, homes) = (Vec::new(), Vec::new());
        let mut actor = Self { node, tree, states, homes, changes: 0, random };
        actor.keep_home(disk.position(), scratch);
        actor
    }

    /// Changes some files, makes a few, and removes those of an earlier change.
    fn change(&mut self) {
        for _ in 0..CHANGED_FILES {
            let index = self.random.below(u32::try_from(FILES).unwrap()) as usize;
            let bytes = self.random.below(2 * u32::try_from(FILE_BYTES).unwrap()) as usize;
            fs::write(self.tree.join(file_name(index)), self.random.bytes(bytes)).unwrap();
        }
        if self.changes % 4 == 1 {
            fs::write(self.tree.join("large"), self.random.bytes(3 << 20)).unwrap();
        }
        let seed = self.random.word();
        let folder = |change: u64| self.tree.join(format!("change-{change}"));
        plant_files(&folder(self.changes), 4, FILE_BYTES, seed);
        if let Some(earlier) = self.changes.checked_sub(CHANGES_KEPT) {
            fs::remove_dir_all(folder(earlier)).unwrap();
        }
        self.changes += 1;
    }

    fn back_up(&mut self, disk: &Disk, scratch: &Scratch) {
        let (begun, manifest) = (disk.position(), manifest(&self.tree));
        self.node.backup(&self.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
        let span = Span { begun, acknowledged: disk.position() };
        self.states.push(State { manifest, span });
        self.keep_home(span.acknowledged, scratch);
    }

    fn archive(&mut self, disk: &Disk, scratch: &Scratch) -> Archive {
        let words = ["archive", self.tree.to_str().unwrap(), "--json"];
        let outcome = self.node.run(&words).expect(&[0]).counts(&[("failed", 0)]);
        let acknowledged = disk.position();
        let number = outcome.json()["archive"].as_u64().expect("a number");
        self.keep_home(acknowledged, scratch);
        Archive { number, manifest: manifest(&self.tree), acknowledged }
    }

    fn keep_home(&mut self, since: Position, scratch: &Scratch) {
        let name = format!("homes/{}/{}", self.node.name, self.homes.len());
        let copy = scratch.join(&name);
        copy_folder(self.node.home(), &copy);
        self.homes.push(Home { since, copy });
    }

    /// Returns the states that the tree may have at the server after a power cut at `cut`: the last
    /// that was acknowledged before `since`, and all that were begun after that and before the cut.
    pub(super) fn states(&self, since: Position, cut: Position) -> &[State] {
        let acknowledged = self.states.partition_point(|state| state.span.acknowledged <= since);
        let begun = self.states.partition_point(|state| state.span.begun < cut);
        &self.states[acknowledged.saturating_sub(1)..begun.max(acknowledged)]
    }

    /// Returns true if a backup was acknowledged before `position`.
    pub(super) fn is_stored(&self, position: Position) -> bool {
        self.states.first().is_some_and(|state| state.span.acknowledged <= position)
    }

    /// Gives the node the home that it had at `position`, or, with `is_ahead`, after its next
    /// command, so that it has grants that the power cut has taken back.
    pub(super) fn return_to(&self, position: Position, is_ahead: bool) {
        let count = self.homes.partition_point(|home| home.since <= position);
        assert!(count > 0, "the node was enrolled before the cut");
        let index = if is_ahead { count.min(self.homes.len() - 1) } else { count - 1 };
        fs::remove_dir_all(self.node.home()).unwrap();
        copy_folder(&self.homes[index].copy, self.node.home());
    }
}

fn copy_folder(source: &Path, target: &Path) {
    let copied = succeeds(Command::new("cp").args(["-a", "--"]).arg(source).arg(target));
    assert!(copied, "cannot copy {source:?}");
}

/// Lets a new server in the folder `dir` work.
pub(super) fn run(disk: &Disk, dir: &Path, scratch: &Scratch) -> History {
    let mut server = Server::start(dir);
    keep_only_active(&server);
    let actors = ["anna", "bert"].map(|name| Actor::enrol(&server, name, disk, scratch));
    let made = disk.position();
    let (archives, copies) = (Vec::new(), Vec::new());
    let mut history = History { port: server.port(), made, actors, archives, copies };
    let mut packs_removed = 0;
    for round in 0..ROUNDS {
        let History { actors: [anna, bert], archives, copies, .. } = &mut history;
        anna.change();
        bert.change();
        std::thread::scope(|scope| {
            scope.spawn(|| bert.back_up(disk, scratch));
            anna.back_up(disk, scratch);
        });
        match round % 4 {
            0 => archives.push(anna.archive(disk, scratch)),
            1 => {
                let begun = disk.position();
                server.admin(&["catalog", "backup"]);
                copies.push(Span { begun, acknowledged: disk.position() });
            }
            2 => {}
            _ => {
                // Only sealed packs are reclaimed. A restart seals them.
                server.restart();
                anna.change();
                std::thread::scope(|scope| {
                    scope.spawn(|| anna.back_up(disk, scratch));
                    server.admin(&["expire"]);
                    let reclaimed = server.admin(&["reclaim", "--dead-percent", "20"]);
                    packs_removed += reclaimed["packs_removed"].as_u64().unwrap();
                });
            }
        }
    }
    assert!(packs_removed > 0, "the work should include the removal of packs");
    server.terminate().expect(&[0]);
    history
}
