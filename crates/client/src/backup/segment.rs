//! Segments: the entries of one page of a directory, which the walk passes to an examiner.

use std::sync::Arc;

use model::{DirPath, Name, PAGE_OBJECTS_MAX};
use sys::{Dir, ObjectStatus};

use crate::link::backup::PageKey;

/// Entries of one page of a directory, to be examined one by one.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) dir: Arc<Dir>,
    pub(super) path: DirPath,
    /// First name of the page; empty for a directory's first page.
    pub(super) first: Vec<u8>,
    /// Entries, sorted by name.
    pub(super) entries: Vec<(Name, ObjectStatus)>,
    /// Names of this page that exist but could not be examined.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// True if `entries` are all objects in the page's range of names. Only then a missing object
    /// is gone, and only then the page gets a digest.
    pub(super) is_whole: bool,
    /// True if the objects of the segment count in the report. Directories above a target do not
    /// count.
    pub(super) counts: bool,
}

impl Segment {
    /// Makes a segment of `entries`, which are only some objects of a page.
    pub(super) fn partial(
        dir: Arc<Dir>,
        path: DirPath,
        first: Vec<u8>,
        entries: Vec<(Name, ObjectStatus)>,
    ) -> Self {
        let unreadable = Vec::new();
        Self { dir, path, first, entries, unreadable, is_whole: false, counts: true }
    }

    /// Divides the segment into segments of at most a page's objects each.
    pub(super) fn divide(self) -> Vec<Self> {
        debug_assert!(self.entries.is_sorted_by(|a, b| a.0 <= b.0), "pages are ranges of names");
        let Self { dir, path, first, entries, mut unreadable, is_whole, counts } = self;
        let mut parts: Vec<Self> = entries
            .chunks(PAGE_OBJECTS_MAX)
            .enumerate()
            .map(|(number, part)| Self {
                dir: Arc::clone(&dir),
                path: path.clone(),
                first: if number == 0 { first.clone() } else { part[0].0.as_bytes().to_vec() },
                entries: part.to_vec(),
                unreadable: Vec::new(),
                is_whole,
                counts,
            })
            .collect();
        for part in parts.iter_mut().rev() {
            let (of_earlier, of_part) = unreadable.into_iter().partition(|name| *name < part.first);
            part.unreadable = of_part;
            unreadable = of_earlier;
        }
        assert!(
            parts.iter().all(|part| part.entries.len() <= PAGE_OBJECTS_MAX),
            "a part has at most the objects of a page"
        );
        assert!(unreadable.is_empty(), "the first part begins before every name");
        parts
    }
}

/// Divides a directory that the server does not have into pages.
pub(super) fn new_pages(entries: &[(Name, ObjectStatus)]) -> Vec<PageKey> {
    let first = std::iter::once(Vec::new());
    let further = entries.chunks(PAGE_OBJECTS_MAX).skip(1);
    first
        .chain(further.map(|page| page[0].0.as_bytes().to_vec()))
        .map(|first| PageKey { first, digest: None })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::stat;
    use super::*;

    fn entries(count: usize) -> Vec<(Name, ObjectStatus)> {
        let found = ObjectStatus { stat: stat(), device_id: 1, allocated_bytes: 0, links: 1 };
        let name = |number| Name::new(format!("n{number:05}").as_bytes()).expect("a name");
        (0..count).map(|number| (name(number), found)).collect()
    }

    fn segment(count: usize, unreadable: &[&str]) -> Segment {
        Segment {
            dir: Arc::new(Dir::open(b"/").expect("the root")),
            path: DirPath::root(),
            first: b"m".to_vec(),
            entries: entries(count),
            unreadable: unreadable.iter().map(|name| name.as_bytes().to_vec()).collect(),
            is_whole: true,
            counts: true,
        }
    }

    #[test]
    fn parts_keep_order_and_first_name() {
        let parts = segment(PAGE_OBJECTS_MAX * 2 + 1, &[]).divide();
        let lengths: Vec<usize> = parts.iter().map(|part| part.entries.len()).collect();
        assert_eq!(lengths, [PAGE_OBJECTS_MAX, PAGE_OBJECTS_MAX, 1]);
        assert_eq!(parts[0].first, b"m");
        for part in &parts[1..] {
            assert_eq!(part.first, part.entries[0].0.as_bytes());
        }
        let names = parts.iter().flat_map(|part| part.entries.iter().map(|(name, _)| name.clone()));
        assert!(names.eq(entries(PAGE_OBJECTS_MAX * 2 + 1).into_iter().map(|(name, _)| name)));
    }

    #[test]
    fn an_unreadable_name_stays_with_its_page() {
        let second = format!("n{PAGE_OBJECTS_MAX:05}x");
        let parts = segment(PAGE_OBJECTS_MAX + 1, &["n00000x", &second]).divide();
        assert_eq!(parts[0].unreadable, [b"n00000x".to_vec()]);
        assert_eq!(parts[1].unreadable, [second.into_bytes()]);
    }

    #[test]
    fn a_new_directory_has_at_least_one_page() {
        for (count, expected) in [
            (0, vec![""]),
            (1, vec![""]),
            (PAGE_OBJECTS_MAX, vec![""]),
            (PAGE_OBJECTS_MAX + 1, vec!["", "n00512"]),
        ] {
            let firsts: Vec<_> =
                new_pages(&entries(count)).into_iter().map(|page| page.first).collect();
            assert_eq!(firsts, expected.iter().map(|f| f.as_bytes()).collect::<Vec<_>>());
        }
    }
}
