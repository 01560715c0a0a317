//! Look-up of pages by their keys, many in one statement, because each statement waits for the
//! network.

use model::FilespaceId;

use super::session::{Request, Session, Values};
use crate::sql::Row;
use crate::sql::pages::{PAGE, page_of};
use crate::{CatalogError, PageKey, PageRow};

/// Maximum number of keys in one statement.
const PAGES_AT_ONCE: usize = 512;

pub(super) fn pages_at(
    session: &Session,
    filespace: FilespaceId,
    keys: &[PageKey],
) -> Result<Vec<PageRow>, CatalogError> {
    // OFFSET makes the planner look up each key; without OFFSET the planner reads the whole of a
    // table that it regards as small.
    let select = format!(
        "SELECT found.* FROM unnest(CAST(?1 AS BYTEA[]), CAST(?2 AS BYTEA[]))
           AS asked(in_path, from_name)
         CROSS JOIN LATERAL (
           {PAGE} WHERE filespace = CAST(?3 AS BIGINT) AND path = in_path
             AND directory.first = from_name OFFSET 0
         ) AS found"
    );
    let requests: Vec<Request<'_>> = keys
        .chunks(PAGES_AT_ONCE)
        .map(|some| {
            let paths: Vec<&[u8]> = some.iter().map(|key| key.directory.as_bytes()).collect();
            let firsts: Vec<&[u8]> = some.iter().map(|key| &key.first[..]).collect();
            let of_filespace = i64::from(filespace.0);
            let values: Values<'_> =
                vec![Box::new(paths), Box::new(firsts), Box::new(of_filespace)];
            Request::Statement { text: &select, values }
        })
        .collect();
    let mut pages = Vec::new();
    for row in session.send(&requests)?.iter().flatten() {
        pages.push(page_of(&Row(row))?);
    }
    Ok(pages)
}
