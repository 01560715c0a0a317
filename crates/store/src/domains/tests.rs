//! Tests of policy on a real catalogue: drafts, their review, and their activation.

use catalog::change::Change;
use model::{ClassId, Extent, Name};

use super::*;
use crate::samples::{TestServer, directory, file, name, refused};

const DOMAIN: &str = "STANDARD";
const DAY_MICROS: i64 = 86_400_000_000;

fn class(name: &str, backup: BackupGroupEdit) -> PolicyEdit {
    let (name, backup) = (name.to_owned(), Some(backup));
    PolicyEdit::PutClass(ClassEdit { name, backup, ..ClassEdit::default() })
}

fn keeping(existing: u16) -> BackupGroupEdit {
    let versions_existing_max = Some(Limit::AtMost(existing));
    BackupGroupEdit { versions_existing_max, ..BackupGroupEdit::default() }
}

fn days_from_now(days: i64) -> ServerTime {
    ServerTime(sys::clock::now().0 + days * DAY_MICROS)
}

fn locked(name: &str, until: ServerTime) -> PolicyEdit {
    let (name, locked_until) = (name.to_owned(), Some(until));
    PolicyEdit::PutClass(ClassEdit { name, locked_until, ..ClassEdit::default() })
}

fn do_edit(server: &TestServer, order: PolicyEdit) -> ReviewReport {
    edit(&server.store, DOMAIN, order).expect("is edited")
}

fn domain(server: &TestServer) -> PolicyDomain {
    find(&server.store, DOMAIN).expect("exists from the beginning")
}

#[test]
fn a_draft_changes_nothing_before_it_is_activated() {
    let server = TestServer::new();
    let before = domain(&server).active;
    let no_draft = "has no draft of its policy; a change of the policy makes one";
    refused(activate(&server.store, DOMAIN, true, ADMINISTRATOR), no_draft);
    refused(simulate(&server.store, DOMAIN, &mut |_| true), "has no draft");
    let review = do_edit(&server, class("WEEKLY", keeping(9)));
    assert!(!review.differences.is_empty() && review.problem.is_none());
    assert_eq!(domain(&server).active, before);
    let activated = activate(&server.store, DOMAIN, false, ADMINISTRATOR).expect("nothing expires");
    assert_eq!(activated.differences, review.differences);
    let after = domain(&server);
    assert_eq!(after.draft, None);
    let group = after.active.named("WEEKLY").expect("exists").backup.expect("has a group");
    assert_eq!(group.versions_existing_max, Limit::AtMost(9));
    let defaults = BackupCopyGroup::default();
    assert_eq!(group.extra_days, defaults.extra_days, "an omitted rule has its default");
    let events = server.store.catalog.events(None, 9).expect("are listed");
    assert!(events.iter().any(|logged| logged.event.what == "policy activated"), "{events:?}");
}

#[test]
fn a_draft_is_activated_as_it_was_reviewed_or_not_at_all() {
    let server = TestServer::new();
    let reviewed = do_edit(&server, class("WEEKLY", keeping(9)));
    do_edit(&server, class("WEEKLY", keeping(1)));
    let activate = |mark: &str| activate_reviewed(&server.store, DOMAIN, mark, true, "anna");
    refused(activate(&reviewed.mark), "has changed since it was reviewed");
    let reviewed = check_activation(&server.store, DOMAIN, true).expect("may be activated");
    assert_eq!(domain(&server).active.named("WEEKLY"), None, "a check changes nothing");
    activate(&reviewed.mark).expect("is what was reviewed");
    let group = domain(&server).active.named("WEEKLY").expect("exists").backup;
    assert_eq!(group.expect("has a group").versions_existing_max, Limit::AtMost(1));
}

#[test]
fn edits_add_up_until_the_draft_is_thrown_away() {
    let server = TestServer::new();
    do_edit(&server, class("WEEKLY", keeping(9)));
    do_edit(&server, PolicyEdit::DefaultClass { name: "WEEKLY".to_owned() });
    do_edit(&server, PolicyEdit::GraceDays { backup: Some(77), archive: None });
    let edit = BackupGroupEdit { mode: Some(Mode::Absolute), ..BackupGroupEdit::default() };
    do_edit(&server, class("WEEKLY", edit));
    let draft = domain(&server).draft.expect("there is one");
    let weekly = draft.named("WEEKLY").expect("exists");
    let group = weekly.backup.expect("has a group");
    assert_eq!(group.versions_existing_max, Limit::AtMost(9), "an earlier edit stays");
    assert_eq!((group.mode, draft.default_class), (Mode::Absolute, weekly.id));
    let active = domain(&server).active;
    assert_eq!(draft.backup_grace_days, 77);
    assert_eq!(draft.archive_grace_days, active.archive_grace_days);
    let review = do_edit(&server, PolicyEdit::Discard);
    assert_eq!(review.differences, []);
    assert_eq!(domain(&server).draft, None);
}

#[test]
fn a_class_keeps_its_number_when_it_comes_back() {
    let server = TestServer::new();
    do_edit(&server, class("WEEKLY", keeping(9)));
    let number = |server: &TestServer| {
        let draft = domain(server).draft.expect("there is one");
        draft.named("WEEKLY").expect("exists").id
    };
    let first = number(&server);
    do_edit(&server, PolicyEdit::RemoveClass { name: "WEEKLY".to_owned() });
    do_edit(&server, class("OTHER", keeping(1)));
    do_edit(&server, class("WEEKLY", keeping(2)));
    assert_eq!(number(&server), first, "objects of the class are bound to the number");
}

#[test]
fn edits_that_name_nothing_are_refused() {
    let server = TestServer::new();
    let absent = || "ABSENT".to_owned();
    let removal = GroupRemoval { class: absent(), backup: true, archive: false };
    let unknown = [
        PolicyEdit::RemoveClass { name: absent() },
        PolicyEdit::DefaultClass { name: absent() },
        PolicyEdit::RemoveGroups(removal),
    ];
    for order in unknown {
        let error = refused(edit(&server.store, DOMAIN, order), "there is no class ABSENT");
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    }
    refused(edit(&server.store, "NOWHERE", PolicyEdit::Discard), "no policy domain NOWHERE");
    let past = locked("WEEKLY", ServerTime(sys::clock::now().0 - 1));
    refused(edit(&server.store, DOMAIN, past), "the end of a lock must be in the future");
    refused(edit(&server.store, DOMAIN, class("two words", keeping(1))), "name");
    assert_eq!(domain(&server).draft, None, "a refused edit makes no draft");
}

#[test]
fn a_draft_that_breaks_a_rule_or_changes_nothing_is_not_activated() {
    let server = TestServer::new();
    let standard = domain(&server).active.classes[0].name.clone();
    do_edit(&server, PolicyEdit::RemoveClass { name: standard });
    let reviewed = review(&server.store, DOMAIN).expect("is reviewed");
    assert_eq!(reviewed.problem, Some(review::DraftFault::NoClass));
    refused(activate(&server.store, DOMAIN, true, ADMINISTRATOR), "the draft has no class");
    do_edit(&server, class("WEEKLY", keeping(9)));
    refused(
        activate(&server.store, DOMAIN, true, ADMINISTRATOR),
        "the draft's default class is gone",
    );
    do_edit(&server, PolicyEdit::Discard);
    let grace = domain(&server).active.backup_grace_days;
    do_edit(&server, PolicyEdit::GraceDays { backup: Some(grace), archive: None });
    refused(activate(&server.store, DOMAIN, true, ADMINISTRATOR), "the same as the active set");
}

#[test]
fn a_locked_class_is_only_made_to_keep_longer() {
    let server = TestServer::new();
    do_edit(&server, class("WORM", keeping(5)));
    do_edit(&server, locked("WORM", days_from_now(30)));
    activate(&server.store, DOMAIN, true, ADMINISTRATOR).expect("is activated");
    let shorter = [
        class("WORM", keeping(4)),
        locked("WORM", days_from_now(20)),
        PolicyEdit::RemoveClass { name: "WORM".to_owned() },
    ];
    for order in shorter {
        do_edit(&server, order);
        refused(activate(&server.store, DOMAIN, true, ADMINISTRATOR), "class WORM is locked until");
        do_edit(&server, PolicyEdit::Discard);
    }
    for order in [class("WORM", keeping(6)), locked("WORM", days_from_now(40))] {
        do_edit(&server, order);
        activate(&server.store, DOMAIN, true, ADMINISTRATOR).expect("keeps longer");
    }
    let error = refused(check_unlocked(&server.store, &server.node, "removing"), "WORM");
    assert!(error.to_string().starts_with("removing node a could drop versions"), "{error}");
}

/// Gives the server's node `count` inactive versions that ended on the first day.
fn with_versions(server: &TestServer, count: usize) {
    let names: Vec<Name> = (0..count).map(|number| name(&format!("n{number:04}"))).collect();
    let new = |name: &Name| file(name.clone(), ClassId(1), 1, vec![Extent::Hole { bytes: 1 }]);
    for now in [1, 2] {
        let backed_up = names.iter().map(new).collect();
        server.apply("/", Change { backed_up, ..Change::default() }, ServerTime(now));
    }
    let rows = server.store.catalog.versions(server.filespace, &directory("/"));
    assert_eq!(rows.expect("are read").len(), count);
}

#[test]
fn an_activation_under_which_most_versions_expire_is_confirmed_first() {
    for (count, is_guarded) in [(99, false), (100, true)] {
        let server = TestServer::new();
        let unlimited = BackupGroupEdit {
            versions_existing_max: Some(Limit::Unlimited),
            versions_deleted_max: Some(Limit::Unlimited),
            extra_days: Some(Limit::Unlimited),
            only_days: Some(Limit::Unlimited),
            ..BackupGroupEdit::default()
        };
        let standard = domain(&server).active.classes[0].name.clone();
        do_edit(&server, class(&standard, unlimited));
        activate(&server.store, DOMAIN, false, ADMINISTRATOR).expect("nothing expires");
        with_versions(&server, count);
        do_edit(&server, class(&standard, keeping(1)));
        let simulated = simulate(&server.store, DOMAIN, &mut |_| true).expect("counts");
        assert_eq!(simulated.expired, count as u64);
        let activated = activate(&server.store, DOMAIN, false, ADMINISTRATOR);
        assert_eq!(activated.is_err(), is_guarded, "{activated:?}");
        if is_guarded {
            refused(activated, "would expire 100 of 100 inactive versions");
            activate(&server.store, DOMAIN, true, ADMINISTRATOR).expect("is confirmed");
        }
        let rows = server.store.catalog.versions(server.filespace, &directory("/"));
        assert_eq!(rows.expect("are read").len(), count, "only expiration drops versions");
    }
}

#[test]
fn a_domain_with_nodes_stays() {
    let server = TestServer::new();
    add(&server.store, "OTHER", ADMINISTRATOR).expect("is made");
    assert!(matches!(add(&server.store, "OTHER", ADMINISTRATOR), Err(StoreError::Conflict(_))));
    refused(add(&server.store, "no name", ADMINISTRATOR), "name");
    refused(remove(&server.store, DOMAIN, ADMINISTRATOR), "the domain STANDARD cannot be removed");
    let counts = |server: &TestServer| {
        let all = list(&server.store, None).expect("are listed").into_iter();
        all.map(|info| (info.domain.name, info.node_count)).collect::<Vec<_>>()
    };
    let expected = [("OTHER".to_owned(), 0), (DOMAIN.to_owned(), 1)];
    let mut found = counts(&server);
    found.sort();
    assert_eq!(found, expected);
    let other = find(&server.store, "other").expect("names are known in any case").id;
    let moved = catalog::NodeChange { domain: Some(other), ..Default::default() };
    server.store.catalog.change_node(server.node.id, &moved).expect("is changed");
    refused(remove(&server.store, "OTHER", ADMINISTRATOR), "domain OTHER has 1 node;");
    let standard = domain(&server).id;
    let back = catalog::NodeChange { domain: Some(standard), ..Default::default() };
    server.store.catalog.change_node(server.node.id, &back).expect("is changed");
    remove(&server.store, "OTHER", ADMINISTRATOR).expect("has no node");
    refused(list(&server.store, Some("OTHER")).map(drop), "'holdfast admin domain list'");
}
