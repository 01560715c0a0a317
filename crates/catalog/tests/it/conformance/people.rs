//! People, their keys and sign-ins.

use catalog::{
    ApiKeyRow, Catalog, DomainDetails, NewPerson, NodeChange, NodeDetails, Person, PersonChange,
    RoleRow, SignInRow,
};
use model::{DomainId, PersonId, ServerTime};

use super::Engine;
use crate::samples::{NO_NODE, NOW, add_node, api_key, at, refusal, sign_in};

/// A person that no catalogue of these tests has.
const NOBODY: PersonId = PersonId(77_777);
const STANDARD: DomainId = DomainId(1);

fn new(login: &str) -> NewPerson {
    NewPerson {
        login: login.to_owned(),
        name: format!("Name of {login}"),
        mail: String::new(),
        cost_centres: vec!["C 1".to_owned(), "C2".to_owned()],
        password: Some("hash".to_owned()),
        roles: Vec::new(),
        made: NOW,
        made_by: "administrator".to_owned(),
    }
}

pub(crate) fn add(catalog: &dyn Catalog, login: &str) -> Person {
    catalog.add_person(&new(login)).expect("is added")
}

pub(crate) fn a_person_is_there_as_registered_and_changed(engine: &dyn Engine) {
    let catalog = engine.open();
    let (anna, bert) = (add(&*catalog, "Anna"), add(&*catalog, "bert"));
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.people().expect("two"), [anna.clone(), bert]);
    assert_eq!(catalog.person("ANNA").expect("is found"), anna);
    assert_eq!(anna.cost_centres, ["C 1", "C2"]);
    assert_eq!(refusal(catalog.add_person(&new("anna"))), "exists");
    assert_eq!(refusal(catalog.person("carl")), "not found");
    let change = PersonChange {
        mail: Some("a@example.org".to_owned()),
        second_factor: Some(Some(vec![1, 2])),
        cost_centres: Some(Vec::new()),
        ..PersonChange::default()
    };
    catalog.change_person(anna.id, &change).expect("is changed");
    let expected = Person {
        mail: "a@example.org".to_owned(),
        second_factor: Some(vec![1, 2]),
        cost_centres: Vec::new(),
        ..anna
    };
    assert_eq!(catalog.person_numbered(expected.id).expect("is found"), expected);
    assert_eq!(refusal(catalog.change_person(NOBODY, &change)), "not found");
    assert_eq!(refusal(catalog.person_numbered(NOBODY)), "not found");
}

pub(crate) fn a_person_is_registered_with_roles_or_not_at_all(engine: &dyn Engine) {
    let catalog = engine.open();
    let role = |domain| RoleRow { person: NOBODY, role: "tenant".to_owned(), domain };
    let unknown = NewPerson { roles: vec![role(Some(DomainId(99)))], ..new("anna") };
    assert_eq!(refusal(catalog.add_person(&unknown)), "not found");
    assert_eq!(refusal(catalog.person("anna")), "not found");
    let known = NewPerson { roles: vec![role(Some(STANDARD))], ..new("anna") };
    let person = catalog.add_person(&known).expect("is added").id;
    let expected = RoleRow { person, ..role(Some(STANDARD)) };
    assert_eq!(catalog.roles(None).expect("one"), [expected]);
}

pub(crate) fn a_code_of_the_second_factor_counts_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let anna = add(&*catalog, "anna").id;
    assert!(catalog.use_code(anna, 7).expect("is noted"));
    assert!(!catalog.use_code(anna, 7).expect("was used"));
    assert!(!catalog.use_code(anna, 6).expect("is older"));
    assert!(catalog.use_code(anna, 8).expect("is newer"));
    assert!(!catalog.use_code(NOBODY, 8).expect("nobody has no code"));
    let change = PersonChange { second_factor: Some(None), ..PersonChange::default() };
    catalog.change_person(anna, &change).expect("is removed");
    assert!(catalog.use_code(anna, 1).expect("a new secret begins anew"));
}

pub(crate) fn roles_are_replaced_as_a_whole(engine: &dyn Engine) {
    let catalog = engine.open();
    let person = add(&*catalog, "anna").id;
    let role = |role: &str, domain| RoleRow { person, role: role.to_owned(), domain };
    let roles = [role("auditor", None), role("tenant", Some(STANDARD))];
    catalog.set_roles(person, &roles).expect("are set");
    assert_eq!(catalog.roles(Some(person)).expect("two"), roles);
    assert_eq!(catalog.roles(None).expect("two"), roles);
    let unknown = [role("tenant", Some(DomainId(99)))];
    assert_eq!(refusal(catalog.set_roles(person, &unknown)), "not found");
    assert_eq!(catalog.roles(Some(person)).expect("are as before"), roles);
    assert_eq!(refusal(catalog.set_roles(NOBODY, &[])), "not found");
    catalog.set_roles(person, &roles[..1]).expect("are set");
    assert_eq!(catalog.roles(None).expect("one"), roles[..1]);
}

pub(crate) fn keys_belong_to_people_and_end(engine: &dyn Engine) {
    let catalog = engine.open();
    let (anna, bert) = (add(&*catalog, "anna").id, add(&*catalog, "bert").id);
    let first = ApiKeyRow { uses_max: Some(2), ..api_key("a", anna) };
    let second = api_key("b", bert);
    catalog.add_api_key(&first).expect("is stored");
    catalog.add_api_key(&second).expect("is stored");
    assert_eq!(refusal(catalog.add_api_key(&api_key("a", bert))), "exists");
    assert_eq!(refusal(catalog.add_api_key(&api_key("c", NOBODY))), "not found");
    assert_eq!(catalog.api_keys(None).expect("two"), [first.clone(), second.clone()]);
    assert_eq!(catalog.api_keys(Some(bert)).expect("one"), [second]);
    let uses = [0; 3].map(|_| catalog.count_use("a").expect("is counted"));
    assert_eq!(uses, [true, true, false]);
    assert!(catalog.count_use("b").expect("has no limit"));
    assert_eq!(refusal(catalog.count_use("c")), "not found");
    catalog.revoke_api_key("a", at(5)).expect("is revoked");
    catalog.revoke_api_key("a", at(6)).expect("stays revoked");
    let revoked = ApiKeyRow { uses: 2, revoked: Some(at(5)), ..first };
    assert_eq!(catalog.api_key("a").expect("is found"), revoked);
    assert_eq!(refusal(catalog.revoke_api_key("c", NOW)), "not found");
    assert_eq!(refusal(catalog.api_key("c")), "not found");
}

pub(crate) fn sign_ins_end_by_time_and_with_the_password(engine: &dyn Engine) {
    let catalog = engine.open();
    let anna = add(&*catalog, "anna").id;
    let known = |hash: u8| catalog.sign_in(&[hash; 32], NOW).expect("is looked up");
    catalog.add_sign_in(&sign_in(1, anna)).expect("is stored");
    assert_eq!(known(1), Some(sign_in(1, anna)));
    assert_eq!(known(2), None);
    assert_eq!(catalog.sign_in(&[1; 32], at(60)).expect("has expired"), None);
    catalog.note_use(&[1; 32], at(3)).expect("is noted");
    assert_eq!(known(1), Some(SignInRow { used: at(3), ..sign_in(1, anna) }));
    catalog.add_sign_in(&sign_in(2, anna)).expect("is stored");
    catalog.end_sign_in(&[1; 32]).expect("is ended");
    catalog.end_sign_in(&[1; 32]).expect("has ended");
    assert_eq!((known(1), known(2).is_some()), (None, true));
    let change = PersonChange { password: Some("new".to_owned()), ..PersonChange::default() };
    catalog.change_person(anna, &change).expect("is changed");
    assert_eq!(known(2), None);
    assert_eq!(refusal(catalog.add_sign_in(&sign_in(3, NOBODY))), "not found");
    let later = SignInRow { made: at(100), expires: at(200), ..sign_in(4, anna) };
    catalog.add_sign_in(&sign_in(3, anna)).expect("is stored");
    catalog.add_sign_in(&later).expect("removes the one that has expired");
    assert_eq!(catalog.sign_ins(anna).expect("one"), [later]);
}

pub(crate) fn all_that_a_person_has_ends_with_the_person(engine: &dyn Engine) {
    let catalog = engine.open();
    let anna = add(&*catalog, "anna").id;
    let node = add_node(&*catalog, "a").id;
    let details = NodeDetails { owner: Some(anna), ..NodeDetails::default() };
    catalog.put_node_details(node, &details).expect("are kept");
    let role = RoleRow { person: anna, role: "owner".to_owned(), domain: None };
    catalog.set_roles(anna, &[role]).expect("are set");
    catalog.add_api_key(&api_key("a", anna)).expect("is stored");
    catalog.add_sign_in(&sign_in(1, anna)).expect("is stored");
    catalog.remove_person(anna).expect("is removed");
    assert_eq!(catalog.people().expect("none"), []);
    assert_eq!(catalog.roles(None).expect("none"), []);
    assert_eq!(catalog.api_keys(None).expect("none"), []);
    assert_eq!(catalog.sign_in(&[1; 32], NOW).expect("none"), None);
    assert_eq!(catalog.node_details(node).expect("has none").owner, None);
    assert_eq!(refusal(catalog.remove_person(anna)), "not found");
    assert_ne!(add(&*catalog, "anna").id, anna, "a number is never given twice");
}

pub(crate) fn an_owner_has_the_domains_of_the_nodes(engine: &dyn Engine) {
    let catalog = engine.open();
    let [anna, bert] = ["anna", "bert"].map(|login| add(&*catalog, login).id);
    let lab = catalog.add_domain("LAB", NOW).expect("is added").id;
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| add_node(&*catalog, name));
    for (node, owner) in [(&a, anna), (&b, anna), (&c, anna), (&d, bert)] {
        let details = NodeDetails { owner: Some(owner), ..NodeDetails::default() };
        catalog.put_node_details(node.id, &details).expect("are kept");
    }
    let domains = |person| catalog.domains_of_owner(person).expect("are read");
    assert_eq!((domains(anna), domains(bert)), (vec![a.domain], vec![d.domain]));
    let change = NodeChange { domain: Some(lab), ..NodeChange::default() };
    catalog.change_node(c.id, &change).expect("moves");
    let mut both = vec![a.domain, lab];
    both.sort_unstable();
    assert_eq!(domains(anna), both);
    assert_eq!(domains(NOBODY), []);
}

pub(crate) fn details_are_replaced_and_end_with_their_object(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    assert_eq!(catalog.node_details(node).expect("none yet"), NodeDetails::default());
    let details = NodeDetails { hostname: "a.example".to_owned(), ..NodeDetails::default() };
    catalog.put_node_details(node, &details).expect("are kept");
    assert_eq!(catalog.all_node_details().expect("one"), [(node, details.clone())]);
    let owned = NodeDetails { owner: Some(NOBODY), ..NodeDetails::default() };
    assert_eq!(refusal(catalog.put_node_details(node, &owned)), "not found");
    assert_eq!(refusal(catalog.put_node_details(NO_NODE, &details)), "not found");
    assert_eq!(catalog.node_details(node).expect("as before"), details);
    catalog.remove_node(node).expect("is removed");
    assert_eq!(catalog.all_node_details().expect("none"), []);
    let domain = catalog.add_domain("LAB", NOW).expect("is added").id;
    let details = DomainDetails {
        tag: "lab".to_owned(),
        nodes_max: Some(1 << 40),
        warning_percent: 80,
        ..DomainDetails::default()
    };
    catalog.put_domain_details(domain, &details).expect("are kept");
    assert_eq!(catalog.domain_details(domain).expect("are kept"), details);
    assert_eq!(refusal(catalog.put_domain_details(DomainId(99), &details)), "not found");
    catalog.remove_domain(domain).expect("is removed");
    assert_eq!(catalog.domain_details(domain).expect("none"), DomainDetails::default());
}

pub(crate) fn an_owner_and_the_service_lock_apart(engine: &dyn Engine) {
    use catalog::Locker::{Owner, Service};
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    let locks = || {
        let node = catalog.node(&node.name).expect("is there");
        (node.locks.any(), node.locks.by_owner)
    };
    catalog.lock_node(node.id, Owner, true).expect("is locked");
    assert_eq!(locks(), (true, true));
    catalog.lock_node(node.id, Service, true).expect("is locked");
    catalog.lock_node(node.id, Owner, false).expect("is unlocked");
    assert_eq!(locks(), (true, false));
    catalog.lock_node(node.id, Owner, true).expect("is locked");
    catalog.lock_node(node.id, Service, false).expect("is unlocked");
    assert_eq!(locks(), (true, true));
    catalog.lock_node(node.id, Owner, false).expect("is unlocked");
    assert_eq!(locks(), (false, false));
}

pub(crate) fn a_request_is_answered_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let row = crate::samples::answer("anna", "k1");
    assert_eq!(catalog.claim_answer(&row).expect("is claimed"), None);
    assert_eq!(catalog.claim_answer(&row).expect("is known"), Some(row.clone()));
    let done = catalog::AnswerRow { status: 201, body: b"{}".to_vec(), ..row.clone() };
    catalog.put_answer(&done).expect("is kept");
    assert_eq!(catalog.claim_answer(&row).expect("is known"), Some(done));
    let other = crate::samples::answer("bert", "k1");
    assert_eq!(catalog.claim_answer(&other).expect("another caller"), None);
    catalog.drop_answer("bert", "k1").expect("is given up");
    assert_eq!(catalog.claim_answer(&other).expect("is claimed again"), None);
    catalog.forget_answers(ServerTime(NOW.0 + 1)).expect("are forgotten");
    assert_eq!(catalog.claim_answer(&row).expect("is claimed again"), None);
    let unknown = crate::samples::answer("carl", "k1");
    assert_eq!(refusal(catalog.put_answer(&unknown)), "not found");
}

pub(crate) fn an_approval_is_decided_once(engine: &dyn Engine) {
    use catalog::ApprovalState::{Approved, Done, Refused, Waiting};
    let catalog = engine.open();
    let row = crate::samples::approval(1);
    let first = catalog.add_approval(&row).expect("is added");
    let second = catalog.add_approval(&crate::samples::approval(2)).expect("is added");
    let numbers: Vec<u64> =
        catalog.approvals(None, 9).expect("two").iter().map(|one| one.number).collect();
    assert_eq!(numbers, [second, first]);
    assert_eq!(catalog.approvals(Some(first), 1).expect("one")[0].number, first);
    let decision = |state| catalog::Decision {
        state,
        by: "bert".to_owned(),
        at: at(9),
        reason: "because".to_owned(),
    };
    assert!(catalog.decide(first, Waiting, &decision(Approved)).expect("is decided"));
    assert!(!catalog.decide(first, Waiting, &decision(Refused)).expect("was decided"));
    assert!(catalog.decide(first, Approved, &decision(Done)).expect("is done"));
    let expected = catalog::ApprovalRow {
        number: first,
        decided_by: "bert".to_owned(),
        decided: Some(at(9)),
        state: Done,
        reason: "because".to_owned(),
        ..row
    };
    assert_eq!(catalog.approval(first).expect("is found"), expected);
    assert_eq!(refusal(catalog.approval(77)), "not found");
    assert!(!catalog.decide(77, Waiting, &decision(Approved)).expect("is unknown"));
}

pub(crate) fn requests_about_a_domain_end_with_it(engine: &dyn Engine) {
    use catalog::ApprovalState::{Refused, Waiting};
    let catalog = engine.open();
    let [lab, law] =
        ["LAB", "LAW"].map(|name| catalog.add_domain(name, at(1)).expect("is added").id.0);
    let ask = |operation: &str, request: String| {
        let row = catalog::ApprovalRow {
            operation: operation.to_owned(),
            request,
            ..crate::samples::approval(1)
        };
        catalog.add_approval(&row).expect("is added")
    };
    let activation =
        |id: u32| format!(r#"{{"domain":"LAW","id":{id},"shorter":["a \"id\":{law},"]}}"#);
    let removed = [
        ask("policies.activate", activation(law)),
        ask("nodes.change", format!(r#"{{"domain":"LAW","domain_id":{law},"id":7,"node":"a"}}"#)),
    ];
    let others = [
        ask("policies.activate", activation(lab)),
        ask("nodes.change", format!(r#"{{"domain":"LAB","domain_id":{lab},"id":{law},"a":1}}"#)),
        ask("nodes.remove", format!(r#"{{"id":{law},"node":"a"}}"#)),
    ];
    let found = |number: u64| catalog.approval(number).expect("is found");
    let before = others.map(found);
    catalog.remove_domain(DomainId(law)).expect("is removed");
    for number in removed {
        let row = found(number);
        assert_eq!((row.state, row.reason.as_str()), (Refused, "the domain was removed"));
        let request = row.request.replace(&format!("\\\"id\\\":{law},"), "");
        assert!(!request.contains(&format!("id\":{law},")), "{request}");
    }
    assert_eq!(others.map(found), before);
    assert!(before.iter().all(|row| row.state == Waiting));
    assert_eq!(catalog.add_domain("LAW", at(2)).expect("is added").id, DomainId(law));
    assert_eq!(others.map(found), before);
}
