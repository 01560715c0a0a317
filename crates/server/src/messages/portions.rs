//! Portions of lists.
//!
//! The items of a list are sorted by a key that does not change. A portion begins at a key, even if
//! no item has that key. So an item that is added or removed between two portions neither repeats
//! nor hides other items.

use bytes::Bytes;
use prost::Message;
use store::StoreError;
use store::volumes::VolumeKey;
use wire::{MESSAGE_BYTES_MAX, PORTION_ITEMS_MAX, proto};

/// Maximum size of the items in a portion, in bytes. A single item may be larger.
const PORTION_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 4;

/// Portion of a list that a client requests.
pub(crate) struct Portion {
    /// Key of the first item; empty for the beginning of the list.
    from: Bytes,
    /// Maximum number of items; `None` for the whole list in one message.
    items_max: Option<usize>,
}

/// Items of one reply.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Section<T> {
    pub(crate) items: Vec<T>,
    /// Key of the item that follows; empty after the last item.
    pub(crate) next: Bytes,
}

impl Portion {
    pub(crate) fn parse(message: Option<proto::Portion>) -> Self {
        let Some(proto::Portion { items_max, from }) = message else {
            return Self { from: Bytes::new(), items_max: None };
        };
        let items_max = super::positive(items_max).unwrap_or(PORTION_ITEMS_MAX);
        Self { from, items_max: Some(items_max.min(PORTION_ITEMS_MAX) as usize) }
    }

    /// Limits the portion to `items_max` items, for lists of large items. A request for the whole
    /// list gets a portion, too.
    pub(crate) fn at_most(self, items_max: usize) -> Self {
        assert!(items_max > 0, "a portion without items makes no progress");
        Self { items_max: Some(self.items_max.unwrap_or(items_max).min(items_max)), ..self }
    }

    /// Number of items to read: one more than the portion may have, because the key of the
    /// additional item is the start of the next portion.
    pub(crate) fn read_max(&self) -> usize {
        self.items_max.map_or(usize::MAX, |items_max| items_max + 1)
    }

    pub(crate) fn first(&self) -> &[u8] {
        &self.from
    }

    /// Parses the start of a portion of a list by numbers.
    pub(crate) fn first_number(&self) -> Result<Option<u64>, StoreError> {
        if self.from.is_empty() {
            return Ok(None);
        }
        let number = <[u8; 8]>::try_from(&self.from[..]);
        number.map(|number| Some(u64::from_be_bytes(number))).map_err(|_| malformed())
    }

    /// Parses the start of a portion of a list by names.
    pub(crate) fn first_name(&self) -> Result<&str, StoreError> {
        str::from_utf8(&self.from).map_err(|_| malformed())
    }

    /// Parses the start of a portion of a list of volumes.
    pub(crate) fn first_volume(&self) -> Result<VolumeKey, StoreError> {
        let name = self.first_name()?;
        if name.is_empty() {
            return Ok(VolumeKey::default());
        }
        let (library, name) = name.split_once('\0').ok_or_else(malformed)?;
        Ok(VolumeKey { library: library.to_owned(), name: name.to_owned() })
    }

    /// Makes the portion of a list that is in memory as a whole. `key` is a key of each item by
    /// which the list is sorted.
    pub(crate) fn of_list<I, T: Message>(
        &self,
        items: Vec<I>,
        key: impl Fn(&I) -> Bytes,
        message: impl Fn(I) -> T,
    ) -> Section<T> {
        let keyed = items.into_iter().map(|item| (key(&item), item));
        let mut keyed: Vec<(Bytes, I)> = keyed.filter(|(key, _)| *key >= self.from).collect();
        keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (keys, items): (Vec<Bytes>, Vec<I>) = keyed.into_iter().unzip();
        let Section { items, .. } =
            self.cut(items.into_iter().map(message).collect(), |_| Bytes::new());
        let next = keys.get(items.len()).cloned().unwrap_or_default();
        Section { items, next }
    }

    /// Reduces `items`, which were read for this portion, to the items of the portion.
    pub(crate) fn cut<T: Message>(
        &self,
        mut items: Vec<T>,
        key: impl FnOnce(&T) -> Bytes,
    ) -> Section<T> {
        let Some(items_max) = self.items_max else { return Section { items, next: Bytes::new() } };
        let mut bytes = 0;
        let is_within = |item: &T| {
            bytes += item.encoded_len();
            bytes <= PORTION_BYTES_MAX
        };
        let within = items.iter().take(items_max).map(is_within).take_while(|within| *within);
        // A portion without items would make no progress through the list.
        let count = within.count().max(1);
        let next = items.get(count).map(key).unwrap_or_default();
        items.truncate(count);
        Section { items, next }
    }
}

/// Key of an item with this number.
pub(crate) fn number_key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Key of a volume.
pub(crate) fn volume_key(volume: &proto::VolumeInfo) -> Bytes {
    format!("{}\0{}", volume.library, volume.name).into()
}

fn malformed() -> StoreError {
    StoreError::malformed("the start of a portion of a list is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(items_max: u32, from: &[u8]) -> Portion {
        let from = Bytes::copy_from_slice(from);
        Portion::parse(Some(proto::Portion { items_max, from }))
    }

    /// Cuts a portion of `items_max` items from events of `bytes` bytes each, numbered from 1.
    #[track_caller]
    fn check(items_max: u32, count: u64, bytes: usize, expected: u64, next: Option<u64>) {
        let event = |number| proto::Event { number, details: "x".repeat(bytes), ..<_>::default() };
        let section = portion(items_max, b"")
            .cut((1..=count).map(event).collect(), |event| number_key(event.number));
        assert_eq!(section.items.len() as u64, expected);
        assert!(section.items.iter().map(|event| event.number).eq(1..=expected));
        assert_eq!(section.next, next.map(number_key).unwrap_or_default());
    }

    #[test]
    fn a_portion_ends_at_its_number_of_items_and_of_bytes() {
        check(3, 0, 1, 0, None);
        check(3, 3, 1, 3, None);
        check(3, 4, 1, 3, Some(4));
        check(1, 2, 1, 1, Some(2));
        check(0, 1001, 1, 1000, Some(1001));
        check(9999, 1001, 1, 1000, Some(1001));
        check(9, 9, PORTION_BYTES_MAX / 3, 2, Some(3));
        check(9, 2, PORTION_BYTES_MAX + 1, 1, Some(2));
    }

    #[test]
    fn a_list_in_memory_is_sorted_and_cut() {
        let section = |items_max, from: &[u8]| {
            let event = |number| proto::Event { number, ..<_>::default() };
            let list = vec![4, 2, 9, 7];
            let Section { items, next } =
                portion(items_max, from).of_list(list, |number| number_key(*number), event);
            (items.iter().map(|event| event.number).collect::<Vec<_>>(), next)
        };
        assert_eq!(section(2, b""), (vec![2, 4], number_key(7)));
        assert_eq!(section(2, &number_key(7)), (vec![7, 9], Bytes::new()));
        assert_eq!(section(2, &number_key(5)), (vec![7, 9], Bytes::new()), "5 is gone");
        assert_eq!(section(9, &number_key(10)), (vec![], Bytes::new()));
    }

    #[test]
    fn a_request_without_a_portion_gets_the_whole_list() {
        let portion = Portion::parse(None);
        assert_eq!((portion.read_max(), portion.first()), (usize::MAX, &b""[..]));
        let items = vec![proto::Event::default(); 1500];
        let section = portion.cut(items, |_| panic!("nothing is left out"));
        assert_eq!((section.items.len(), section.next), (1500, Bytes::new()));
    }

    #[test]
    fn a_portion_of_large_items_has_fewer() {
        for (items_max, limit, expected) in [(9, 3, 4), (2, 3, 3), (0, 3, 4)] {
            assert_eq!(portion(items_max, b"").at_most(limit).read_max(), expected);
        }
        assert_eq!(Portion::parse(None).at_most(3).read_max(), 4);
    }

    #[test]
    fn a_portion_begins_where_the_one_before_says() {
        assert_eq!(portion(1, b"").first_number(), Ok(None));
        assert_eq!(portion(1, &number_key(258)).first_number(), Ok(Some(258)));
        assert!(portion(1, b"1234567").first_number().is_err());
        assert!(portion(1, b"\xff").first_name().is_err());
        let [library, name] = ["vault", "A00001"].map(str::to_owned);
        let key = volume_key(&proto::VolumeInfo {
            library: library.clone(),
            name: name.clone(),
            ..<_>::default()
        });
        assert_eq!(portion(1, &key).first_volume(), Ok(VolumeKey { library, name }));
        assert_eq!(portion(1, b"").first_volume(), Ok(VolumeKey::default()));
        assert!(portion(1, b"vault").first_volume().is_err());
    }
}
