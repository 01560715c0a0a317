//! A batch has the effect of its writes one by one, also where they meet in the same rows.

use std::cell::Cell;

use catalog::{
    Amount, Catalog, Day, Ending, Growth, Node, PageKey, PageRow, VersionKey, VersionRow, Write,
};
use model::{DirPath, FilespaceId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::Engine;
use crate::contents::{self, FilespaceContents};
use crate::samples::{self, NOW, add_filespace, add_version, dir, put};

const CASES: u32 = 24;
const DAY_SECS: i64 = 86_400;

/// A write without its filespace.
#[derive(Clone, Debug)]
enum Step {
    Put(PageRow),
    Remove(PageKey),
    Add(VersionRow),
    Drop(VersionRow),
    Free(VersionRow),
    Mark(DirPath, Day),
    Unmark(DirPath, Day),
    Grow(Growth),
}

impl Step {
    fn write(&self, filespace: FilespaceId) -> Write {
        match self.clone() {
            Self::Put(page) => put(filespace, page),
            Self::Remove(key) => Write::RemovePage { filespace, key },
            Self::Add(version) => add_version(filespace, version),
            Self::Drop(version) => {
                let versions = vec![key_of(&version)];
                Write::DropVersions { filespace, directory: version.directory, versions }
            }
            Self::Free(version) => {
                let versions = vec![(key_of(&version), 5)];
                Write::FreeVersions { filespace, directory: version.directory, versions }
            }
            Self::Mark(directory, day) => Write::MarkDirectory { filespace, directory, day },
            Self::Unmark(directory, day) => Write::UnmarkDirectory { filespace, directory, day },
            Self::Grow(growth) => Write::Grow { filespace, growth },
        }
    }
}

fn key_of(VersionRow { name, inserted, deactivated, .. }: &VersionRow) -> VersionKey {
    VersionKey { name: name.clone(), inserted: *inserted, deactivated: *deactivated }
}

// There are few keys of each kind, so that the writes of a batch often meet.

fn directory() -> impl Strategy<Value = DirPath> {
    select(["/a/", "/a/b/", "/b/"].map(dir).to_vec())
}

fn page_key() -> impl Strategy<Value = PageKey> {
    let firsts = vec![&b""[..], b"m"];
    (directory(), select(firsts)).prop_map(|(directory, first)| samples::key(&directory, first))
}

fn page() -> impl Strategy<Value = PageRow> {
    (page_key(), any::<u8>(), any::<bool>()).prop_map(|(key, state, has_digest)| {
        let page = samples::page(&key, state);
        PageRow { digest: page.digest.filter(|_| has_digest), ..page }
    })
}

fn version() -> impl Strategy<Value = VersionRow> {
    (directory(), 0..2_i64, 0..2_i64, any::<u8>()).prop_map(|(directory, inserted, days, state)| {
        let deactivated = inserted + 1 + days * DAY_SECS;
        let version = samples::version(&directory, b"n", inserted, deactivated);
        VersionRow { body: vec![state], ..version }
    })
}

fn day() -> impl Strategy<Value = Day> {
    (0..3_i64).prop_map(|days| Day(Day::of(NOW).0 + days))
}

fn step() -> impl Strategy<Value = Step> {
    let growth = (-9..9_i64).prop_map(|bytes| Growth { objects: bytes.signum(), bytes });
    prop_oneof![
        8 => page().prop_map(Step::Put),
        4 => page_key().prop_map(Step::Remove),
        6 => version().prop_map(Step::Add),
        1 => version().prop_map(Step::Drop),
        1 => version().prop_map(Step::Free),
        4 => (directory(), day()).prop_map(|(directory, day)| Step::Mark(directory, day)),
        1 => (directory(), day()).prop_map(|(directory, day)| Step::Unmark(directory, day)),
        2 => growth.prop_map(Step::Grow),
    ]
}

/// The rows of a filespace, which is the only one of its node.
#[derive(PartialEq, Eq, Debug)]
struct Held {
    contents: FilespaceContents,
    endings: Vec<Ending>,
    amounts: Vec<Amount>,
}

fn held(catalog: &dyn Catalog, (node, filespace): &(Node, FilespaceId)) -> Held {
    let all_days = Day(i64::MIN)..=Day(i64::MAX);
    let amounts = catalog.node_amounts(node.domain).expect("are read");
    let own = amounts.into_iter().filter(|(id, _)| *id == node.id);
    Held {
        contents: contents::of_filespace(catalog, *filespace).expect("is read"),
        endings: catalog.endings(*filespace, all_days, None, usize::MAX).expect("are read"),
        amounts: own.map(|(_, amount)| amount).collect(),
    }
}

pub(crate) fn a_batch_does_what_its_writes_do_one_by_one(engine: &dyn Engine) {
    let catalog = engine.open();
    let catalog: &dyn Catalog = &*catalog;
    let case = Cell::new(0_u32);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(vec(step(), 0..20), 1..4), |batches| {
        case.set(case.get() + 1);
        let number = case.get();
        let together = add_filespace(catalog, &format!("together-{number}"));
        let alone = add_filespace(catalog, &format!("alone-{number}"));
        for steps in &batches {
            let writes = steps.iter().map(|step| step.write(together.1)).collect();
            catalog.commit(writes).expect("the batch is performed");
            for step in steps {
                catalog.commit(vec![step.write(alone.1)]).expect("the write is performed");
            }
            assert_eq!(held(catalog, &together), held(catalog, &alone));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
