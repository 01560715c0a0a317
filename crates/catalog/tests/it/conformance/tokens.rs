//! Tokens and the certificates that they become.

use catalog::{Certificate, TokenRow};

use super::Engine;
use crate::samples::{NO_NODE, NOW, add_node, at, refusal, token};

pub(crate) fn a_token_enrols_its_node_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    catalog.add_token(&token(&node, 7)).expect("is stored");
    assert!(!catalog.is_enrolled(node.id).expect("not yet"));
    assert_eq!(catalog.token_node(&[7; 32], NOW).expect("is good"), node);
    assert_eq!(catalog.redeem_token(&[7; 32], b"serial", at(9), NOW).expect("is good"), node);
    assert!(catalog.is_enrolled(node.id).expect("it is"));
    assert!(!catalog.is_enrolled(other.id).expect("it is not"));

    let catalog = engine.reopen(catalog);
    assert_eq!(refusal(catalog.redeem_token(&[7; 32], b"second", at(9), NOW)), "token");
    assert_eq!(refusal(catalog.token_node(&[7; 32], NOW)), "token");
    assert_eq!(catalog.certificate_node(b"serial").expect("is known"), node);
    assert_eq!(refusal(catalog.certificate_node(b"second")), "not found");
}

pub(crate) fn an_unknown_token_is_refused(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    catalog.add_token(&token(&node, 7)).expect("is stored");
    assert_eq!(refusal(catalog.token_node(&[8; 32], NOW)), "token");
    assert_eq!(refusal(catalog.redeem_token(&[8; 32], b"serial", at(9), NOW)), "token");
    assert_eq!(refusal(catalog.certificate_node(b"serial")), "not found");
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
        assert_eq!(refusal(catalog.redeem_token(&[7; 32], b"late", at(9), late)), "token");
    }
    assert!(!catalog.is_enrolled(node.id).expect("it is not"));
    let early = at(4);
    assert_eq!(catalog.redeem_token(&[7; 32], b"early", at(9), early).expect("is good"), node);
}

pub(crate) fn a_newer_token_voids_the_unused_one(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    catalog.add_token(&token(&other, 1)).expect("is stored");
    catalog.add_token(&token(&node, 2)).expect("is stored");
    catalog.add_token(&token(&node, 3)).expect("is stored");
    assert_eq!(refusal(catalog.redeem_token(&[2; 32], b"2", at(9), NOW)), "token");
    assert_eq!(catalog.redeem_token(&[3; 32], b"3", at(9), NOW).expect("is good"), node);
    assert_eq!(catalog.redeem_token(&[1; 32], b"1", at(9), NOW).expect("is good"), other);
    assert_eq!(
        refusal(catalog.add_token(&TokenRow { node: NO_NODE, ..token(&node, 4) })),
        "not found"
    );
}

pub(crate) fn a_used_token_stays_used(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a");
    catalog.add_token(&token(&node, 1)).expect("is stored");
    catalog.redeem_token(&[1; 32], b"1", at(9), NOW).expect("is good");
    catalog.add_token(&token(&node, 2)).expect("is stored");
    assert_eq!(refusal(catalog.redeem_token(&[1; 32], b"again", at(9), NOW)), "token");
    assert!(catalog.is_enrolled(node.id).expect("it is"));
    assert_eq!(catalog.redeem_token(&[2; 32], b"2", at(9), NOW).expect("is good"), node);
    assert_eq!(catalog.certificate_node(b"1").expect("is known"), node);
}

pub(crate) fn a_failed_redemption_leaves_the_token_good(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    let taken = Certificate { serial: b"taken".to_vec(), node: other.id, expires: at(9) };
    catalog.add_certificate(&taken).expect("is stored");
    catalog.add_token(&token(&node, 1)).expect("is stored");
    assert_eq!(refusal(catalog.redeem_token(&[1; 32], b"taken", at(9), NOW)), "exists");
    assert!(!catalog.is_enrolled(node.id).expect("it is not"));
    assert_eq!(catalog.certificate_node(b"taken").expect("is known"), other);
    assert_eq!(catalog.redeem_token(&[1; 32], b"free", at(9), NOW).expect("is good"), node);
}

pub(crate) fn a_secret_is_given_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    catalog.add_token(&token(&node, 1)).expect("is stored");
    assert_eq!(refusal(catalog.add_token(&token(&node, 1))), "exists");
    assert_eq!(refusal(catalog.add_token(&token(&other, 1))), "exists");
    assert_eq!(catalog.token_node(&[1; 32], NOW).expect("is good"), node);
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
        assert_eq!(catalog.certificate_node(serial).expect("is known"), *node);
    }
    assert_eq!(refusal(catalog.certificate_node(b"")), "not found");
    assert_eq!(refusal(catalog.certificate_node(b"\0\0\0")), "not found");
}

pub(crate) fn a_serial_is_given_once(engine: &dyn Engine) {
    let catalog = engine.open();
    let (other, node) = (add_node(&*catalog, "other"), add_node(&*catalog, "a"));
    let certificate = Certificate { serial: vec![1], node: node.id, expires: at(9) };
    catalog.add_certificate(&certificate).expect("is stored");
    let second = Certificate { node: other.id, ..certificate };
    assert_eq!(refusal(catalog.add_certificate(&second)), "exists");
    assert_eq!(catalog.certificate_node(&[1]).expect("is known"), node);
    assert!(!catalog.is_enrolled(other.id).expect("it is not"));
}
