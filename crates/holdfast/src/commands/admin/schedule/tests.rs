//! Tests of the notes and tables that commands about schedules write.

use super::*;

#[test]
fn labels_that_no_node_has_are_found() {
    let known = BTreeSet::from(["web".to_owned()]);
    let followers = [
        Follower::Label("web".to_owned()),
        Follower::Label("db".to_owned()),
        Follower::Node("cache".to_owned()),
        Follower::Domain("LAB".to_owned()),
    ];
    assert_eq!(labels_of_nobody(&followers, &known), ["db"]);
    assert_eq!(labels_of_nobody(&followers[2..], &BTreeSet::new()), [] as [&str; 0]);
}

/// Nobody said that a node would miss the first runs, or go by the old times.
#[test]
fn an_agent_that_hears_too_late_is_named() {
    let at = |minute: i64| ServerTime::from_secs(1_700_000_000 + 60 * minute);
    let agent = |next| PollingAgent { node: "a".to_owned(), last: at(-1), next: at(next) };
    let run = Occurrence { planned: at(10), opens: at(10), closes: at(20) };
    assert_eq!(late_note(&[agent(20)], Some(&run), at(0)), None);
    assert_eq!(late_note(&[agent(21)], None, at(0)), None, "no run follows");
    let note = late_note(&[agent(20), agent(21)], Some(&run), at(0)).expect("a note");
    let words = call_words(&agent(21), at(0));
    assert!(note.ends_with(&format!("as before: 1 node: {words}.")), "{note}");
}

fn definition() -> Definition {
    let body = r#"{"action": {"work": "expire"}, "zone": "Asia/Tokyo", "priority": 5,
        "retries": 0, "retry_pause_minutes": 1,
        "timing": {"starts": {"once": 0}, "window_minutes": 60, "spread_percent": 0}}"#;
    serde_json::from_str(body).expect("a definition")
}

/// Without its last object, a schedule went over to the whole machine without a word.
#[test]
fn a_backup_that_names_nothing_is_told() {
    let of = |work, objects: &[&str]| {
        let objects = objects.iter().map(|text| policy::schedule::Word(text.as_bytes().to_vec()));
        let action = Action { work, objects: objects.collect(), options: Vec::new() };
        Definition { action, ..definition() }
    };
    let (whole, part) = (of(Work::Incremental, &[]), of(Work::Incremental, &["/etc"]));
    assert!(whole_note(&whole, Some(&part)).is_some());
    assert!(whole_note(&whole, Some(&of(Work::Verify, &[]))).is_some());
    assert!(whole_note(&whole, None).is_some());
    assert_eq!(whole_note(&whole, Some(&whole)), None);
    assert_eq!(whole_note(&part, None), None);
    assert_eq!(whole_note(&of(Work::Verify, &[]), None), None);
}

#[test]
fn a_list_names_the_domain_of_a_schedule() {
    let at = ServerTime(0);
    let schedule = Schedule {
        name: "nightly".to_owned(),
        definition: definition(),
        followers: Vec::new(),
        domain: Some("LAB".to_owned()),
        since: at,
        changed: at,
        changed_by: String::new(),
    };
    let text = table_text(&[schedule]);
    let words: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(words, [["Schedule", "Domain"], ["nightly", "LAB"]]);
}

/// The times were those of the schedule's zone, and the next run that of the machine's.
#[test]
fn the_next_run_is_in_the_zone_of_the_schedule() {
    let mut definition = definition();
    let planned = ServerTime(0);
    let next = Occurrence { planned, opens: planned, closes: planned };
    assert_eq!(next_words(&definition, Some(&next)), "1970-01-01 09:00:00");
    assert_eq!(next_words(&definition, None), "none");
    definition.is_suspended = true;
    assert_eq!(next_words(&definition, None), "suspended");
}

#[test]
fn nodes_are_named_up_to_a_bound() {
    assert_eq!(nodes_words(&[]), "none now");
    assert_eq!(nodes_words(&["a"]), "1 node: a");
    let many = ["n"; NODES_SHOWN + 3];
    let words = nodes_words(&many);
    assert!(words.starts_with("23 nodes: n, n, "), "{words}");
    assert!(words.ends_with(", n and 3 more"), "{words}");
}

#[test]
fn one_volume_must_have_the_name() {
    assert!(check_volume("A00001", 1).is_ok());
    for (found, reason) in [(0, "there is no volume"), (2, "several libraries")] {
        let error = check_volume("A00001", found).expect_err("is refused");
        assert!(error.message.starts_with(reason), "{}", error.message);
    }
}

#[test]
fn a_description_stays_on_its_line() {
    let description = "each night\nOrder        1".to_owned();
    let text = lines_text(vec![("Description", description), ("Time zone", String::new())]);
    assert_eq!(text, "Description  each night\\x0aOrder        1\n");
}
