//! Tests of the list of a recall in a real catalogue.

use catalog::change::Change;
use catalog::{PageKey, PageRow, Write};
use model::{ClassId, Extent, ServerTime};

use super::*;
use crate::samples::{TestServer, file};

fn copy(batch: u64, index: u16) -> CopyId {
    CopyId { batch: BatchId(batch), index }
}

/// Adds a batch with the copies 0, 1 and 2 to the server's filespace.
fn add_batch(server: &TestServer, batch: u64) {
    let hole = |index| {
        let name = copy(batch, index).name();
        file(name, ClassId(1), 5, vec![Extent::Hole { bytes: 5 }])
    };
    let backed_up = (0..3).map(hole).collect();
    let directory = BatchId(batch).directory();
    let path = str::from_utf8(directory.as_bytes()).expect("digits");
    server.apply(path, Change { backed_up, ..Change::default() }, ServerTime(1));
}

fn damage_batch(server: &TestServer, batch: u64) {
    let key = PageKey::first_of(BatchId(batch).directory());
    let page = PageRow { key, object_count: 3, digest: None, body: vec![255; 9] };
    let write = Write::PutPage { filespace: server.filespace, page };
    server.store.catalog.commit(vec![write]).expect("is written");
}

/// A listener that keeps the plan.
#[derive(Default)]
struct PlanKeeper(Option<RecallPlan>);

impl RecallListener for PlanKeeper {
    fn send(&mut self, message: RecallMessage) -> bool {
        if let RecallMessage::Plan(plan) = message {
            self.0 = Some(plan);
        }
        true
    }

    fn is_listening(&self) -> bool {
        true
    }
}

/// The plan of a list ended at the first damaged batch, and no file of the list was recalled.
#[test]
fn a_damaged_batch_costs_its_own_copies_only() {
    let server = TestServer::new();
    for batch in 1..=3 {
        add_batch(&server, batch);
    }
    damage_batch(&server, 2);
    let copies = [copy(3, 1), copy(2, 0), copy(2, 1), copy(1, 7), copy(1, 0), copy(9, 9)];
    let order = RecallOrder { copies: copies.to_vec(), is_preview: true };
    let mut keeper = PlanKeeper::default();
    stage_copies(&server.store, server.filespace, order, Reader::server(), &mut keeper)
        .expect("the others are planned");
    let plan = keeper.0.expect("a plan");
    let planned: BTreeSet<u32> = plan.order.iter().copied().collect();
    assert_eq!(planned, BTreeSet::from([0, 4]));
    assert_eq!((plan.disk_files, plan.unknown), (2, vec![3, 5]));
    let [unavailable] = &plan.unavailable[..] else { panic!("{:?}", plan.unavailable) };
    assert_eq!(unavailable.files, 2);
    assert!(unavailable.reason.contains("/0000000000000002/"), "{}", unavailable.reason);
}

/// An order of 3 million copies, each of another batch, took 800 MB.
#[test]
fn an_order_of_many_batches_is_as_small_as_one_of_few() {
    let order = SortedOrder::new(&[copy(7, 1), copy(3, 0), copy(7, 0), copy(7, 1)]);
    let batches: Vec<(u64, Vec<u32>)> = order
        .batches()
        .map(|(batch, copies)| (batch.0, copies.iter().map(|(_, at)| *at).collect()))
        .collect();
    assert_eq!(batches, [(3, vec![1]), (7, vec![2, 0, 3])]);
    let (_, of_seven) = order.batches().nth(1).unwrap();
    let indices = |index| indices_of(of_seven, index).collect::<Vec<u32>>();
    assert_eq!([indices(0), indices(1), indices(2)], [vec![2], vec![0, 3], vec![]]);
    let many: Vec<CopyId> = (0..1000).map(|batch| copy(batch, 0)).collect();
    let many = SortedOrder::new(&many);
    assert_eq!(many.batches().count(), 1000);
    assert!(many.0.capacity() * size_of_val(&many.0[0]) <= 1000 * 24);
}
