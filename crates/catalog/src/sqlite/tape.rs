//! Libraries, volumes, and where packs lie on them.

use std::collections::BTreeMap;

use model::{PackNumber, PoolId, ServerTime};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use super::write::execute;
use super::{CatalogError, code, coded, database};
use crate::{LibraryRow, PartRow, StoredPack, VolumeAccess, VolumeRow, VolumeState};

/// In the order of their codes.
const STATES: [VolumeState; 4] =
    [VolumeState::Scratch, VolumeState::Filling, VolumeState::Full, VolumeState::Pending];
/// In the order of their codes.
const ACCESSES: [VolumeAccess; 5] = [
    VolumeAccess::ReadWrite,
    VolumeAccess::ReadOnly,
    VolumeAccess::Offsite,
    VolumeAccess::Unavailable,
    VolumeAccess::Destroyed,
];

/// All columns of a part but the pool and the pack, as [`part_columns`] reads them.
const PART: &str = "volume, object, object_sequence, position, blocks, first_sequence, offset,
                    bytes, is_last";

/// All rows of a query, each read by `columns`.
fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    select: &str,
    values: &[&dyn ToSql],
    columns: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C, CatalogError> {
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let rows = statement.query_map(values, columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

/// Reads a library off a row; its drives are parsed by the caller.
fn library_columns(row: &Row<'_>) -> rusqlite::Result<(String, LibraryRow)> {
    let library = LibraryRow {
        name: row.get(0)?,
        changer: row.get(1)?,
        drives: Vec::new(),
        folder: row.get(3)?,
        capacity_bytes: row.get(4)?,
        drives_max: row.get(5)?,
        retain_secs: row.get(6)?,
        optimised_only: row.get(7)?,
    };
    Ok((row.get(2)?, library))
}

fn library((drives, library): (String, LibraryRow)) -> Result<LibraryRow, CatalogError> {
    let damaged = |error| CatalogError::Damaged(format!("a list of drives is impossible: {error}"));
    let drives = serde_json::from_str(&drives).map_err(damaged)?;
    Ok(LibraryRow { drives, ..library })
}

pub(super) fn libraries(connection: &Connection) -> Result<Vec<LibraryRow>, CatalogError> {
    let select =
        "SELECT name, changer, drives, folder, capacity, drives_max, retain, optimised_only
                  FROM library ORDER BY name";
    let rows: Vec<_> = all(connection, select, &[], library_columns)?;
    rows.into_iter().map(library).collect()
}

pub(super) fn put_library(
    connection: &Connection,
    library: &LibraryRow,
) -> Result<(), CatalogError> {
    let put = "INSERT INTO library VALUES(?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET changer = excluded.changer, drives = excluded.drives,
                 folder = excluded.folder, capacity = excluded.capacity,
                 drives_max = excluded.drives_max, retain = excluded.retain,
                 optimised_only = excluded.optimised_only";
    let LibraryRow { name, changer, folder, capacity_bytes, .. } = library;
    let LibraryRow { drives_max, retain_secs, optimised_only, .. } = library;
    let drives = serde_json::to_string(&library.drives)
        .map_err(|error| CatalogError::Database(Box::new(error)))?;
    let values = params![
        name,
        changer,
        drives,
        folder,
        capacity_bytes,
        drives_max,
        retain_secs,
        optimised_only
    ];
    execute(connection, put, values).map(drop)
}

pub(super) fn remove_library(connection: &Connection, name: &str) -> Result<(), CatalogError> {
    found(execute(connection, "DELETE FROM library WHERE name = ?", &[&name])?, "the library")
}

fn found(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::NotFound { what }) } else { Ok(()) }
}

fn volume_columns(row: &Row<'_>) -> rusqlite::Result<VolumeRow> {
    Ok(VolumeRow {
        id: row.get(0)?,
        library: row.get(1)?,
        name: row.get(2)?,
        label: row.get(3)?,
        block_bytes: row.get(4)?,
        pool: row.get::<_, Option<u32>>(5)?.map(PoolId),
        group: row.get(6)?,
        state: coded(row, 7, &STATES)?,
        access: coded(row, 8, &ACCESSES)?,
        location: row.get(9)?,
        written_bytes: row.get(10)?,
        errors: row.get(11)?,
        changed: ServerTime(row.get(12)?),
    })
}

pub(super) fn volumes(connection: &Connection) -> Result<Vec<VolumeRow>, CatalogError> {
    let select = "SELECT id, library, name, label, block_bytes, pool, collocation, state, access,
                    location, written, errors, changed
                  FROM volume ORDER BY library, name";
    all(connection, select, &[], volume_columns)
}

/// The volume's library as it is spelled there. Fails when the library is unknown, and when it has
/// another volume of this name.
fn find_place(connection: &Connection, volume: &VolumeRow) -> Result<String, CatalogError> {
    let library = connection
        .query_row("SELECT name FROM library WHERE name = ?", [&volume.library], |row| row.get(0))
        .optional()
        .map_err(database)?
        .ok_or(CatalogError::NotFound { what: "the library" })?;
    let known = "SELECT 1 FROM volume WHERE library = ? AND name = ? AND id <> ?";
    let mut statement = connection.prepare_cached(known).map_err(database)?;
    let others = params![library, volume.name, volume.id];
    if statement.exists(others).map_err(database)? {
        return Err(CatalogError::Exists { what: "a volume of this name" });
    }
    Ok(library)
}

pub(super) fn add_volume(connection: &Connection, volume: &VolumeRow) -> Result<u64, CatalogError> {
    // Where it lies among other volumes is as if it had no number yet.
    let volume = VolumeRow { id: 0, ..volume.clone() };
    let library = find_place(connection, &volume)?;
    let insert = "INSERT INTO volume(library, name, label, block_bytes, pool, collocation, state,
                    access, location, written, errors, changed)
                  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let VolumeRow { name, label, block_bytes, group, location, .. } = &volume;
    let (pool, changed) = (volume.pool.map(|pool| pool.0), volume.changed.0);
    let (state, access) = (code(volume.state, &STATES), code(volume.access, &ACCESSES));
    let values = params![
        library,
        name,
        label,
        block_bytes,
        pool,
        group,
        state,
        access,
        location,
        volume.written_bytes,
        volume.errors,
        changed
    ];
    execute(connection, insert, values)?;
    u64::try_from(connection.last_insert_rowid())
        .map_err(|_| CatalogError::Damaged("the count of volumes".to_owned()))
}

pub(super) fn put_volume(connection: &Connection, volume: &VolumeRow) -> Result<(), CatalogError> {
    find_volume(connection, volume.id)?;
    let library = find_place(connection, volume)?;
    let update = "UPDATE volume SET library = ?, name = ?, label = ?, block_bytes = ?, pool = ?,
                    collocation = ?, state = ?, access = ?, location = ?, written = ?, errors = ?,
                    changed = ? WHERE id = ?";
    let VolumeRow { id, name, label, block_bytes, group, location, .. } = volume;
    let (pool, changed) = (volume.pool.map(|pool| pool.0), volume.changed.0);
    let (state, access) = (code(volume.state, &STATES), code(volume.access, &ACCESSES));
    let values = params![
        library,
        name,
        label,
        block_bytes,
        pool,
        group,
        state,
        access,
        location,
        volume.written_bytes,
        volume.errors,
        changed,
        id
    ];
    execute(connection, update, values).map(drop)
}

fn find_volume(connection: &Connection, volume: u64) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM volume WHERE id = ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    found(usize::from(statement.exists([volume]).map_err(database)?), "the volume")
}

pub(super) fn remove_volume(connection: &Connection, volume: u64) -> Result<(), CatalogError> {
    let used = "SELECT 1 FROM part WHERE volume = ?";
    let mut statement = connection.prepare_cached(used).map_err(database)?;
    if statement.exists([volume]).map_err(database)? {
        return Err(CatalogError::Exists { what: "data on the volume" });
    }
    found(execute(connection, "DELETE FROM volume WHERE id = ?", &[&volume])?, "the volume")
}

pub(super) fn stored_packs(
    connection: &Connection,
    pool: PoolId,
) -> Result<Vec<StoredPack>, CatalogError> {
    let select = "SELECT pack, bytes, stored FROM stored WHERE pool = ? ORDER BY pack";
    all(connection, select, &[&pool.0], |row| {
        let (pack, stored) = (PackNumber(row.get(0)?), ServerTime(row.get(2)?));
        Ok(StoredPack { pack, bytes: row.get(1)?, stored })
    })
}

fn part_columns(row: &Row<'_>) -> rusqlite::Result<PartRow> {
    Ok(PartRow {
        volume: row.get(0)?,
        object: row.get(1)?,
        object_sequence: row.get(2)?,
        position: row.get(3)?,
        block_count: row.get(4)?,
        first_sequence: row.get(5)?,
        offset: row.get(6)?,
        bytes: row.get(7)?,
        is_last: row.get(8)?,
    })
}

pub(super) fn parts(
    connection: &Connection,
    pool: PoolId,
    pack: PackNumber,
) -> Result<Vec<PartRow>, CatalogError> {
    let select = format!(
        "SELECT {PART} FROM part WHERE pool = ? AND pack = ? ORDER BY offset, first_sequence"
    );
    all(connection, &select, &[&pool.0, &pack.0], part_columns)
}

pub(super) fn volume_parts(
    connection: &Connection,
    volume: u64,
) -> Result<Vec<(PoolId, PackNumber, PartRow)>, CatalogError> {
    let select = format!("SELECT {PART}, pool, pack FROM part WHERE volume = ? ORDER BY position");
    all(connection, &select, &[&volume], |row| {
        Ok((PoolId(row.get(9)?), PackNumber(row.get(10)?), part_columns(row)?))
    })
}

pub(super) fn volume_bytes(connection: &Connection) -> Result<BTreeMap<u64, u64>, CatalogError> {
    let select = "SELECT volume, sum(bytes) FROM part GROUP BY volume";
    all(connection, select, &[], |row| Ok((row.get(0)?, row.get(1)?)))
}

pub(super) fn put_parts(
    connection: &Connection,
    pool: PoolId,
    stored: &StoredPack,
    parts: &[PartRow],
) -> Result<(), CatalogError> {
    // What was put for a pool that is gone would belong to nobody.
    let select = "SELECT 1 FROM pool WHERE id = ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    found(usize::from(statement.exists([pool.0]).map_err(database)?), "the pool")?;
    remove_parts(connection, pool, stored.pack)?;
    let insert = "INSERT INTO stored VALUES(?, ?, ?, ?)";
    let StoredPack { pack, bytes, stored } = stored;
    execute(connection, insert, params![pool.0, pack.0, bytes, stored.0])?;
    parts.iter().try_for_each(|part| put_part(connection, pool, *pack, part))
}

fn put_part(
    connection: &Connection,
    pool: PoolId,
    pack: PackNumber,
    part: &PartRow,
) -> Result<(), CatalogError> {
    find_volume(connection, part.volume)?;
    let insert =
        format!("INSERT INTO part(pool, pack, {PART}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    let PartRow { volume, object, object_sequence, position, block_count, .. } = part;
    let PartRow { first_sequence, offset, bytes, is_last, .. } = part;
    let values = params![
        pool.0,
        pack.0,
        volume,
        object,
        object_sequence,
        position,
        block_count,
        first_sequence,
        offset,
        bytes,
        is_last
    ];
    execute(connection, &insert, values).map(drop)
}

pub(super) fn remove_parts(
    connection: &Connection,
    pool: PoolId,
    pack: PackNumber,
) -> Result<(), CatalogError> {
    for table in ["part", "stored"] {
        let delete = format!("DELETE FROM {table} WHERE pool = ? AND pack = ?");
        execute(connection, &delete, params![pool.0, pack.0])?;
    }
    Ok(())
}
