//! Statements about libraries, volumes, and the parts of packs on them.

use std::collections::BTreeMap;

use model::{PackNumber, PoolId, ServerTime};

use super::{Engine, Row, Sql, code, params, require};
use crate::{
    CatalogError, LibraryRow, PartRow, StoredPack, VolumeAccess, VolumePart, VolumeRow,
    VolumeState, Volumes,
};

/// All states, in the order of their codes.
const STATES: [VolumeState; 4] =
    [VolumeState::Scratch, VolumeState::Filling, VolumeState::Full, VolumeState::Pending];

/// All accesses, in the order of their codes.
const ACCESSES: [VolumeAccess; 5] = [
    VolumeAccess::ReadWrite,
    VolumeAccess::ReadOnly,
    VolumeAccess::Offsite,
    VolumeAccess::Unavailable,
    VolumeAccess::Destroyed,
];

/// Columns of a part without the pool and the pack, as [`part_columns`] reads them.
const PART: &str = "volume, object, object_sequence, position, blocks, first_sequence, \"offset\",
                    bytes, is_last";

impl<E: Engine> Volumes for E {
    fn libraries(&self) -> Result<Vec<LibraryRow>, CatalogError> {
        self.read(libraries)
    }

    fn put_library(&self, library: &LibraryRow) -> Result<(), CatalogError> {
        let library = library.clone();
        self.write(move |sql| put_library(sql, &library))
    }

    fn remove_library(&self, name: &str) -> Result<(), CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| remove_library(sql, &name))
    }

    fn volumes(&self) -> Result<Vec<VolumeRow>, CatalogError> {
        self.read(volumes)
    }

    fn add_volume(&self, volume: &VolumeRow) -> Result<u64, CatalogError> {
        let volume = volume.clone();
        self.write(move |sql| add_volume(sql, &volume))
    }

    fn remove_volume(&self, volume: u64) -> Result<(), CatalogError> {
        self.write(move |sql| remove_volume(sql, volume))
    }

    fn stored_packs(&self, pool: PoolId) -> Result<Vec<StoredPack>, CatalogError> {
        self.read(|sql| stored_packs(sql, pool))
    }

    fn parts(&self, pool: PoolId, pack: PackNumber) -> Result<Vec<PartRow>, CatalogError> {
        self.read(|sql| parts(sql, pool, pack))
    }

    fn volume_parts(&self, volume: u64) -> Result<Vec<VolumePart>, CatalogError> {
        self.read(|sql| volume_parts(sql, volume))
    }

    fn volume_bytes(&self) -> Result<BTreeMap<u64, u64>, CatalogError> {
        self.read(volume_bytes)
    }
}

fn library_columns(row: &Row<'_>) -> Result<LibraryRow, CatalogError> {
    let damaged =
        |error| CatalogError::Damaged(format!("a list of drives cannot be parsed: {error}"));
    let drives: String = row.get(2)?;
    Ok(LibraryRow {
        name: row.get(0)?,
        changer: row.get(1)?,
        drives: serde_json::from_str(&drives).map_err(damaged)?,
        folder: row.get(3)?,
        capacity_bytes: row.get(4)?,
        drives_max: row.get(5)?,
        retain_secs: row.get(6)?,
        optimised_only: row.get(7)?,
        writers_max: row.get(8)?,
    })
}

pub(crate) fn libraries(sql: &dyn Sql) -> Result<Vec<LibraryRow>, CatalogError> {
    let select =
        "SELECT name, changer, drives, folder, capacity, drives_max, retain, optimised_only, writers
                  FROM library ORDER BY lower(name)";
    sql.all(select, &[], library_columns)
}

fn put_library(sql: &dyn Sql, library: &LibraryRow) -> Result<(), CatalogError> {
    let update = "UPDATE library SET changer = ?2, drives = ?3, folder = ?4, capacity = ?5,
                    drives_max = ?6, retain = ?7, optimised_only = ?8, writers = ?9
                    WHERE lower(name) = ?1";
    let insert = "INSERT INTO library VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let LibraryRow { name, changer, folder, capacity_bytes, .. } = library;
    let LibraryRow { drives_max, retain_secs, optimised_only, writers_max, .. } = library;
    let drives = serde_json::to_string(&library.drives).map_err(CatalogError::failed)?;
    let put = |statement: &str, name: &str| {
        let values = params![
            name,
            changer,
            drives,
            folder,
            capacity_bytes,
            drives_max,
            retain_secs,
            optimised_only,
            writers_max
        ];
        sql.execute(statement, values)
    };
    if put(update, &name.to_ascii_lowercase())? == 0 {
        put(insert, name)?;
    }
    Ok(())
}

fn remove_library(sql: &dyn Sql, name: &str) -> Result<(), CatalogError> {
    let delete = "DELETE FROM library WHERE lower(name) = ?";
    require(sql.execute(delete, params![name.to_ascii_lowercase()])?, "the library")
}

fn volume_columns(row: &Row<'_>) -> Result<VolumeRow, CatalogError> {
    Ok(VolumeRow {
        id: row.get(0)?,
        library: row.get(1)?,
        name: row.get(2)?,
        label: row.get(3)?,
        block_bytes: row.get(4)?,
        pool: row.get::<Option<u32>>(5)?.map(PoolId),
        group: row.get(6)?,
        state: row.coded(7, &STATES)?,
        access: row.coded(8, &ACCESSES)?,
        location: row.get(9)?,
        written_bytes: row.get(10)?,
        errors: row.get(11)?,
        changed: ServerTime(row.get(12)?),
    })
}

pub(crate) fn volumes(sql: &dyn Sql) -> Result<Vec<VolumeRow>, CatalogError> {
    let select = "SELECT id, library, name, label, block_bytes, pool, collocation, state, access,
                    location, written, errors, changed
                  FROM volume ORDER BY lower(library), name";
    sql.all(select, &[], volume_columns)
}

/// Returns the name of the volume's library in the library's own spelling. Fails with `NotFound`
/// for an unknown library and `Exists` if the library has another volume of this name.
fn find_library(sql: &dyn Sql, volume: &VolumeRow) -> Result<String, CatalogError> {
    let known = "SELECT name FROM library WHERE lower(name) = ?";
    let library: String = sql
        .first(known, params![volume.library.to_ascii_lowercase()], |row| row.get(0))?
        .ok_or(CatalogError::NotFound { what: "the library" })?;
    let known = "SELECT 1 FROM volume WHERE library = ? AND name = ? AND id <> ?";
    if sql.exists(known, params![library, volume.name, volume.id])? {
        return Err(CatalogError::Exists { what: "a volume of this name" });
    }
    Ok(library)
}

fn add_volume(sql: &dyn Sql, volume: &VolumeRow) -> Result<u64, CatalogError> {
    // No volume has the number 0, so every known volume of this name counts as another volume.
    let volume = VolumeRow { id: 0, ..volume.clone() };
    let library = find_library(sql, &volume)?;
    let insert = "INSERT INTO volume(library, name, label, block_bytes, pool, collocation, state,
                    access, location, written, errors, changed)
                  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                  RETURNING id";
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
    sql.one(insert, values, |row| row.get(0))
}

pub(super) fn put_volume(sql: &dyn Sql, volume: &VolumeRow) -> Result<(), CatalogError> {
    find_volume(sql, volume.id)?;
    let library = find_library(sql, volume)?;
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
    sql.execute(update, values).map(drop)
}

fn find_volume(sql: &dyn Sql, volume: u64) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM volume WHERE id = ?";
    require(usize::from(sql.exists(select, params![volume])?), "the volume")
}

fn remove_volume(sql: &dyn Sql, volume: u64) -> Result<(), CatalogError> {
    let used = "SELECT 1 FROM part WHERE volume = ?";
    if sql.exists(used, params![volume])? {
        return Err(CatalogError::Exists { what: "data on the volume" });
    }
    require(sql.execute("DELETE FROM volume WHERE id = ?", &[&volume])?, "the volume")
}

pub(crate) fn stored_packs(sql: &dyn Sql, pool: PoolId) -> Result<Vec<StoredPack>, CatalogError> {
    let select = "SELECT pack, bytes, stored FROM stored WHERE pool = ? ORDER BY pack";
    sql.all(select, &[&pool.0], |row| {
        let (pack, stored) = (PackNumber(row.get(0)?), ServerTime(row.get(2)?));
        Ok(StoredPack { pack, bytes: row.get(1)?, stored })
    })
}

fn part_columns(row: &Row<'_>) -> Result<PartRow, CatalogError> {
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

fn parts(sql: &dyn Sql, pool: PoolId, pack: PackNumber) -> Result<Vec<PartRow>, CatalogError> {
    let select = format!(
        "SELECT {PART} FROM part WHERE pool = ? AND pack = ? ORDER BY \"offset\", first_sequence"
    );
    sql.all(&select, &[&pool.0, &pack.0], part_columns)
}

fn volume_parts(sql: &dyn Sql, volume: u64) -> Result<Vec<VolumePart>, CatalogError> {
    let select = format!("SELECT {PART}, pool, pack FROM part WHERE volume = ? ORDER BY position");
    sql.all(&select, &[&volume], |row| {
        let (pool, pack) = (PoolId(row.get(9)?), PackNumber(row.get(10)?));
        Ok(VolumePart { pool, pack, part: part_columns(row)? })
    })
}

fn volume_bytes(sql: &dyn Sql) -> Result<BTreeMap<u64, u64>, CatalogError> {
    let select = "SELECT volume, CAST(sum(bytes) AS BIGINT) FROM part GROUP BY volume";
    sql.all(select, &[], |row| Ok((row.get::<u64>(0)?, row.get::<u64>(1)?)))
}

pub(super) fn put_parts(
    sql: &dyn Sql,
    pool: PoolId,
    stored: &StoredPack,
    parts: &[PartRow],
) -> Result<(), CatalogError> {
    // Parts of a pool that is gone would belong to nobody.
    let select = "SELECT 1 FROM pool WHERE id = ?";
    require(usize::from(sql.exists(select, params![pool.0])?), "the pool")?;
    remove_parts(sql, pool, stored.pack)?;
    let insert = "INSERT INTO stored VALUES(?, ?, ?, ?)";
    let StoredPack { pack, bytes, stored } = stored;
    sql.execute(insert, params![pool.0, pack.0, bytes, stored.0])?;
    parts.iter().try_for_each(|part| put_part(sql, pool, *pack, part))
}

fn put_part(
    sql: &dyn Sql,
    pool: PoolId,
    pack: PackNumber,
    part: &PartRow,
) -> Result<(), CatalogError> {
    find_volume(sql, part.volume)?;
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
    sql.execute(&insert, values).map(drop)
}

pub(super) fn remove_parts(
    sql: &dyn Sql,
    pool: PoolId,
    pack: PackNumber,
) -> Result<(), CatalogError> {
    for table in ["part", "stored"] {
        let delete = format!("DELETE FROM {table} WHERE pool = ? AND pack = ?");
        sql.execute(&delete, params![pool.0, pack.0])?;
    }
    Ok(())
}
