//! Nodes: adding, locking, renaming, removing.

use catalog::{
    ApiKeyRow, Catalog, Certificate, DomainDetails, EventRow, Locker, Locks, Node, NodeAlteration,
    NodeChange, NodeDetails, NodeRegistration, PageSpan, Write,
};
use model::{DirPath, NodeId, PersonId};

use super::{Engine, people};
use crate::contents::{self, FilespaceContents};
use crate::samples::{
    DOMAIN, NO_NODE, NOW, add_node, api_key, at, dir, fill, key, node_name, page, put, refusal,
    session, token, version,
};

pub(crate) fn a_new_node_is_there_as_registered(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "web-01.example");
    assert_eq!((node.name.as_str(), &*node.domain_name), ("web-01.example", DOMAIN));
    assert_eq!((node.locks, node.registered), (Locks::default(), NOW));
    assert_eq!(catalog.node(&node.name).expect("is there"), node);
    assert_eq!(catalog.nodes().expect("are listed"), [node]);
}

pub(crate) fn nodes_are_listed_in_byte_order_of_their_names(engine: &dyn Engine) {
    let catalog = engine.open();
    let mut names = ["b", "a", "B", "a-b", "a.b", "a_b", "ab", "aB", "10", "9", "Z"];
    for name in names {
        add_node(&*catalog, name);
    }
    names.sort_unstable();
    assert_eq!(listed(&*catalog), names);
}

fn listed(catalog: &dyn Catalog) -> Vec<String> {
    names(&catalog.nodes().expect("are listed"))
}

fn names(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|node| node.name.to_string()).collect()
}

pub(crate) fn nodes_are_listed_from_a_name(engine: &dyn Engine) {
    let catalog = engine.open();
    for name in ["b", "a", "B", "c"] {
        add_node(&*catalog, name);
    }
    let from = |from, limit| names(&catalog.nodes_from(from, limit).expect("are listed"));
    assert_eq!(from("", 2), ["B", "a"]);
    assert_eq!(from("a", 2), ["a", "b"]);
    assert_eq!(from("a\u{1}", 9), ["b", "c"], "the place after a name");
    assert_eq!(from("aa", 9), ["b", "c"]);
    assert_eq!(from("d", 9), <[&str; 0]>::default());
}

pub(crate) fn a_name_is_given_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    assert_eq!(refusal(catalog.add_node(&node.name, DOMAIN, at(1))), "exists");
    let other = add_node(&*catalog, "A");
    assert_eq!(catalog.nodes().expect("are listed"), [other, node]);
}

pub(crate) fn an_unknown_domain_has_no_nodes(engine: &dyn Engine) {
    let catalog = engine.open();
    for domain in ["", "standard", "NONE"] {
        assert_eq!(refusal(catalog.add_node(&node_name("a"), domain, NOW)), "not found");
    }
    assert_eq!(catalog.nodes().expect("are listed"), []);
}

pub(crate) fn an_unknown_node_is_not_found(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    assert_eq!(refusal(catalog.node(&node_name("b"))), "not found");
    check_unknown(&*catalog, NO_NODE);
    assert_eq!(catalog.nodes().expect("are listed"), [node]);
}

#[track_caller]
fn check_unknown(catalog: &dyn Catalog, id: NodeId) {
    assert_eq!(refusal(catalog.lock_node(id, Locker::Service, true)), "not found");
    assert_eq!(refusal(catalog.rename_node(id, &node_name("c"))), "not found");
    assert_eq!(refusal(catalog.remove_node(id)), "not found");
    assert_eq!(catalog.filespaces(id).expect("none"), []);
    assert_eq!(catalog.sessions(id, 9).expect("none"), []);
    assert_eq!(catalog.baselines(id, None, 9).expect("none"), []);
    assert_eq!(refusal(catalog.add_baseline(id, NOW, b"{}")), "not found");
    assert_eq!(catalog.drills(Some(id)).expect("none"), []);
    assert!(!catalog.is_enrolled(id).expect("it is not"));
}

pub(crate) fn a_locked_node_stays_locked_until_unlocked(engine: &dyn Engine) {
    let mut catalog = engine.open();
    let other = add_node(&*catalog, "other");
    let node = add_node(&*catalog, "a");
    for locked in [false, true, true, false] {
        catalog
            .lock_node(node.id, Locker::Service, locked)
            .expect("is locked or unlocked");
        catalog = engine.reopen(catalog);
        let locks = Locks { by_service: locked, by_owner: false };
        let expected = Node { locks, ..node.clone() };
        assert_eq!(catalog.nodes().expect("are listed"), [expected, other.clone()]);
    }
}

pub(crate) fn a_renamed_node_keeps_all_but_its_name(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = fill(&*catalog, "before", 1);
    let belongings = contents::of_node(&*catalog, node.id).expect("is read");
    catalog.rename_node(node.id, &node_name("after")).expect("is renamed");
    assert_eq!(refusal(catalog.node(&node.name)), "not found");
    let renamed = Node { name: node_name("after"), ..node.clone() };
    assert_eq!(catalog.nodes().expect("are listed"), std::slice::from_ref(&renamed));
    assert_eq!(catalog.certificate_node(&[1, 1], NOW).expect("is known"), renamed);
    assert_eq!(catalog.token_node(&[101; 32], NOW).expect("is known"), renamed);
    assert_eq!(contents::of_node(&*catalog, node.id).expect("is read"), belongings);
    let again = add_node(&*catalog, "before");
    assert_ne!(again.id, node.id);
}

fn registration(name: &str, key: Option<&str>) -> NodeRegistration {
    NodeRegistration {
        name: node_name(name),
        domain: DOMAIN.to_owned(),
        now: NOW,
        details: NodeDetails { hostname: format!("{name}.example"), ..NodeDetails::default() },
        token: ([7; 32], at(1_000)),
        api_key: key.map(str::to_owned),
        event: happening("node added", name),
    }
}

fn happening(what: &str, details: &str) -> EventRow {
    let (actor, what, details) = ("anna".to_owned(), what.to_owned(), details.to_owned());
    EventRow { time: NOW, actor, what, details }
}

fn events(catalog: &dyn Catalog) -> Vec<String> {
    let logged = catalog.events(None, 99).expect("are listed");
    logged.into_iter().map(|logged| logged.event.what).collect()
}

pub(crate) fn a_node_is_registered_as_a_whole_or_not_at_all(engine: &dyn Engine) {
    let catalog = engine.open();
    let person = people::add(&*catalog, "anna").id;
    let key = ApiKeyRow { uses_max: Some(1), ..api_key("k", person) };
    catalog.add_api_key(&key).expect("is stored");
    let owned = NodeDetails { owner: Some(PersonId(99)), ..NodeDetails::default() };
    let wrong = NodeRegistration { details: owned, ..registration("a", Some("k")) };
    assert_eq!(refusal(catalog.register_node(&wrong)), "not found");
    assert_eq!((catalog.nodes().expect("none"), events(&*catalog).len()), (Vec::new(), 0));
    assert_eq!(catalog.api_key("k").expect("is there").uses, 0);
    let node = catalog.register_node(&registration("a", Some("k"))).expect("is registered");
    assert_eq!(catalog.token_node(&[7; 32], NOW).expect("is known"), node);
    assert_eq!(catalog.node_details(node.id).expect("are kept").hostname, "a.example");
    assert_eq!(events(&*catalog), ["node added"]);
    assert_eq!(refusal(catalog.register_node(&registration("b", Some("k")))), "limit");
    assert_eq!(refusal(catalog.register_node(&registration("a", None))), "exists");
    assert_eq!(catalog.nodes().expect("one"), [node]);
}

pub(crate) fn a_node_is_altered_as_a_whole_or_not_at_all(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    let alteration = NodeAlteration {
        locks: vec![(Locker::Service, true), (Locker::Owner, true)],
        name: Some(node_name("b")),
        change: NodeChange { deletes_backups: Some(true), ..NodeChange::default() },
        added_labels: vec!["web".to_owned()],
        removed_labels: Vec::new(),
        details: Some(NodeDetails { mail: "a@example".to_owned(), ..NodeDetails::default() }),
        now: NOW,
        events: vec![happening("node renamed", "b"), happening("node locked", "b")],
    };
    let owner = Some(PersonId(99));
    let details = Some(NodeDetails { owner, ..NodeDetails::default() });
    let wrong = NodeAlteration { details, ..alteration.clone() };
    assert_eq!(refusal(catalog.alter_node(node.id, &wrong)), "not found");
    assert_eq!(catalog.nodes().expect("one"), std::slice::from_ref(&node));
    assert_eq!(catalog.labels(Some(node.id)).expect("none"), []);
    assert_eq!(events(&*catalog).len(), 0);
    catalog.alter_node(node.id, &alteration).expect("is altered");
    let locks = Locks { by_service: true, by_owner: true };
    let expected = Node { name: node_name("b"), locks, deletes_backups: true, ..node.clone() };
    assert_eq!(catalog.nodes().expect("one"), [expected]);
    assert_eq!(catalog.labels(Some(node.id)).expect("one"), [(node.id, "web".to_owned())]);
    assert_eq!(catalog.node_details(node.id).expect("are kept").mail, "a@example");
    assert_eq!(events(&*catalog).len(), 2);
    assert_eq!(refusal(catalog.alter_node(NO_NODE, &alteration)), "not found");
}

pub(crate) fn a_full_domain_takes_no_node(engine: &dyn Engine) {
    let catalog = engine.open();
    let lab = catalog.add_domain("LAB", NOW).expect("is added").id;
    let limits = DomainDetails { nodes_max: Some(1), ..DomainDetails::default() };
    catalog.put_domain_details(lab, &limits).expect("are kept");
    let first = catalog.add_node(&node_name("a"), "LAB", NOW).expect("has room");
    assert_eq!(refusal(catalog.add_node(&node_name("b"), "LAB", NOW)), "limit");
    let second = NodeRegistration { domain: "LAB".to_owned(), ..registration("b", None) };
    assert_eq!(refusal(catalog.register_node(&second)), "limit");
    assert_eq!(refusal(catalog.add_node(&first.name, "LAB", NOW)), "exists");
    let other = add_node(&*catalog, "c");
    let join = NodeChange { domain: Some(lab), ..NodeChange::default() };
    assert_eq!(refusal(catalog.change_node(other.id, &join)), "limit");
    catalog.change_node(first.id, &join).expect("is in the domain already");
    assert_eq!(names(&catalog.nodes().expect("two")), ["a", "c"]);
    // A limit below what there is takes nothing away, and several at once do not go beyond it.
    let limits = DomainDetails { nodes_max: Some(3), ..limits };
    catalog.put_domain_details(lab, &limits).expect("are kept");
    let added: usize = std::thread::scope(|scope| {
        let add = |number: u8| {
            let catalog = &*catalog;
            let name = node_name(&format!("n{number}"));
            scope.spawn(move || catalog.add_node(&name, "LAB", NOW).is_ok())
        };
        let threads: Vec<_> = (0..8).map(add).collect();
        threads.into_iter().map(|one| usize::from(one.join().expect("ends"))).sum()
    });
    assert_eq!(added, 2);
}

pub(crate) fn a_taken_name_is_refused(engine: &dyn Engine) {
    let catalog = engine.open();
    let (a, b) = (add_node(&*catalog, "a"), add_node(&*catalog, "b"));
    assert_eq!(refusal(catalog.rename_node(a.id, &b.name)), "exists");
    catalog.rename_node(a.id, &a.name).expect("a node may keep its name");
    assert_eq!(catalog.nodes().expect("are listed"), [a, b]);
}

pub(crate) fn removal_takes_all_of_the_node_and_nothing_else(engine: &dyn Engine) {
    let catalog = engine.open();
    let (before, gone, behind) =
        (fill(&*catalog, "before", 1), fill(&*catalog, "gone", 2), fill(&*catalog, "behind", 3));
    let spaces = catalog.filespaces(gone.id).expect("are listed");
    let rest = [&before, &behind].map(|node| contents::of_node(&*catalog, node.id));
    let packs = catalog.packs().expect("are listed");
    catalog.remove_node(gone.id).expect("is removed");

    let catalog = engine.reopen(catalog);
    let rest_now = [&before, &behind].map(|node| contents::of_node(&*catalog, node.id));
    assert_eq!(rest_now.map(Result::ok), rest.map(Result::ok));
    assert_eq!(catalog.packs().expect("are listed"), packs);
    assert_eq!(catalog.nodes().expect("are listed"), [before.clone(), behind]);
    assert_eq!(catalog.certificate_node(&[1, 1], NOW).expect("is known"), before);
    assert_eq!(catalog.token_node(&[101; 32], NOW).expect("is known"), before);

    assert_eq!(refusal(catalog.node(&gone.name)), "not found");
    check_unknown(&*catalog, gone.id);
    assert_eq!(refusal(catalog.certificate_node(&[2, 1], NOW)), "not found");
    assert_eq!(refusal(catalog.token_node(&[2; 32], NOW)), "token");
    assert_eq!(refusal(catalog.token_node(&[102; 32], NOW)), "token");
    for space in spaces {
        let holding = contents::of_filespace(&*catalog, space.id).expect("is read");
        assert_eq!(holding, FilespaceContents::default());
        let root = DirPath::root();
        assert_eq!(contents::digests(&*catalog, space.id, &dir("/a/")).expect("none"), []);
        assert_eq!(catalog.page(space.id, &key(&root, b"")).expect("none"), None);
        let subtree = PageSpan::Subtree(root);
        assert_eq!(catalog.pages(space.id, &subtree, None, 9).expect("none"), []);
    }
}

/// A backup may still run while an administrator removes its node. Rows that it wrote then would
/// belong to nobody, and nothing would ever remove them.
pub(crate) fn a_removed_node_gets_nothing_more(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = fill(&*catalog, "a", 1);
    let filespace = catalog.filespaces(node.id).expect("are listed")[0].id;
    catalog.remove_node(node.id).expect("is removed");

    let root = DirPath::root();
    let writes = [
        put(filespace, page(&key(&root, b""), 1)),
        Write::RemovePage { filespace, key: key(&root, b"") },
        Write::AddVersion { filespace, version: version(&root, b"a", 1, 2) },
        Write::AddSession(session(&node, filespace, 1, true)),
    ];
    for write in writes {
        assert_eq!(refusal(catalog.commit(vec![write])), "not found");
    }
    assert_eq!(refusal(catalog.open_filespace(node.id, b"/home", NOW)), "not found");
    assert_eq!(refusal(catalog.add_token(&token(&node, 9))), "not found");
    let certificate = Certificate { serial: vec![9], node: node.id, expires: at(9) };
    assert_eq!(refusal(catalog.add_certificate(&certificate)), "not found");

    check_unknown(&*catalog, node.id);
    let holding = contents::of_filespace(&*catalog, filespace).expect("is read");
    assert_eq!(holding, FilespaceContents::default());
    assert_eq!(refusal(catalog.token_node(&[9; 32], NOW)), "token");
    assert_eq!(refusal(catalog.certificate_node(&[9], NOW)), "not found");
}

pub(crate) fn numbers_are_never_given_twice(engine: &dyn Engine) {
    let mut catalog = engine.open();
    let mut given = Vec::new();
    for _ in 0..3 {
        let node = add_node(&*catalog, "a");
        let filespace = catalog.open_filespace(node.id, b"/", NOW).expect("is made");
        given.push((node.id, filespace.id));
        catalog.remove_node(node.id).expect("is removed");
        catalog = engine.reopen(catalog);
    }
    assert!(given.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{given:?}");
}
