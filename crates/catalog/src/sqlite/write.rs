//! The writes of a batch.

use std::collections::BTreeSet;

use format::path_hash;
use model::FilespaceId;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{CatalogError, archive, database, expiry, policy, tape};
use crate::{Day, PackRow, PackState, PageKey, PageRow, SessionRow, VersionRow, Write};

/// Bits of a page's number that count within its filespace.
const PAGE_COUNT_BITS: u32 = 36;

/// The page numbers of a filespace: from, and up to but not including. There are none for
/// filespaces numbered beyond what leaves room for the count.
pub(super) fn page_numbers(filespace: FilespaceId) -> (i64, i64) {
    let count = 1_i64 << PAGE_COUNT_BITS;
    let low = i64::from(filespace.0).saturating_mul(count);
    (low, low.saturating_add(count))
}

pub(super) fn perform(connection: &Connection, writes: &[Write]) -> Result<(), CatalogError> {
    let filespaces: BTreeSet<FilespaceId> = writes.iter().filter_map(Write::filespace).collect();
    filespaces
        .into_iter()
        .try_for_each(|filespace| find_filespace(connection, filespace))?;
    for write in writes {
        match write {
            Write::PutPage { filespace, page } => put_page(connection, *filespace, page),
            Write::RemovePage { filespace, key } => remove_page(connection, *filespace, key),
            Write::AddVersion { filespace, version } => {
                add_version(connection, *filespace, version)
            }
            Write::DropVersions { filespace, directory, versions } => {
                expiry::drop_versions(connection, *filespace, directory, versions)
            }
            Write::MarkDirectory { filespace, directory, day } => {
                expiry::mark(connection, *filespace, directory, *day)
            }
            Write::UnmarkDirectory { filespace, directory, day } => {
                expiry::unmark(connection, *filespace, directory, *day)
            }
            Write::SetExpiry { filespace, state } => expiry::set(connection, *filespace, *state),
            Write::AddEvent(event) => policy::add_event(connection, event),
            Write::SetArchive { number, change } => archive::set(connection, *number, change),
            Write::Trash { deletion, filespace, version } => {
                archive::add_to_trash(connection, *deletion, *filespace, version)
            }
            Write::EmptyTrash { deletion } => archive::empty_trash(connection, *deletion),
            Write::RewritePage { filespace, key, old, new } => {
                rewrite_page(connection, *filespace, key, (old, new))
            }
            Write::RewriteVersion { filespace, version, new } => {
                rewrite_version(connection, None, *filespace, version, new)
            }
            Write::RewriteTrash { deletion, filespace, version, new } => {
                rewrite_version(connection, Some(*deletion), *filespace, version, new)
            }
            Write::RemovePack(pack) => {
                execute(connection, "DELETE FROM pack WHERE number = ?", &[&pack.0]).map(drop)
            }
            Write::PutPack(pack) => put_pack(connection, pack),
            Write::PutVolume(volume) => tape::put_volume(connection, volume),
            Write::PutParts { pool, stored, parts } => {
                tape::put_parts(connection, *pool, stored, parts)
            }
            Write::RemoveParts { pool, pack } => tape::remove_parts(connection, *pool, *pack),
            Write::AddSession(session) => add_session(connection, session),
        }?;
    }
    Ok(())
}

/// Fails when the filespace is gone: what was written to it would belong to nobody.
fn find_filespace(connection: &Connection, filespace: FilespaceId) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM filespace WHERE id = ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let found = statement.exists([filespace.0]).map_err(database)?;
    if found { Ok(()) } else { Err(CatalogError::NotFound { what: "the filespace" }) }
}

pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    parameters: &[&dyn rusqlite::ToSql],
) -> Result<usize, CatalogError> {
    let mut statement = connection.prepare_cached(sql).map_err(database)?;
    statement.execute(parameters).map_err(database)
}

fn page_number(
    connection: &Connection,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<Option<i64>, CatalogError> {
    let select = "SELECT page FROM directory WHERE filespace = ? AND path = ? AND first = ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let parameters = params![filespace.0, key.directory.as_bytes(), key.first];
    statement.query_row(parameters, |row| row.get(0)).optional().map_err(database)
}

fn next_page_number(connection: &Connection, filespace: FilespaceId) -> Result<i64, CatalogError> {
    let (low, high) = page_numbers(filespace);
    let select = "SELECT max(id) FROM page WHERE id >= ? AND id < ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let last: Option<i64> = statement.query_row([low, high], |row| row.get(0)).map_err(database)?;
    let next = last.map_or(low, |last| last + 1);
    if next < high {
        Ok(next)
    } else {
        Err(super::failed("the filespace has used up its page numbers"))
    }
}

fn put_page(
    connection: &Connection,
    filespace: FilespaceId,
    page: &PageRow,
) -> Result<(), CatalogError> {
    let number = match page_number(connection, filespace, &page.key)? {
        Some(number) => number,
        None => next_page_number(connection, filespace)?,
    };
    let PageKey { directory, first } = &page.key;
    let put = "INSERT INTO directory VALUES(?, ?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET objects = excluded.objects";
    execute(
        connection,
        put,
        &[&filespace.0, &directory.as_bytes(), first, &number, &page.object_count],
    )?;
    let put = "INSERT INTO page VALUES(?, ?) ON CONFLICT DO UPDATE SET body = excluded.body";
    execute(connection, put, &[&number, &page.body])?;
    let put = "INSERT INTO digest VALUES(?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET digest = excluded.digest";
    let digest = page.digest.as_ref().map(|digest| digest.0.as_slice());
    let first = (!first.is_empty()).then_some(first);
    execute(connection, put, &[&number, &path_hash(directory).0.as_slice(), &digest, &first])?;
    Ok(())
}

fn remove_page(
    connection: &Connection,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<(), CatalogError> {
    let Some(number) = page_number(connection, filespace, key)? else { return Ok(()) };
    let delete = "DELETE FROM directory WHERE filespace = ? AND path = ? AND first = ?";
    execute(connection, delete, &[&filespace.0, &key.directory.as_bytes(), &key.first])?;
    execute(connection, "DELETE FROM page WHERE id = ?", &[&number])?;
    execute(connection, "DELETE FROM digest WHERE id = ?", &[&number])?;
    Ok(())
}

fn add_version(
    connection: &Connection,
    filespace: FilespaceId,
    version: &VersionRow,
) -> Result<(), CatalogError> {
    // The same object deactivated twice in a microsecond is the same state.
    let insert = "INSERT OR REPLACE INTO version VALUES(?, ?, ?, ?, ?, ?)";
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    execute(
        connection,
        insert,
        &[&filespace.0, &directory, &name, &deactivated.0, &inserted.0, body],
    )?;
    expiry::add_ending(connection, filespace, &version.directory, Day::of(*deactivated))
}

fn rewrite_page(
    connection: &Connection,
    filespace: FilespaceId,
    key: &PageKey,
    (old, new): (&[u8], &[u8]),
) -> Result<(), CatalogError> {
    let Some(number) = page_number(connection, filespace, key)? else { return Ok(()) };
    let update = "UPDATE page SET body = ? WHERE id = ? AND body = ?";
    execute(connection, update, &[&new, &number, &old]).map(drop)
}

/// Rewrites an inactive version, or one that a deletion took aside.
fn rewrite_version(
    connection: &Connection,
    deletion: Option<u64>,
    filespace: FilespaceId,
    version: &VersionRow,
    new: &[u8],
) -> Result<(), CatalogError> {
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    let key = "filespace = ? AND directory = ? AND name = ? AND deactivated = ? AND inserted = ?
               AND body = ?";
    let own: [&dyn rusqlite::ToSql; 7] =
        [&new, &filespace.0, &directory, &name, &deactivated.0, &inserted.0, body];
    match &deletion {
        None => {
            let update = format!("UPDATE version SET body = ? WHERE {key}");
            execute(connection, &update, &own).map(drop)
        }
        Some(deletion) => {
            let update = format!("UPDATE trash SET body = ? WHERE {key} AND deletion = ?");
            let values: Vec<&dyn rusqlite::ToSql> =
                own.into_iter().chain([deletion as &dyn rusqlite::ToSql]).collect();
            execute(connection, &update, &values).map(drop)
        }
    }
}

fn put_pack(connection: &Connection, pack: &PackRow) -> Result<(), CatalogError> {
    // Commits may overtake each other: news of an open pack is old where it is known to be sealed.
    let put = "INSERT INTO pack VALUES(?, ?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET sealed = excluded.sealed, bytes = excluded.bytes,
                 node = coalesce(excluded.node, node)
               WHERE sealed = 0 OR excluded.sealed != 0";
    let sealed = match pack.state {
        PackState::Open => 0,
        PackState::Sealed => 1,
        PackState::Condemned => 2,
        PackState::Damaged => 3,
    };
    let node = pack.node.map(|node| node.0);
    execute(connection, put, &[&pack.number.0, &pack.domain.0, &sealed, &pack.bytes, &node])?;
    Ok(())
}

fn add_session(connection: &Connection, session: &SessionRow) -> Result<(), CatalogError> {
    let insert = "INSERT INTO session(node, filespace, started, ended, complete, report)
                  VALUES(?, ?, ?, ?, ?, ?)";
    let SessionRow { node, filespace, started, ended, complete, report } = session;
    execute(connection, insert, &[&node.0, &filespace.0, &started.0, &ended.0, complete, report])?;
    if *complete {
        let update = "UPDATE filespace SET last_backup = ? WHERE id = ?";
        execute(connection, update, &[&started.0, &filespace.0])?;
    }
    Ok(())
}
