//! Failures of PostgreSQL: connections are cut off, and its server is killed or unavailable for a
//! while.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catalog::postgres::Postgres;
use catalog::{Batches as _, EventRow, Events as _, LoggedEvent, Nodes as _, Pages as _, Write};
use e2e::clock::pause;
use e2e::harness::Cluster;

use crate::samples::{add_filespace, add_node, at, key, page, put};
use crate::{PostgresInCluster, samples};

const WRITERS: usize = 6;

fn event(details: &str) -> Write {
    let (actor, what) = ("somebody".to_owned(), "a test".to_owned());
    Write::AddEvent(EventRow { time: at(1), actor, what, details: details.to_owned() })
}

/// Number of rows of each event.
fn events(catalog: &Postgres) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for LoggedEvent { event, .. } in catalog.events(None, 1_000_000).expect("are listed") {
        *counts.entry(event.details).or_default() += 1;
    }
    counts
}

/// Lets writers commit while `trouble` happens. Returns the events that were reported durable, and
/// those whose commit failed.
fn write_through(catalog: &Postgres, trouble: impl FnOnce()) -> (Vec<String>, Vec<String>) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let (mut told, mut failed) = (Vec::new(), Vec::new());
                    for count in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let name = format!("{writer}-{count}");
                        match catalog.commit(vec![event(&name)]) {
                            Ok(()) => told.push(name),
                            Err(error) => failed.push(format!("{name}: {error:?}")),
                        }
                    }
                    (told, failed)
                })
            })
            .collect();
        trouble();
        is_over.store(true, Ordering::Relaxed);
        let both = writers.into_iter().map(|writer| writer.join().expect("no panic"));
        both.fold((Vec::new(), Vec::new()), |mut all, (told, failed)| {
            all.0.extend(told);
            all.1.extend(failed);
            all
        })
    })
}

#[track_caller]
fn assert_once(catalog: &Postgres, told: &[String], failed: &[String]) {
    let found = events(catalog);
    let missing: Vec<_> = told.iter().filter(|name| found.get(*name) != Some(&1)).collect();
    assert!(missing.is_empty(), "acknowledged, but not stored exactly once: {missing:?}");
    let times = |failure: &String| found.get(failure.split(':').next().unwrap_or_default());
    let doubled: Vec<_> = failed.iter().filter(|failure| times(failure) > Some(&1)).collect();
    assert!(doubled.is_empty(), "stored twice: {doubled:?}");
}

#[test]
fn who_is_cut_off_goes_on_and_writes_once() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let catalog = Postgres::open(&engine.url()).expect("the catalogue opens");
    let (told, failed) = write_through(&catalog, || {
        for _ in 0..40 {
            pause(Duration::from_millis(50));
            engine.cluster.cut_off(&engine.database);
        }
    });
    assert!(told.len() > 100, "{} events were acknowledged", told.len());
    assert!(failed.is_empty(), "a cut connection must not be noticed: {failed:?}");
    assert_once(&catalog, &told, &failed);
}

#[test]
fn a_server_that_is_killed_or_stopped_is_waited_for() {
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.add_database();
    let catalog = Postgres::open(&cluster.url(&database)).expect("the catalogue opens");
    let (told, failed) = write_through(&catalog, || {
        for round in 0..4 {
            pause(Duration::from_millis(300));
            if round % 2 == 0 {
                cluster.kill();
            } else {
                cluster.stop();
            }
            pause(Duration::from_secs(1));
            cluster.begin();
        }
        pause(Duration::from_millis(300));
    });
    assert!(told.len() > 50, "{} events were acknowledged", told.len());
    assert!(failed.is_empty(), "a writer that waits must not fail: {failed:?}");
    assert_once(&catalog, &told, &failed);
}

#[test]
fn two_servers_write_to_one_filespace_without_mixing_its_pages() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let open = || Postgres::open(&engine.url()).expect("the catalogue opens");
    let servers = [open(), open()];
    let (_, filespace) = add_filespace(&servers[0], "node");
    let key = |server: usize, count: u8| key(&samples::dir(&format!("/{server}/{count}/")), b"");
    std::thread::scope(|scope| {
        for (server, catalog) in servers.iter().enumerate() {
            scope.spawn(move || {
                for count in (0..60).step_by(4) {
                    let pages = (count..count + 4).map(|count| page(&key(server, count), count));
                    let writes = pages.map(|page| put(filespace, page)).collect();
                    catalog.commit(writes).expect("is committed");
                }
            });
        }
    });
    for server in 0..2 {
        for count in 0..60 {
            let found = servers[1 - server].page(filespace, &key(server, count));
            assert_eq!(found.expect("is read"), Some(page(&key(server, count), count)));
        }
    }
    // A server sees the other server's commits at once.
    add_node(&servers[0], "another");
    assert!(servers[1].node(&samples::node_name("another")).is_ok());
}

#[test]
fn a_database_over_a_network_is_asked_in_private_and_only_where_it_is_trusted() {
    let Some(cluster) = Cluster::encrypted() else { return };
    let database = cluster.add_database();
    let catalog = Postgres::open(&cluster.url_encrypted(&database, "ca.pem")).expect("opens");
    catalog.commit(vec![event("in private")]).expect("is committed");
    let ask = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
               WHERE application_name = 'holdfast' AND ssl AND version = 'TLSv1.3'";
    assert_eq!(cluster.sql(&database, ask), "1");
    let began = sys::clock::monotonic();
    let refused = Postgres::open(&cluster.url_encrypted(&database, "other.pem"));
    let refused = refused.err().expect("is refused").to_string();
    assert!(refused.contains("certificate"), "{refused}");
    // A client without the password is refused.
    let url = cluster.url_encrypted(&database, "ca.pem");
    let url = url.split("&passfile").next().expect("has a beginning");
    let refused = Postgres::open(url).err().expect("is refused").to_string();
    assert!(refused.contains("password"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(30), "a final refusal is not waited for");
}

#[test]
fn who_listens_slowly_holds_up_nobody() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let catalog = Postgres::open(&engine.url()).expect("the catalogue opens");
    let (_, filespace) = add_filespace(&catalog, "node");
    let key = key(&samples::dir("/a/"), b"");
    catalog.commit(vec![put(filespace, page(&key, 1))]).expect("is committed");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // There are more readers than connections.
        let listeners: Vec<_> = (0..40)
            .map(|_| {
                scope.spawn(|| {
                    let mut heard = 0;
                    let told = catalog.digests(filespace, &samples::dir("/"), &mut |_| {
                        while !is_over.load(Ordering::Relaxed) {
                            pause(Duration::from_millis(10));
                        }
                        heard += 1;
                        true
                    });
                    told.expect("is told");
                    heard
                })
            })
            .collect();
        pause(Duration::from_millis(500));
        let written = scope.spawn(|| catalog.commit(vec![event("meanwhile")]));
        let read = scope.spawn(|| {
            catalog.digests(filespace, &samples::dir("/"), &mut |_| true).expect("are read");
        });
        let went_on = (0..500).any(|_| {
            pause(Duration::from_millis(20));
            written.is_finished() && read.is_finished()
        });
        is_over.store(true, Ordering::Relaxed);
        assert!(went_on, "a commit or a reader waits for a slow reader");
        read.join().expect("no panic");
        written.join().expect("no panic").expect("is committed");
        for listener in listeners {
            assert_eq!(listener.join().expect("no panic"), 1);
        }
    });
}

#[test]
fn a_url_that_leads_nowhere_is_said() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let refused = |url: &str| Postgres::open(url).err().expect("is refused").to_string();
    assert!(refused("postgres://host:port/x").contains("URL"), "an unfit URL");
    let unknown = refused(&engine.url().replace(&engine.database, "nothing"));
    assert!(unknown.contains("nothing"), "{unknown}");
}
