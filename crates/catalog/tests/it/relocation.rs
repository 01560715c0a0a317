//! Moves of a catalogue from one engine to another: they lose nothing.

use std::path::Path;

use catalog::postgres::Postgres;
use catalog::sqlite::Sqlite;
use catalog::{
    Catalog, CatalogError, Location, MoveState, Nodes as _, PackState, Write, arrive, leave,
    relocate, standing,
};
use model::{DomainId, PackNumber};

use crate::samples::{
    add_filespace, at, fill, library, pack, part, pool, put_parts, refusal, token, volume,
};
use crate::{PostgresInCluster, contents};

/// Writes rows into every table.
fn fill_all(catalog: &dyn Catalog) {
    let node = fill(catalog, "anna", 1);
    fill(catalog, "bert", 2);
    catalog.add_token(&token(&node, 7)).expect("is added");
    catalog.put_library(&library("Vault")).expect("is made");
    let tape = catalog.add_pool(&pool("TAPE")).expect("is made");
    let tape_volume = catalog.add_volume(&volume("vault", "A1")).expect("is made");
    let sealed = Write::PutPack(pack(PackNumber(900), DomainId(1), PackState::Sealed));
    catalog
        .commit(vec![sealed, put_parts(tape, 900, &[part(tape_volume, 5)])])
        .expect("is committed");
    let archive = catalog.add_archive(node.id, "a title", at(5)).expect("is made");
    catalog.remove_archive(node.id, archive.number).expect("is removed");
    catalog.add_deletion(node.id, "by hand", at(6)).expect("is made");
    // The number of a removed node must not be given again.
    let (gone, _) = add_filespace(catalog, "gone");
    catalog.remove_node(gone.id).expect("is removed");
}

fn next_numbers(catalog: &dyn Catalog) -> (u32, u64) {
    let (node, filespace) = add_filespace(catalog, "next");
    assert!(filespace.0 > 0);
    (node.id.0, catalog.next_pack().expect("is told").0)
}

fn moved(from: &Location, to: &Location) -> Result<u64, CatalogError> {
    let rows = relocate(from, to, 7, &mut |_, _| Ok(()))?;
    arrive(to)?;
    Ok(rows)
}

#[track_caller]
fn assert_equal(one: &dyn Catalog, other: &dyn Catalog) {
    assert!(
        contents::of_catalog(one).expect("is read") == contents::of_catalog(other).expect("is")
    );
    let tapes = |catalog: &dyn Catalog| {
        let pools = catalog.pools().expect("are listed");
        let parts = pools.iter().map(|pool| catalog.parts(pool.id, PackNumber(900)).expect("are"));
        let parts: Vec<_> = parts.collect();
        (catalog.libraries().expect("are"), catalog.volumes().expect("are"), pools, parts)
    };
    assert_eq!(tapes(one), tapes(other));
}

fn place(path: &Path) -> Location {
    Location::File(path.to_owned())
}

#[test]
fn a_catalogue_goes_to_a_database_and_back() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let database = Location::Database(engine.url());
    fill_all(&Sqlite::open(&first).expect("opens"));
    let there = moved(&place(&first), &database).expect("goes there");
    let back = moved(&database, &place(&second)).expect("comes back");
    assert_eq!(there, back);
    let sqlite = Sqlite::open(&first).expect("opens");
    let postgres = Postgres::open(&engine.url()).expect("opens");
    let again = Sqlite::open(&second).expect("opens");
    assert_equal(&sqlite, &postgres);
    assert_equal(&sqlite, &again);
    // No number is given twice, not even by another engine.
    let numbers = next_numbers(&sqlite);
    assert_eq!(numbers, next_numbers(&postgres));
    assert_eq!(numbers, next_numbers(&again));
    // A copy for the pools has the same contents.
    let copy = folder.path().join("copy");
    postgres.copy_to(&copy).expect("is copied");
    assert_equal(&postgres, &Sqlite::open(&copy).expect("opens"));
}

#[test]
fn what_has_rows_of_its_own_is_not_overwritten() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("catalogue");
    fill(&Sqlite::open(&path).expect("opens"), "anna", 1);
    let postgres = Postgres::open(&engine.url()).expect("opens");
    fill(&postgres, "bert", 2);
    let database = Location::Database(engine.url());
    assert_eq!(refusal(moved(&place(&path), &database)), "exists");
    assert_eq!(refusal(moved(&database, &place(&path))), "exists");
}

#[test]
fn a_move_that_is_cut_off_leaves_nothing_and_is_begun_again() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("catalogue");
    fill_all(&Sqlite::open(&path).expect("opens"));
    let database = Location::Database(engine.url());
    let ended = relocate(&place(&path), &database, 7, &mut |table, _| {
        let is_enough = table == "version";
        if is_enough { Err(CatalogError::NotFound { what: "patience" }) } else { Ok(()) }
    });
    assert_eq!(refusal(ended), "not found");
    assert_eq!(Postgres::open(&engine.url()).expect("opens").nodes().expect("none"), []);
    moved(&place(&path), &database).expect("goes there");
    let postgres = Postgres::open(&engine.url()).expect("opens");
    assert_equal(&Sqlite::open(&path).expect("opens"), &postgres);
}

#[test]
fn a_move_goes_on_from_every_step() {
    let Some(engine) = PostgresInCluster::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("catalogue");
    fill(&Sqlite::open(&path).expect("opens"), "anna", 1);
    let (from, to) = (place(&path), Location::Database(engine.url()));
    let places = || (standing(&from).expect("is told"), standing(&to).expect("is told"));
    let enter = || Postgres::open(&engine.url()).expect("opens").enter(&[1; 16], "a:1", "1");
    relocate(&from, &to, 7, &mut |_, _| Ok(())).expect("goes there");
    assert_eq!(places(), (MoveState::Whole, MoveState::Arriving(7)));
    assert!(enter().expect_err("is not for use yet").to_string().contains("to finish it"));
    // A move that is interrupted here leaves the old catalogue in use, and that catalogue may
    // change.
    fill(&Sqlite::open(&path).expect("opens"), "bert", 2);
    relocate(&from, &to, 8, &mut |_, _| Ok(())).expect("is begun again");
    leave(&from, 8).expect("is left");
    assert_eq!(places(), (MoveState::Left(8), MoveState::Arriving(8)));
    assert!(!path.try_exists().expect("is told"));
    leave(&from, 8).expect("is left already");
    arrive(&to).expect("is there");
    assert_eq!(places(), (MoveState::Left(8), MoveState::Whole));
    assert!(enter().expect("may be used").is_some());
    let names: Vec<_> = Postgres::open(&engine.url()).expect("opens").nodes().expect("are listed");
    assert_eq!(names.len(), 2);
}
