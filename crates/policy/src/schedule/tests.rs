//! Windows of schedules as a person writes them.

use jiff::tz::TimeZone;
use model::ServerTime;

use super::zone::MINUTE_MICROS;
use super::*;

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").expect("is known")
}

fn parse(text: &str) -> Timing {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> ServerTime {
    let wall = text.parse().expect("a time on the wall");
    zone::moment(wall, &berlin()).expect("is in the calendar")
}

fn walls(timing: &Timing, after: &str, count: usize) -> Vec<String> {
    let zone = berlin();
    let shown = |occurrence: Occurrence| {
        let wall = |moment| zone::wall(moment, &zone).strftime("%F %H:%M").to_string();
        format!("{} to {}", wall(occurrence.opens), wall(occurrence.closes))
    };
    timing.occurrences(&zone, at(after)).take(count).map(shown).collect()
}

/// Returns the timing with the given planned times, and a window of an hour.
fn hour_window(starts: &str) -> Timing {
    parse(&format!(r#"{{"starts":{starts},"window_minutes":60,"spread_percent":0}}"#))
}

#[test]
fn the_definition_is_readable_json() {
    let text = concat!(
        r#"{"starts":{"calendar":{"times":"22:00","weekdays":"mon-fri"}},"#,
        r#""window_minutes":120,"spread_percent":25,"last_day":"2026-12-31","#,
        r#""blackouts":["2026-12-24T00:00..2026-12-27T00:00"]}"#,
    );
    assert_eq!(serde_json::to_string(&parse(text)).expect("is text"), text);
    for text in [
        r#"{"calendar":{"times":"22:00","months":"jan","month_days":"1,last"}}"#,
        r#"{"interval":{"first":"2026-11-26T06:00:00","every":{"minutes":30}}}"#,
        r#"{"once":1764140400000000}"#,
    ] {
        let starts = hour_window(text).starts;
        assert_eq!(serde_json::to_string(&starts).expect("is text"), text);
    }
}

#[test]
fn windows_follow_the_calendar_and_end_with_the_last_day() {
    let timing = Timing {
        last_day: Some("2026-12-28".parse().expect("a day")),
        blackouts: vec!["2026-12-24..2026-12-26".parse().expect("a blackout")],
        ..hour_window(r#"{"calendar":{"times":"22:00","weekdays":"mon-fri"}}"#)
    };
    let expected = [
        "2026-12-22 22:00 to 2026-12-22 23:00",
        "2026-12-23 22:00 to 2026-12-23 23:00",
        "2026-12-28 22:00 to 2026-12-28 23:00",
    ];
    assert_eq!(walls(&timing, "2026-12-22T00:00", 9), expected);
}

#[test]
fn twenty_ninth_of_february_is_found_and_the_thirtieth_is_not() {
    let of = |day: &str| {
        let days = format!(r#""months":"feb","month_days":"{day}""#);
        hour_window(&format!(r#"{{"calendar":{{"times":"03:00",{days}}}}}"#))
    };
    let expected = ["2096-02-29 03:00 to 2096-02-29 04:00", "2104-02-29 03:00 to 2104-02-29 04:00"];
    assert_eq!(walls(&of("29"), "2096-01-01T00:00", 2), expected);
    assert!(walls(&of("30"), "2026-01-01T00:00", 1).is_empty());
}

#[test]
fn months_are_counted_from_the_first_day() {
    let monthly = r#"{"interval":{"first":"2026-01-31T01:00","every":{"months":1}}}"#;
    let expected = [
        "2026-02-28 01:00 to 2026-02-28 02:00",
        "2026-03-31 01:00 to 2026-03-31 02:00",
        "2026-04-30 01:00 to 2026-04-30 02:00",
        "2026-05-31 01:00 to 2026-05-31 02:00",
    ];
    assert_eq!(walls(&hour_window(monthly), "2026-02-01T00:00", 4), expected);
}

#[test]
fn starts_are_spread_over_their_part_of_the_window_and_stay_the_same() {
    let timing = Timing {
        window_minutes: 100,
        spread_percent: 50,
        ..hour_window(r#"{"calendar":{"times":"22:00"}}"#)
    };
    let occurrence = timing
        .occurrences(&berlin(), at("2026-11-26T00:00"))
        .next()
        .expect("is planned");
    let starts: Vec<i64> = (0..1000)
        .map(|number| start_of(&timing, occurrence, &format!("node-{number}")))
        .map(|start| (start.0 - occurrence.opens.0) / MINUTE_MICROS)
        .collect();
    assert!(starts.iter().all(|minute| (0..50).contains(minute)));
    for minute in 0..50 {
        let count = starts.iter().filter(|start| **start == minute).count();
        assert!((5..50).contains(&count), "{count} of 1000 nodes start in minute {minute}");
    }
    let again = start_of(&timing, occurrence, "node-7");
    assert_eq!((again.0 - occurrence.opens.0) / MINUTE_MICROS, starts[7]);
}

#[test]
fn covered_windows_are_passed_over_and_the_search_ends() {
    let minutely = |blackout: &str, window_minutes| Timing {
        window_minutes,
        blackouts: vec![blackout.parse().expect("a blackout")],
        ..hour_window(r#"{"interval":{"first":"2026-11-26T00:00","every":{"minutes":1}}}"#)
    };
    let day = "2026-11-26T00:00";
    assert!(walls(&minutely("00:00-24:00", 1), day, 1).is_empty());
    assert!(walls(&minutely("2026-01-01..9999-12-30", 60), day, 1).is_empty());
    let zone = berlin();
    let never = minutely("00:00-24:00", 1);
    assert_eq!(never.latest(&zone, at(day), at("2027-11-26T00:00")), None);
    assert_eq!(never.openings(&zone, at(day), at("2027-11-26T00:00")).count(), 0);

    let expected = ["2026-11-27 18:00 to 2026-11-27 18:01", "2026-11-27 18:00 to 2026-11-27 18:02"];
    let evening = minutely("06:00-18:00", 3);
    assert_eq!(walls(&evening, "2026-11-27T05:59", 2), expected);
    let passed = minutely("2026-11-26..2036-11-25", 1);
    assert_eq!(walls(&passed, day, 1), ["2036-11-26 00:00 to 2036-11-26 00:01"]);
}
