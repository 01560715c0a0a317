//! Look-up of pages by their keys, many in one statement, because each statement waits for the
//! network.

use model::FilespaceId;

use crate::sql::pages::{PAGE, page_of};
use crate::sql::{Sql, ToValue};
use crate::{CatalogError, PageKey, PageRow};

/// Number of keys in one statement.
const PAGES_AT_ONCE: usize = 32;

pub(super) fn pages_at(
    sql: &dyn Sql,
    filespace: FilespaceId,
    keys: &[PageKey],
) -> Result<Vec<PageRow>, CatalogError> {
    // The number of keys is fixed, so that the statement is prepared once. OFFSET makes the planner
    // look up each key; without OFFSET the planner reads the whole of a table that it regards as
    // small.
    let values = vec!["(CAST(? AS bytea), CAST(? AS bytea))"; PAGES_AT_ONCE].join(", ");
    let select = format!(
        "SELECT found.* FROM (VALUES {values}) AS asked(in_path, from_name)
         CROSS JOIN LATERAL (
           {PAGE} WHERE filespace = ? AND path = in_path AND directory.first = from_name OFFSET 0
         ) AS found"
    );
    let mut rows = Vec::new();
    for some in keys.chunks(PAGES_AT_ONCE) {
        let paths: Vec<&[u8]> = some.iter().map(|key| key.directory.as_bytes()).collect();
        let mut parameters: Vec<&dyn ToValue> = Vec::with_capacity(2 * PAGES_AT_ONCE + 1);
        for (path, key) in paths.iter().zip(some) {
            parameters.extend([path as &dyn ToValue, &key.first]);
        }
        // No page has the key NULL.
        parameters.resize(2 * PAGES_AT_ONCE, &None::<Vec<u8>>);
        parameters.push(&filespace.0);
        assert_eq!(parameters.len(), 2 * PAGES_AT_ONCE + 1, "one value for each parameter");
        let found: Vec<PageRow> = sql.all(&select, &parameters, page_of)?;
        rows.extend(found);
    }
    Ok(rows)
}
