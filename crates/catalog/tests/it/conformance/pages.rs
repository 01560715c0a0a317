//! Directory pages: their rows, their order and the spans that a caller can read.

use catalog::{Catalog, PageKey, PageRow, PageSpan, Write};
use model::{DirPath, FilespaceId};

use super::Engine;
use crate::samples::{NO_FILESPACE, add_filespace, dir, directories, key, page, put};

fn commit(catalog: &dyn Catalog, writes: Vec<Write>) {
    catalog.commit(writes).expect("the batch is performed");
}

fn all(catalog: &dyn Catalog, filespace: FilespaceId) -> Vec<PageRow> {
    let span = PageSpan::Subtree(DirPath::above_root());
    catalog.pages(filespace, &span, None, usize::MAX).expect("are read")
}

pub(crate) fn a_page_is_replaced_as_a_whole(engine: &dyn Engine) {
    let mut catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let key = key(&dir("/a/"), b"m");
    assert_eq!(catalog.page(filespace, &key).expect("none"), None);
    assert_eq!(catalog.pages_at(filespace, std::slice::from_ref(&key)).expect("none"), []);
    assert_eq!(catalog.pages_at(filespace, &[]).expect("none"), []);
    let undigested = PageRow { digest: None, ..page(&key, 3) };
    for row in [page(&key, 1), page(&key, 2), undigested, page(&key, 0)] {
        commit(&*catalog, vec![put(filespace, row.clone())]);
        assert_eq!(catalog.page(filespace, &key).expect("is there"), Some(row.clone()));
        catalog = engine.reopen(catalog);
        assert_eq!(catalog.page(filespace, &key).expect("is there"), Some(row.clone()));
        assert_eq!(all(&*catalog, filespace), [row]);
    }
}

/// One batch has new and known pages, more than any engine writes at once, some of them with a
/// digest.
pub(crate) fn thousands_of_pages_go_in_one_batch(engine: &dyn Engine) {
    let mut catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let row = |number: u32, state: u8| {
        let first: &[u8] = if number.is_multiple_of(3) { b"" } else { b"m" };
        let row = page(&key(&dir(&format!("/{number:05}/")), first), state);
        if number.is_multiple_of(7) { PageRow { digest: None, ..row } } else { row }
    };
    let some: Vec<PageRow> = (500..1500).map(|number| row(number, 1)).collect();
    commit(&*catalog, some.iter().map(|row| put(filespace, row.clone())).collect());
    assert_eq!(all(&*catalog, filespace), some);
    let more: Vec<PageRow> = (0..6000).map(|number| row(number, 2)).collect();
    commit(&*catalog, more.iter().map(|row| put(filespace, row.clone())).collect());
    catalog = engine.reopen(catalog);
    assert_eq!(all(&*catalog, filespace), more);
    let mut digests = Vec::new();
    catalog
        .digests(filespace, &DirPath::above_root(), &mut |digest| {
            digests.push(digest.digest);
            true
        })
        .expect("are told");
    // A look-up by keys returns pages in no order and leaves out absent pages. One key is given
    // twice.
    let named = more.iter().step_by(8).map(|row| row.key.clone());
    let mut named: Vec<PageKey> = named.chain([key(&dir("/none/"), b"")]).collect();
    named.push(named[0].clone());
    let mut told = catalog.pages_at(filespace, &named).expect("are read");
    told.sort_by(|a, b| a.key.cmp(&b.key));
    told.dedup();
    assert!(told.iter().eq(more.iter().step_by(8)), "{} of {}", told.len(), named.len());
    let expected = more.iter().filter(|row| row.digest.is_some()).count();
    let found = digests.iter().filter(|digest| digest.is_some()).count();
    assert_eq!((digests.len(), found), (more.len(), expected));
}

pub(crate) fn a_removed_page_is_gone_and_others_stay(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let a = dir("/a/");
    let keys = [key(&a, b""), key(&a, b"m"), key(&a, b"m\0"), key(&dir("/b/"), b"m")];
    let mut rows = keys.each_ref().map(|key| page(key, 1)).to_vec();
    commit(&*catalog, rows.iter().map(|row| put(filespace, row.clone())).collect());
    // The last page, the first page and a page between: an engine may count from any of them.
    for gone in [3, 0, 1] {
        let remove = Write::RemovePage { filespace, key: keys[gone].clone() };
        commit(&*catalog, vec![remove.clone()]);
        commit(&*catalog, vec![remove]);
        rows.retain(|row| row.key != keys[gone]);
        assert_eq!(all(&*catalog, filespace), rows);
        assert_eq!(catalog.page(filespace, &keys[gone]).expect("none"), None);
    }
    let again = page(&keys[3], 9);
    commit(&*catalog, vec![put(filespace, again.clone())]);
    assert_eq!(all(&*catalog, filespace), [rows.remove(0), again]);
}

pub(crate) fn the_page_of_a_name_is_found(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (a, b) = (dir("/a/"), dir("/b/"));
    let keys = [key(&a, b""), key(&a, b"m"), key(&a, b"m\0"), key(&b, b"x")];
    let rows = keys.each_ref().map(|key| page(key, 1)).to_vec();
    commit(&*catalog, rows.iter().map(|row| put(filespace, row.clone())).collect());
    let holding = |directory: &DirPath, name: &[u8]| {
        catalog.page_holding(filespace, directory, name).expect("is looked up")
    };
    for (name, at) in [(&b"a"[..], 0), (b"l\xff", 0), (b"m", 1), (b"m\0", 2), (b"z", 2)] {
        assert_eq!(holding(&a, name).as_ref(), Some(&rows[at]), "{name:?}");
    }
    assert_eq!(holding(&b, b"a"), None);
    assert_eq!(holding(&b, b"y").as_ref(), Some(&rows[3]));
    assert_eq!(holding(&dir("/"), b"y"), None);
}

pub(crate) fn bodies_are_any_bytes(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    for body in [Vec::new(), vec![0], every_byte.clone(), every_byte.repeat(8 << 10)] {
        let row = PageRow { body, object_count: u32::MAX, ..page(&key(&dir("/"), b""), 1) };
        commit(&*catalog, vec![put(filespace, row.clone())]);
        assert!(all(&*catalog, filespace) == [row]);
    }
}

pub(crate) fn first_names_are_in_byte_order(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let root = dir("/");
    let mut keys = vec![key(&root, b""), key(&root, b"\0\0"), key(&root, b"\xff\xff")];
    // 7 has no factor in common with 256, so this is every byte, far from its neighbours.
    keys.extend((0..=u8::MAX).map(|byte| key(&root, &[byte.wrapping_mul(7)])));
    commit(&*catalog, keys.iter().map(|key| put(filespace, page(key, 1))).collect());
    keys.sort();
    let rows: Vec<PageRow> = keys.iter().map(|key| page(key, 1)).collect();
    assert_eq!(all(&*catalog, filespace), rows);
    for row in rows {
        assert_eq!(catalog.page(filespace, &row.key).expect("is there"), Some(row));
    }
}

/// Commits pages of all sample directories, not in order, and returns them in order.
fn plant(catalog: &dyn Catalog, filespace: FilespaceId) -> Vec<PageRow> {
    let firsts: [&[u8]; 4] = [b"", b"\xff", b"\0", b"m"];
    let keys = directories();
    let keys = keys.iter().flat_map(|path| firsts.map(|first| key(path, first)));
    let mut rows: Vec<PageRow> = (1..).zip(keys).map(|(state, key)| page(&key, state)).collect();
    rows.reverse();
    commit(catalog, rows.iter().map(|row| put(filespace, row.clone())).collect());
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

pub(crate) fn every_limit_gives_the_same_pages(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let rows = plant(&*catalog, filespace);
    let span = PageSpan::Subtree(DirPath::above_root());
    assert_eq!(catalog.pages(filespace, &span, None, 0).expect("none"), []);
    for limit in 1..=rows.len() + 1 {
        let mut read: Vec<PageRow> = Vec::new();
        loop {
            let after = read.last().map(|row| row.key.clone());
            let part = catalog.pages(filespace, &span, after.as_ref(), limit).expect("are read");
            assert!(part.len() <= limit);
            read.extend(part.iter().cloned());
            if part.len() < limit {
                break;
            }
        }
        assert_eq!(read, rows, "limit {limit}");
    }
}

pub(crate) fn every_span_behind_every_key_is_a_part_of_all_pages(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let rows = plant(&*catalog, filespace);
    let mut afters: Vec<Option<PageKey>> = vec![None, Some(key(&dir("/a/none/"), b"x"))];
    afters.extend(rows.iter().step_by(3).map(|row| Some(row.key.clone())));
    let mut paths = directories();
    paths.extend([dir("/a/none/"), dir("/a./"), dir("/zz/")]);
    for path in paths {
        for span in [PageSpan::Directory(path.clone()), PageSpan::Subtree(path.clone())] {
            for after in &afters {
                let inside = |row: &&PageRow| {
                    within(&span, &row.key.directory)
                        && after.as_ref().is_none_or(|after| row.key > *after)
                };
                let expected: Vec<&PageRow> = rows.iter().filter(inside).collect();
                for limit in [1, 5, usize::MAX] {
                    let read = catalog.pages(filespace, &span, after.as_ref(), limit);
                    let read = read.expect("are read");
                    let count = expected.len().min(limit);
                    assert_eq!(read.iter().collect::<Vec<_>>(), expected[..count], "{span:?}");
                }
            }
        }
    }
}

fn within(span: &PageSpan, directory: &DirPath) -> bool {
    match span {
        PageSpan::Directory(path) => directory == path,
        PageSpan::Subtree(path) => path.contains(directory),
    }
}

pub(crate) fn filespaces_do_not_share_pages(engine: &dyn Engine) {
    let catalog = engine.open();
    let spaces = ["a", "b", "c"].map(|name| add_filespace(&*catalog, name).1);
    let key = key(&dir("/a/"), b"");
    for (state, filespace) in (1..).zip(spaces) {
        commit(&*catalog, vec![put(filespace, page(&key, state))]);
    }
    commit(&*catalog, vec![Write::RemovePage { filespace: spaces[1], key: key.clone() }]);
    assert_eq!(
        spaces.map(|space| all(&*catalog, space)),
        [vec![page(&key, 1)], vec![], vec![page(&key, 3)]]
    );
    assert_eq!(all(&*catalog, NO_FILESPACE), []);
}

pub(crate) fn objects_are_counted_at_and_below_a_directory(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let (_, other) = add_filespace(&*catalog, "b");
    assert_eq!(catalog.count_objects(filespace, &DirPath::above_root()).expect("is counted"), 0);
    let rows = plant(&*catalog, filespace);
    for path in directories().into_iter().chain([dir("/none/")]) {
        let inside = rows.iter().filter(|row| path.contains(&row.key.directory));
        let expected: u64 = inside.map(|row| u64::from(row.object_count)).sum();
        assert_eq!(catalog.count_objects(filespace, &path).expect("is counted"), expected);
    }
    assert_eq!(catalog.count_objects(other, &DirPath::above_root()).expect("is counted"), 0);
}

pub(crate) fn counts_go_beyond_32_bits(engine: &dyn Engine) {
    let catalog = engine.open();
    let (_, filespace) = add_filespace(&*catalog, "a");
    let rows = [&b""[..], b"m", b"n"].map(|first| {
        let row = page(&key(&dir("/"), first), 1);
        put(filespace, PageRow { object_count: u32::MAX, ..row })
    });
    commit(&*catalog, rows.to_vec());
    let count = catalog.count_objects(filespace, &dir("/")).expect("is counted");
    assert_eq!(count, 3 * u64::from(u32::MAX));
}
