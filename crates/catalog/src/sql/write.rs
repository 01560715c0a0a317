//! The writes of a batch.

use std::collections::BTreeSet;

use super::{Sql, ToValue, archive, code, expiry, params, policy, tape, tasks};
use crate::{
    CatalogError, Day, PackRow, PackState, PageKey, PageRow, SessionRow, VersionRow, Write,
};
use format::path_hash;
use model::FilespaceId;

/// Bits of a page's number that count within its filespace.
pub(crate) const PAGE_COUNT_BITS: u32 = 36;

/// The page numbers of a filespace: from, and up to but not including. There are none for
/// filespaces numbered beyond what leaves room for the count.
pub(crate) fn page_numbers(filespace: FilespaceId) -> (i64, i64) {
    let count = 1_i64 << PAGE_COUNT_BITS;
    let low = i64::from(filespace.0).saturating_mul(count);
    (low, low.saturating_add(count))
}

pub(crate) fn perform(sql: &dyn Sql, writes: &[Write]) -> Result<(), CatalogError> {
    let filespaces: BTreeSet<FilespaceId> = writes.iter().filter_map(Write::filespace).collect();
    filespaces
        .into_iter()
        .try_for_each(|filespace| find_filespace(sql, filespace))?;
    writes.iter().try_for_each(|write| perform_one(sql, write))
}

pub(crate) fn perform_one(sql: &dyn Sql, write: &Write) -> Result<(), CatalogError> {
    match write {
        Write::PutPage { filespace, page } => put_page(sql, *filespace, page),
        Write::RemovePage { filespace, key } => remove_page(sql, *filespace, key),
        Write::AddVersion { filespace, version } => add_version(sql, *filespace, version),
        Write::DropVersions { filespace, directory, versions } => {
            expiry::drop_versions(sql, *filespace, directory, versions)
        }
        Write::MarkDirectory { filespace, directory, day } => {
            expiry::mark(sql, *filespace, directory, *day)
        }
        Write::UnmarkDirectory { filespace, directory, day } => {
            expiry::unmark(sql, *filespace, directory, *day)
        }
        Write::SetExpiry { filespace, state } => expiry::set(sql, *filespace, *state),
        Write::BeginTask { task, due, started } => tasks::begin(sql, task, *due, *started),
        Write::EndTask { task, end } => tasks::end(sql, task, end),
        Write::AddEvent(event) => policy::add_event(sql, event),
        Write::SetArchive { number, change } => archive::set(sql, *number, change),
        Write::Trash { deletion, filespace, version } => {
            archive::add_to_trash(sql, *deletion, *filespace, version)
        }
        Write::EmptyTrash { deletion } => archive::empty_trash(sql, *deletion),
        Write::RewritePage { filespace, key, old, new } => {
            rewrite_page(sql, *filespace, key, (old, new))
        }
        Write::RewriteVersion { filespace, version, new } => {
            rewrite_version(sql, None, *filespace, version, new)
        }
        Write::RewriteTrash { deletion, filespace, version, new } => {
            rewrite_version(sql, Some(*deletion), *filespace, version, new)
        }
        Write::RemovePack(pack) => {
            sql.execute("DELETE FROM pack WHERE number = ?", &[&pack.0]).map(drop)
        }
        Write::PutPack(pack) => put_pack(sql, pack),
        Write::PutVolume(volume) => tape::put_volume(sql, volume),
        Write::PutParts { pool, stored, parts } => tape::put_parts(sql, *pool, stored, parts),
        Write::RemoveParts { pool, pack } => tape::remove_parts(sql, *pool, *pack),
        Write::AddSession(session) => add_session(sql, session),
    }
}

/// Fails when the filespace is gone: what was written to it would belong to nobody.
fn find_filespace(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM filespace WHERE id = ?";
    let found = sql.exists(select, params![filespace.0])?;
    if found { Ok(()) } else { Err(CatalogError::NotFound { what: "the filespace" }) }
}

fn page_number(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<Option<i64>, CatalogError> {
    let select = "SELECT page FROM directory WHERE filespace = ? AND path = ? AND first = ?";
    sql.first(select, params![filespace.0, key.directory.as_bytes(), key.first], |row| row.get(0))
}

pub(crate) fn next_page_number(sql: &dyn Sql, filespace: FilespaceId) -> Result<i64, CatalogError> {
    let (low, high) = page_numbers(filespace);
    let select = "SELECT max(id) FROM page WHERE id >= ? AND id < ?";
    let last: Option<i64> = sql.one(select, params![low, high], |row| row.get(0))?;
    let next = last.map_or(low, |last| last + 1);
    if next < high {
        Ok(next)
    } else {
        Err(super::failed("the filespace has used up its page numbers"))
    }
}

pub(crate) fn put_page(
    sql: &dyn Sql,
    filespace: FilespaceId,
    page: &PageRow,
) -> Result<(), CatalogError> {
    let number = match page_number(sql, filespace, &page.key)? {
        Some(number) => number,
        None => next_page_number(sql, filespace)?,
    };
    let PageKey { directory, first } = &page.key;
    let put = "INSERT INTO directory VALUES(?, ?, ?, ?, ?)
               ON CONFLICT(filespace, path, first) DO UPDATE SET objects = excluded.objects";
    sql.execute(put, &[&filespace.0, &directory.as_bytes(), first, &number, &page.object_count])?;
    let put = "INSERT INTO page VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body";
    sql.execute(put, &[&number, &page.body])?;
    let put = "INSERT INTO digest VALUES(?, ?, ?, ?)
               ON CONFLICT(id) DO UPDATE SET digest = excluded.digest";
    let digest = page.digest.as_ref().map(|digest| digest.0.as_slice());
    let first = (!first.is_empty()).then_some(first);
    sql.execute(put, &[&number, &path_hash(directory).0.as_slice(), &digest, &first])?;
    Ok(())
}

fn remove_page(sql: &dyn Sql, filespace: FilespaceId, key: &PageKey) -> Result<(), CatalogError> {
    let Some(number) = page_number(sql, filespace, key)? else { return Ok(()) };
    let delete = "DELETE FROM directory WHERE filespace = ? AND path = ? AND first = ?";
    sql.execute(delete, &[&filespace.0, &key.directory.as_bytes(), &key.first])?;
    sql.execute("DELETE FROM page WHERE id = ?", &[&number])?;
    sql.execute("DELETE FROM digest WHERE id = ?", &[&number])?;
    Ok(())
}

pub(crate) fn add_version(
    sql: &dyn Sql,
    filespace: FilespaceId,
    version: &VersionRow,
) -> Result<(), CatalogError> {
    // The same object deactivated twice in a microsecond is the same state.
    let insert = "INSERT INTO version VALUES(?, ?, ?, ?, ?, ?)
                  ON CONFLICT(filespace, directory, name, deactivated, inserted)
                  DO UPDATE SET body = excluded.body";
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    sql.execute(insert, &[&filespace.0, &directory, &name, &deactivated.0, &inserted.0, body])?;
    expiry::add_ending(sql, filespace, &version.directory, Day::of(*deactivated))
}

fn rewrite_page(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
    (old, new): (&[u8], &[u8]),
) -> Result<(), CatalogError> {
    let Some(number) = page_number(sql, filespace, key)? else { return Ok(()) };
    let update = "UPDATE page SET body = ? WHERE id = ? AND body = ?";
    sql.execute(update, &[&new, &number, &old]).map(drop)
}

/// Rewrites an inactive version, or one that a deletion took aside.
fn rewrite_version(
    sql: &dyn Sql,
    deletion: Option<u64>,
    filespace: FilespaceId,
    version: &VersionRow,
    new: &[u8],
) -> Result<(), CatalogError> {
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    let key = "filespace = ? AND directory = ? AND name = ? AND deactivated = ? AND inserted = ?
               AND body = ?";
    let own: [&dyn ToValue; 7] =
        [&new, &filespace.0, &directory, &name, &deactivated.0, &inserted.0, body];
    match &deletion {
        None => {
            let update = format!("UPDATE version SET body = ? WHERE {key}");
            sql.execute(&update, &own).map(drop)
        }
        Some(deletion) => {
            let update = format!("UPDATE trash SET body = ? WHERE {key} AND deletion = ?");
            let values: Vec<&dyn ToValue> =
                own.into_iter().chain([deletion as &dyn ToValue]).collect();
            sql.execute(&update, &values).map(drop)
        }
    }
}

/// See [`crate::Catalog::condemn`].
pub(crate) fn condemn(sql: &dyn Sql, writes: &[Write]) -> Result<u64, CatalogError> {
    perform(sql, writes)?;
    let count = "INSERT INTO counter VALUES('generation', 1)
                 ON CONFLICT(name) DO UPDATE SET value = counter.value + 1 RETURNING value";
    sql.one(count, &[], |row| row.get(0))
}

fn put_pack(sql: &dyn Sql, pack: &PackRow) -> Result<(), CatalogError> {
    // Commits may overtake each other: news of an open pack is old where it is known to be sealed.
    let put = "INSERT INTO pack VALUES(?, ?, ?, ?, ?)
               ON CONFLICT(number) DO UPDATE SET sealed = excluded.sealed,
                 bytes = excluded.bytes, node = coalesce(excluded.node, pack.node)
               WHERE pack.sealed = 0 OR excluded.sealed <> 0";
    let count = "UPDATE counter SET value = ?1 WHERE name = 'pack' AND value < ?1";
    let sealed = code(pack.state, &PackState::ALL);
    let node = pack.node.map(|node| node.0);
    sql.execute(put, &[&pack.number.0, &pack.domain.0, &sealed, &pack.bytes, &node])?;
    sql.execute(count, params![pack.number.0])?;
    Ok(())
}

fn add_session(sql: &dyn Sql, session: &SessionRow) -> Result<(), CatalogError> {
    let insert = "INSERT INTO session(node, filespace, started, ended, complete, report)
                  VALUES(?, ?, ?, ?, ?, ?)";
    let SessionRow { node, filespace, started, ended, complete, report } = session;
    sql.execute(insert, &[&node.0, &filespace.0, &started.0, &ended.0, complete, report])?;
    if *complete {
        let update = "UPDATE filespace SET last_backup = ? WHERE id = ?";
        sql.execute(update, &[&started.0, &filespace.0])?;
    }
    Ok(())
}
