//! Lists that the server sends in portions.

use bytes::Bytes;
use prost::Message;
use wire::{PORTION_ITEMS_MAX, proto};

use crate::error::{ClientError, ErrorKind};

/// Maximum number of items of a list, and maximum number of their bytes on the wire.
const ITEMS_MAX: usize = 1 << 20;
const ITEMS_BYTES_MAX: usize = 128 << 20;
/// Maximum number of empty portions one after the other. A server that looks for what the caller
/// sees ends a portion after some thousand items, even if it has found none.
const EMPTY_MAX: usize = 1000;

/// Items of one reply.
pub(crate) struct Section<T> {
    pub(crate) items: Vec<T>,
    /// Start of the next portion; empty at the end of the list, and if the server does not know
    /// portions.
    pub(crate) next: Bytes,
}

/// Reads a whole list. `ask` requests one portion of the list.
pub(crate) fn all<T: Message>(
    ask: impl FnMut(proto::Portion) -> Result<Section<T>, ClientError>,
) -> Result<Vec<T>, ClientError> {
    let items = first(ITEMS_MAX + 1, ask)?;
    if items.len() <= ITEMS_MAX { Ok(items) } else { Err(too_long()) }
}

/// Reads the first `items_max` items of a list. `ask` requests one portion of the list. A server
/// that sends portions without end, or too much, is refused.
pub(crate) fn first<T: Message>(
    items_max: usize,
    mut ask: impl FnMut(proto::Portion) -> Result<Section<T>, ClientError>,
) -> Result<Vec<T>, ClientError> {
    let mut items = Vec::new();
    let mut from = Bytes::new();
    let (mut bytes, mut empty) = (0, 0);
    while items.len() < items_max {
        let missing = items_max - items.len();
        let wanted = u32::try_from(missing).unwrap_or(u32::MAX).min(PORTION_ITEMS_MAX);
        let Section { items: more, next } =
            ask(proto::Portion { items_max: wanted, from: from.clone() })?;
        empty = if more.is_empty() { empty + 1 } else { 0 };
        bytes += more.iter().map(Message::encoded_len).sum::<usize>();
        if bytes > ITEMS_BYTES_MAX {
            return Err(too_long());
        }
        items.extend(more.into_iter().take(missing));
        if next.is_empty() {
            break;
        }
        if next == from || empty > EMPTY_MAX {
            let message = "the server sent a list without end";
            return Err(ClientError::new(ErrorKind::Bug, message));
        }
        from = next;
    }
    Ok(items)
}

fn too_long() -> ClientError {
    ClientError::new(ErrorKind::Bug, "the server sent a list that is too long to be read")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Answers like a server that has `items` and sends at most `limit` of them in a portion.
    fn answer(items: &BTreeSet<u32>, limit: usize, portion: &proto::Portion) -> Section<u32> {
        let from = portion.from.first().copied().map_or(0, u32::from);
        let limit = limit.min(portion.items_max as usize);
        let mut rest = items.range(from..).copied();
        let items = rest.by_ref().take(limit).collect();
        let start = |next| vec![u8::try_from(next).expect("a small number")].into();
        let next = rest.next().map_or(Bytes::new(), start);
        Section { items, next }
    }

    #[test]
    fn a_list_is_read_to_its_end() {
        let items: BTreeSet<u32> = (1..=10).collect();
        for limit in [1, 3, 9, 10, 11] {
            let listed = all(|portion| Ok(answer(&items, limit, &portion))).expect("a list");
            assert!(listed.iter().eq(&items), "{limit}: {listed:?}");
        }
        let none = all(|portion| Ok(answer(&BTreeSet::new(), 3, &portion))).expect("a list");
        assert!(none.is_empty());
    }

    #[test]
    fn a_change_between_portions_loses_and_doubles_nothing() {
        let mut items: BTreeSet<u32> = (10..20).collect();
        let listed = all(|portion| {
            let section = answer(&items, 3, &portion);
            // The next item is removed, and items before and after it are added.
            items.remove(&section.next.first().copied().map_or(0, u32::from));
            items.extend([1, 30]);
            Ok(section)
        });
        assert_eq!(listed.expect("a list"), [10, 11, 12, 14, 15, 16, 18, 19, 30]);
    }

    #[test]
    fn no_more_is_asked_for_than_is_wanted() {
        let items: BTreeSet<u32> = (1..=10).collect();
        let mut asked = Vec::new();
        let listed = first(5, |portion| {
            asked.push(portion.items_max);
            Ok(answer(&items, 3, &portion))
        });
        assert_eq!((listed.expect("a list"), asked), (vec![1, 2, 3, 4, 5], vec![5, 2]));
        let none = first(0, |_| -> Result<Section<u32>, _> { panic!("nothing is wanted") });
        assert!(none.expect("a list").is_empty());
    }

    #[test]
    fn a_portion_may_have_nothing() {
        let mut asked = 0_u8;
        let listed = all(|_| {
            asked += 1;
            let next = if asked < 9 { Bytes::from(vec![asked]) } else { Bytes::new() };
            let items = if asked.is_multiple_of(4) { vec![u32::from(asked)] } else { Vec::new() };
            Ok(Section { items, next })
        });
        assert_eq!((listed.expect("a list"), asked), (vec![4, 8], 9));
    }

    #[test]
    fn a_list_without_portions_is_cut_and_one_without_end_is_refused() {
        let whole = |_| Ok(Section { items: vec![1_u32, 2, 3], next: Bytes::new() });
        assert_eq!(first(2, whole).expect("a list"), [1, 2]);
        let same = |_| Ok(Section { items: vec![1_u32], next: Bytes::from_static(b"x") });
        assert_eq!(all(same).expect_err("the list has no end").kind, ErrorKind::Bug);
        let mut count = 0_u32;
        let mut next = || {
            count += 1;
            Bytes::from(count.to_le_bytes().to_vec())
        };
        let empty = |_| Ok(Section { items: Vec::<u32>::new(), next: next() });
        assert_eq!(all(empty).expect_err("the list has no end").kind, ErrorKind::Bug);
        let long = |_| Ok(Section { items: vec!["x".repeat(1 << 20)], next: next() });
        assert_eq!(all(long).expect_err("the list is too long").kind, ErrorKind::Bug);
    }
}
