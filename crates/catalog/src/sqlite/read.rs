//! Queries over pages, versions, packs and sessions.

use model::{
    DirPath, DirectoryDigest, DomainId, FilespaceId, Name, NodeId, PackNumber, PathHash, ServerTime,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::write::page_numbers;
use super::{CatalogError, database};
use crate::{PackRow, PackState, PageDigest, PageKey, PageRow, PageSpan, SessionRow, VersionRow};

fn damaged(what: &str) -> CatalogError {
    CatalogError::Damaged(format!("{what} is impossible"))
}

/// Calls `visit` with the digest rows of the query until it says `false`.
fn visit_digests(
    connection: &Connection,
    select: &str,
    parameters: &[&dyn rusqlite::ToSql],
    visit: &mut dyn FnMut(&PageDigest) -> bool,
) -> Result<(), CatalogError> {
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let mut rows = statement.query(parameters).map_err(database)?;
    while let Some(row) = rows.next().map_err(database)? {
        let digest = digest_columns(row).map_err(database)?;
        if !visit(&digest) {
            break;
        }
    }
    Ok(())
}

fn digest_columns(row: &Row<'_>) -> rusqlite::Result<PageDigest> {
    Ok(PageDigest {
        hash: PathHash(row.get(0)?),
        digest: row.get::<_, Option<[u8; 16]>>(1)?.map(DirectoryDigest),
        first: row.get::<_, Option<Vec<u8>>>(2)?.unwrap_or_default(),
    })
}

pub(super) fn digests(
    connection: &Connection,
    filespace: FilespaceId,
    within: &DirPath,
    visit: &mut dyn FnMut(&PageDigest) -> bool,
) -> Result<(), CatalogError> {
    if within.as_bytes().len() <= 1 {
        let (low, high) = page_numbers(filespace);
        let select = "SELECT hash, digest, first FROM digest WHERE id >= ? AND id < ?";
        return visit_digests(connection, select, &[&low, &high], visit);
    }
    let end = within.end_of_subtree().ok_or_else(|| damaged("a directory path"))?;
    let select = "SELECT hash, digest, digest.first FROM directory JOIN digest ON digest.id = page
                  WHERE filespace = ? AND path >= ? AND path < ?";
    visit_digests(connection, select, &[&filespace.0, &within.as_bytes(), &end], visit)
}

const PAGE: &str = "SELECT path, directory.first, objects, digest, body
                    FROM directory JOIN page ON page.id = page JOIN digest ON digest.id = page";

type PageColumns = (Vec<u8>, Vec<u8>, u32, Option<[u8; 16]>, Vec<u8>);

fn page_columns(row: &Row<'_>) -> rusqlite::Result<PageColumns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
}

fn page_row(columns: PageColumns) -> Result<PageRow, CatalogError> {
    let (path, first, object_count, digest, body) = columns;
    let directory = DirPath::new(&path).map_err(|_| damaged("a page's directory path"))?;
    let digest = digest.map(DirectoryDigest);
    Ok(PageRow { key: PageKey { directory, first }, object_count, digest, body })
}

pub(super) fn page(
    connection: &Connection,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<Option<PageRow>, CatalogError> {
    let select = format!("{PAGE} WHERE filespace = ? AND path = ? AND directory.first = ?");
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let parameters = params![filespace.0, key.directory.as_bytes(), key.first];
    let found = statement.query_row(parameters, page_columns).optional().map_err(database)?;
    found.map(page_row).transpose()
}

pub(super) fn page_holding(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
    name: &[u8],
) -> Result<Option<PageRow>, CatalogError> {
    let select = format!(
        "{PAGE} WHERE filespace = ? AND path = ? AND directory.first <= ?
         ORDER BY directory.first DESC LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let parameters = params![filespace.0, directory.as_bytes(), name];
    let found = statement.query_row(parameters, page_columns).optional().map_err(database)?;
    found.map(page_row).transpose()
}

pub(super) fn pages(
    connection: &Connection,
    filespace: FilespaceId,
    span: &PageSpan,
    after: Option<&PageKey>,
    limit: usize,
) -> Result<Vec<PageRow>, CatalogError> {
    let select = format!(
        "{PAGE} WHERE filespace = ?1 AND (path, directory.first) >= (?2, ?3)
           AND (?4 IS NULL OR path < ?4)
         ORDER BY path, directory.first LIMIT ?5"
    );
    let (low, high) = span.bounds();
    let low = (low.to_vec(), Vec::new());
    // In byte order nothing lies between a name and the same name with a NUL behind it.
    let behind =
        |key: &PageKey| (key.directory.as_bytes().to_vec(), [&key.first[..], &[0]].concat());
    let (path, first) = after.map(behind).map_or(low.clone(), |behind| behind.max(low));
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let parameters = params![filespace.0, path, first, high, limit];
    let rows = statement.query_map(parameters, page_columns).map_err(database)?;
    let rows: Vec<PageRow> =
        rows.map(|row| page_row(row.map_err(database)?)).collect::<Result<_, _>>()?;
    // Whoever asks on behind the last page must get further, even in a damaged tree.
    let starts_behind =
        |row: &PageRow| (row.key.directory.as_bytes(), &row.key.first) >= (&path[..], &first);
    if rows.first().is_none_or(starts_behind) && rows.is_sorted_by(|a, b| a.key < b.key) {
        Ok(rows)
    } else {
        Err(damaged("the order of pages"))
    }
}

pub(super) fn version_directories(
    connection: &Connection,
    filespace: FilespaceId,
    span: &PageSpan,
    after: Option<&DirPath>,
    limit: usize,
) -> Result<Vec<DirPath>, CatalogError> {
    // One seek a directory, however many versions it has.
    let select = "SELECT directory FROM version WHERE filespace = ?1 AND directory >= ?2
                    AND (?3 IS NULL OR directory < ?3) ORDER BY directory LIMIT 1";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let (low, high) = span.bounds();
    let behind = |path: &DirPath| [path.as_bytes(), &[0]].concat();
    let mut from = after.map_or_else(|| low.to_vec(), behind).max(low.to_vec());
    let mut directories = Vec::new();
    while directories.len() < limit {
        let found: Option<Vec<u8>> = statement
            .query_row(params![filespace.0, from, high], |row| row.get(0))
            .optional()
            .map_err(database)?;
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

pub(super) fn versions(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<Vec<VersionRow>, CatalogError> {
    let select = "SELECT name, inserted, deactivated, body FROM version
                  WHERE filespace = ? AND directory = ?
                  ORDER BY name, deactivated DESC, inserted DESC";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let mut rows = statement.query(params![filespace.0, directory.as_bytes()]).map_err(database)?;
    let mut versions = Vec::new();
    while let Some(row) = rows.next().map_err(database)? {
        let name: Vec<u8> = row.get(0).map_err(database)?;
        versions.push(VersionRow {
            directory: directory.clone(),
            name: Name::new(&name).map_err(|_| damaged("a version's name"))?,
            inserted: ServerTime(row.get(1).map_err(database)?),
            deactivated: ServerTime(row.get(2).map_err(database)?),
            body: row.get(3).map_err(database)?,
        });
    }
    Ok(versions)
}

pub(super) fn count_objects(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<u64, CatalogError> {
    let select = "SELECT coalesce(sum(objects), 0) FROM directory
                  WHERE filespace = ?1 AND path >= ?2 AND (?3 IS NULL OR path < ?3)";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let parameters = params![filespace.0, directory.as_bytes(), directory.end_of_subtree()];
    statement.query_row(parameters, |row| row.get(0)).map_err(database)
}

pub(super) fn packs(connection: &Connection) -> Result<Vec<PackRow>, CatalogError> {
    let select = "SELECT number, domain, sealed, bytes, node FROM pack ORDER BY number";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let columns = |row: &Row<'_>| {
        Ok(PackRow {
            number: PackNumber(row.get(0)?),
            domain: DomainId(row.get(1)?),
            state: match row.get(2)? {
                0 => PackState::Open,
                1 => PackState::Sealed,
                2 => PackState::Condemned,
                _ => PackState::Damaged,
            },
            bytes: row.get(3)?,
            node: row.get::<_, Option<u32>>(4)?.map(NodeId),
        })
    };
    let rows = statement.query_map([], columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

pub(super) fn next_pack(connection: &Connection) -> Result<PackNumber, CatalogError> {
    let select = "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'pack'";
    let next: u64 = connection.query_row(select, [], |row| row.get(0)).map_err(database)?;
    if next < 1 << 39 { Ok(PackNumber(next)) } else { Err(damaged("the count of packs")) }
}

pub(super) fn sessions(
    connection: &Connection,
    node: NodeId,
    limit: usize,
) -> Result<Vec<SessionRow>, CatalogError> {
    let select = "SELECT node, filespace, started, ended, complete, report FROM session
                  WHERE node = ? ORDER BY id DESC LIMIT ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
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
    let rows = statement.query_map(params![node.0, limit], columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}
