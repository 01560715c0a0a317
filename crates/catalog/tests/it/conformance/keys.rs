//! Enrolment keys.

use catalog::{Catalog, EnrolmentKeyRow, InvalidKey, KeyError, Node, OptionSetVersion};
use model::ServerTime;

use super::Engine;
use super::policy::event;
use crate::samples::{NOW, add_node, at, enrolment_key, key_redemption, node_name, refusal};

/// Enrols the node `name` with the key of this number.
fn redeem(catalog: &dyn Catalog, key: u8, name: &str, now: ServerTime) -> Result<Node, KeyError> {
    catalog.redeem_key(&key_redemption(key, name, now))
}

#[track_caller]
fn check_invalid<T: std::fmt::Debug>(answer: Result<T, KeyError>, expected: InvalidKey) {
    match answer {
        Err(KeyError::Invalid(invalid)) => assert_eq!(invalid, expected),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_key_makes_as_many_nodes_as_it_may(engine: &dyn Engine) {
    let catalog = engine.open();
    let version = OptionSetVersion { number: 1, ..OptionSetVersion::default() };
    catalog
        .add_option_set_version("LINUX", &version, None, &event(1))
        .expect("is stored");
    let key = EnrolmentKeyRow { option_set: Some("LINUX".to_owned()), ..enrolment_key(1) };
    catalog.add_enrolment_key(&key).expect("is stored");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.valid_key(&[1; 32], NOW).expect("is good"), key);
    let a = redeem(&*catalog, 1, "a", NOW).expect("the first");
    assert_eq!(a.option_set.as_deref(), Some("LINUX"));
    assert!(catalog.is_enrolled(a.id).expect("it is"));
    assert_eq!(catalog.certificate_node(b"a", NOW).expect("is known"), a);
    let labels: Vec<_> = catalog.labels(Some(a.id)).expect("are listed");
    assert_eq!(labels, [(a.id, "prod".to_owned()), (a.id, "web".to_owned())]);
    // A name that is taken uses nothing up.
    match redeem(&*catalog, 1, "a", NOW) {
        Err(KeyError::Catalog(error)) => assert_eq!(refusal::<(), _>(Err(error)), "exists"),
        other => panic!("{other:?}"),
    }
    redeem(&*catalog, 1, "b", NOW).expect("the second");
    check_invalid(redeem(&*catalog, 1, "c", NOW), InvalidKey::UsedUp);
    check_invalid(catalog.valid_key(&[1; 32], NOW), InvalidKey::UsedUp);
    assert_eq!(refusal(catalog.node(&node_name("c"))), "not found");
    let events = catalog.events(None, 9).expect("are listed");
    let details: Vec<_> = events.iter().map(|one| one.event.details.as_str()).collect();
    assert_eq!(details, ["b", "a", "at 1"], "the option set, and only those that became nodes");
    let keys = catalog.enrolment_keys().expect("are listed");
    assert_eq!(keys, [EnrolmentKeyRow { nodes: 2, ..key }]);
}

pub(crate) fn a_key_ends_by_its_time_or_an_administrator(engine: &dyn Engine) {
    let catalog = engine.open();
    add_node(&*catalog, "other");
    catalog.add_enrolment_key(&enrolment_key(1)).expect("is stored");
    catalog.add_enrolment_key(&enrolment_key(2)).expect("is stored");
    check_invalid(redeem(&*catalog, 3, "a", NOW), InvalidKey::Unknown);
    let end = enrolment_key(1).expires;
    check_invalid(redeem(&*catalog, 1, "a", end), InvalidKey::Expired);
    catalog.revoke_key(&enrolment_key(2).hash, at(4)).expect("is revoked");
    catalog.revoke_key(&enrolment_key(2).hash, at(5)).expect("stays revoked");
    check_invalid(redeem(&*catalog, 2, "a", NOW), InvalidKey::Revoked);
    assert_eq!(refusal(catalog.revoke_key(&enrolment_key(3).hash, at(4))), "not found");
    let second = EnrolmentKeyRow { revoked: Some(at(4)), ..enrolment_key(2) };
    assert_eq!(catalog.enrolment_keys().expect("two"), [enrolment_key(1), second]);
    assert_eq!(refusal(catalog.add_enrolment_key(&enrolment_key(2))), "exists");
    let namesake = EnrolmentKeyRow { hash: [9; 32], name: "Key-1".into(), ..enrolment_key(1) };
    assert_eq!(refusal(catalog.add_enrolment_key(&namesake)), "exists");
    let homeless = EnrolmentKeyRow { domain: "NONE".to_owned(), ..enrolment_key(4) };
    assert_eq!(refusal(catalog.add_enrolment_key(&homeless)), "not found");
    catalog.forget_keys(end).expect("none is older");
    assert_eq!(catalog.enrolment_keys().expect("two").len(), 2);
    catalog.forget_keys(ServerTime(end.0 + 1)).expect("are forgotten");
    assert_eq!(catalog.enrolment_keys().expect("none"), []);
}
