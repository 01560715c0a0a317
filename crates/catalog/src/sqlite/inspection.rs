//! Inspection of a catalogue in a file that nobody writes, such as a copy.
//!
//! The file is only read, and no other file is made beside it: the bytes of a copy are those that
//! its digest is of.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use format::catalog_copy::Census;
use model::{DirPath, FilespaceId};
use rusqlite::{Connection, OpenFlags};

use super::database_error::database;
use crate::sql::digest_sums::{self, SumChanges};
use crate::sql::{Row, Sql, pages, tables};
use crate::{CatalogError, PageRow};

/// Maximum number of faults of the database that are listed.
const FAULTS_MAX: usize = 100;

/// A row whose body only its user can decode.
pub enum BulkRow<'a> {
    Page {
        filespace: FilespaceId,
        page: PageRow,
    },
    /// An inactive version.
    Version {
        filespace: FilespaceId,
        directory: DirPath,
        body: &'a [u8],
    },
}

/// Faults of the database, in the words of SQLite, and the numbers of rows. After a fault the
/// numbers may be too small.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inspection {
    pub faults: Vec<String>,
    pub census: Census,
    /// Filespaces with fewer objects than the catalogue has counted.
    pub missing: Vec<MissingObjects>,
}

/// A filespace with fewer objects than the catalogue has counted (see [`crate::Amounts`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingObjects {
    pub filespace: FilespaceId,
    pub counted: u64,
    /// Number of the objects in pages, of the inactive versions, and of those in the trash.
    pub present: u64,
}

/// Numbers of objects of filespaces.
type Objects = BTreeMap<FilespaceId, u64>;

/// Inspects the catalogue in the file `path`: its structure as SQLite checks it, and every row that
/// has a body, which `visit` decodes. Fails only if the file cannot be read.
pub fn inspect(
    path: &Path,
    visit: &mut dyn FnMut(BulkRow<'_>),
) -> Result<Inspection, CatalogError> {
    let connection = open(path)?;
    let mut inspection = Inspection { faults: structure(&connection)?, ..Inspection::default() };
    let read = |counted: Result<Census, CatalogError>, faults: &mut Vec<String>| match counted {
        Ok(census) => Ok(census),
        Err(CatalogError::Damaged(fault)) => {
            faults.push(fault);
            Ok(Census::default())
        }
        Err(error) => Err(error),
    };
    inspection.census = read(count_rows(&connection), &mut inspection.faults)?;
    let mut objects = Objects::new();
    let bulk = [
        visit_pages(&connection, &mut objects, visit)
            .and_then(|sums| check_sums(&connection, &sums)),
        visit_versions(&connection, &mut objects, visit),
        count_trash(&connection, &mut objects),
        find_missing(&connection, &objects, &mut inspection.missing),
    ];
    for visited in bulk {
        match visited {
            Err(CatalogError::Damaged(fault)) => inspection.faults.push(fault),
            other => other?,
        }
    }
    inspection.faults.truncate(FAULTS_MAX);
    Ok(inspection)
}

/// Opens the file for reading. SQLite takes it for a file that nobody changes, so it makes no files
/// beside it.
fn open(path: &Path) -> Result<Connection, CatalogError> {
    // In a URI these bytes have a meaning of their own.
    let escape = |byte: &u8| match byte {
        b'%' | b'?' | b'#' => format!("%{byte:02X}").into_bytes(),
        byte => vec![*byte],
    };
    let escaped: Vec<u8> = path.as_os_str().as_bytes().iter().flat_map(escape).collect();
    let uri = [&b"file:"[..], &escaped, b"?immutable=1"].concat();
    let uri = OsString::from_vec(uri);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(Path::new(&uri), flags).map_err(database)
}

/// Returns the faults of the database's structure and of its references.
fn structure(connection: &Connection) -> Result<Vec<String>, CatalogError> {
    let sql: &dyn Sql = connection;
    let text = |row: &Row<'_>| row.get::<String>(0);
    let check = format!("PRAGMA integrity_check({FAULTS_MAX})");
    let found: Vec<String> = match sql.all(&check, &[], text) {
        Err(CatalogError::Damaged(fault)) => return Ok(vec![fault]),
        found => found?,
    };
    let mut faults = faults_of(&found);
    match tables::check(connection) {
        Err(CatalogError::Damaged(fault)) => faults.push(fault),
        other => other?,
    }
    Ok(faults)
}

/// Returns the faults that an integrity check has found. One answer has several lines, of which the
/// first names the database.
fn faults_of(answers: &[String]) -> Vec<String> {
    let lines = answers.iter().flat_map(|answer| answer.lines());
    let faults = lines.filter(|line| *line != "ok" && !line.starts_with("*** in database"));
    faults.map(str::to_owned).collect()
}

fn count_rows(sql: &Connection) -> Result<Census, CatalogError> {
    let count = |table: &str| {
        let select = format!("SELECT count(*) FROM {table}");
        (sql as &dyn Sql).one(&select, &[], |row| row.get::<u64>(0))
    };
    Ok(Census {
        nodes: count("node")?,
        filespaces: count("filespace")?,
        pages: count("directory")?,
        versions: count("version")?,
    })
}

/// Returns the sums of the digests of the pages.
fn visit_pages(
    connection: &Connection,
    objects: &mut Objects,
    visit: &mut dyn FnMut(BulkRow<'_>),
) -> Result<SumChanges, CatalogError> {
    let mut sums = SumChanges::default();
    connection.each(pages::ALL_PAGES, &[], &mut |row| {
        let filespace = FilespaceId(row.get(5)?);
        let page = pages::page_of(row)?;
        sums.add(filespace, &page.digest_row());
        *objects.entry(filespace).or_default() += u64::from(page.object_count);
        visit(BulkRow::Page { filespace, page });
        Ok(true)
    })?;
    Ok(sums)
}

/// Compares the sums that the catalogue keeps with those of its pages.
fn check_sums(sql: &Connection, sums: &SumChanges) -> Result<(), CatalogError> {
    match digest_sums::first_wrong(sql, sums)? {
        None => Ok(()),
        Some(FilespaceId(number)) => Err(CatalogError::Damaged(format!(
            "the sum of the digests of filespace {number} is not that of its pages"
        ))),
    }
}

fn visit_versions(
    connection: &Connection,
    objects: &mut Objects,
    visit: &mut dyn FnMut(BulkRow<'_>),
) -> Result<(), CatalogError> {
    let select = "SELECT filespace, directory, body FROM version";
    connection.each(select, &[], &mut |row| {
        let path: Vec<u8> = row.get(1)?;
        let directory = DirPath::new(&path)
            .map_err(|_| CatalogError::impossible("a version's directory path"))?;
        let (filespace, body): (_, Vec<u8>) = (FilespaceId(row.get(0)?), row.get(2)?);
        *objects.entry(filespace).or_default() += 1;
        visit(BulkRow::Version { filespace, directory, body: &body });
        Ok(true)
    })
}

fn count_trash(connection: &Connection, objects: &mut Objects) -> Result<(), CatalogError> {
    let select = "SELECT filespace, count(*) FROM trash GROUP BY filespace";
    connection.each(select, &[], &mut |row| {
        *objects.entry(FilespaceId(row.get(0)?)).or_default() += row.get::<u64>(1)?;
        Ok(true)
    })
}

/// Adds the filespaces to `missing` of which more objects were counted than `objects` has.
fn find_missing(
    connection: &Connection,
    objects: &Objects,
    missing: &mut Vec<MissingObjects>,
) -> Result<(), CatalogError> {
    let select = "SELECT filespace, objects FROM amount ORDER BY filespace";
    connection.each(select, &[], &mut |row| {
        let (filespace, counted) = (FilespaceId(row.get(0)?), row.get::<u64>(1)?);
        let present = objects.get(&filespace).copied().unwrap_or_default();
        if present < counted {
            missing.push(MissingObjects { filespace, counted, present });
        }
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_an_integrity_check_is_a_fault() {
        let check = |texts: &[&str], faults: &[&str]| {
            let answers: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(faults_of(&answers), faults);
        };
        check(&["ok"], &[]);
        let answer = "*** in database main ***\nPage 9: never used\nPage 10: never used";
        check(
            &[answer, "row 1 missing"],
            &["Page 9: never used", "Page 10: never used", "row 1 missing"],
        );
    }
}
