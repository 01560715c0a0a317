//! Pages by their keys, many in one statement: each statement waits for the network.

use model::FilespaceId;

use crate::sql::read::{PAGE, page_of};
use crate::sql::{Sql, ToValue};
use crate::{CatalogError, PageKey, PageRow};

/// Pages that one statement asks for.
const PAGES_AT_ONCE: usize = 32;

pub(super) fn pages_at(
    sql: &dyn Sql,
    filespace: FilespaceId,
    keys: &[PageKey],
) -> Result<Vec<PageRow>, CatalogError> {
    // Always as many, so that it is prepared once. OFFSET has the planner look each of them up by
    // itself, where it would read the whole of a table that it takes for small.
    let wanted = vec!["(CAST(? AS bytea), CAST(? AS bytea))"; PAGES_AT_ONCE].join(", ");
    let select = format!(
        "SELECT found.* FROM (VALUES {wanted}) AS wanted(in_path, from_name)
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
        // Nothing is found at what is nothing.
        parameters.resize(2 * PAGES_AT_ONCE, &None::<Vec<u8>>);
        parameters.push(&filespace.0);
        let found: Vec<PageRow> = sql.all(&select, &parameters, page_of)?;
        rows.extend(found);
    }
    Ok(rows)
}
