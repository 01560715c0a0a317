//! Tests of archives and deletions on a real server.

use catalog::change::Change;
use model::{Extent, NodeName, archive_filespace};
use policy::ManagementClass;

use super::*;
use crate::intake::{Intake, PageChange};
use crate::lifecycle::expire;
use crate::samples::{
    TestServer, bytes_of, directory, file, name, page_change, refused, sent_file, stored,
};

/// Puts files with these chunks into the archive.
fn fill(server: &TestServer, number: u64, files: &[(&str, &[u64])]) -> Result<(), StoreError> {
    let filespace = archive_filespace(number, b"/");
    let mut intake = Intake::open(&server.store, server.node.clone(), &filespace)?;
    for (quantum, (text, chunks)) in (1..).zip(files) {
        let backed_up = vec![sent_file(name(text), quantum, chunks)];
        let change = PageChange { backed_up, ..page_change("/") };
        let quanta = vec![(quantum, stored(&server.store, chunks))];
        intake.commit(quanta, &|_| Ok(vec![change.clone()]))?;
    }
    intake.close(true, r#"{"inspected":5,"backed_up":4}"#)
}

fn filespace_of(server: &TestServer, name: &[u8]) -> Filespace {
    let all = server.store.catalog.filespaces(server.node.id).expect("are listed");
    all.into_iter().find(|filespace| filespace.name == name).expect("it is known")
}

fn order(filespace: &Filespace, states: States, is_dry: bool) -> DeletionOrder {
    let parts = vec![Part { span: PageSpan::Subtree(DirPath::above_root()), name: None }];
    let choice = Choice::Active;
    let selection =
        Selection { filespace: filespace.id, choice, parts, range: 0..u64::MAX, sample: None };
    DeletionOrder { selection, chosen: ChosenVersions::States(states), is_dry }
}

const ALL: States = States { active: true, inactive: true };

fn remove(
    server: &TestServer,
    filespace: &Filespace,
    order: DeletionOrder,
) -> Result<DeletionResult, StoreError> {
    let report = delete(&server.store, &server.node, filespace, order)?;
    assert_eq!(report.unreadable, None, "nothing is damaged");
    Ok(report.result)
}

fn done(result: Result<DeletionResult, StoreError>) -> Deletion {
    match result.expect("it is allowed") {
        DeletionResult::Done(deletion) => deletion,
        counted @ DeletionResult::Counted { .. } => panic!("{counted:?}"),
    }
}

/// Returns the numbers of objects and bytes of the archive, from its row.
fn totals(server: &TestServer, number: u64) -> (u64, u64) {
    let all = list(&server.store, &server.node, None, usize::MAX).expect("are listed");
    let archive = all.into_iter().find(|archive| archive.row.number == number).expect("is known");
    (archive.row.objects, archive.row.bytes)
}

#[test]
fn an_archive_counts_what_it_holds_through_deletion_and_undo() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "first").expect("is made").row.number;
    fill(&server, number, &[("x", &[1]), ("y", &[2, 3]), ("x", &[4])]).expect("is filled");
    let bytes = bytes_of(&[2, 3, 4]);
    assert_eq!(totals(&server, number), (2, bytes), "the second x replaces the first");
    let filespace = filespace_of(&server, &archive_filespace(number, b"/"));
    let none = States { active: false, inactive: false };
    let counted = remove(&server, &filespace, order(&filespace, none, true)).expect("counts");
    assert_eq!(counted, DeletionResult::Counted { versions: 2 }, "all versions are deleted");
    assert_eq!(totals(&server, number), (2, bytes));
    let deletion = done(remove(&server, &filespace, order(&filespace, none, false)));
    assert_eq!(deletion.row.versions, 2);
    assert!(deletion.until > deletion.row.time);
    assert_eq!(totals(&server, number), (0, 0));
    assert_eq!(
        deletions(&server.store, &server.node, None, usize::MAX)
            .expect("are listed")
            .len(),
        1
    );
    undelete(&server.store, &server.node, deletion.row.number).expect("is put back");
    assert_eq!(totals(&server, number), (2, bytes));
    let again = undelete(&server.store, &server.node, deletion.row.number);
    assert!(matches!(refused(again, "'holdfast undelete' shows all"), StoreError::NotFound(_)));
}

#[test]
fn a_finished_session_of_an_archive_is_recorded_and_no_backup() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    fill(&server, number, &[("x", &[1])]).expect("is filled");
    let catalog = &server.store.catalog;
    let all = catalog.finished_archives(None, 9).expect("are listed");
    let [row] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&row.node[..], &row.filespace), ("a", &archive_filespace(number, b"/")));
    assert_eq!((row.figures.examined, row.figures.objects), (5, 4));
    assert!(row.started <= row.ended);
    assert_eq!(catalog.sessions(server.node.id, 9).expect("are listed"), []);
}

#[test]
fn a_complete_archive_takes_nothing_more() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    fill(&server, number, &[("x", &[1])]).expect("is filled");
    let complete = ArchiveOrder { number, completes: true, ..ArchiveOrder::default() };
    assert!(set(&server.store, &server.node, complete).expect("is changed").row.complete);
    let error = refused(fill(&server, number, &[("y", &[2])]), "is complete");
    assert!(matches!(error, StoreError::Conflict(_)));
    let unknown = fill(&server, number + 1, &[]);
    assert!(matches!(refused(unknown, "has no archive"), StoreError::NotFound(_)));
}

#[test]
fn an_archive_belongs_to_its_node() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    let other = NodeName::new("b").expect("a name");
    let other = server.store.catalog.add_node(&other, policy::STANDARD, ServerTime(1));
    let other = other.expect("added");
    let hold = ArchiveOrder { number, held: Some(true), ..ArchiveOrder::default() };
    assert!(matches!(set(&server.store, &other, hold), Err(StoreError::NotFound(_))));
    assert_eq!(list(&server.store, &other, None, usize::MAX).expect("are listed"), []);
}

#[test]
fn a_held_archive_loses_nothing_until_it_is_released() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    fill(&server, number, &[("x", &[1])]).expect("is filled");
    let filespace = filespace_of(&server, &archive_filespace(number, b"/"));
    let hold = |held| {
        let order = ArchiveOrder { number, held: Some(held), ..ArchiveOrder::default() };
        set(&server.store, &server.node, order).expect("is changed")
    };
    assert!(hold(true).row.held);
    refused(remove(&server, &filespace, order(&filespace, ALL, false)), "archives release");
    assert_eq!(totals(&server, number).0, 1);
    assert!(!hold(false).row.held);
    done(remove(&server, &filespace, order(&filespace, ALL, false)));
}

/// The release of an archive that was not held was in the log, without the archive's node.
#[test]
fn the_log_names_the_archive_and_only_what_is_changed() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "the year").expect("is made").row.number;
    let hold = |held| {
        let order = ArchiveOrder { number, held: Some(held), ..ArchiveOrder::default() };
        set(&server.store, &server.node, order).expect("is changed");
    };
    for held in [false, true, true, false, false] {
        hold(held);
    }
    let events = server.store.catalog.events(None, 99).expect("are listed");
    let details = format!("archive {number} of node {}: the year", server.node.name);
    let of_archive = |what: &str| {
        let logged = events.iter().filter(|logged| logged.event.what == what);
        logged.map(|logged| logged.event.details.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_archive("archive held"), std::slice::from_ref(&details));
    assert_eq!(of_archive("archive released"), [details]);
}

#[test]
fn an_event_happens_once() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    let event = ArchiveOrder { number, activates_event: true, ..ArchiveOrder::default() };
    let first = set(&server.store, &server.node, event).expect("is activated").row.event;
    assert!(first.is_some());
    refused(set(&server.store, &server.node, event), "already activated");
    assert_eq!(
        list(&server.store, &server.node, None, usize::MAX).expect("are listed")[0]
            .row
            .event,
        first
    );
}

#[test]
fn a_description_has_a_limit() {
    let server = TestServer::new();
    let longest = "x".repeat(DESCRIPTION_BYTES_MAX);
    add(&server.store, &server.node, &longest).expect("is made");
    let error = refused(add(&server.store, &server.node, &(longest + "x")), "at most");
    assert!(matches!(error, StoreError::Usage(_)));
}

/// Gives the server's filespace two versions of `x`, one of which is active, and one of `y`.
fn with_versions(server: &TestServer) {
    let new = |text, class| file(name(text), ClassId(class), 5, vec![Extent::Hole { bytes: 5 }]);
    let put = |objects, now| {
        let change = Change { backed_up: objects, ..Change::default() };
        server.apply("/", change, ServerTime(now));
    };
    put(vec![new("x", 1), new("y", 2)], 10);
    put(vec![new("x", 1)], 20);
}

/// Returns the names of the active versions, and the names of the inactive versions. The latter
/// come with true if the version ended at the time 20.
fn versions(server: &TestServer) -> (Vec<Name>, Vec<(Name, bool)>) {
    let active = server.objects("/").into_iter().map(|object| object.name).collect();
    let rows = server.store.catalog.versions(server.filespace, &directory("/"));
    let rows = rows.expect("are read").into_iter();
    (active, rows.map(|row| (row.name, row.deactivated == ServerTime(20))).collect())
}

#[test]
fn a_deletion_takes_the_states_that_were_ordered() {
    let active = States { active: true, inactive: false };
    let inactive = States { active: false, inactive: true };
    for (states, expected) in [(active, 2), (inactive, 1), (ALL, 3)] {
        let server = TestServer::new();
        with_versions(&server);
        let before = versions(&server);
        let filespace = filespace_of(&server, b"/");
        let deletion = done(remove(&server, &filespace, order(&filespace, states, false)));
        assert_eq!(deletion.row.versions, expected, "{states:?}");
        let (left, ended) = versions(&server);
        assert_eq!((left.is_empty(), ended.is_empty()), (states.active, states.inactive));
        undelete(&server.store, &server.node, deletion.row.number).expect("is put back");
        let (left, ended) = versions(&server);
        let left_count = if states.active { 0 } else { 2 };
        assert_eq!(left.len(), left_count, "deleted active versions end: {states:?}");
        assert_eq!(left.len() + ended.len(), before.0.len() + before.1.len(), "{states:?}");
        assert!(ended.contains(&(name("x"), true)), "an inactive version keeps its end");
    }
}

#[test]
fn an_order_by_names_takes_these_objects_alone() {
    let server = TestServer::new();
    with_versions(&server);
    let filespace = filespace_of(&server, b"/");
    let named = |names: &[&str]| {
        let names = names.iter().map(|text| name(text)).collect();
        NamedObjects::from([(directory("/"), names)])
    };
    let report = |is_dry| {
        let objects = named(&["x", "z"]);
        let order = DeletionOrder::of_objects(filespace.id, objects, ALL, is_dry);
        let report = delete(&server.store, &server.node, &filespace, order);
        let report = report.expect("is allowed");
        assert_eq!(report.found, named(&["x"]));
        report.result
    };
    assert_eq!(report(true), DeletionResult::Counted { versions: 2 });
    let deletion = done(Ok(report(false)));
    assert_eq!(deletion.row.versions, 2);
    assert_eq!(deletion.row.details, "2 versions of backups of 1 object in /, such as /x");
    assert_eq!(versions(&server), (vec![name("y")], vec![]));
}

#[test]
fn an_order_that_selects_nothing_deletes_nothing() {
    let server = TestServer::new();
    let filespace = filespace_of(&server, b"/");
    let result = remove(&server, &filespace, order(&filespace, ALL, false)).expect("counts");
    assert_eq!(result, DeletionResult::Counted { versions: 0 });
    assert_eq!(deletions(&server.store, &server.node, None, usize::MAX).expect("are listed"), []);
}

#[test]
fn a_version_of_a_locked_class_stays_with_all_others_of_the_order() {
    let server = TestServer::new();
    with_versions(&server);
    let until = ServerTime(sys::clock::now().0 + 9 * DAY_MICROS);
    let mut set = PolicySet::standard(ClassId(1));
    set.put(ManagementClass {
        locked_until: Some(until),
        ..ManagementClass::new(ClassId(2), "LOCKED")
    });
    let event = event(&server.node, ServerTime(30), "policy activated", "");
    server
        .store
        .catalog
        .activate(server.node.domain, &set, &event)
        .expect("is active");
    let filespace = filespace_of(&server, b"/");
    let before = versions(&server);
    refused(remove(&server, &filespace, order(&filespace, ALL, false)), "/y is held by class");
    assert_eq!(versions(&server), before);
    let inactive = States { active: false, inactive: true };
    done(remove(&server, &filespace, order(&filespace, inactive, false)));
}

#[test]
fn a_deletion_waits_for_no_backup() {
    let server = TestServer::new();
    with_versions(&server);
    let filespace = filespace_of(&server, b"/");
    let backup = server.intake();
    let error = refused(remove(&server, &filespace, order(&filespace, ALL, false)), "another");
    assert!(matches!(error, StoreError::Busy(_)));
    drop(backup);
    done(remove(&server, &filespace, order(&filespace, ALL, false)));
}

#[test]
fn the_trash_is_emptied_after_the_days_for_an_undo() {
    let server = TestServer::new();
    with_versions(&server);
    let filespace = filespace_of(&server, b"/");
    let deletion = done(remove(&server, &filespace, order(&filespace, ALL, false)));
    purge(&server.store, ServerTime(deletion.until.0 - 1)).expect("runs");
    assert_eq!(
        deletions(&server.store, &server.node, None, usize::MAX)
            .expect("are listed")
            .len(),
        1
    );
    purge(&server.store, deletion.until).expect("runs");
    assert_eq!(deletions(&server.store, &server.node, None, usize::MAX).expect("are listed"), []);
    refused(undelete(&server.store, &server.node, deletion.row.number), "no deletion");
}

/// Runs the expiration that is due these days from now.
fn expire_in(server: &TestServer, days: i64) {
    let now = ServerTime(sys::clock::now().0 + days * DAY_MICROS);
    let order = expire::Order { now, ..expire::Order::due() };
    let nodes = std::slice::from_ref(&server.node);
    expire::run(&server.store, nodes, order, &mut |_| true).expect("runs");
}

fn numbers(server: &TestServer) -> Vec<u64> {
    let all = list(&server.store, &server.node, None, usize::MAX).expect("are listed");
    all.into_iter().map(|archive| archive.row.number).collect()
}

/// An expiration before the first object, and the interruption of the command, let an archive stay
/// for ever.
#[test]
fn an_incomplete_archive_expires_as_a_complete_one() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    expire_in(&server, 0);
    fill(&server, number, &[("x", &[1]), ("y", &[2])]).expect("is filled");
    expire_in(&server, 364);
    assert_eq!(totals(&server, number).0, 2);
    expire_in(&server, 366);
    assert_eq!(numbers(&server), [0; 0]);
}

/// Nothing was ever put into an archive whose command was interrupted at its beginning.
#[test]
fn an_empty_archive_stays_while_its_command_may_run() {
    let server = TestServer::new();
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    expire_in(&server, 29);
    assert_eq!(numbers(&server), [number]);
    expire_in(&server, 31);
    assert_eq!(numbers(&server), [0; 0]);
}

/// Makes a complete archive with one object, and deletes the object.
fn emptied(server: &TestServer) -> (u64, Deletion) {
    let number = add(&server.store, &server.node, "").expect("is made").row.number;
    fill(server, number, &[("x", &[1])]).expect("is filled");
    let complete = ArchiveOrder { number, completes: true, ..ArchiveOrder::default() };
    set(&server.store, &server.node, complete).expect("is changed");
    let filespace = filespace_of(server, &archive_filespace(number, b"/"));
    (number, done(remove(server, &filespace, order(&filespace, ALL, false))))
}

/// A run before the end of the time for an undo let an archive stay until the next change of
/// policy, and so did a deletion in another archive.
#[test]
fn an_archive_goes_once_the_deletion_of_all_its_objects_is_final() {
    let server = TestServer::new();
    let (first, deletion) = emptied(&server);
    expire_in(&server, 1);
    assert_eq!(numbers(&server), [first], "it can be put back");
    purge(&server.store, deletion.until).expect("runs");
    let (second, _) = emptied(&server);
    expire_in(&server, 2);
    assert_eq!(numbers(&server), [second]);
    // This run makes the second deletion final after it has looked at the archives.
    expire_in(&server, 8);
    assert_eq!(numbers(&server), [second]);
    expire_in(&server, 9);
    assert_eq!(numbers(&server), [0; 0]);
}
