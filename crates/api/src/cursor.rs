//! Cursors: places in lists, as callers get them and give them back.

use data_encoding::BASE64URL_NOPAD;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::fields::Page;
use crate::problem::Problem;

/// Default number of items of a page.
const ITEMS: usize = 100;
/// Maximum number of items of a page.
const ITEMS_MAX: u32 = 1_000;

/// The query of a list that takes no conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

impl ListQuery {
    /// Returns the part of the list that the query asks for.
    pub(crate) fn portion(&self) -> Result<Portion, Problem> {
        Portion::parse(self.limit, self.cursor.as_deref())
    }
}

/// The part of a list that a caller asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Portion {
    /// Key of the first item; `None` for the beginning of the list.
    from: Option<Vec<u8>>,
    limit: usize,
}

impl Portion {
    /// Parses the limit and the cursor of a request.
    pub(crate) fn parse(limit: Option<u32>, cursor: Option<&str>) -> Result<Self, Problem> {
        let limit = match limit {
            None => ITEMS,
            Some(limit @ 1..=ITEMS_MAX) => limit as usize,
            Some(_) => {
                return Err(Problem::invalid(format!("a page has 1 to {ITEMS_MAX} items")));
            }
        };
        let wrong = |_| Problem::invalid("the cursor is not one that this server has given");
        let decode = |cursor: &str| BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(wrong);
        Ok(Self { from: cursor.map(decode).transpose()?, limit })
    }

    /// Returns the whole of a list.
    pub(crate) fn everything() -> Self {
        Self { from: None, limit: usize::MAX - 1 }
    }

    /// Returns true at the beginning of the list.
    pub(crate) fn is_first(&self) -> bool {
        self.from.is_none()
    }

    /// Returns the number of items to read: one more than the page has tells whether it is the last
    /// page.
    pub(crate) fn read_max(&self) -> usize {
        self.limit + 1
    }

    /// Returns the key of the first item as text; empty at the beginning of the list.
    pub(crate) fn first_text(&self) -> Result<&str, Problem> {
        let Some(from) = &self.from else { return Ok("") };
        let text = std::str::from_utf8(from).ok().filter(|text| !text.contains('\0'));
        text.ok_or_else(|| Problem::invalid("the cursor is of another list"))
    }

    /// Returns the key of the first item as bytes; empty at the beginning of the list.
    pub(crate) fn first_bytes(&self) -> &[u8] {
        self.from.as_deref().unwrap_or_default()
    }

    /// Returns the key of the first item as a number.
    pub(crate) fn first_number(&self) -> Result<Option<u64>, Problem> {
        let Some(from) = &self.from else { return Ok(None) };
        let number = std::str::from_utf8(from).ok().and_then(|text| text.parse().ok());
        number
            .map(Some)
            .ok_or_else(|| Problem::invalid("the cursor is of another list"))
    }

    /// Makes a page of items that were read with [`Self::read_max`].
    pub(crate) fn page<T>(&self, mut items: Vec<T>, key: impl Fn(&T) -> Vec<u8>) -> Page<T> {
        let next = items.get(self.limit).map(|item| BASE64URL_NOPAD.encode(&key(item)));
        items.truncate(self.limit);
        Page { items, next }
    }

    /// Makes a page of the items that were found before looking ended at the item numbered
    /// `reached`, if it ended early.
    pub(crate) fn page_until<T>(
        &self,
        items: Vec<T>,
        key: impl Fn(&T) -> Vec<u8>,
        reached: Option<u64>,
    ) -> Page<T> {
        let page = self.page(items, key);
        let encode = |number: u64| BASE64URL_NOPAD.encode(number.to_string().as_bytes());
        Page { next: page.next.or_else(|| reached.map(encode)), ..page }
    }

    /// Makes a page of a whole list, whose keys ascend.
    pub(crate) fn page_of<T>(&self, all: Vec<T>, key: impl Fn(&T) -> Vec<u8>) -> Page<T> {
        let from = self.first_bytes();
        let rest = all.into_iter().skip_while(|item| &key(item)[..] < from);
        self.page(rest.take(self.read_max()).collect(), key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_make_up_the_list() {
        let all: Vec<String> = ('a'..='g').map(String::from).collect();
        let (mut read, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let portion = Portion::parse(Some(3), cursor.as_deref()).expect("is right");
            let page = portion.page_of(all.clone(), |item| item.clone().into_bytes());
            assert!(page.items.len() <= 3);
            read.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(read, all);
    }

    #[test]
    fn a_page_goes_on_where_looking_ended() {
        let portion = Portion::parse(Some(2), None).expect("is right");
        let next = |items: Vec<u64>, reached| {
            let page = portion.page_until(items, |item| item.to_string().into_bytes(), reached);
            let next = Portion::parse(None, page.next.as_deref()).expect("is right");
            (page.items.len(), next.first_number().expect("is a number"))
        };
        assert_eq!(next(vec![9, 8, 7], None), (2, Some(7)));
        assert_eq!(next(vec![9], None), (1, None));
        assert_eq!(next(vec![9], Some(5)), (1, Some(5)));
        assert_eq!(next(vec![], Some(5)), (0, Some(5)));
    }

    #[test]
    fn a_query_gives_its_portion() {
        let query = |json| serde_json::from_value::<ListQuery>(json);
        let asked =
            query(serde_json::json!({ "limit": 7, "cursor": BASE64URL_NOPAD.encode(b"x") }));
        let portion = asked.expect("is read").portion().expect("is right");
        assert_eq!((portion.read_max(), portion.first_bytes()), (8, &b"x"[..]));
        let portion = query(serde_json::json!({})).expect("is read").portion().expect("is right");
        assert!(portion.is_first() && portion.read_max() == ITEMS + 1);
        assert!(query(serde_json::json!({ "limit": 0 })).expect("is read").portion().is_err());
        assert!(
            query(serde_json::json!({ "state": "open" })).is_err(),
            "a list without conditions"
        );
    }

    #[test]
    fn wrong_portions_are_refused() {
        for limit in [0, 1_001] {
            assert!(Portion::parse(Some(limit), None).is_err(), "{limit}");
        }
        assert!(Portion::parse(None, Some("*")).is_err());
        let text = Portion::parse(None, Some(&BASE64URL_NOPAD.encode(b"x"))).expect("is right");
        assert!(text.first_number().is_err());
        let text = Portion::parse(None, Some(&BASE64URL_NOPAD.encode(b"x\0"))).expect("is right");
        assert!(text.first_text().is_err());
    }
}
