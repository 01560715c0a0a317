//! Tables and documents of nodes.

use client::LastDrills;
use model::ServerTime;

use super::*;

fn node(name: &str, is_locked: bool, is_enrolled: bool) -> Node {
    Node {
        name: name.to_owned(),
        domain: "STANDARD".to_owned(),
        is_locked,
        is_enrolled,
        registered: ServerTime::from_secs(1_700_000_000),
        option_set: None,
        option_set_version: 0,
        deletes_backups: false,
        deletes_archives: true,
        labels: Vec::new(),
        filespaces: Vec::new(),
        collocation_group: is_locked.then(|| "accounts".to_owned()),
        drills: Some(LastDrills::default()),
        has_agent: Some(is_locked),
        agent_polled: None,
        agent_next_poll: None,
        last_contact: None,
    }
}

#[test]
fn nodes_stand_in_a_table() {
    let labels = vec!["db".to_owned(), "prod".to_owned()];
    let bert = Node { labels, ..node("bert", true, true) };
    let nodes = [node("anna", false, true), bert, node("c", false, false)];
    insta::assert_snapshot!(nodes_table(&nodes));
}

/// An agent that polls is connected for seconds only, and was away otherwise.
#[test]
fn an_agent_that_polls_is_not_away() {
    let words = |has_agent, agent_polled| {
        agent_words(&Node { has_agent, agent_polled, ..node("anna", false, true) })
    };
    let at = ServerTime::from_secs(1_700_000_000);
    let polls = format!("polls, last {}", moment::shown(at));
    assert_eq!(words(Some(false), Some(at)), polls, "the next call is unknown");
    let next = ServerTime::from_secs(1_700_000_000 + 3600);
    let node =
        Node { agent_polled: Some(at), agent_next_poll: Some(next), ..node("anna", false, true) };
    let next = moment::shown_after(next, at);
    assert_eq!(agent_words(&node), format!("{polls}, next by {next}"));
    assert_eq!(words(Some(true), Some(at)), "connected");
    assert_eq!(words(Some(false), None), "away");
    assert_eq!(words(None, None), "unknown");
}

#[test]
fn the_last_contact_of_a_node_says_from_where() {
    let at = ServerTime::from_secs(1_700_000_000);
    let words = |host: &str| {
        let (address, host) = ("192.0.2.7".to_owned(), host.to_owned());
        contact_words(Some(&NodeContact { at, address, host }))
    };
    assert_eq!(words(""), format!("{} from 192.0.2.7", moment::shown(at)));
    assert_eq!(words("anna-vm"), format!("{} from 192.0.2.7 (anna-vm)", moment::shown(at)));
    assert_eq!(contact_words(None), "never");
}

#[test]
fn nodes_are_chosen_by_label_domain_and_name() {
    let node = Node { labels: vec!["db".to_owned()], ..node("web-01", false, true) };
    let chooses = |label: Option<&str>, domain: Option<&str>, name: Option<&str>| {
        let [label, domain, name] = [label, domain, name].map(|one| one.map(str::to_owned));
        ListArgs { label, domain, name, agent: None }.chooses(&node)
    };
    assert!(chooses(None, None, None));
    assert!(chooses(Some("db"), Some("standard"), Some("WEB-??")));
    assert!(!chooses(Some("d"), None, None));
    assert!(!chooses(None, Some("LONG"), None));
    assert!(!chooses(None, None, Some("web")));
    assert!(!chooses(Some("db"), None, Some("db-*")), "all conditions must hold");
}

#[test]
fn nodes_are_chosen_by_the_state_of_their_agents() {
    let chosen = |has_agent, agent_polled, agent| {
        let node = Node { has_agent, agent_polled, ..node("anna", false, true) };
        let agent = Some(agent);
        ListArgs { label: None, domain: None, name: None, agent }.chooses(&node)
    };
    let at = Some(ServerTime::from_secs(1_700_000_000));
    assert!(chosen(Some(true), at, AgentState::Connected));
    assert!(chosen(Some(false), at, AgentState::Polls));
    assert!(!chosen(Some(false), at, AgentState::Away), "it calls in time");
    assert!(chosen(Some(false), None, AgentState::Away));
    assert!(!chosen(None, None, AgentState::Away), "nobody knows");
}

#[test]
fn only_a_label_that_the_node_has_is_taken() {
    let refused = |label: &[&str], unlabel: &[&str]| {
        let [label, unlabel] =
            [label, unlabel].map(|all| all.iter().map(|&one| one.to_owned()).collect());
        let args = SetArgs {
            names: vec!["web-01".to_owned()],
            domain: None,
            optionset: None,
            collocation_group: None,
            backdelete: None,
            archdelete: None,
            label,
            unlabel,
        };
        refused_label("web-01", &args, &["web", "prod"])
    };
    assert_eq!(refused(&["db"], &["web", "prod"]), None);
    assert_eq!(refused(&[], &["db"]).as_deref(), Some("node web-01 has no label db"));
    let both = refused(&["web"], &["web"]);
    assert_eq!(both.as_deref(), Some("the label web is both given and taken"));
}

#[test]
fn a_document_tells_all_of_a_node() {
    let node = node("anna", false, true);
    let document = serde_json::to_string_pretty(&NodeDocument::new(&node));
    insta::assert_snapshot!(document.expect("a document"), @r#"
    {
      "node": "anna",
      "domain": "STANDARD",
      "locked": false,
      "enrolled": true,
      "agent_connected": false,
      "agent_polled": null,
      "agent_next_poll": null,
      "last_contact": null,
      "last_address": null,
      "last_host": null,
      "registered": "2023-11-14T22:13:20Z",
      "option_set": null,
      "option_set_version": null,
      "collocation_group": null,
      "labels": [],
      "backdelete": false,
      "archdelete": true,
      "last_proven_restorable": null,
      "last_failed_drill": null,
      "filespaces": []
    }
    "#);
}
