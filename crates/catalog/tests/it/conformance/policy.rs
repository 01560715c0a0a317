//! Domains with their policy sets, option sets, and events.

use ::policy::settings::{SetOption, Share};
use ::policy::{Limit, ManagementClass, PolicySet};
use catalog::{
    Catalog, EventRow, LoggedEvent, Node, NodeChange, OptionSet, OptionSetStage, OptionSetVersion,
    TaskEnd, TaskRun,
};
use model::{ClassId, DomainId, NodeId, ServerTime};

use super::Engine;
use crate::samples::{NOW, add_node, at, refusal};

pub(super) fn event(seconds: i64) -> EventRow {
    EventRow {
        time: at(seconds),
        actor: "administrator".to_owned(),
        what: "policy activated".to_owned(),
        details: format!("at {seconds}"),
    }
}

/// The standard set with one more class.
fn with_class(catalog: &dyn Catalog, domain: DomainId, name: &str) -> PolicySet {
    let domains = catalog.domains().expect("are listed");
    let known = domains.into_iter().find(|known| known.id == domain).expect("is there");
    let mut set = known.active;
    let number = catalog.class_number(domain, name).expect("a number");
    let mut class = ManagementClass::new(number, name);
    class.backup.as_mut().expect("a group").extra_days = Limit::AtMost(7);
    class.archive = None;
    class.locked_until = Some(NOW);
    set.put(class);
    set
}

pub(crate) fn a_new_catalogue_has_the_standard_policy(engine: &dyn Engine) {
    let catalog = engine.open();
    let domains = engine.reopen(catalog).domains().expect("are listed");
    assert_eq!(domains.len(), 1);
    assert_eq!((domains[0].id, domains[0].name.as_str()), (DomainId(1), "STANDARD"));
    assert_eq!(domains[0].active, PolicySet::standard(ClassId(1)));
    assert_eq!(domains[0].draft, None);
}

pub(crate) fn a_domain_is_made_once_and_goes_without_nodes(engine: &dyn Engine) {
    let catalog = engine.open();
    let long = catalog.add_domain("LONG", NOW).expect("is made");
    assert_ne!(long.active.default_class, ClassId(1));
    assert_eq!(refusal(catalog.add_domain("long", NOW)), "exists");
    let names = |catalog: &dyn Catalog| -> Vec<String> {
        catalog
            .domains()
            .expect("are listed")
            .into_iter()
            .map(|domain| domain.name)
            .collect()
    };
    assert_eq!(names(&*catalog), ["LONG", "STANDARD"]);
    let node = add_node(&*catalog, "a");
    let to = |domain| NodeChange { domain: Some(domain), ..NodeChange::default() };
    catalog.change_node(node.id, &to(long.id)).expect("is changed");
    assert_eq!(refusal(catalog.remove_domain(long.id)), "exists");
    catalog.change_node(node.id, &to(DomainId(1))).expect("is changed");
    catalog.remove_domain(long.id).expect("is removed");
    assert_eq!(names(&*engine.reopen(catalog)), ["STANDARD"]);
}

pub(crate) fn a_class_keeps_its_number(engine: &dyn Engine) {
    let catalog = engine.open();
    let domain = DomainId(1);
    assert_eq!(catalog.class_number(domain, "standard").expect("a number"), ClassId(1));
    let first = catalog.class_number(domain, "B").expect("a number");
    assert_eq!(catalog.class_number(domain, "b").expect("the same"), first);
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.class_number(domain, "B").expect("the same"), first);
    assert_ne!(catalog.class_number(domain, "C").expect("another"), first);
    let other = catalog.add_domain("LONG", NOW).expect("is made").id;
    assert_ne!(catalog.class_number(other, "B").expect("another"), first);
}

/// Numbers in a row would tell each domain how many classes the others have.
pub(crate) fn numbers_of_classes_are_drawn(engine: &dyn Engine) {
    let catalog = engine.open();
    let number = |at: u16| {
        let name = format!("CLASS{at}");
        catalog.class_number(DomainId(1), &name).expect("a number").0
    };
    let numbers: Vec<u16> = (0..64).map(number).collect();
    assert!(!numbers.contains(&0) && !numbers.contains(&1), "{numbers:?}");
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), numbers.len(), "each class has a number of its own");
    assert_ne!(sorted, numbers, "the order tells nothing");
    // By chance, all would be below this once in 2^64 runs of the test.
    assert!(sorted.last().is_some_and(|last| *last >= 1 << 15), "{sorted:?}");
}

pub(crate) fn a_domain_with_classes_goes_and_comes_again(engine: &dyn Engine) {
    let catalog = engine.open();
    for _ in 0..3 {
        let long = catalog.add_domain("LONG", NOW).expect("is made");
        let [first, again] = ["B", "b"].map(|name| catalog.class_number(long.id, name));
        assert_eq!(first.expect("a number"), again.expect("the same"));
        assert!(long.active.named("STANDARD").is_some_and(|class| class.id != ClassId(1)));
        catalog.remove_domain(long.id).expect("is removed");
    }
    assert_eq!(catalog.domains().expect("are listed").len(), 1);
    assert_eq!(catalog.class_number(DomainId(1), "STANDARD").expect("a number"), ClassId(1));
}

pub(crate) fn a_draft_is_replaced_and_thrown_away(engine: &dyn Engine) {
    let catalog = engine.open();
    let draft_of = |catalog: &dyn Catalog| {
        catalog.domains().expect("are listed").pop().and_then(|domain| domain.draft)
    };
    for name in ["A", "B"] {
        let draft = with_class(&*catalog, DomainId(1), name);
        catalog.put_draft(DomainId(1), Some(&draft), NOW).expect("is stored");
        assert_eq!(draft_of(&*catalog), Some(draft));
    }
    catalog.put_draft(DomainId(1), None, NOW).expect("is thrown away");
    catalog.put_draft(DomainId(1), None, NOW).expect("nothing is there");
    assert_eq!(draft_of(&*engine.reopen(catalog)), None);
}

pub(crate) fn an_activated_draft_is_the_active_set(engine: &dyn Engine) {
    let catalog = engine.open();
    let set = with_class(&*catalog, DomainId(1), "A");
    catalog.put_draft(DomainId(1), Some(&set), NOW).expect("is stored");
    catalog.activate(DomainId(1), &set, &event(1)).expect("is activated");
    let catalog = engine.reopen(catalog);
    let domain = catalog.domains().expect("are listed").pop().expect("one");
    assert_eq!((domain.active, domain.draft), (set, None));
    assert_eq!(
        catalog.events(None, 9).expect("are listed"),
        [LoggedEvent { number: 1, event: event(1) }]
    );
}

/// The version with this number and these statements.
fn version(number: u64, text: &[u8]) -> OptionSetVersion {
    OptionSetVersion {
        number,
        text: text.to_vec(),
        options: vec![SetOption {
            name: "compression".to_owned(),
            value: number.to_string(),
            is_forced: number.is_multiple_of(2),
        }],
        changed: ServerTime(1000 + i64::try_from(number).expect("small")),
        author: "administrator (uid 0)".to_owned(),
        comment: format!("version {number}"),
        in_force: None,
    }
}

fn in_force(version: OptionSetVersion) -> OptionSetVersion {
    OptionSetVersion { in_force: Some(version.changed), ..version }
}

pub(crate) fn option_sets_are_stored_by_name(engine: &dyn Engine) {
    let catalog = engine.open();
    let put = |name: &str, version: &OptionSetVersion| {
        catalog.add_option_set_version(name, version, None, &event(1))
    };
    put("B", &version(1, b"exclude /b")).expect("is stored");
    put("A", &version(1, b"\xff\0")).expect("is stored");
    put("b", &version(2, b"new")).expect("is stored");
    assert_eq!(refusal(put("B", &version(2, b"twice"))), "exists");
    assert_eq!(refusal(put("B", &version(4, b"a gap"))), "exists");
    let set = |name: &str, version| OptionSet {
        name: name.to_owned(),
        current: in_force(version),
        stage: None,
    };
    let sets = catalog.option_sets().expect("are listed");
    assert_eq!(sets, [set("A", version(1, b"\xff\0")), set("B", version(2, b"new"))]);
    let versions = catalog.option_set_versions("B").expect("are listed");
    let both = [version(2, b"new"), version(1, b"exclude /b")].map(in_force);
    assert_eq!(versions, both);
    let node = add_node(&*catalog, "a");
    let takes = |name: &str| NodeChange {
        option_set: Some(Some(name.to_owned())),
        ..NodeChange::default()
    };
    assert_eq!(refusal(catalog.change_node(node.id, &takes("C"))), "not found");
    catalog.change_node(node.id, &takes("b")).expect("is changed");
    catalog.remove_option_set("b", &event(2)).expect("is removed");
    assert_eq!(refusal(catalog.remove_option_set("b", &event(3))), "not found");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.node(&node.name).expect("is there").option_set, None);
    assert_eq!(catalog.option_sets().expect("are listed"), [set("A", version(1, b"\xff\0"))]);
    assert_eq!(catalog.option_set_versions("B").expect("are listed"), []);
    let logged: Vec<EventRow> = catalog
        .events(None, 9)
        .expect("are listed")
        .into_iter()
        .map(|one| one.event)
        .collect();
    assert_eq!(logged, [event(2), event(1), event(1), event(1)], "only what has happened");
}

pub(crate) fn a_staged_version_is_promoted_or_withdrawn(engine: &dyn Engine) {
    let catalog = engine.open();
    let share: Share = "5%".parse().expect("a share");
    let nodes = [NodeId(7), NodeId(3)];
    let stage = |number: u64| {
        let staged = Some((share, &nodes[..]));
        catalog.add_option_set_version("S", &version(number, b"staged"), staged, &event(5))
    };
    let set = || catalog.option_sets().expect("are listed").pop().expect("one");
    catalog
        .add_option_set_version("S", &version(1, b"first"), None, &event(1))
        .expect("is stored");
    stage(2).expect("is staged");
    let found = set();
    assert_eq!(found.current, in_force(version(1, b"first")));
    let expected = OptionSetStage { version: version(2, b"staged"), share, nodes: nodes.to_vec() };
    assert_eq!(found.stage, Some(expected));
    assert_eq!(refusal(stage(3)), "exists");
    let end = |number, promoted| catalog.end_option_set_stage("s", number, promoted, &event(9));
    assert_eq!(refusal(end(3, None)), "not found");
    end(2, None).expect("is withdrawn");
    assert_eq!((set().current.number, set().stage), (1, None));
    assert_eq!(refusal(end(2, None)), "not found");
    stage(3).expect("is staged");
    end(3, Some(NOW)).expect("is promoted");
    let promoted = OptionSetVersion { in_force: Some(NOW), ..version(3, b"staged") };
    assert_eq!((set().current, set().stage), (promoted, None));
    let in_force: Vec<bool> = catalog
        .option_set_versions("S")
        .expect("are listed")
        .iter()
        .map(|version| version.in_force.is_some())
        .collect();
    assert_eq!(in_force, [true, false, true]);
}

pub(crate) fn a_node_is_changed_as_far_as_is_said(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    assert_eq!((node.deletes_backups, node.deletes_archives), (false, true));
    catalog
        .change_node(node.id, &NodeChange::default())
        .expect("nothing is to change");
    assert_eq!(catalog.node(&node.name).expect("is there"), node);
    let rights = NodeChange {
        deletes_backups: Some(true),
        deletes_archives: Some(false),
        collocation_group: Some(Some("web".to_owned())),
        ..NodeChange::default()
    };
    catalog.change_node(node.id, &rights).expect("is changed");
    let catalog = engine.reopen(catalog);
    let changed = catalog.node(&node.name).expect("is there");
    assert_eq!((changed.deletes_backups, changed.deletes_archives), (true, false));
    assert_eq!(changed.collocation_group.as_deref(), Some("web"));
    let nowhere = NodeChange { domain: Some(DomainId(99)), ..NodeChange::default() };
    assert_eq!(refusal(catalog.change_node(node.id, &nowhere)), "not found");
    assert_eq!(catalog.node(&node.name).expect("is there"), changed);
    let alone = NodeChange { collocation_group: Some(None), ..NodeChange::default() };
    catalog.change_node(node.id, &alone).expect("is changed");
    let expected = Node { collocation_group: None, ..changed };
    assert_eq!(catalog.node(&node.name).expect("is there"), expected);
}

pub(crate) fn events_are_newest_first(engine: &dyn Engine) {
    let catalog = engine.open();
    let add = |seconds| catalog::Write::AddEvent(event(seconds));
    catalog.commit(vec![add(1), add(2)]).expect("the batch is performed");
    catalog.commit(vec![add(3)]).expect("the batch is performed");
    let catalog = engine.reopen(catalog);
    let events = catalog.events(None, 2).expect("are listed");
    assert_eq!(events.iter().map(|logged| logged.event.time).collect::<Vec<_>>(), [at(3), at(2)]);
    let last = events.last().map(|logged| logged.number);
    let rest = catalog.events(last, 9).expect("are listed");
    let first = LoggedEvent { number: 1, event: event(1) };
    assert_eq!(rest, [events[1].clone(), first.clone()]);
    assert_eq!(catalog.events(last, 1).expect("are listed"), [events[1].clone()]);
    assert_eq!(catalog.events(Some(1), 9).expect("are listed"), [first]);
    assert_eq!(catalog.events(Some(u64::MAX), 1).expect("are listed"), [events[0].clone()]);
    assert_eq!(catalog.events(Some(0), 9).expect("none"), []);
}

pub(crate) fn a_task_runs_once_at_a_time(engine: &dyn Engine) {
    let catalog = engine.open();
    let begin = |task: &str, day: i64| {
        let (task, due, started) = (task.to_owned(), at(day * 86_400), at(day * 86_400 + 5));
        catalog::Write::BeginTask { task, due, started }
    };
    let ended = |day: i64, code, reason: &str| TaskEnd {
        at: at(day * 86_400 + 60),
        code,
        reason: reason.to_owned(),
    };
    let end = |task: &str, end: &TaskEnd| catalog::Write::EndTask {
        task: task.to_owned(),
        end: end.clone(),
    };
    let runs = |catalog: &dyn Catalog| {
        let runs = catalog.task_runs(None, 9).expect("are listed");
        assert!(runs.is_sorted_by(|a, b| a.number > b.number));
        runs.into_iter().map(|logged| logged.run).collect::<Vec<_>>()
    };
    let run = |task: &str, day: i64, ended: Option<TaskEnd>| {
        let (task, due, started) = (task.to_owned(), at(day * 86_400), at(day * 86_400 + 5));
        TaskRun { task, due, started, ended }
    };
    let warned = ended(1, TaskEnd::WARNED, "not all");
    let writes = vec![begin("one", 1), begin("other", 1), end("one", &warned)];
    catalog.commit(writes).expect("the batch is performed");
    let catalog = engine.reopen(catalog);
    let first = run("one", 1, Some(warned));
    let other = run("other", 1, None);
    assert_eq!(runs(&*catalog), [other, first.clone()]);
    let last = &catalog.task_runs(None, 1).expect("are listed")[0];
    let older = &catalog.task_runs(Some(last.number - 1), 9).expect("are listed")[..];
    assert!(matches!(older, [logged] if logged.run == first), "{older:?}");
    // An open run fails when the next run of its task begins.
    let done = ended(2, 0, "");
    catalog
        .commit(vec![begin("other", 2), end("other", &done)])
        .expect("the batch is performed");
    let listed = runs(&*catalog);
    let lost = listed[1].ended.as_ref().expect("it is over");
    assert_eq!((lost.at, lost.code), (at(2 * 86_400 + 5), TaskEnd::FAILED));
    assert_eq!((&listed[0], &listed[2]), (&run("other", 2, Some(done)), &first));
    // However often one task has ended since, the last failure and the last success of each count.
    let cancelled = ended(3, TaskEnd::CANCELLED, "by anna");
    let again = ended(4, 0, "");
    let writes = vec![
        begin("other", 3),
        end("other", &cancelled),
        begin("other", 4),
        end("other", &again),
        begin("one", 4),
    ];
    catalog.commit(writes).expect("the batch is performed");
    let last = catalog.last_task_runs().expect("are listed").into_iter();
    let last: Vec<_> = last.map(|logged| logged.run).collect();
    let failed = listed[1].clone();
    assert_eq!(last, [run("one", 4, None), run("other", 4, Some(again)), failed, first]);
    // Old runs are removed.
    catalog.commit(vec![begin("one", 200)]).expect("the batch is performed");
    assert_eq!(runs(&*catalog), [run("one", 200, None)]);
}
