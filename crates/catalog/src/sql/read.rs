//! Queries over pages, versions, packs and sessions.

use super::write::page_numbers;
use super::{Row, Sql, ToValue, params};
use crate::{
    CatalogError, PackRow, PackState, PageDigest, PageKey, PageRow, PageSpan, SessionRow,
    VersionRow,
};
use model::{
    DirPath, DirectoryDigest, DomainId, FilespaceId, Name, NodeId, PackNumber, PathHash, ServerTime,
};

fn damaged(what: &str) -> CatalogError {
    CatalogError::Damaged(format!("{what} is impossible"))
}

/// Calls `visit` with the digest rows of the query until it says `false`.
fn visit_digests(
    sql: &dyn Sql,
    select: &str,
    parameters: &[&dyn ToValue],
    visit: &mut dyn FnMut(&PageDigest) -> bool,
) -> Result<(), CatalogError> {
    sql.each(select, parameters, &mut |row| Ok(visit(&digest_columns(row)?)))
}

fn digest_columns(row: &Row<'_>) -> Result<PageDigest, CatalogError> {
    Ok(PageDigest {
        hash: PathHash(row.get(0)?),
        digest: row.get::<Option<[u8; 16]>>(1)?.map(DirectoryDigest),
        first: row.get::<Option<Vec<u8>>>(2)?.unwrap_or_default(),
    })
}

pub(crate) fn digests(
    sql: &dyn Sql,
    filespace: FilespaceId,
    within: &DirPath,
    visit: &mut dyn FnMut(&PageDigest) -> bool,
) -> Result<(), CatalogError> {
    if within.as_bytes().len() <= 1 {
        let (low, high) = page_numbers(filespace);
        let select = "SELECT hash, digest, first FROM digest WHERE id >= ? AND id < ?";
        return visit_digests(sql, select, &[&low, &high], visit);
    }
    let end = within.end_of_subtree().ok_or_else(|| damaged("a directory path"))?;
    let select = "SELECT hash, digest, digest.first FROM directory JOIN digest ON digest.id = page
                  WHERE filespace = ? AND path >= ? AND path < ?";
    visit_digests(sql, select, &[&filespace.0, &within.as_bytes(), &end], visit)
}

pub(crate) const PAGE: &str = "SELECT path, directory.first, objects, digest, body
                    FROM directory JOIN page ON page.id = page JOIN digest ON digest.id = page";

/// The page in a row of [`PAGE`].
pub(crate) fn page_of(row: &Row<'_>) -> Result<PageRow, CatalogError> {
    let path: Vec<u8> = row.get(0)?;
    let directory = DirPath::new(&path).map_err(|_| damaged("a page's directory path"))?;
    let (key, object_count) = (PageKey { directory, first: row.get(1)? }, row.get(2)?);
    let digest = row.get::<Option<[u8; 16]>>(3)?.map(DirectoryDigest);
    Ok(PageRow { key, object_count, digest, body: row.get(4)? })
}

pub(crate) fn page(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<Option<PageRow>, CatalogError> {
    let select = format!("{PAGE} WHERE filespace = ? AND path = ? AND directory.first = ?");
    let parameters = params![filespace.0, key.directory.as_bytes(), key.first];
    first_page(sql, &select, parameters)
}

pub(crate) fn page_holding(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    name: &[u8],
) -> Result<Option<PageRow>, CatalogError> {
    let select = format!(
        "{PAGE} WHERE filespace = ? AND path = ? AND directory.first <= ?
         ORDER BY directory.first DESC LIMIT 1"
    );
    let parameters = params![filespace.0, directory.as_bytes(), name];
    first_page(sql, &select, parameters)
}

fn first_page(
    sql: &dyn Sql,
    select: &str,
    parameters: &[&dyn ToValue],
) -> Result<Option<PageRow>, CatalogError> {
    sql.first(select, parameters, page_of)
}

pub(crate) fn pages(
    sql: &dyn Sql,
    filespace: FilespaceId,
    span: &PageSpan,
    after: Option<&PageKey>,
    limit: usize,
) -> Result<Vec<PageRow>, CatalogError> {
    let select = format!(
        "{PAGE} WHERE filespace = ?1 AND (path, directory.first) >= (?2, ?3)
           AND (path < ?4 OR ?4 IS NULL)
         ORDER BY path, directory.first LIMIT ?5"
    );
    let (low, high) = span.bounds();
    let low = (low.to_vec(), Vec::new());
    // In byte order nothing lies between a name and the same name with a NUL behind it.
    let behind =
        |key: &PageKey| (key.directory.as_bytes().to_vec(), [&key.first[..], &[0]].concat());
    let (path, first) = after.map(behind).map_or(low.clone(), |behind| behind.max(low));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters = params![filespace.0, path, first, high, limit];
    let rows: Vec<PageRow> = sql.all(&select, parameters, page_of)?;
    // Whoever asks on behind the last page must get further, even in a damaged tree.
    let starts_behind =
        |row: &PageRow| (row.key.directory.as_bytes(), &row.key.first) >= (&path[..], &first);
    if rows.first().is_none_or(starts_behind) && rows.is_sorted_by(|a, b| a.key < b.key) {
        Ok(rows)
    } else {
        Err(damaged("the order of pages"))
    }
}

pub(crate) fn version_directories(
    sql: &dyn Sql,
    filespace: FilespaceId,
    span: &PageSpan,
    after: Option<&DirPath>,
    limit: usize,
) -> Result<Vec<DirPath>, CatalogError> {
    // One seek a directory, however many versions it has.
    let select = "SELECT directory FROM version WHERE filespace = ?1 AND directory >= ?2
                    AND (directory < ?3 OR ?3 IS NULL) ORDER BY directory LIMIT 1";
    let (low, high) = span.bounds();
    let behind = |path: &DirPath| [path.as_bytes(), &[0]].concat();
    let mut from = after.map_or_else(|| low.to_vec(), behind).max(low.to_vec());
    let mut directories = Vec::new();
    while directories.len() < limit {
        let found: Option<Vec<u8>> =
            sql.first(select, params![filespace.0, from, high], |row| row.get(0))?;
        let Some(path) = found else { break };
        // A damaged tree answers with what lies before: asked on from there, it would never end.
        if path < from {
            return Err(damaged("the order of versions"));
        }
        let path = DirPath::new(&path).map_err(|_| damaged("a version's directory path"))?;
        from = behind(&path);
        directories.push(path);
    }
    Ok(directories)
}

pub(crate) fn versions(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<Vec<VersionRow>, CatalogError> {
    let select = "SELECT name, inserted, deactivated, body FROM version
                  WHERE filespace = ? AND directory = ?
                  ORDER BY name, deactivated DESC, inserted DESC";
    sql.all(select, params![filespace.0, directory.as_bytes()], |row| {
        let name: Vec<u8> = row.get(0)?;
        Ok(VersionRow {
            directory: directory.clone(),
            name: Name::new(&name).map_err(|_| damaged("a version's name"))?,
            inserted: ServerTime(row.get(1)?),
            deactivated: ServerTime(row.get(2)?),
            body: row.get(3)?,
        })
    })
}

pub(crate) fn count_objects(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<u64, CatalogError> {
    let select = "SELECT CAST(coalesce(sum(objects), 0) AS BIGINT) FROM directory
                  WHERE filespace = ?1 AND path >= ?2 AND (path < ?3 OR ?3 IS NULL)";
    let parameters = params![filespace.0, directory.as_bytes(), directory.end_of_subtree()];
    sql.one(select, parameters, |row| row.get(0))
}

pub(crate) fn packs(sql: &dyn Sql) -> Result<Vec<PackRow>, CatalogError> {
    let select = "SELECT number, domain, sealed, bytes, node FROM pack ORDER BY number";
    sql.all(select, &[], |row| pack(row, 0))
}

/// A row of `pack` whose columns begin at `first`.
pub(crate) fn pack(row: &Row<'_>, first: usize) -> Result<PackRow, CatalogError> {
    Ok(PackRow {
        number: PackNumber(row.get(first)?),
        domain: DomainId(row.get(first + 1)?),
        state: row.coded(first + 2, &PackState::ALL)?,
        bytes: row.get(first + 3)?,
        node: row.get::<Option<u32>>(first + 4)?.map(NodeId),
    })
}

pub(crate) fn next_pack(sql: &dyn Sql) -> Result<PackNumber, CatalogError> {
    let select = "SELECT value + 1 FROM counter WHERE name = 'pack'";
    let next: u64 = sql.one(select, &[], |row| row.get(0))?;
    if next < 1 << 39 { Ok(PackNumber(next)) } else { Err(damaged("the count of packs")) }
}

pub(crate) fn sessions(
    sql: &dyn Sql,
    node: NodeId,
    limit: usize,
) -> Result<Vec<SessionRow>, CatalogError> {
    let select = "SELECT node, filespace, started, ended, complete, report FROM session
                  WHERE node = ? ORDER BY id DESC LIMIT ?";
    let columns = |row: &Row<'_>| {
        Ok(SessionRow {
            node: NodeId(row.get(0)?),
            filespace: FilespaceId(row.get(1)?),
            started: ServerTime(row.get(2)?),
            ended: ServerTime(row.get(3)?),
            complete: row.get(4)?,
            report: row.get(5)?,
        })
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    sql.all(select, params![node.0, limit], columns)
}
