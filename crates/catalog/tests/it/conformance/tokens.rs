//! Tokens and the certificates that they become.

use std::collections::BTreeSet;

use catalog::{Catalog, Certificate, Locker, TokenRow};

use super::Engine;
use crate::samples::{NO_NODE, NOW, add_node, at, enrolled, refusal, token};

pub(crate) fn a_token_enrols_its_node_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    catalog.add_token(&token(&node, 7)).expect("is stored");
    assert!(!catalog.is_enrolled(node.id).expect("not yet"));
    assert_eq!(catalog.token_node(&[7; 32], NOW).expect("is good"), node);
    assert_eq!(
        catalog
            .redeem_token(&[7; 32], b"serial", at(9), NOW, &enrolled())
            .expect("is good"),
        node
    );
    assert!(catalog.is_enrolled(node.id).expect("it is"));
    assert!(!catalog.is_enrolled(other.id).expect("it is not"));

    let catalog = engine.reopen(catalog);
    assert_eq!(
        refusal(catalog.redeem_token(&[7; 32], b"second", at(9), NOW, &enrolled())),
        "token"
    );
    let events = catalog.events(None, 9).expect("are listed");
    assert_eq!(events.len(), 1, "only the enrolment is in the audit trail: {events:?}");
    assert_eq!(events[0].event, enrolled());
    assert_eq!(refusal(catalog.token_node(&[7; 32], NOW)), "token");
    assert_eq!(catalog.certificate_node(b"serial", NOW).expect("is known"), node);
    assert_eq!(refusal(catalog.certificate_node(b"second", NOW)), "not found");
}

pub(crate) fn an_unknown_token_is_refused(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    catalog.add_token(&token(&node, 7)).expect("is stored");
    assert_eq!(refusal(catalog.token_node(&[8; 32], NOW)), "token");
    assert_eq!(
        refusal(catalog.redeem_token(&[8; 32], b"serial", at(9), NOW, &enrolled())),
        "token"
    );
    assert_eq!(refusal(catalog.certificate_node(b"serial", NOW)), "not found");
    assert!(!catalog.is_enrolled(node.id).expect("it is not"));
}

pub(crate) fn a_token_ends_at_its_expiry(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    catalog
        .add_token(&TokenRow { expires: at(5), ..token(&node, 7) })
        .expect("is stored");
    for late in [at(5), at(6)] {
        assert_eq!(refusal(catalog.token_node(&[7; 32], late)), "token");
        assert_eq!(
            refusal(catalog.redeem_token(&[7; 32], b"late", at(9), late, &enrolled())),
            "token"
        );
    }
    assert!(!catalog.is_enrolled(node.id).expect("it is not"));
    let early = at(4);
    assert_eq!(
        catalog
            .redeem_token(&[7; 32], b"early", at(9), early, &enrolled())
            .expect("is good"),
        node
    );
}

pub(crate) fn a_newer_token_voids_the_unused_one(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    catalog.add_token(&token(&other, 1)).expect("is stored");
    catalog.add_token(&token(&node, 2)).expect("is stored");
    catalog.add_token(&token(&node, 3)).expect("is stored");
    assert_eq!(refusal(catalog.redeem_token(&[2; 32], b"2", at(9), NOW, &enrolled())), "token");
    assert_eq!(
        catalog.redeem_token(&[3; 32], b"3", at(9), NOW, &enrolled()).expect("is good"),
        node
    );
    assert_eq!(
        catalog.redeem_token(&[1; 32], b"1", at(9), NOW, &enrolled()).expect("is good"),
        other
    );
    assert_eq!(
        refusal(catalog.add_token(&TokenRow { node: NO_NODE, ..token(&node, 4) })),
        "not found"
    );
}

pub(crate) fn a_used_token_stays_used(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    catalog.add_token(&token(&node, 1)).expect("is stored");
    catalog.redeem_token(&[1; 32], b"1", at(9), NOW, &enrolled()).expect("is good");
    catalog.add_token(&token(&node, 2)).expect("is stored");
    assert_eq!(refusal(catalog.redeem_token(&[1; 32], b"again", at(9), NOW, &enrolled())), "token");
    assert!(catalog.is_enrolled(node.id).expect("it is"));
    assert_eq!(
        catalog.redeem_token(&[2; 32], b"2", at(9), NOW, &enrolled()).expect("is good"),
        node
    );
    assert_eq!(refusal(catalog.certificate_node(b"1", NOW)), "not found");
    assert_eq!(catalog.certificate_node(b"2", NOW).expect("is known"), node);
}

pub(crate) fn a_failed_redemption_leaves_the_token_good(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    let taken = Certificate { serial: b"taken".to_vec(), node: other.id, expires: at(9) };
    catalog.add_certificate(&taken).expect("is stored");
    catalog.add_token(&token(&node, 1)).expect("is stored");
    assert_eq!(
        refusal(catalog.redeem_token(&[1; 32], b"taken", at(9), NOW, &enrolled())),
        "exists"
    );
    assert!(!catalog.is_enrolled(node.id).expect("it is not"));
    assert_eq!(catalog.certificate_node(b"taken", NOW).expect("is known"), other);
    assert_eq!(
        catalog
            .redeem_token(&[1; 32], b"free", at(9), NOW, &enrolled())
            .expect("is good"),
        node
    );
}

pub(crate) fn a_used_secret_is_not_given_again(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    catalog.add_token(&token(&node, 1)).expect("is stored");
    assert_eq!(refusal(catalog.add_token(&token(&other, 1))), "exists");
    assert_eq!(catalog.token_node(&[1; 32], NOW).expect("is good"), node);
    catalog.redeem_token(&[1; 32], b"1", at(9), NOW, &enrolled()).expect("is good");
    catalog.add_token(&token(&node, 2)).expect("is stored");
    assert_eq!(refusal(catalog.add_token(&token(&node, 1))), "exists");
    assert_eq!(refusal(catalog.token_node(&[1; 32], NOW)), "token");
    assert_eq!(catalog.token_node(&[2; 32], NOW).expect("a failure voids nothing"), node);
}

/// The secret of a password is the same each time that an administrator gives the password.
pub(crate) fn an_unused_secret_is_given_again_with_another_end(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    let until = |secret, end| TokenRow { expires: at(end), ..token(&node, secret) };
    catalog.add_token(&until(1, 5)).expect("is stored");
    assert_eq!(refusal(catalog.token_node(&[1; 32], at(6))), "token");
    catalog.add_token(&until(1, 20)).expect("is stored again");
    assert_eq!(catalog.token_node(&[1; 32], at(6)).expect("is good"), node);
    catalog.add_token(&until(2, 20)).expect("replaces it");
    assert_eq!(refusal(catalog.token_node(&[1; 32], at(6))), "token");
    catalog.add_token(&until(1, 20)).expect("is stored again");
    assert_eq!(refusal(catalog.token_node(&[2; 32], at(6))), "token");
    assert_eq!(
        catalog
            .redeem_token(&[1; 32], b"1", at(9), at(6), &enrolled())
            .expect("is good"),
        node
    );
}

pub(crate) fn renewed_certificates_lead_to_their_node(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    let long = [0xff; 20];
    let serials: [(&[u8], _); 4] =
        [(b"\0", &node), (b"\0\0", &other), (b"\x80\0\x01", &node), (&long, &other)];
    for (serial, node) in serials {
        let certificate = Certificate { serial: serial.to_vec(), node: node.id, expires: at(9) };
        catalog.add_certificate(&certificate).expect("is stored");
    }
    let catalog = engine.reopen(catalog);
    for (serial, node) in serials {
        assert_eq!(catalog.certificate_node(serial, NOW).expect("is known"), *node);
    }
    assert_eq!(refusal(catalog.certificate_node(b"", NOW)), "not found");
    assert_eq!(refusal(catalog.certificate_node(b"\0\0\0", NOW)), "not found");
}

pub(crate) fn a_certificate_ends_when_another_supersedes_it(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    let certificate =
        |serial: &[u8], node, expires| Certificate { serial: serial.to_vec(), node, expires };
    for old in [
        certificate(b"long", node.id, at(9)),
        certificate(b"short", node.id, at(3)),
        certificate(b"other", other.id, at(9)),
    ] {
        catalog.add_certificate(&old).expect("is stored");
    }
    let renewed = certificate(b"renewed", node.id, at(20));
    catalog.renew_certificate(&renewed, at(5)).expect("is stored");
    assert_eq!(refusal(catalog.renew_certificate(&renewed, at(1))), "exists");

    let catalog = engine.reopen(catalog);
    let ends: [(&[u8], _); 4] = [(b"long", 5), (b"short", 3), (b"other", 9), (b"renewed", 20)];
    for (serial, end) in ends {
        catalog.certificate_node(serial, at(end - 1)).expect("is still good");
        assert_eq!(refusal(catalog.certificate_node(serial, at(end))), "not found");
    }
}

pub(crate) fn revocation_ends_all_that_a_node_could_enter_with(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    for (serial, node, expires) in [(1, &node, 9), (2, &node, 2), (3, &node, 20), (4, &other, 9)] {
        let certificate = Certificate { serial: vec![serial], node: node.id, expires: at(expires) };
        catalog.add_certificate(&certificate).expect("is stored");
    }
    catalog.add_token(&token(&node, 7)).expect("is stored");
    catalog.add_token(&token(&other, 8)).expect("is stored");
    assert_eq!(catalog.revoke_certificates(node.id, at(2)).expect("are revoked"), 2);

    let catalog = engine.reopen(catalog);
    for serial in [1, 2, 3] {
        assert_eq!(refusal(catalog.certificate_node(&[serial], NOW)), "not found");
    }
    assert!(!catalog.is_enrolled(node.id).expect("it is not"));
    assert_eq!(refusal(catalog.token_node(&[7; 32], NOW)), "token");
    assert_eq!(catalog.certificate_node(&[4], NOW).expect("is known"), other);
    assert_eq!(catalog.token_node(&[8; 32], NOW).expect("is good"), other);
    assert_eq!(catalog.revoke_certificates(node.id, NOW).expect("none"), 0);
    assert_eq!(refusal(catalog.revoke_certificates(NO_NODE, NOW)), "not found");
}

pub(crate) fn a_serial_is_given_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    let certificate = Certificate { serial: vec![1], node: node.id, expires: at(9) };
    catalog.add_certificate(&certificate).expect("is stored");
    let second = Certificate { node: other.id, ..certificate };
    assert_eq!(refusal(catalog.add_certificate(&second)), "exists");
    assert_eq!(catalog.certificate_node(&[1], NOW).expect("is known"), node);
    assert!(!catalog.is_enrolled(other.id).expect("it is not"));
}

pub(crate) fn serials_of_locked_nodes_are_left_out(engine: &dyn Engine) {
    let catalog = engine.open();
    let serials = |catalog: &dyn Catalog| catalog.unlocked_serials().expect("are listed");
    assert_eq!(serials(&*catalog), BTreeSet::new());
    let (one, other) = (add_node(&*catalog, "one"), add_node(&*catalog, "other"));
    for (serial, node) in [(b"1", &one), (b"2", &one), (b"3", &other)] {
        let expires = if serial == b"2" { at(-9) } else { at(9) };
        let certificate = Certificate { serial: serial.to_vec(), node: node.id, expires };
        catalog.add_certificate(&certificate).expect("is stored");
    }
    let all = [b"1", b"2", b"3"].map(|serial| serial.to_vec());
    assert_eq!(serials(&*catalog), BTreeSet::from(all), "also those that have expired");
    for by in [Locker::Service, Locker::Owner] {
        catalog.lock_node(one.id, by, true).expect("is locked");
        assert_eq!(serials(&*catalog), BTreeSet::from([b"3".to_vec()]));
        catalog.lock_node(one.id, by, false).expect("is unlocked");
    }
    catalog.revoke_certificates(other.id, NOW).expect("is revoked");
    assert_eq!(serials(&*catalog), BTreeSet::from([b"1", b"2"].map(|serial| serial.to_vec())));
}
