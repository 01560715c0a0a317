//! Rules by which a node lets others read.

use catalog::ReadRule;

use super::Engine;
use crate::samples::{NO_NODE, add_node, at, node_name, read_rule, refusal};

pub(crate) fn a_rule_is_kept_until_it_is_removed(engine: &dyn Engine) {
    let catalog = engine.open();
    let [a, b] = ["a", "b"].map(|name| add_node(&*catalog, name).id);
    let rules = [
        read_rule("b", false, "/home"),
        read_rule("b", true, "/home"),
        read_rule("b", false, "/home/x"),
        read_rule("c", false, "/"),
    ];
    for rule in rules.iter().rev() {
        catalog.put_read_rule(a, rule).expect("is kept");
    }
    let later = ReadRule { since: at(9), ..rules[0].clone() };
    catalog.put_read_rule(a, &later).expect("is there already");
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.read_rules(a).expect("are listed"), rules);
    assert_eq!(catalog.read_rules(b).expect("none"), []);

    assert_eq!(refusal(catalog.remove_read_rule(b, &rules[0])), "not found");
    catalog.remove_read_rule(a, &later).expect("its time does not count");
    assert_eq!(refusal(catalog.remove_read_rule(a, &rules[0])), "not found");
    assert_eq!(catalog.read_rules(a).expect("are listed"), rules[1..]);
    assert_eq!(refusal(catalog.put_read_rule(NO_NODE, &rules[0])), "not found");
}

/// A path may have any bytes but zero.
pub(crate) fn a_rule_keeps_the_bytes_of_its_path(engine: &dyn Engine) {
    let catalog = engine.open();
    let node = add_node(&*catalog, "a").id;
    let rule = ReadRule { path: b"/\xff\x01 '".to_vec(), ..read_rule("b", true, "") };
    catalog.put_read_rule(node, &rule).expect("is kept");
    assert_eq!(catalog.read_rules(node).expect("one"), [rule]);
}

pub(crate) fn rules_follow_the_name_of_their_reader(engine: &dyn Engine) {
    let catalog = engine.open();
    let [owner, reader] = ["owner", "old"].map(|name| add_node(&*catalog, name).id);
    let rule = |reader| read_rule(reader, false, "/home");
    let other = read_rule("other", true, "/");
    for rule in [&rule("old"), &other] {
        catalog.put_read_rule(owner, rule).expect("is kept");
    }
    catalog.rename_node(reader, &node_name("old")).expect("keeps its name");
    assert_eq!(catalog.read_rules(owner).expect("two"), [rule("old"), other.clone()]);
    // The owner has a rule for the new name, too.
    catalog.put_read_rule(owner, &rule("new")).expect("is kept");
    catalog.rename_node(reader, &node_name("new")).expect("is renamed");
    assert_eq!(catalog.read_rules(owner).expect("two"), [rule("new"), other.clone()]);
    add_node(&*catalog, "old");
    catalog.rename_node(owner, &node_name("master")).expect("is renamed");
    assert_eq!(catalog.read_rules(owner).expect("two"), [rule("new"), other.clone()]);
    catalog.remove_node(reader).expect("is removed");
    assert_eq!(catalog.read_rules(owner).expect("one"), [other]);
    catalog.remove_node(owner).expect("is removed");
    assert_eq!(catalog.read_rules(owner).expect("none"), []);
}
