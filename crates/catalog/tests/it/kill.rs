//! A killed process loses no batch that was reported durable, and leaves no part of a batch.
//!
//! The parent runs this test program again as the child, which commits numbered batches from
//! several threads and prints each number once its commit has returned. The parent kills it at any
//! moment: after some numbers, and then a little later.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use catalog::sqlite::Sqlite;
use catalog::{
    Batches as _, Catalog, Filespaces as _, Nodes as _, PackState, Packs as _, PageRow, PageSpan,
    Write,
};
use model::{DirPath, FilespaceId, NodeId, PackNumber, ServerTime};

use crate::SqliteInFolder;
use crate::samples::{
    add_filespace, add_version, dir, key, node_name, pack, page, put, session, version,
};

/// Name of the environment variable with the catalogue that the child writes to.
const CATALOGUE: &str = "HOLDFAST_TEST_KILLED_CATALOGUE";
const KILLS: u32 = 10;
const THREADS: u32 = 4;
/// Number of pages of a batch, in two directories far apart, so that a batch touches several
/// blocks.
const PAGES: u32 = 6;

/// Returns the batch with this number. Some batches are large, so that SQLite checkpoints its log
/// from time to time.
fn batch(filespace: FilespaceId, node: &catalog::Node, number: u32) -> Vec<Write> {
    let mut writes = Vec::new();
    for part in 0..PAGES {
        let row = page(&key(&place(number, part), b""), 1);
        let filler = if number.is_multiple_of(8) { 100_000 } else { 100 };
        writes.push(put(filespace, PageRow { body: vec![0xa5; filler], ..row }));
    }
    let directory = place(number, 0);
    writes.push(add_version(filespace, version(&directory, b"old", 1, 2)));
    let number_of_pack = PackNumber(u64::from(number));
    writes.push(Write::PutPack(pack(number_of_pack, node.domain, PackState::Sealed)));
    writes.push(Write::AddSession(session(node, filespace, i64::from(number), true)));
    writes
}

fn place(number: u32, part: u32) -> DirPath {
    dir(&format!("/{}/{number}/{part}/", part % 2))
}

/// Runs in the child process, if the parent has named the catalogue. Otherwise does nothing.
#[test]
fn child_commits_until_killed() {
    let Some(path) = std::env::var_os(CATALOGUE) else { return };
    let catalog = Sqlite::open(Path::new(&path)).expect("the catalogue opens");
    let node = catalog.node(&node_name("a")).expect("the parent made it");
    let filespace = catalog.filespaces(node.id).expect("are listed")[0].id;
    let next =
        AtomicU32::new(u32::try_from(catalog.next_pack().expect("is known").0).expect("few"));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    catalog.commit(batch(filespace, &node, number)).expect("is performed");
                    // A pipe takes a write of this size as a whole: the parent reads whole lines.
                    let line = format!("\ncommitted {number}\n");
                    std::io::stdout().write_all(line.as_bytes()).expect("the parent listens");
                }
            });
        }
    });
}

/// A running child process.
struct Committer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Committer {
    fn start(catalogue: &Path) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--exact", "kill::child_commits_until_killed", "--nocapture"])
            .env(CATALOGUE, catalogue)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("this program starts once more");
        let output = BufReader::new(child.stdout.take().expect("was asked for"));
        Self { child, output }
    }

    /// Waits for `count` numbers and then for `delay` turns of a loop, kills the child, and returns
    /// all numbers that it printed.
    fn kill_after(mut self, count: usize, delay: u32) -> BTreeSet<u32> {
        let mut said = BTreeSet::new();
        while said.len() < count {
            let number = self.next_number().expect("the child does not end by itself");
            assert!(said.insert(number), "{number} was printed twice");
        }
        for _ in 0..delay {
            std::hint::spin_loop();
        }
        self.child.kill().expect("the child is killed");
        while let Some(number) = self.next_number() {
            assert!(said.insert(number), "{number} was printed twice");
        }
        let status = self.child.wait().expect("the child has ended");
        assert!(!status.success(), "the child ended by itself");
        said
    }

    /// Returns the next number that the child prints; `None` when the child has ended.
    fn next_number(&mut self) -> Option<u32> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).expect("the child's output is read") == 0 {
                return None;
            }
            let Some(number) = line.strip_prefix("committed ") else { continue };
            return number.strip_suffix('\n').and_then(|digits| digits.parse().ok());
        }
    }
}

/// Returns the numbers of the batches in the catalogue. Checks that each batch is complete.
fn whole_batches(catalog: &dyn Catalog, node: NodeId, filespace: FilespaceId) -> BTreeSet<u32> {
    let packs = catalog.packs().expect("are listed");
    let numbers: BTreeSet<u32> =
        packs.iter().map(|pack| u32::try_from(pack.number.0).expect("few")).collect();
    let root = DirPath::root();

    let all = PageSpan::Subtree(root.clone());
    let pages = catalog.pages(filespace, &all, None, usize::MAX).expect("are read");
    let found: BTreeSet<DirPath> = pages.into_iter().map(|row| row.key.directory).collect();
    let parts = |&number: &u32| (0..PAGES).map(move |part| place(number, part));
    assert!(found == numbers.iter().flat_map(parts).collect());

    let versions = catalog.version_directories(filespace, &all, None, usize::MAX);
    let versions: BTreeSet<DirPath> = versions.expect("are read").into_iter().collect();
    assert!(versions == numbers.iter().map(|&number| place(number, 0)).collect());

    let sessions = catalog.sessions(node, usize::MAX).expect("are read");
    let started: BTreeSet<ServerTime> = sessions.iter().map(|session| session.started).collect();
    let expected = numbers.iter().map(|&number| crate::samples::at(i64::from(number)));
    assert!(started == expected.collect());

    let count = catalog.count_objects(filespace, &root).expect("is counted");
    assert_eq!(count, u64::from(PAGES) * numbers.len() as u64);
    let digests = crate::contents::digests(catalog, filespace, &root).expect("are read");
    assert_eq!(digests.len() as u64, count);
    numbers
}

#[test]
fn what_was_said_to_be_durable_survives_a_kill() {
    let engine = SqliteInFolder::new();
    let (node, filespace) = add_filespace(&engine.open_sqlite(), "a");
    let mut said = BTreeSet::new();
    for kill in 0..KILLS {
        let committer = Committer::start(&engine.path());
        let count = usize::try_from(1 + kill * 7 % 40).expect("few");
        said.extend(committer.kill_after(count, kill * 77_777));
        let catalog = engine.open_sqlite();
        let whole = whole_batches(&catalog, node.id, filespace);
        assert!(said.is_subset(&whole), "lost: {:?}", said.difference(&whole));
    }
    assert!(said.len() >= KILLS as usize);
}
