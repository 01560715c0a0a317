//! Identities of people.

use catalog::{Catalog, CatalogError, IdentityRow, NewPerson, PersonChange, RoleRow, SignInRow};
use model::{DomainId, PersonId, ServerTime};

use super::Engine;
use crate::samples::{NOW, refusal};

fn person(login: &str) -> NewPerson {
    NewPerson {
        login: login.to_owned(),
        name: String::new(),
        mail: String::new(),
        cost_centres: Vec::new(),
        password: None,
        roles: Vec::new(),
        made: NOW,
        made_by: "root".to_owned(),
    }
}

/// Gives a person these identities in place of the present ones.
fn set(
    catalog: &dyn Catalog,
    person: PersonId,
    identities: &[IdentityRow],
) -> Result<(), CatalogError> {
    let identities = Some(identities.to_vec());
    catalog.change_person(person, &PersonChange { identities, ..PersonChange::default() })
}

pub(crate) fn an_identity_belongs_to_one_person(engine: &dyn Engine) {
    let catalog = engine.open();
    let anna = catalog.add_person(&person("anna")).expect("is added").id;
    let bert = catalog.add_person(&person("bert")).expect("is added").id;
    let row = |person, subject: &str| IdentityRow {
        issuer: "https://id.example".to_owned(),
        subject: subject.to_owned(),
        person,
        made: NOW,
    };
    catalog.add_identity(&row(anna, "7")).expect("is added");
    assert_eq!(refusal(catalog.add_identity(&row(bert, "7"))), "exists");
    assert_eq!(refusal(catalog.add_identity(&row(PersonId(99), "8"))), "not found");
    let known = |subject| catalog.identity("https://id.example", subject).expect("is looked up");
    assert_eq!((known("7"), known("8")), (Some(anna), None));
    assert_eq!(catalog.identity("https://other.example", "7").expect("none"), None);
    assert_eq!(catalog.identities(anna).expect("one"), [row(anna, "7")]);
    set(&*catalog, anna, &[]).expect("are removed");
    catalog.add_identity(&row(bert, "7")).expect("is free");
    catalog.remove_person(bert).expect("is removed");
    assert_eq!(known("7"), None);
}

pub(crate) fn identities_are_replaced_as_a_whole_and_end_sign_ins(engine: &dyn Engine) {
    let catalog = engine.open();
    let anna = catalog.add_person(&person("anna")).expect("is added").id;
    let bert = catalog.add_person(&person("bert")).expect("is added").id;
    let row = |person, subject: &str| IdentityRow {
        issuer: "https://id.example".to_owned(),
        subject: subject.to_owned(),
        person,
        made: NOW,
    };
    let sign_in = |person| SignInRow {
        hash: [7; 32],
        person,
        guard: [8; 16],
        made: NOW,
        used: NOW,
        expires: ServerTime(NOW.0 + 1_000_000),
        origin: String::new(),
    };
    catalog.add_identity(&row(bert, "1")).expect("is added");
    catalog.add_sign_in(&sign_in(anna)).expect("is added");
    let count = || catalog.sign_ins(anna).expect("are listed").len();
    let taken = set(&*catalog, anna, &[row(anna, "2"), row(anna, "1")]);
    assert_eq!(refusal(taken), "exists");
    assert_eq!((catalog.identities(anna).expect("none"), count()), (vec![], 1));
    set(&*catalog, anna, &[row(anna, "2"), row(anna, "3")]).expect("are replaced");
    assert_eq!(catalog.identities(anna).expect("two"), [row(anna, "2"), row(anna, "3")]);
    assert_eq!(count(), 0);
    catalog.add_sign_in(&sign_in(anna)).expect("is added");
    set(&*catalog, anna, &[row(anna, "3"), row(anna, "2")]).expect("are the same");
    assert_eq!(count(), 1);
    let unknown = set(&*catalog, PersonId(99), &[]);
    assert_eq!(refusal(unknown), "not found");
}

pub(crate) fn a_refused_change_of_a_person_changes_nothing(engine: &dyn Engine) {
    let catalog = engine.open();
    let anna = catalog.add_person(&person("anna")).expect("is added");
    let bert = catalog.add_person(&person("bert")).expect("is added").id;
    let row = |person| IdentityRow {
        issuer: "https://id.example".to_owned(),
        subject: "1".to_owned(),
        person,
        made: NOW,
    };
    catalog.add_identity(&row(bert)).expect("is added");
    let role = |domain| RoleRow { person: anna.id, role: "operator".to_owned(), domain };
    let taken = PersonChange {
        name: Some("Anna".to_owned()),
        roles: Some(vec![role(None)]),
        identities: Some(vec![row(anna.id)]),
        ..PersonChange::default()
    };
    assert_eq!(refusal(catalog.change_person(anna.id, &taken)), "exists");
    let unknown = Some(vec![role(None), role(Some(DomainId(99)))]);
    let unknown = PersonChange { roles: unknown, identities: None, ..taken.clone() };
    assert_eq!(refusal(catalog.change_person(anna.id, &unknown)), "not found");
    assert_eq!(catalog.person_numbered(anna.id).expect("is found"), anna);
    assert!(catalog.roles(Some(anna.id)).expect("none").is_empty());
    let free = PersonChange { identities: Some(Vec::new()), ..taken };
    catalog.change_person(anna.id, &free).expect("is changed");
    assert_eq!(catalog.roles(Some(anna.id)).expect("one"), [role(None)]);
}
