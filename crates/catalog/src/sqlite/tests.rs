//! Failures that nobody can cause through the trait of the catalogue.

use model::{DirPath, NodeName};

use super::*;
use crate::{Filespaces as _, Nodes as _, PageSpan, Pages as _};

const NOW: ServerTime = ServerTime(1);

/// Makes a catalogue with one filespace.
fn new_catalog(folder: &Path) -> (Sqlite, FilespaceId) {
    let catalog = Sqlite::open(&folder.join("catalogue")).expect("opens");
    let name = NodeName::new("a").expect("a name");
    let node = catalog.add_node(&name, "STANDARD", NOW).expect("is added");
    let filespace = catalog.open_filespace(node.id, b"/", NOW).expect("is made");
    (catalog, filespace.id)
}

/// Limits the growth of the file to `blocks`, like a full disk.
fn limit(catalog: &Sqlite, blocks: i64) {
    let limiting = move |connection: &Connection| {
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let now = connection.query_row("PRAGMA page_count", [], count).map_err(database)?;
        let pragma = format!("PRAGMA max_page_count={}", now + blocks);
        connection.query_row(&pragma, [], count).map(drop).map_err(database)
    };
    catalog.perform(limiting).expect("is limited");
}

fn put_page(filespace: FilespaceId, first: &[u8], body_bytes: usize) -> Write {
    let key = PageKey { directory: DirPath::root(), first: first.to_vec() };
    let page = PageRow { key, object_count: 1, digest: None, body: vec![1; body_bytes] };
    Write::PutPage { filespace, page }
}

/// Lets the writer take all of `pieces` as one group, and returns the outcome of each.
fn as_one_group(catalog: &Sqlite, pieces: Vec<Work>) -> Vec<Result<(), CatalogError>> {
    let (started, has_started) = channel();
    let (open, opened) = channel();
    let gate: Work = Box::new(move |_| {
        started.send(()).expect("the test waits");
        opened.recv().expect("the test opens");
        Ok(())
    });
    let gate = queue(catalog, gate);
    has_started.recv().expect("the writer starts");
    let waiting: Vec<_> = pieces.into_iter().map(|piece| queue(catalog, piece)).collect();
    open.send(()).expect("the writer waits");
    gate.recv().expect("is answered").expect("the gate does nothing");
    waiting.into_iter().map(|done| done.recv().expect("is answered")).collect()
}

fn queue(catalog: &Sqlite, work: Work) -> Receiver<Result<(), CatalogError>> {
    let (done, outcome) = sync_channel(1);
    let work = Piece { work, done };
    catalog.work.as_ref().expect("is open").send(work).expect("the writer runs");
    outcome
}

/// When space runs out, SQLite rolls back the whole transaction, not only the savepoint. The
/// earlier pieces are undone with it, and each later piece would be a transaction of its own.
#[test]
fn a_group_that_is_rolled_back_fails_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (catalog, filespace) = new_catalog(folder.path());
    let piece = |first: &'static [u8], body_bytes: usize| -> Work {
        let write = put_page(filespace, first, body_bytes);
        Box::new(move |connection| batches::perform(connection, std::slice::from_ref(&write)))
    };
    limit(&catalog, 20);
    let pieces = vec![piece(b"a", 10), piece(b"b", 1 << 20), piece(b"c", 10)];
    let outcomes = as_one_group(&catalog, pieces);
    let no_space = |outcome: &_| matches!(outcome, Err(CatalogError::NoSpace));
    assert!(outcomes.iter().all(no_space), "{outcomes:?}");
    let span = PageSpan::Directory(DirPath::root());
    assert_eq!(catalog.pages(filespace, &span, None, 9).expect("none"), []);

    limit(&catalog, 2000);
    let pieces = vec![piece(b"a", 10), piece(b"b", 1 << 20), piece(b"c", 10)];
    assert!(as_one_group(&catalog, pieces).iter().all(Result::is_ok));
    assert_eq!(catalog.pages(filespace, &span, None, 9).expect("are read").len(), 3);
}

/// A piece that fails may have written already. If its writes cannot be undone alone, nothing of
/// the group may be committed.
#[test]
fn writes_that_cannot_be_undone_alone_are_undone_with_the_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let (catalog, filespace) = new_catalog(folder.path());
    let good = put_page(filespace, b"a", 10);
    let good: Work =
        Box::new(move |connection| batches::perform(connection, std::slice::from_ref(&good)));
    let bad = put_page(filespace, b"b", 10);
    let bad: Work = Box::new(move |connection| {
        batches::perform(connection, std::slice::from_ref(&bad))?;
        connection.execute_batch("RELEASE piece").map_err(database)?;
        Err(CatalogError::NotFound { what: "the savepoint" })
    });
    let outcomes = as_one_group(&catalog, vec![good, bad]);
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    let span = PageSpan::Directory(DirPath::root());
    assert_eq!(catalog.pages(filespace, &span, None, 9).expect("none"), []);
}

#[test]
fn a_piece_that_is_alone_and_fails_is_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (catalog, filespace) = new_catalog(folder.path());
    let bad = put_page(filespace, b"a", 10);
    let bad: Work = Box::new(move |connection| {
        batches::perform(connection, std::slice::from_ref(&bad))?;
        Err(CatalogError::NotFound { what: "the next object" })
    });
    let outcomes = as_one_group(&catalog, vec![bad]);
    assert!(matches!(outcomes[..], [Err(CatalogError::NotFound { .. })]), "{outcomes:?}");
    let span = PageSpan::Directory(DirPath::root());
    assert_eq!(catalog.pages(filespace, &span, None, 9).expect("none"), []);
    let good = put_page(filespace, b"b", 10);
    crate::Batches::commit(&catalog, vec![good]).expect("goes on");
    assert_eq!(catalog.pages(filespace, &span, None, 9).expect("is read").len(), 1);
}

#[test]
fn the_view_of_occupancy_tells_archives_from_backups() {
    let folder = tempfile::tempdir().expect("a folder");
    let (catalog, _) = new_catalog(folder.path());
    let node = catalog.nodes().expect("are listed")[0].id;
    for name in [model::archive_filespace(1, b"/"), model::space_filespace(b"/")] {
        catalog.open_filespace(node, &name, NOW).expect("is made");
    }
    let asking = |connection: &Connection| {
        let ask =
            "SELECT group_concat(type) FROM (SELECT type FROM occupancy ORDER BY filespace_id)";
        connection.query_row(ask, [], |row| row.get::<_, String>(0)).map_err(database)
    };
    assert_eq!(catalog.perform(asking).expect("is told"), "Bkup,Arch,SpMg");
}

#[test]
fn nothing_is_committed_to_a_file_that_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Sqlite::open(&path).unwrap();
    catalog.commit(Vec::new()).unwrap();
    std::fs::rename(&path, folder.path().join("aside")).unwrap();
    for _ in 0..2 {
        let refused = catalog.commit(Vec::new()).expect_err("nobody would find it");
        assert!(matches!(refused, CatalogError::Unusable(_)), "{refused}");
        Sqlite::open(&path).unwrap();
    }
    std::fs::rename(folder.path().join("aside"), &path).unwrap();
    catalog.commit(Vec::new()).expect("it is the same file again");
}

#[test]
fn a_catalogue_is_closed_whole_only_without_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    Sqlite::open(&path)
        .unwrap()
        .close_whole()
        .expect("the log was moved into the file");
    let catalog = Sqlite::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.query_row("SELECT count(*) FROM node", [], |_| Ok(())).unwrap();
    catalog.commit(vec![Write::SetMark { name: "a", value: 1 }]).unwrap();
    let error = catalog.close_whole().expect_err("another connection needs the log");
    let text = model::chain(&error);
    assert!(text.contains("catalog.sqlite-wal"), "{text}");
}

#[test]
fn an_inspection_finds_a_sum_of_digests_that_is_not_that_of_the_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let (catalog, filespace) = new_catalog(folder.path());
    Engine::commit(&catalog, vec![put_page(filespace, b"", 10)]).expect("is committed");
    let copy = folder.path().join("copy");
    let inspect = |copy: &Path| {
        Engine::copy_to(&catalog, copy).expect("is copied");
        inspection::inspect(copy, &mut |_| ()).expect("is read").faults
    };
    assert_eq!(inspect(&copy), [""; 0]);
    let forget = "UPDATE digest_sum SET sum = zeroblob(16)";
    catalog
        .perform(move |sql| sql.execute_batch(forget).map_err(database))
        .expect("is set");
    let faults = inspect(&folder.path().join("second copy"));
    let expected =
        format!("the sum of the digests of filespace {} is not that of its pages", filespace.0);
    assert_eq!(faults, [expected]);
}

#[test]
fn an_inspection_finds_objects_that_were_counted_and_are_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (catalog, filespace) = new_catalog(folder.path());
    let growth = crate::Growth { objects: 3, bytes: 0 };
    let writes = vec![put_page(filespace, b"", 10), Write::Grow { filespace, growth }];
    Engine::commit(&catalog, writes).expect("is committed");
    let copy = folder.path().join("copy");
    Engine::copy_to(&catalog, &copy).expect("is copied");
    let inspected = inspection::inspect(&copy, &mut |_| ()).expect("is read");
    let missing = inspection::MissingObjects { filespace, counted: 3, present: 1 };
    assert_eq!(inspected.missing, [missing]);
}

/// SQLite says only that there is no such table or column.
#[test]
fn a_catalogue_with_damaged_tables_is_called_damaged() {
    for damage in ["", "CREATE TABLE digest(id INTEGER PRIMARY KEY)"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (catalog, filespace) = new_catalog(folder.path());
        drop(catalog);
        let path = folder.path().join("catalogue");
        let other = Connection::open(&path).expect("opens");
        other
            .execute_batch(&format!("DROP TABLE digest; {damage}"))
            .expect("is changed");
        drop(other);
        let catalog = Sqlite::open(&path).expect("opens");
        let read = catalog.digests(filespace, &DirPath::above_root(), &mut |_| true);
        let error = read.expect_err("the table is not as it should be");
        assert!(matches!(error, CatalogError::Damaged(_)), "{error}");
    }
}
