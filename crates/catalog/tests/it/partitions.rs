//! Partitions of the bulk tables by policy domain, in PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use catalog::postgres::Postgres;
use catalog::sqlite::Sqlite;
use catalog::{
    Catalog, Filespaces as _, Location, Node, NodeChange, Nodes as _, PageSpan, Pages as _,
    Policies as _, relocate,
};
use e2e::clock::pause;
use model::{DirPath, DomainId, FilespaceId};

use crate::samples::{
    add_filespace, add_node, add_version, at, dir, fill, key, page, put, version,
};
use crate::{PostgresInCluster, contents};

const BLOCK_1: u32 = 1 << 26;

/// Makes a node of the domain, with a filespace, a page and a version.
fn fill_in(catalog: &dyn Catalog, name: &str, domain: DomainId) -> (Node, FilespaceId) {
    let node = add_node(catalog, name);
    let change = NodeChange { domain: Some(domain), ..NodeChange::default() };
    catalog.change_node(node.id, &change).expect("is set");
    let filespace = catalog.open_filespace(node.id, b"/", at(1)).expect("is made").id;
    let root = dir("/");
    let writes = vec![
        put(filespace, page(&key(&root, b""), 1)),
        add_version(filespace, version(&root, b"old", 1, 2)),
    ];
    catalog.commit(writes).expect("is committed");
    (node, filespace)
}

fn pages(catalog: &dyn Catalog, filespace: FilespaceId) -> usize {
    let all = PageSpan::Subtree(DirPath::above_root());
    catalog.pages(filespace, &all, None, 100).expect("are listed").len()
}

#[test]
fn a_domain_has_partitions_of_its_own() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let catalog = Postgres::open(&engine.url()).expect("opens");
    let count = |table: &str| -> u32 {
        let select = format!("SELECT count(*) FROM {table}");
        engine.cluster.sql(&engine.database, &select).parse().expect("a number")
    };
    let (_, first) = fill_in(&catalog, "anna", DomainId(1));
    assert!(first.0 < BLOCK_1);
    let legal = catalog.add_domain("LEGAL", at(1)).expect("is made").id;
    let (bert, of_bert) = fill_in(&catalog, "bert", legal);
    assert_eq!(of_bert, FilespaceId(BLOCK_1));
    for table in ["directory", "page", "digest", "version", "ending"] {
        assert_eq!((count(table), count(&format!("{table}_block1"))), (2, 1), "{table}");
    }
    // A known filespace keeps its number, and a new filespace gets the next number.
    assert_eq!(catalog.open_filespace(bert.id, b"/", at(2)).expect("is known").id, of_bert);
    let next = catalog.open_filespace(bert.id, b"/home", at(2)).expect("is made").id;
    assert_eq!(next.0, of_bert.0 + 1);
    // The filespaces of a node that changes its domain stay in their block.
    let change = NodeChange { domain: Some(DomainId(1)), ..NodeChange::default() };
    catalog.change_node(bert.id, &change).expect("is set");
    assert!(catalog.open_filespace(bert.id, b"/new", at(3)).expect("is made").id.0 < BLOCK_1);
    assert_eq!((pages(&catalog, of_bert), pages(&catalog, first)), (1, 1));
    // Another domain takes the block of a removed domain.
    catalog.remove_domain(legal).expect("is removed");
    let other = catalog.add_domain("OTHER", at(4)).expect("is made").id;
    assert_eq!(fill_in(&catalog, "cleo", other).1.0, BLOCK_1 + 2);
    let third = catalog.add_domain("THIRD", at(4)).expect("is made").id;
    assert_eq!(fill_in(&catalog, "dora", third).1.0, BLOCK_1 + (1 << 16));
    catalog.remove_node(bert.id).expect("is removed");
    assert_eq!(count("version_block1"), 1);
}

#[test]
fn a_new_domain_waits_for_nobody_who_reads() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let catalog = Postgres::open(&engine.url()).expect("opens");
    let (_, filespace) = fill_in(&catalog, "anna", DomainId(1));
    let legal = catalog.add_domain("LEGAL", at(1)).expect("is made").id;
    let (is_told, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| {
            catalog.digests(filespace, &DirPath::above_root(), &mut |_| {
                is_told.store(true, Ordering::Relaxed);
                while !is_over.load(Ordering::Relaxed) {
                    pause(Duration::from_millis(10));
                }
                true
            })
        });
        while !is_told.load(Ordering::Relaxed) {
            pause(Duration::from_millis(10));
        }
        let made = scope.spawn(|| fill_in(&catalog, "bert", legal).1);
        let is_made = (0..500).any(|_| {
            pause(Duration::from_millis(20));
            made.is_finished()
        });
        is_over.store(true, Ordering::Relaxed);
        assert!(is_made, "a new domain waits for a slow reader");
        assert_eq!(pages(&catalog, made.join().expect("no panic")), 1);
        listener.join().expect("no panic").expect("is told");
    });
}

#[test]
fn a_catalogue_with_domains_goes_from_engine_to_engine() {
    let (Some(one), Some(other)) = (PostgresInCluster::new(), PostgresInCluster::new()) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let catalog = Postgres::open(&one.url()).expect("opens");
    fill_in(&catalog, "anna", DomainId(1));
    let domains = ["LEGAL", "ARCHIVES"].map(|name| {
        let domain = catalog.add_domain(name, at(1)).expect("is made").id;
        fill_in(&catalog, &name.to_lowercase(), domain);
        domain
    });
    let places = [
        Location::Database(one.url()),
        Location::File(file.clone()),
        Location::Database(other.url()),
    ];
    for (from, to) in places.iter().zip(&places[1..]) {
        relocate(from, to, 7, &mut |_, _| Ok(())).expect("is moved");
    }
    let again = Postgres::open(&other.url()).expect("opens");
    let same = contents::of_catalog(&catalog).expect("is read");
    assert!(same == contents::of_catalog(&again).expect("is read"));
    assert!(same == contents::of_catalog(&Sqlite::open(&file).expect("opens")).expect("is read"));
    // The second catalogue continues to count in each block, like the first.
    for (name, domain) in [("dora", DomainId(1)), ("emil", domains[0]), ("fred", domains[1])] {
        let there = fill_in(&again, name, domain).1;
        assert_eq!(there, fill_in(&catalog, name, domain).1, "{name}");
        assert_eq!(pages(&again, there), 1);
    }
}

/// Upgrades a catalogue that a server of the previous version has made.
#[test]
fn what_was_there_before_lies_in_the_first_block() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let sql = |statement: &str| engine.cluster.sql(&engine.database, statement);
    sql(include_str!("../../src/postgres/schema/1.sql"));
    sql(include_str!("../../src/postgres/schema/2.sql"));
    sql("CREATE TABLE holdfast_schema(version BIGINT NOT NULL, needs BIGINT NOT NULL)");
    sql("INSERT INTO holdfast_schema VALUES(2, 1)");
    // The rows of a sample replace the rows of the new catalogue.
    let sample = PostgresInCluster::new().expect("was there");
    let samples = Postgres::open(&sample.url()).expect("opens");
    fill(&samples, "anna", 1);
    add_filespace(&samples, "bert");
    sql("DELETE FROM counter; DELETE FROM class_number; DELETE FROM domain");
    let tables = "domain policy_set class_number counter node token certificate filespace session \
                  event directory page digest version ending archive deletion trash pack";
    for table in tables.split(' ') {
        // Columns that came later are left out.
        let columns = sql(&format!(
            "SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) \
             FROM information_schema.columns WHERE table_name = '{table}'"
        ));
        let copy = format!("COPY (SELECT {columns} FROM {table}) TO STDOUT");
        let copied = sample.cluster.sql(&sample.database, &copy);
        let rows: Vec<String> = copied.lines().map(values).collect();
        if !rows.is_empty() {
            sql(&format!("INSERT INTO {table}({columns}) VALUES {}", rows.join(", ")));
        }
    }
    sql("SELECT setval('filespace_id_seq', 1000), setval('node_id_seq', 1000)");
    // The previous version keeps no baselines, drills, enrolment keys, people, amounts and rules.
    for table in [
        "baseline",
        "drill",
        "enrolment_key",
        "person",
        "person_role",
        "api_key",
        "sign_in",
        "identity",
        "node_detail",
        "node_contact",
        "node_poll",
        "domain_detail",
        "answer",
        "approval",
        "amount",
        "alert",
        "notice",
        "usage_day",
        "restored",
        "archived",
        "read_rule",
    ] {
        sample.cluster.sql(&sample.database, &format!("DELETE FROM {table}"));
    }
    let expected = contents::of_catalog(&samples).expect("is read");
    // A reader takes longer than one attempt of the migration waits.
    let reader = engine.cluster.slow_change(&engine.database, "SELECT FROM version", 6_000);
    pause(Duration::from_millis(500));
    let catalog = Postgres::open(&engine.url()).expect("is brought up to date");
    reader.join().expect("reads on");
    assert!(expected == contents::of_catalog(&catalog).expect("is read"));
    assert_eq!(sql("SELECT version, needs FROM holdfast_schema"), "25|1");
    assert_eq!(sql("SELECT sum(num_inactive) > 0 FROM occupancy"), "t");
    let (_, filespace) = fill_in(&catalog, "cleo", DomainId(1));
    assert_eq!((filespace.0, pages(&catalog, filespace)), (1001, 1));
}

/// Rewrites a row of COPY as a list of values.
fn values(row: &str) -> String {
    let value = |text: &str| match text {
        "\\N" => "NULL".to_owned(),
        text => format!("'{}'", text.replace("\\\\", "\\").replace('\'', "''")),
    };
    format!("({})", row.split('\t').map(value).collect::<Vec<_>>().join(", "))
}
