//! Tests of months, pages and tables.

use jiff::Timestamp;
use model::ServerTime;
use store::folder::Zone;

use super::report::percent;
use super::*;

fn zone(name: &str) -> Zone {
    name.to_owned().try_into().expect("a zone")
}

fn at(text: &str) -> ServerTime {
    let time: Timestamp = text.parse().expect("a time");
    ServerTime(time.as_microsecond())
}

#[test]
fn a_month_has_its_span_in_the_zone() {
    let month: Month = "2026-03".parse().expect("a month");
    assert_eq!(month.to_string(), "2026-03");
    let berlin = zone("Europe/Berlin");
    let span = (at("2026-02-28T23:00:00Z"), at("2026-03-31T22:00:00Z"));
    assert_eq!(month.span(&berlin), span);
    assert_eq!(Month::of(at("2026-02-28T23:30:00Z"), &berlin), month);
    assert_eq!(Month::of(at("2026-02-28T22:30:00Z"), &berlin), month.before());
    let january: Month = "2026-01".parse().expect("a month");
    assert_eq!(january.before().to_string(), "2025-12");
    for bad in ["", "2026", "2026-13", "2026-1", "2026-11-02", "+026-11", "2026/11"] {
        assert_eq!(bad.parse::<Month>(), Err(MonthError), "{bad}");
    }
}

fn report() -> MonthlyReport {
    let node = |name: &str, days_good, bytes| NodeMonth {
        node: name.to_owned(),
        days: 3,
        days_good,
        backups_complete: 3,
        events_missed: 3 - u64::from(days_good),
        events_completed: u64::from(days_good),
        objects: 10,
        bytes,
        bytes_sent: bytes / 2,
        last_good: Some(at("2026-11-03T02:00:00Z")),
        ..NodeMonth::default()
    };
    MonthlyReport {
        domain: "R&D <LAB>".to_owned(),
        month: "2026-11".parse().expect("a month"),
        zone: zone("UTC"),
        server: "backup".to_owned(),
        made: at("2026-11-03T12:00:00Z"),
        days: 3,
        good_nodes: vec![2, 1, 2],
        registered_nodes: vec![2, 2, 2],
        nodes: vec![node("web-1", 3, 2 << 30), node("web,2", 2, 1 << 30)],
    }
}

#[test]
fn a_page_has_all_figures_and_no_markup_of_names() {
    let page = report().html();
    for text in [
        "<title>Backup of R&amp;D &lt;LAB&gt; in 2026-11</title>",
        "<dd>83.3 %</dd>",
        "<dd>3.0 GB</dd>",
        "<td>web-1</td><td>3 of 3</td>",
        "<td class=\"bad\">2 of 3</td>",
        "<title>Day 2: 1 of 2</title>",
        "<td>All</td>",
        "@media print",
    ] {
        assert!(page.contains(text), "{text} is not in {page}");
    }
    for outside in ["<script", "http:", "https:", "<img", "<link"] {
        assert!(!page.contains(outside), "{outside} is in {page}");
    }
}

#[test]
fn a_day_counts_the_nodes_that_were_registered() {
    let (good_nodes, registered_nodes) = (vec![0, 1, 1], vec![0, 1, 2]);
    let page = MonthlyReport { good_nodes, registered_nodes, ..report() }.html();
    let bar = |day: &str| {
        let (_, after) = page.split_once(&format!("<title>Day {day}")).expect("has the day");
        after.split_once("</g>").expect("has an end").0
    };
    assert!(bar("1: no node").contains(">1</text>") && !bar("1: no node").contains("<rect"));
    assert!(bar("2: 1 of 1<").contains("fill=\"var(--good)\""));
    assert!(bar("3: 1 of 2<").contains("fill=\"var(--bad)\""));
}

#[test]
fn a_table_has_a_line_for_each_node() {
    let table = report().csv();
    let lines: Vec<&str> = table.split("\r\n").collect();
    assert_eq!(lines.len(), 4, "{table}");
    let columns = lines[0].split(',').count();
    assert_eq!(lines[1].split(',').count(), columns);
    let expected = "2026-11,R&D <LAB>,\"web,2\",3,2,3,0,2,0,1,2026-11-03T02:00:00Z,10,1073741824,\
                    536870912,0,0,0";
    assert_eq!(lines[2], expected);
}

#[test]
fn a_share_of_nothing_is_unknown() {
    assert_eq!(percent(1, 3), "33.3 %");
    assert_eq!(percent(0, 0), "-");
    assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
}
