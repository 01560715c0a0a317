//! The digest rows of pages.

use catalog::{Catalog, PageDigest, PageRow, PageSpan};
use format::path_hash;
use model::{DirPath, FilespaceId};

use super::Engine;
use crate::contents::{digests, sort_digests};
use crate::samples::{NO_FILESPACE, add_filespace, dir, directories, key, page, put};

/// Number of digests that are read in three portions.
const MANY: u32 = 10_000;

fn plant(catalog: &dyn Catalog, filespace: FilespaceId) {
    let mut writes = Vec::new();
    for (state, path) in (1..).zip(directories()) {
        let digested = page(&key(&path, b""), state);
        let undigested = PageRow { digest: None, ..page(&key(&path, b"m\0\xff"), state) };
        writes.extend([put(filespace, digested), put(filespace, undigested)]);
    }
    catalog.commit(writes).expect("the batch is performed");
}

pub(crate) fn the_scan_of_any_directory_equals_its_pages(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, neighbour) = add_filespace(&*catalog, "b");
    plant(&*catalog, filespace);
    plant(&*catalog, neighbour);
    for path in directories().into_iter().chain([dir("/none/"), dir("/a/none/")]) {
        // At the root the engine scans the whole filespace.
        let is_root = path == DirPath::root();
        let top = if is_root { DirPath::above_root() } else { path.clone() };
        let span = PageSpan::Subtree(top);
        let pages = catalog.pages(filespace, &span, None, usize::MAX).expect("are read");
        let narrow = |row: PageRow| PageDigest {
            hash: path_hash(&row.key.directory),
            first: row.key.first,
            digest: row.digest,
        };
        let mut expected: Vec<PageDigest> = pages.into_iter().map(narrow).collect();
        sort_digests(&mut expected);
        let read = digests(&*catalog, filespace, &path).expect("are read");
        assert_eq!(read, expected, "{path:?}");
    }
}

pub(crate) fn a_page_can_lose_its_digest(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let row = page(&key(&dir("/a/"), b""), 1);
    let without = PageRow { digest: None, ..row.clone() };
    for row in [without.clone(), row, without] {
        let expected =
            PageDigest { hash: path_hash(&row.key.directory), first: vec![], digest: row.digest };
        catalog.commit(vec![put(filespace, row)]).expect("the batch is performed");
        for path in [DirPath::above_root(), dir("/"), dir("/a/")] {
            let read = digests(&*catalog, filespace, &path).expect("are read");
            assert_eq!(read, std::slice::from_ref(&expected));
        }
    }
}

pub(crate) fn the_digests_of_a_directory_are_of_its_pages_alone(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, neighbour) = add_filespace(&*catalog, "b");
    plant(&*catalog, filespace);
    plant(&*catalog, neighbour);
    for path in directories().into_iter().chain([dir("/none/")]) {
        let subtree = digests(&*catalog, filespace, &path).expect("are read");
        let of_directory = |digest: &PageDigest| digest.hash == path_hash(&path);
        let expected: Vec<PageDigest> = subtree.into_iter().filter(of_directory).collect();
        let mut read = Vec::new();
        let mut visit = |digest: &PageDigest| {
            read.push(digest.clone());
            true
        };
        catalog.directory_digests(filespace, &path, &mut visit).expect("are read");
        sort_digests(&mut read);
        assert_eq!(read, expected, "{path:?}");
    }
}

pub(crate) fn directories_without_a_digest_are_found(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, neighbour) = add_filespace(&*catalog, "b");
    plant(&*catalog, neighbour);
    let undigested = |pages_max| {
        let mut found = catalog.undigested(filespace, pages_max).expect("are read")?;
        found.sort();
        Some(found)
    };
    assert_eq!(undigested(0), Some(vec![]));
    let without = |path: &str| {
        let row = page(&key(&DirPath::new(path.as_bytes()).expect("a directory"), b""), 1);
        put(filespace, PageRow { digest: None, ..row })
    };
    let with = put(filespace, page(&key(&dir("/whole/"), b""), 1));
    catalog.commit(vec![without(""), with]).expect("the batch is performed");
    assert_eq!(undigested(0), Some(vec![]), "the page above the root does not count");
    catalog
        .commit(vec![without("/b/"), without("/a/")])
        .expect("the batch is performed");
    assert_eq!(undigested(2), Some(vec![dir("/a/"), dir("/b/")]));
    assert_eq!(undigested(1), None, "there are more pages than wanted");
}

pub(crate) fn the_scan_ends_when_told_so(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    plant(&*catalog, filespace);
    for path in [DirPath::above_root(), dir("/"), dir("/a/")] {
        for wanted in 1..=3 {
            let mut seen = 0;
            let mut visit = |_: &PageDigest| {
                seen += 1;
                seen < wanted
            };
            catalog.digests(filespace, &path, &mut visit).expect("are read");
            assert_eq!(seen, wanted);
        }
    }
}

/// More digests than are read at once come exactly once. While the caller passes them on, it holds
/// nothing: a write goes on, and the reader sees it.
pub(crate) fn many_digests_come_once_and_nothing_is_held_meanwhile(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, neighbour) = add_filespace(&*catalog, "b");
    plant(&*catalog, neighbour);
    let row = |number: u32| page(&key(&dir("/a/"), &number.to_be_bytes()), 1);
    let rows = (1..=MANY).map(|number| put(filespace, row(number)));
    catalog.commit(rows.collect()).expect("the batch is performed");
    for which in 0..3 {
        let mut read = Vec::new();
        let visit = &mut |digest: &PageDigest| {
            if read.is_empty() {
                let changed = PageRow { digest: None, ..row(MANY) };
                catalog.commit(vec![put(filespace, changed)]).expect("is performed");
            }
            read.push((digest.first.clone(), digest.digest.is_some()));
            true
        };
        let visited = match which {
            0 => catalog.digests(filespace, &DirPath::above_root(), visit),
            1 => catalog.digests(filespace, &dir("/a/"), visit),
            _ => catalog.directory_digests(filespace, &dir("/a/"), visit),
        };
        visited.expect("are read");
        read.sort();
        let expected = (1..=MANY).map(|number| (number.to_be_bytes().to_vec(), number < MANY));
        assert!(read.into_iter().eq(expected));
        catalog.commit(vec![put(filespace, row(MANY))]).expect("is performed");
    }
}

pub(crate) fn an_empty_filespace_has_no_digests(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, neighbour) = add_filespace(&*catalog, "b");
    plant(&*catalog, neighbour);
    // A number far above the given numbers must not be mistaken for a smaller number.
    let far = FilespaceId(neighbour.0 + (1 << 28));
    let last = FilespaceId((1 << 27) - 1);
    for empty in [filespace, NO_FILESPACE, far, last, FilespaceId(u32::MAX)] {
        for path in [DirPath::above_root(), dir("/"), dir("/a/")] {
            assert_eq!(digests(&*catalog, empty, &path).expect("none"), []);
        }
    }
}
