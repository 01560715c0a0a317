//! Tests of the record of time in a real catalogue.

use catalog::ExpiryState;
use model::NodeId;

use super::*;
use crate::samples::TestServer;

const DAY: i64 = 24 * HOUR_MICROS;
const BEGIN: i64 = 20_000 * DAY;

/// The clocks of a machine whose clock says `days` after `BEGIN`, and which is up for `up_days`.
fn clocks(days: i64, up_days: i64, tag: u64) -> Clocks {
    let clock = ServerTime(BEGIN + days * DAY);
    let uptime_micros = up_days * DAY;
    let reading = Reading { clock, uptime_micros, start_tag: Some(tag) };
    Clocks { reading, uptime: Duration::from_micros(uptime_micros.unsigned_abs()) }
}

fn is_refused(server: &TestServer, clocks: &Clocks) -> bool {
    check_at(&server.store, clocks).expect("is decided").is_some()
}

/// Returns the events of the audit trail, the latest first.
fn events(server: &TestServer) -> Vec<(String, String)> {
    let events = server.store.catalog.events(None, 99).expect("are listed");
    events
        .into_iter()
        .map(|logged| (logged.event.what, logged.event.details))
        .collect()
}

#[test]
fn a_jump_of_28_days_is_refused_until_it_is_confirmed_and_reported_once() {
    let server = TestServer::new();
    let mut watch = Watch::default();
    let mut may_expire = |clocks| watch.look_at(&server.store, &clocks).expect("is decided");
    assert!(may_expire(clocks(0, 1, 1)));
    assert!(may_expire(clocks(60, 61, 1)), "the server was off, and the machine was not");
    assert!(!may_expire(clocks(88, 61, 1)));
    assert!(!may_expire(clocks(89, 62, 1)), "a refused reading changes nothing");
    let reported = events(&server);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0].0, "expiration refused");
    let expected = "the server's clock was set 28 days ahead: it says 2024-12-31 00:00 UTC, and by \
                    the uptime of the machine it should be 2024-12-03 00:00 UTC; if the clock is \
                    wrong, set it right; if it is right, run 'holdfast admin expire \
                    --confirm'";
    assert_eq!(reported[0].1, expected);
    confirm_at(&server.store, &clocks(89, 62, 1)).expect("is confirmed");
    assert_eq!(events(&server)[0].0, "clock confirmed");
    assert!(may_expire(clocks(90, 63, 1)));
    assert!(!may_expire(clocks(63, 63, 1)), "the clock went back");
}

#[test]
fn a_node_that_connects_confirms_a_long_stop_and_not_a_wrong_clock() {
    for (node_days, is_right) in [(40, true), (2, false)] {
        let server = TestServer::new();
        assert!(!is_refused(&server, &clocks(0, 9, 1)));
        let later = Clocks { uptime: sys::clock::uptime(), ..clocks(40, 0, 2) };
        assert!(is_refused(&server, &later), "nobody knows how long the machine was off");
        let node = ServerTime(BEGIN + node_days * DAY);
        server.store.hear_clock(NodeId(1), node);
        assert_eq!(is_refused(&server, &later), !is_right);
        assert_eq!(!events(&server).is_empty(), is_right);
    }
}

#[test]
fn a_catalogue_without_a_record_is_held_to_its_last_expiration() {
    let server = TestServer::new();
    let state = ExpiryState { done_to: Some(ServerTime(BEGIN)) };
    let write = Write::SetExpiry { filespace: server.filespace, state };
    server.store.catalog.commit(vec![write]).expect("is written");
    assert!(is_refused(&server, &clocks(28, 99, 1)));
    assert!(is_refused(&server, &clocks(-28, 99, 1)));
    assert!(!is_refused(&server, &clocks(1, 99, 1)));
    assert!(is_refused(&server, &clocks(28, 99, 1)), "the record is there");
}

#[test]
fn the_record_is_written_only_when_it_changes() {
    let server = TestServer::new();
    let record = || record(&server.store).expect("is read").expect("is there");
    assert!(!is_refused(&server, &clocks(0, 9, 1)));
    let first = record();
    let mut soon = clocks(0, 9, 1);
    soon.reading.clock.0 += KEEP_MICROS - 1;
    soon.reading.uptime_micros += KEEP_MICROS - 1;
    assert!(!is_refused(&server, &soon));
    assert_eq!(record(), first);
    assert!(!is_refused(&server, &clocks(1, 10, 1)));
    assert_eq!(record(), Record { seen: ServerTime(BEGIN + DAY), ..first });
    assert!(!is_refused(&server, &clocks(2, 0, 2)));
    assert_eq!(record(), clock_guard::renewed(&clocks(2, 0, 2).reading));
}

/// The battery of the clock is empty, and no time server has set it yet. By the right clock, the
/// version would have ended a year ago, and would expire at once.
#[test]
fn what_ends_by_a_clock_that_is_behind_ends_at_the_trusted_time() {
    let mut server = TestServer::new();
    server.back_up("/a/", &[("x", &[1])]);
    let seen = ServerTime(sys::clock::now().0 + 365 * DAY);
    let reading = Reading { clock: seen, uptime_micros: DAY, start_tag: Some(1) };
    let right = Clocks { reading, uptime: sys::clock::uptime() };
    confirm_at(&server.store, &right).expect("is confirmed");
    // A new process takes the trusted time from the catalogue.
    server.reopen();
    server.back_up("/a/", &[("x", &[2])]);
    let directory = crate::samples::directory("/a/");
    let ended = server.store.catalog.versions(server.filespace, &directory).expect("are read");
    assert_eq!(ended.len(), 1);
    assert!(ended[0].deactivated >= seen, "{ended:?}");
    assert!(time_of_change(&server.store).expect("is decided") >= seen);
    // A node with the same time says that the record was wrong.
    server.store.hear_clock(NodeId(1), sys::clock::system());
    assert!(time_of_change(&server.store).expect("is decided") < seen);
}
