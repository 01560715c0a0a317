//! Several threads on one catalogue.

use std::fmt::Debug;

use catalog::{Catalog, PageRow, PageSpan, TokenError};
use model::{DirPath, FilespaceId};

use super::Engine;
use crate::samples::{
    DOMAIN, NOW, add_filespace, add_node, at, dir, enrolled, enrolment_key, key, key_redemption,
    node_name, page, put, refusal, token, unstorable,
};

const THREADS: u8 = 8;
const BATCHES: u8 = 20;

/// The directory of one batch.
fn place(thread: u8, batch: u8) -> DirPath {
    dir(&format!("/{thread}/{batch}/"))
}

/// Calls `act` with its number in each thread and returns the answers.
fn in_threads<T: Send>(act: impl Fn(u8) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let act = &act;
                    move || act(thread)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn all(catalog: &dyn Catalog, filespace: FilespaceId) -> Vec<PageRow> {
    let span = PageSpan::Subtree(DirPath::above_root());
    catalog.pages(filespace, &span, None, usize::MAX).expect("are read")
}

pub(crate) fn commits_of_many_threads_are_all_durable(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let rows = |thread, batch| {
        let path = place(thread, batch);
        [&b""[..], b"m"].map(|first| page(&key(&path, first), thread + 1))
    };
    in_threads(|thread| {
        for batch in 0..BATCHES {
            let rows = rows(thread, batch);
            let writes = rows.iter().map(|row| put(filespace, row.clone())).collect();
            catalog.commit(writes).expect("the batch is performed");
            for row in rows {
                let read = catalog.page(filespace, &row.key).expect("is read");
                assert_eq!(read, Some(row));
            }
        }
    });
    let catalog = engine.reopen(catalog);
    let batches = (0..THREADS).flat_map(|thread| (0..BATCHES).map(move |batch| (thread, batch)));
    let mut expected: Vec<PageRow> =
        batches.flat_map(|(thread, batch)| rows(thread, batch)).collect();
    expected.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(all(&*catalog, filespace), expected);
}

pub(crate) fn refused_batches_do_not_touch_those_beside_them(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, filespace) = add_filespace(&*catalog, "a");
    in_threads(|thread| {
        for batch in 0..BATCHES {
            let row = page(&key(&place(thread, batch), b""), 1);
            let mut writes = vec![put(filespace, row)];
            if is_good(thread, batch) {
                catalog.commit(writes).expect("the batch is performed");
            } else {
                writes.push(unstorable(node.domain));
                catalog.commit(writes).expect_err("one write is refused");
            }
        }
    });
    let catalog = engine.reopen(catalog);
    for (thread, batch) in (0..THREADS).flat_map(|t| (0..BATCHES).map(move |b| (t, b))) {
        let read = catalog.page(filespace, &key(&place(thread, batch), b"")).expect("is read");
        assert_eq!(read.is_some(), is_good(thread, batch), "{thread} {batch}");
    }
}

fn is_good(thread: u8, batch: u8) -> bool {
    !(thread + batch).is_multiple_of(3)
}

pub(crate) fn readers_see_whole_batches_only(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let keys = [&b""[..], b"b", b"c", b"d"].map(|first| key(&dir("/"), first));
    let write = |state| {
        let writes = keys.iter().map(|key| put(filespace, page(key, state))).collect();
        catalog.commit(writes).expect("the batch is performed");
    };
    write(1);
    in_threads(|thread| {
        for batch in 0..BATCHES {
            if thread < 2 {
                write(1 + thread * BATCHES + batch);
                continue;
            }
            let rows = all(&*catalog, filespace);
            assert_eq!(rows.len(), keys.len());
            assert!(rows.windows(2).all(|pair| pair[0].digest == pair[1].digest), "{rows:?}");
        }
    });
}

/// Returns the only good answer. All other answers must have the error `others`.
#[track_caller]
fn only<T: Debug, E: Into<TokenError> + Debug>(answers: Vec<Result<T, E>>, others: &str) -> T {
    let (mut good, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(refused.into_iter().all(|answer| refusal(answer) == others));
    assert_eq!(good.len(), 1);
    good.remove(0).expect("was found good")
}

pub(crate) fn one_of_many_adds_the_node(engine: &dyn Engine) {
    let catalog = engine.open();
    let answers = in_threads(|_| catalog.add_node(&node_name("a"), DOMAIN, NOW));
    let node = only(answers, "exists");
    assert_eq!(catalog.nodes().expect("one"), [node]);
}

pub(crate) fn one_of_many_redeems_the_token(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    catalog.add_token(&token(&node, 1)).expect("is stored");
    let answers =
        in_threads(|thread| catalog.redeem_token(&[1; 32], &[thread], at(9), NOW, &enrolled()));
    assert_eq!(only(answers, "token"), node);
    let certificates = in_threads(|thread| catalog.certificate_node(&[thread], NOW));
    assert_eq!(only(certificates, "not found"), node);
}

pub(crate) fn as_many_redeem_the_key_as_it_allows(engine: &dyn Engine) {
    let catalog = engine.open();
    catalog.add_enrolment_key(&enrolment_key(1)).expect("is stored");
    let answers =
        in_threads(|thread| catalog.redeem_key(&key_redemption(1, &format!("node-{thread}"), NOW)));
    let enrolled = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(enrolled, 2, "{answers:?}");
    assert_eq!(catalog.nodes().expect("are listed").len(), 2);
    assert_eq!(catalog.enrolment_keys().expect("one")[0].nodes, 2);
}

pub(crate) fn one_filespace_is_made_by_many(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    let opened = in_threads(|_| catalog.open_filespace(node.id, b"/", NOW).expect("is open"));
    assert_eq!(catalog.filespaces(node.id).expect("one"), opened[..1]);
    assert!(opened.iter().all(|filespace| *filespace == opened[0]));
}
