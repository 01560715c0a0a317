//! Tests of the record against a model that keeps every change with its position.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::anchor::Fingerprint;
use crate::text::PathText;

fn handle(number: u32) -> DirectoryHandle {
    DirectoryHandle::new(1, &number.to_le_bytes()).expect("a handle")
}

fn change(number: u32) -> DirectoryChange {
    DirectoryChange { directory: handle(number), is_own: false, is_moved: false }
}

fn key(number: u8) -> AnchorKey {
    AnchorKey([number; 16])
}

fn anchor(fingerprint: u8) -> Anchor {
    Anchor {
        filespace: PathText(b"/data".to_vec()),
        fingerprint: Fingerprint([fingerprint; 16]),
        again: Vec::new(),
        again_below: Vec::new(),
        walked: Duration::ZERO,
    }
}

fn handles(changed: Option<Vec<ChangedDirectory>>) -> Option<BTreeSet<DirectoryHandle>> {
    changed.map(|changed| changed.iter().map(|change| change.directory).collect())
}

fn some(numbers: &[u32]) -> Option<BTreeSet<DirectoryHandle>> {
    Some(numbers.iter().map(|number| handle(*number)).collect())
}

#[test]
fn changes_during_a_backup_are_for_the_next_one() {
    let mut record = Record::default();
    record.note(change(1));
    let first = record.begin(key(1));
    assert_eq!(record.since_anchor(first), None, "nothing is anchored yet");
    record.note(change(2));
    assert!(record.complete(first, anchor(1)));
    record.note(change(3));
    let second = record.begin(key(1));
    assert_eq!(record.anchor(second), Some(&anchor(1)));
    record.note(change(4));
    assert_eq!(handles(record.since_anchor(second)), some(&[2, 3, 4]));
    assert_eq!(handles(record.since_begin(second)), some(&[4]));
    assert!(record.complete(second, anchor(2)));
    let third = record.begin(key(1));
    assert_eq!(handles(record.since_anchor(third)), some(&[4]));
}

#[test]
fn a_failed_backup_moves_nothing() {
    let mut record = Record::default();
    let first = record.begin(key(1));
    record.complete(first, anchor(1));
    record.note(change(1));
    let failed = record.begin(key(1));
    record.note(change(2));
    assert!(record.renew(failed, Continuation { fingerprint: Fingerprint([9; 16]) }));
    let killed = record.begin(key(1));
    assert_eq!(record.anchor(killed), Some(&anchor(9)), "the fingerprint is the new one");
    record.end(killed);
    let next = record.begin(key(1));
    assert_eq!(handles(record.since_anchor(next)), some(&[1, 2]));
    // Without an anchor there is nothing to renew.
    let other = record.begin(key(2));
    assert!(!record.renew(other, Continuation { fingerprint: Fingerprint([9; 16]) }));
}

#[test]
fn a_cut_ends_anchors_and_backups() {
    let mut record = Record::default();
    let first = record.begin(key(1));
    record.complete(first, anchor(1));
    let running = record.begin(key(1));
    record.note(change(1));
    record.cut();
    assert_eq!(record.since_begin(running), None);
    assert!(!record.complete(running, anchor(2)), "the backup may have missed changes");
    let next = record.begin(key(1));
    assert_eq!((record.anchor(next), record.since_anchor(next)), (None, None));
}

#[test]
fn a_full_record_is_cut_and_gives_its_memory_back() {
    let mut record = Record::default();
    let first = record.begin(key(1));
    record.complete(first, anchor(1));
    let most = u32::try_from(DIRECTORIES_MAX).expect("a number");
    assert!((0..most).all(|number| record.note(change(number))));
    assert!(record.directories.capacity() <= DIRECTORIES_MAX, "the table has its planned size");
    assert!(record.note(change(0)), "a known directory fits");
    assert!(!record.note(change(most)));
    assert_eq!((record.len(), record.directories.capacity()), (0, 0));
    let next = record.begin(key(1));
    assert_eq!(record.anchor(next), None);
}

#[test]
fn facts_about_a_directory_add_up() {
    let mut record = Record::default();
    let first = record.begin(key(1));
    record.complete(first, anchor(1));
    record.note(DirectoryChange { is_moved: true, ..change(1) });
    record.note(DirectoryChange { is_own: true, ..change(1) });
    record.note(change(1));
    let next = record.begin(key(1));
    let expected = ChangedDirectory { directory: handle(1), is_own: true, is_moved: true };
    assert_eq!(record.since_anchor(next), Some(vec![expected]));
}

#[test]
fn nothing_is_kept_that_nobody_can_ask_for() {
    let mut record = Record::default();
    record.note(change(1));
    assert_eq!(record.len(), 0, "no backup has begun");
    let first = record.begin(key(1));
    record.note(change(2));
    record.end(first);
    assert_eq!(record.len(), 0, "the only backup has ended");
    for number in 0..=u8::try_from(ANCHORS_MAX).expect("a number") {
        let ticket = record.begin(key(number));
        record.complete(ticket, anchor(number));
    }
    assert_eq!(record.anchors().count(), ANCHORS_MAX);
    let oldest = record.begin(key(0));
    assert_eq!(record.anchor(oldest), None, "the oldest was replaced");
}

#[test]
fn an_anchor_that_is_wrong_is_removed_and_the_backup_goes_on() {
    let mut record = Record::default();
    let first = record.begin(key(1));
    record.complete(first, anchor(1));
    let comparing = record.begin(key(1));
    record.note(change(1));
    record.distrust(comparing);
    assert_eq!(record.anchor(comparing), None);
    assert_eq!(handles(record.since_begin(comparing)), some(&[1]));
    assert!(record.complete(comparing, anchor(2)));
}

/// Step of a history.
#[derive(Clone, Debug)]
enum Step {
    Change(u32),
    Begin(u8),
    Complete(usize),
    Renew(usize),
    End(usize),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u32..12).prop_map(Step::Change),
        3 => (0_u8..3).prop_map(Step::Begin),
        2 => (0_usize..4).prop_map(Step::Complete),
        1 => (0_usize..4).prop_map(Step::Renew),
        1 => (0_usize..4).prop_map(Step::End),
        1 => Just(Step::Cut),
    ]
}

/// Model: the numbers of all changes in order, and the places in this list at which backups began.
#[derive(Default)]
struct Model {
    changes: Vec<u32>,
    anchors: BTreeMap<AnchorKey, usize>,
    open: Vec<(Ticket, AnchorKey, usize)>,
}

impl Model {
    fn since(&self, from: usize) -> Option<BTreeSet<DirectoryHandle>> {
        some(&self.changes[from..])
    }
}

proptest! {
    #[test]
    fn no_change_is_ever_missed(steps in prop::collection::vec(step(), 0..120)) {
        let (mut record, mut model) = (Record::default(), Model::default());
        for step in steps {
            match step {
                Step::Change(number) => {
                    prop_assert!(record.note(change(number)));
                    model.changes.push(number);
                }
                Step::Begin(number) => {
                    let ticket = record.begin(key(number));
                    model.open.push((ticket, key(number), model.changes.len()));
                }
                Step::Complete(at) if at < model.open.len() => {
                    let (ticket, key, from) = model.open.remove(at);
                    prop_assert!(record.complete(ticket, anchor(1)));
                    model.anchors.insert(key, from);
                }
                Step::Renew(at) if at < model.open.len() => {
                    let (ticket, key, _) = model.open.remove(at);
                    let continuation = Continuation { fingerprint: Fingerprint([2; 16]) };
                    let has_anchor = model.anchors.contains_key(&key);
                    prop_assert_eq!(record.renew(ticket, continuation), has_anchor);
                }
                Step::End(at) if at < model.open.len() => {
                    record.end(model.open.remove(at).0);
                }
                Step::Complete(_) | Step::Renew(_) | Step::End(_) => {}
                Step::Cut => {
                    record.cut();
                    model = Model { changes: model.changes, ..Model::default() };
                }
            }
            for (ticket, key, from) in &model.open {
                prop_assert_eq!(handles(record.since_begin(*ticket)), model.since(*from));
                let anchored = model.anchors.get(key).and_then(|from| model.since(*from));
                prop_assert_eq!(handles(record.since_anchor(*ticket)), anchored);
            }
        }
    }
}
