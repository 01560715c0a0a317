//! Random sequences of batches give the same contents in an engine and in maps.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use catalog::{
    Catalog, Node, PackRow, PackState, PageDigest, PageKey, PageRow, SessionRow, VersionRow, Write,
};
use format::path_hash;
use model::{DirPath, DirectoryDigest, FilespaceId, Name, PackNumber, ServerTime};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::Engine;
use crate::contents::{self, FilespaceContents, sort_digests};
use crate::samples::{NOW, add_node, directories, name, unstorable};

const CASES: u32 = 48;

/// A write without the numbers that only an open catalogue gives.
#[derive(Clone, Debug)]
enum Step {
    Put {
        space: usize,
        page: PageRow,
    },
    Remove {
        space: usize,
        key: PageKey,
    },
    Version {
        space: usize,
        version: VersionRow,
    },
    Pack {
        number: u64,
        is_sealed: bool,
        bytes: u32,
    },
    Session {
        space: usize,
        started: i64,
        complete: bool,
    },
    /// A write for which the catalogue refuses the batch.
    Refused,
}

fn key() -> impl Strategy<Value = PageKey> {
    let firsts: Vec<Vec<u8>> = [&b""[..], b"\0", b"a", b"a\0", b"b", b"\xff"]
        .iter()
        .map(|first| first.to_vec())
        .collect();
    (select(directories()), select(firsts))
        .prop_map(|(directory, first)| PageKey { directory, first })
}

fn page() -> impl Strategy<Value = PageRow> {
    let digest = option::of(any::<[u8; 16]>().prop_map(DirectoryDigest));
    (key(), any::<u32>(), digest, vec(any::<u8>(), 0..40))
        .prop_map(|(key, object_count, digest, body)| PageRow { key, object_count, digest, body })
}

fn version() -> impl Strategy<Value = VersionRow> {
    let names: Vec<Name> = [&b"a"[..], b"a-", b"b", b"\xff"].iter().map(|&n| name(n)).collect();
    (select(directories()), select(names), 0..4_i64, 0..4_i64, vec(any::<u8>(), 0..9)).prop_map(
        |(directory, name, inserted, lived, body)| VersionRow {
            directory,
            name,
            inserted: ServerTime(inserted),
            deactivated: ServerTime(inserted + lived + 1),
            body,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let space = 0..2_usize;
    prop_oneof![
        12 => (space.clone(), page()).prop_map(|(space, page)| Step::Put { space, page }),
        6 => (space.clone(), key()).prop_map(|(space, key)| Step::Remove { space, key }),
        6 => (space.clone(), version())
            .prop_map(|(space, version)| Step::Version { space, version }),
        2 => (0..5_u64, any::<bool>(), any::<u32>())
            .prop_map(|(number, is_sealed, bytes)| Step::Pack { number, is_sealed, bytes }),
        2 => (space, 0..9_i64, any::<bool>())
            .prop_map(|(space, started, complete)| Step::Session { space, started, complete }),
        1 => Just(Step::Refused),
    ]
}

/// Key of a version: names ascend, times descend.
type VersionKey = (DirPath, Name, Reverse<ServerTime>, Reverse<ServerTime>);

/// The expected rows of one filespace.
#[derive(Clone, Default)]
struct Space {
    pages: BTreeMap<PageKey, PageRow>,
    versions: BTreeMap<VersionKey, VersionRow>,
    last_backup: Option<ServerTime>,
}

impl Space {
    fn holding(&self) -> FilespaceContents {
        let digest = |row: &PageRow| PageDigest {
            hash: path_hash(&row.key.directory),
            first: row.key.first.clone(),
            digest: row.digest,
        };
        let mut digests: Vec<_> = self.pages.values().map(digest).collect();
        sort_digests(&mut digests);
        let addends = digests.iter().map(PageDigest::addend);
        FilespaceContents {
            digest_sum: addends.fold(0, u128::wrapping_add),
            pages: self.pages.values().cloned().collect(),
            digests,
            versions: self.versions.values().cloned().collect(),
            object_count: self.pages.values().map(|row| u64::from(row.object_count)).sum(),
        }
    }
}

/// The expected contents of the catalogue.
#[derive(Clone)]
struct Reference {
    node: Node,
    filespaces: [FilespaceId; 2],
    /// The first number of this case's packs, after the packs of other cases.
    pack_base: u64,
    spaces: [Space; 2],
    packs: BTreeMap<PackNumber, PackRow>,
    sessions: Vec<SessionRow>,
}

impl Reference {
    fn new(catalog: &dyn Catalog) -> Self {
        let count = catalog.nodes().expect("are listed").len();
        let node = add_node(catalog, &format!("node-{count}"));
        let open = |name: &[u8]| catalog.open_filespace(node.id, name, NOW).expect("is made").id;
        let packs = catalog.packs().expect("are listed");
        Self {
            filespaces: [open(b"/home"), open(b"/srv")],
            node,
            pack_base: catalog.next_pack().expect("is known").0,
            spaces: Default::default(),
            packs: packs.into_iter().map(|pack| (pack.number, pack)).collect(),
            sessions: Vec::new(),
        }
    }

    /// Performs `step` and returns it as a write.
    fn perform(&mut self, step: &Step) -> Write {
        match step.clone() {
            Step::Put { space, page } => {
                self.spaces[space].pages.insert(page.key.clone(), page.clone());
                Write::PutPage { filespace: self.filespaces[space], page }
            }
            Step::Remove { space, key } => {
                self.spaces[space].pages.remove(&key);
                Write::RemovePage { filespace: self.filespaces[space], key }
            }
            Step::Version { space, version } => {
                let times = (Reverse(version.deactivated), Reverse(version.inserted));
                let key = (version.directory.clone(), version.name.clone(), times.0, times.1);
                self.spaces[space].versions.insert(key, version.clone());
                Write::AddVersion { filespace: self.filespaces[space], version }
            }
            Step::Pack { number, is_sealed, bytes } => self.put_pack(number, is_sealed, bytes),
            Step::Session { space, started, complete } => {
                self.add_session(space, ServerTime(started), complete)
            }
            Step::Refused => unstorable(self.node.domain),
        }
    }

    fn put_pack(&mut self, number: u64, is_sealed: bool, bytes: u32) -> Write {
        let pack = PackRow {
            number: PackNumber(self.pack_base + number),
            domain: self.node.domain,
            state: if is_sealed { PackState::Sealed } else { PackState::Open },
            bytes: u64::from(bytes),
            node: None,
        };
        let is_old = pack.state == PackState::Open
            && self.packs.get(&pack.number).is_some_and(|known| known.state.is_sealed());
        if !is_old {
            self.packs.insert(pack.number, pack.clone());
        }
        Write::PutPack(pack)
    }

    fn add_session(&mut self, space: usize, started: ServerTime, complete: bool) -> Write {
        let session = SessionRow {
            node: self.node.id,
            filespace: self.filespaces[space],
            started,
            ended: started,
            complete,
            report: String::new(),
        };
        self.sessions.insert(0, session.clone());
        if complete {
            self.spaces[space].last_backup = Some(started);
        }
        Write::AddSession(session)
    }

    #[track_caller]
    fn compare(&self, catalog: &dyn Catalog) {
        let read = contents::of_node(catalog, self.node.id).expect("is read");
        assert_eq!(read.sessions, self.sessions);
        assert_eq!(read.filespaces.len(), self.spaces.len());
        for ((filespace, holding), space) in read.filespaces.iter().zip(&self.spaces) {
            assert_eq!(*holding, space.holding());
            assert_eq!(filespace.last_backup, space.last_backup);
        }
        let packs: Vec<PackRow> = self.packs.values().cloned().collect();
        assert_eq!(catalog.packs().expect("are listed"), packs);
        let next = self.packs.keys().next_back().map_or(1, |last| last.0 + 1);
        assert_eq!(catalog.next_pack().expect("is known"), PackNumber(next));
    }
}

/// Commits `steps` as one batch to `catalog` and `reference`, or to neither if a step is refused.
fn commit(catalog: &dyn Catalog, reference: &mut Reference, steps: &[Step]) {
    let mut next = reference.clone();
    let writes = steps.iter().map(|step| next.perform(step)).collect();
    if steps.iter().any(|step| matches!(step, Step::Refused)) {
        catalog.commit(writes).expect_err("one write is refused");
    } else {
        catalog.commit(writes).expect("the batch is performed");
        *reference = next;
    }
}

pub(crate) fn any_batches_do_what_they_do_to_a_map(engine: &dyn Engine) {
    let catalog = std::cell::RefCell::new(Some(engine.open()));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let batches = vec(vec(step(), 0..12), 0..12);
    let outcome = TestRunner::new(config).run(&batches, |batches| {
        let mut open = catalog.take().unwrap_or_else(|| engine.open());
        let mut reference = Reference::new(&*open);
        for steps in &batches {
            commit(&*open, &mut reference, steps);
            reference.compare(&*open);
        }
        open = engine.reopen(open);
        reference.compare(&*open);
        catalog.replace(Some(open));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
