//! Finished backups.

use catalog::{SessionRow, Write};

use super::Engine;
use crate::samples::{NOW, add_filespace, at, session};

pub(crate) fn sessions_are_newest_first(engine: &dyn Engine) {
    let catalog = engine.open();
    let (a, home) = add_filespace(&*catalog, "a");
    let (b, other) = add_filespace(&*catalog, "b");
    let srv = catalog.open_filespace(a.id, b"/srv", NOW).expect("is made").id;
    let mut rows: Vec<SessionRow> = (1..=5)
        .map(|i| session(&a, if i % 2 == 0 { home } else { srv }, i, i != 3))
        .collect();
    for row in &rows {
        let beside = session(&b, other, 9, true);
        let writes = vec![Write::AddSession(row.clone()), Write::AddSession(beside)];
        catalog.commit(writes).expect("the batch is performed");
    }
    rows.reverse();
    let catalog = engine.reopen(catalog);
    for limit in [0, 1, 2, 5, 6, usize::MAX] {
        let read = catalog.sessions(a.id, limit).expect("are read");
        assert_eq!(read, rows[..rows.len().min(limit)]);
    }
    assert_eq!(catalog.sessions(b.id, 99).expect("are read").len(), rows.len());
    let since = catalog.sessions_since(a.id, at(4), 99).expect("are read");
    assert_eq!(since, rows[..2], "the backups that began at 4 or later");
    assert_eq!(catalog.sessions_since(a.id, at(4), 1).expect("one"), rows[..1]);
    let complete = rows.iter().filter(|row| row.complete);
    let ends: Vec<_> = complete.map(|row| (row.filespace, row.ended)).collect();
    assert_eq!(ends.len(), rows.len() - 1);
    assert_eq!(catalog.backup_ends(a.id, 99).expect("are read"), ends);
    assert_eq!(catalog.backup_ends(a.id, 2).expect("two"), ends[..2]);
}

pub(crate) fn pages_of_sessions_stay_where_they_are(engine: &dyn Engine) {
    let catalog = engine.open();
    let (a, home) = add_filespace(&*catalog, "a");
    let (b, other) = add_filespace(&*catalog, "b");
    let mut rows: Vec<SessionRow> = (1..=5).map(|i| session(&a, home, i, true)).collect();
    for row in &rows {
        let beside = session(&b, other, 9, true);
        let writes = vec![Write::AddSession(row.clone()), Write::AddSession(beside)];
        catalog.commit(writes).expect("the batch is performed");
    }
    rows.reverse();
    let (mut leafed, mut from) = (Vec::new(), None);
    while let [(_, row), rest @ ..] = &catalog.sessions_from(a.id, from, 2).expect("are read")[..] {
        leafed.push(row.clone());
        let Some((next, _)) = rest.first() else { break };
        from = Some(*next);
        // A backup that comes meanwhile moves no page.
        let later = session(&a, home, 6, true);
        catalog.commit(vec![Write::AddSession(later)]).expect("the batch is performed");
    }
    assert_eq!(leafed, rows);
    let none = catalog.sessions_from(a.id, Some(0), 9).expect("are read");
    assert!(none.is_empty());
}

pub(crate) fn only_a_complete_session_dates_the_filespace(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, home) = add_filespace(&*catalog, "a");
    let other = catalog.open_filespace(node.id, b"/srv", NOW).expect("is made");
    let steps = [(1, false, None), (2, true, Some(2)), (3, false, Some(2)), (4, true, Some(4))];
    for (started, complete, expected) in steps {
        let write = Write::AddSession(session(&node, home, started, complete));
        catalog.commit(vec![write]).expect("the batch is performed");
        let spaces = catalog.filespaces(node.id).expect("are listed");
        assert_eq!(spaces[0].last_backup, expected.map(at));
        assert_eq!(spaces[1], other);
        let opened = catalog.open_filespace(node.id, b"/home", at(9)).expect("is there");
        assert_eq!(opened, spaces[0]);
    }
    let (never, _) = add_filespace(&*catalog, "b");
    let last = catalog.last_backups().expect("are listed");
    assert_eq!(last, [(node.id, at(4))], "{never:?} has none");
    let later = Write::AddSession(session(&node, other.id, 7, true));
    catalog.commit(vec![later]).expect("the batch is performed");
    assert_eq!(catalog.last_backups().expect("are listed"), [(node.id, at(7))]);
    let before = |seconds| {
        let found = catalog.filespaces_backed_up_before(at(seconds)).expect("are listed");
        found.into_iter().map(|one| (one.id, one.last_backup)).collect::<Vec<_>>()
    };
    assert_eq!(before(4), []);
    assert_eq!(before(5), [(home, Some(at(4)))]);
    assert_eq!(before(8), [(home, Some(at(4))), (other.id, Some(at(7)))]);
}

pub(crate) fn reports_are_kept_as_sent(engine: &dyn Engine) {
    let catalog = engine.open();
    let (node, home) = add_filespace(&*catalog, "a");
    let long = "x".repeat(1 << 20);
    for report in ["", "{\"files\": 1}", "'; DROP TABLE node; --", "\u{e9}\u{1f40e}\n", &long] {
        let row = SessionRow { report: report.to_owned(), ..session(&node, home, 1, true) };
        catalog
            .commit(vec![Write::AddSession(row.clone())])
            .expect("the batch is performed");
        assert!(catalog.sessions(node.id, 1).expect("one") == [row]);
    }
}
