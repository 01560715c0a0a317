//! Lists that the server sends in portions.

use bytes::Bytes;
use wire::{PORTION_ITEMS_MAX, proto};

use crate::error::{ClientError, ErrorKind};

/// Items of one reply.
pub(crate) struct Section<T> {
    pub(crate) items: Vec<T>,
    /// Start of the next portion; empty at the end of the list, and if the server does not know
    /// portions.
    pub(crate) next: Bytes,
}

/// Reads a whole list. `ask` requests one portion of the list.
pub(crate) fn all<T>(
    ask: impl FnMut(proto::Portion) -> Result<Section<T>, ClientError>,
) -> Result<Vec<T>, ClientError> {
    first(usize::MAX, ask)
}

/// Reads the first `items_max` items of a list. `ask` requests one portion of the list.
pub(crate) fn first<T>(
    items_max: usize,
    mut ask: impl FnMut(proto::Portion) -> Result<Section<T>, ClientError>,
) -> Result<Vec<T>, ClientError> {
    let mut items = Vec::new();
    let mut from = Bytes::new();
    while items.len() < items_max {
        let missing = items_max - items.len();
        let wanted = u32::try_from(missing).unwrap_or(u32::MAX).min(PORTION_ITEMS_MAX);
        let Section { items: more, next } =
            ask(proto::Portion { items_max: wanted, from: from.clone() })?;
        items.extend(more.into_iter().take(missing));
        if next.is_empty() {
            break;
        }
        if next == from {
            let message = "the server sent the same portion of a list twice";
            return Err(ClientError::new(ErrorKind::Bug, message));
        }
        from = next;
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Answers like a server that has `items` and sends at most `limit` of them in a portion.
    fn answer(items: &BTreeSet<u8>, limit: usize, portion: &proto::Portion) -> Section<u8> {
        let from = portion.from.first().copied().unwrap_or(0);
        let limit = limit.min(portion.items_max as usize);
        let mut rest = items.range(from..).copied();
        let items = rest.by_ref().take(limit).collect();
        let next = rest.next().map_or(Bytes::new(), |next| vec![next].into());
        Section { items, next }
    }

    #[test]
    fn a_list_is_read_to_its_end() {
        let items: BTreeSet<u8> = (1..=10).collect();
        for limit in [1, 3, 9, 10, 11] {
            let listed = all(|portion| Ok(answer(&items, limit, &portion))).expect("a list");
            assert!(listed.iter().eq(&items), "{limit}: {listed:?}");
        }
        let none = all(|portion| Ok(answer(&BTreeSet::new(), 3, &portion))).expect("a list");
        assert!(none.is_empty());
    }

    #[test]
    fn a_change_between_portions_loses_and_doubles_nothing() {
        let mut items: BTreeSet<u8> = (10..20).collect();
        let listed = all(|portion| {
            let section = answer(&items, 3, &portion);
            // The next item is removed, and items before and after it are added.
            items.remove(section.next.first().unwrap_or(&0));
            items.extend([1, 30]);
            Ok(section)
        });
        assert_eq!(listed.expect("a list"), [10, 11, 12, 14, 15, 16, 18, 19, 30]);
    }

    #[test]
    fn no_more_is_asked_for_than_is_wanted() {
        let items: BTreeSet<u8> = (1..=10).collect();
        let mut asked = Vec::new();
        let listed = first(5, |portion| {
            asked.push(portion.items_max);
            Ok(answer(&items, 3, &portion))
        });
        assert_eq!((listed.expect("a list"), asked), (vec![1, 2, 3, 4, 5], vec![5, 2]));
        let none = first(0, |_| -> Result<Section<u8>, _> { panic!("nothing is wanted") });
        assert!(none.expect("a list").is_empty());
    }

    #[test]
    fn a_list_without_portions_is_cut_and_one_without_end_is_refused() {
        let whole = |_| Ok(Section { items: vec![1, 2, 3], next: Bytes::new() });
        assert_eq!(first(2, whole).expect("a list"), [1, 2]);
        let same = |_| Ok(Section { items: vec![1], next: Bytes::from_static(b"x") });
        assert_eq!(all(same).expect_err("the list has no end").kind, ErrorKind::Bug);
    }
}
