//! The writes of a batch. Pages and versions that follow one another go in few large statements,
//! and pages that are new by COPY: a statement costs the way to the database and back.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use format::path_hash;
use futures_executor::block_on;
use model::FilespaceId;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::Session;
use crate::sql::write::{self, page_numbers};
use crate::sql::{Sql, params};
use crate::{CatalogError, Day, PageKey, PageRow, VersionRow, Write};

/// Rows of one statement at most.
const ROWS_MAX: usize = 1000;
/// Fewer are put one by one.
const ROWS_MIN: usize = 3;
/// So many new ones are copied: that costs more ways to the database, and less for each row.
const COPIED_MIN: usize = 32;

/// Writes that go together.
enum Run<'a> {
    Pages(FilespaceId, Vec<&'a PageRow>),
    Versions(FilespaceId, Vec<&'a VersionRow>),
    One(&'a Write),
}

pub(super) fn perform(session: &Session, writes: &[Write]) -> Result<(), CatalogError> {
    hold(session, writes)?;
    for run in runs(writes) {
        match run {
            Run::Pages(filespace, pages) => put_pages(session, filespace, &pages)?,
            Run::Versions(filespace, versions) => add_versions(session, filespace, &versions)?,
            Run::One(one) => write::perform_one(session, one)?,
        }
    }
    Ok(())
}

/// Has nobody else write to the filespaces until the transaction ends: two would give the same
/// number to two pages. Fails where one is unknown.
fn hold(session: &Session, writes: &[Write]) -> Result<(), CatalogError> {
    // In the order of their numbers: nobody waits for who waits for him.
    let filespaces: BTreeSet<FilespaceId> = writes.iter().filter_map(Write::filespace).collect();
    let sql: &dyn Sql = session;
    let select = "SELECT 1 FROM filespace WHERE id = ? FOR NO KEY UPDATE";
    filespaces.into_iter().try_for_each(|filespace| {
        let is_known = sql.exists(select, params![filespace.0])?;
        if is_known { Ok(()) } else { Err(CatalogError::NotFound { what: "the filespace" }) }
    })
}

/// The writes in their order; pages and versions that follow one another together, none twice.
fn runs(writes: &[Write]) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for one in writes {
        match (one, runs.last_mut()) {
            (Write::PutPage { filespace, page }, Some(Run::Pages(of, pages)))
                if of == filespace && pages.len() < ROWS_MAX =>
            {
                pages.push(page);
            }
            (Write::PutPage { filespace, page }, _) => {
                runs.push(Run::Pages(*filespace, vec![page]));
            }
            (Write::AddVersion { filespace, version }, Some(Run::Versions(of, versions)))
                if of == filespace && versions.len() < ROWS_MAX =>
            {
                versions.push(version);
            }
            (Write::AddVersion { filespace, version }, _) => {
                runs.push(Run::Versions(*filespace, vec![version]));
            }
            _ => runs.push(Run::One(one)),
        }
    }
    runs
}

impl Session {
    /// Executes a statement with arrays for parameters.
    fn put(&self, statement: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), CatalogError> {
        let prepared = self.prepare(statement)?;
        let done = block_on(self.client.execute(&prepared, values));
        done.map(drop).map_err(|error| self.failed(&error))
    }

    /// Adds rows to the table, which has none of them.
    fn copy<R>(
        &self,
        table: &str,
        types: &[Type],
        rows: &[R],
        columns: &mut dyn for<'a> FnMut(&'a R) -> Vec<Box<dyn ToSql + Sync + 'a>>,
    ) -> Result<(), CatalogError> {
        let prepared = self.prepare(&format!("COPY {table} FROM STDIN (FORMAT binary)"))?;
        let copied = block_on(async {
            let sink = self.client.copy_in(&prepared).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
            for row in rows {
                let columns = columns(row);
                writer.as_mut().write_raw(columns.iter().map(|column| &**column)).await?;
            }
            writer.finish().await
        });
        copied.map(drop).map_err(|error| self.failed(&error))
    }
}

fn put_pages(
    session: &Session,
    filespace: FilespaceId,
    pages: &[&PageRow],
) -> Result<(), CatalogError> {
    let keys: BTreeSet<&PageKey> = pages.iter().map(|page| &page.key).collect();
    if pages.len() < ROWS_MIN || keys.len() < pages.len() {
        return pages.iter().try_for_each(|page| write::put_page(session, filespace, page));
    }
    let numbered = numbers(session, filespace, pages)?;
    let (new, known): (Vec<Numbered<'_>>, Vec<Numbered<'_>>) =
        numbered.into_iter().partition(|numbered| numbered.is_new);
    if new.len() < COPIED_MIN {
        return merge_pages(session, filespace, &[new, known].concat());
    }
    copy_pages(session, filespace, &new)?;
    if known.is_empty() { Ok(()) } else { merge_pages(session, filespace, &known) }
}

/// A page with its number.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    page: &'a PageRow,
    number: i64,
    is_new: bool,
}

impl<'a> Numbered<'a> {
    fn path(&self) -> &'a [u8] {
        self.page.key.directory.as_bytes()
    }

    fn first(&self) -> &'a [u8] {
        &self.page.key.first
    }

    fn objects(&self) -> i64 {
        i64::from(self.page.object_count)
    }

    fn digest(&self) -> Option<&'a [u8]> {
        self.page.digest.as_ref().map(|digest| &digest.0[..])
    }

    /// As the digest has it: nothing for the first page of a directory.
    fn first_of_digest(&self) -> Option<&'a [u8]> {
        Some(self.first()).filter(|first| !first.is_empty())
    }
}

/// Puts pages that are not there yet. Nobody else adds any meanwhile: see [`hold`].
fn copy_pages(
    session: &Session,
    filespace: FilespaceId,
    pages: &[Numbered<'_>],
) -> Result<(), CatalogError> {
    let of_filespace = i64::from(filespace.0);
    let (number, bytes) = (Type::INT8, Type::BYTEA);
    let types = [number.clone(), bytes.clone(), bytes.clone(), number.clone(), number.clone()];
    session.copy("directory", &types, pages, &mut |row| {
        vec![
            Box::new(of_filespace),
            Box::new(row.path()),
            Box::new(row.first()),
            Box::new(row.number),
            Box::new(row.objects()),
        ]
    })?;
    session.copy("page", &[number.clone(), bytes.clone()], pages, &mut |row| {
        vec![Box::new(row.number), Box::new(&row.page.body[..])]
    })?;
    let types = [number, bytes.clone(), bytes.clone(), bytes];
    session.copy("digest", &types, pages, &mut |row| {
        vec![
            Box::new(row.number),
            Box::new(path_hash(&row.page.key.directory).0.to_vec()),
            Box::new(row.digest()),
            Box::new(row.first_of_digest()),
        ]
    })
}

/// Puts pages whether they are there or not.
fn merge_pages(
    session: &Session,
    filespace: FilespaceId,
    pages: &[Numbered<'_>],
) -> Result<(), CatalogError> {
    let of_filespace = i64::from(filespace.0);
    let numbers: Vec<i64> = pages.iter().map(|row| row.number).collect();
    let paths: Vec<&[u8]> = pages.iter().map(Numbered::path).collect();
    let firsts: Vec<&[u8]> = pages.iter().map(Numbered::first).collect();
    let counts: Vec<i64> = pages.iter().map(Numbered::objects).collect();
    session.put(
        "INSERT INTO directory SELECT CAST(?1 AS BIGINT), path, first, page, objects
         FROM unnest(CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]), CAST(?4 AS BIGINT[]),
           CAST(?5 AS BIGINT[])) AS new(path, first, page, objects)
         ON CONFLICT(filespace, path, first) DO UPDATE SET objects = excluded.objects",
        &[&of_filespace, &paths, &firsts, &numbers, &counts],
    )?;
    let bodies: Vec<&[u8]> = pages.iter().map(|row| &row.page.body[..]).collect();
    session.put(
        "INSERT INTO page SELECT id, body
         FROM unnest(CAST(?1 AS BIGINT[]), CAST(?2 AS BYTEA[])) AS new(id, body)
         ON CONFLICT(id) DO UPDATE SET body = excluded.body",
        &[&numbers, &bodies],
    )?;
    let hashes: Vec<_> = pages.iter().map(|row| path_hash(&row.page.key.directory).0).collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..]).collect();
    let digests: Vec<Option<&[u8]>> = pages.iter().map(Numbered::digest).collect();
    let firsts: Vec<Option<&[u8]>> = pages.iter().map(Numbered::first_of_digest).collect();
    session.put(
        "INSERT INTO digest SELECT id, hash, digest, first
         FROM unnest(CAST(?1 AS BIGINT[]), CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]),
           CAST(?4 AS BYTEA[])) AS new(id, hash, digest, first)
         ON CONFLICT(id) DO UPDATE SET digest = excluded.digest",
        &[&numbers, &hashes, &digests, &firsts],
    )
}

/// The numbers of the pages, which are all different: those that they have, or new ones.
fn numbers<'a>(
    session: &Session,
    filespace: FilespaceId,
    pages: &[&'a PageRow],
) -> Result<Vec<Numbered<'a>>, CatalogError> {
    let paths: Vec<&[u8]> = pages.iter().map(|page| page.key.directory.as_bytes()).collect();
    let firsts: Vec<&[u8]> = pages.iter().map(|page| &page.key.first[..]).collect();
    let select = session.prepare(
        "SELECT new.place, directory.page
         FROM unnest(CAST(?1 AS BYTEA[]), CAST(?2 AS BYTEA[])) WITH ORDINALITY
           AS new(path, first, place)
         JOIN directory ON directory.filespace = CAST(?3 AS BIGINT)
           AND directory.path = new.path AND directory.first = new.first",
    )?;
    let of_filespace = i64::from(filespace.0);
    let values: [&(dyn ToSql + Sync); 3] = [&paths, &firsts, &of_filespace];
    let rows = block_on(session.client.query(&select, &values));
    let known: BTreeMap<i64, i64> = rows
        .map_err(|error| session.failed(&error))?
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    let mut next =
        if known.len() < pages.len() { write::next_page_number(session, filespace)? } else { 0 };
    let (_, end) = page_numbers(filespace);
    // An ordinal counts from 1.
    let numbered = (1..).zip(pages).map(|(place, page)| match known.get(&place) {
        Some(number) => Numbered { page, number: *number, is_new: false },
        None => {
            next += 1;
            Numbered { page, number: next - 1, is_new: true }
        }
    });
    let numbered = numbered.collect();
    if next > end {
        return Err(CatalogError::Database("the filespace has used up its page numbers".into()));
    }
    Ok(numbered)
}

fn add_versions(
    session: &Session,
    filespace: FilespaceId,
    versions: &[&VersionRow],
) -> Result<(), CatalogError> {
    let key = |version: &VersionRow| {
        let VersionRow { directory, name, inserted, deactivated, .. } = version;
        (directory.clone(), name.clone(), *inserted, *deactivated)
    };
    let keys: BTreeSet<_> = versions.iter().map(|version| key(version)).collect();
    if versions.len() < ROWS_MIN || keys.len() < versions.len() {
        return versions
            .iter()
            .try_for_each(|version| write::add_version(session, filespace, version));
    }
    let of_filespace = i64::from(filespace.0);
    let directories: Vec<&[u8]> =
        versions.iter().map(|version| version.directory.as_bytes()).collect();
    let names: Vec<&[u8]> = versions.iter().map(|version| version.name.as_bytes()).collect();
    let deactivated: Vec<i64> = versions.iter().map(|version| version.deactivated.0).collect();
    let inserted: Vec<i64> = versions.iter().map(|version| version.inserted.0).collect();
    let bodies: Vec<&[u8]> = versions.iter().map(|version| &version.body[..]).collect();
    session.put(
        "INSERT INTO version SELECT CAST(?1 AS BIGINT), directory, name, deactivated, inserted, body
         FROM unnest(CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]), CAST(?4 AS BIGINT[]),
           CAST(?5 AS BIGINT[]), CAST(?6 AS BYTEA[]))
           AS new(directory, name, deactivated, inserted, body)
         ON CONFLICT(filespace, directory, name, deactivated, inserted)
         DO UPDATE SET body = excluded.body",
        &[&of_filespace, &directories, &names, &deactivated, &inserted, &bodies],
    )?;
    let endings: BTreeSet<(Day, &[u8])> = versions
        .iter()
        .map(|version| (Day::of(version.deactivated), version.directory.as_bytes()))
        .collect();
    let sql: &dyn Sql = session;
    let insert = "INSERT INTO ending VALUES(?, ?, ?)
                  ON CONFLICT(filespace, day, directory) DO NOTHING";
    endings.into_iter().try_for_each(|(day, directory)| {
        sql.execute(insert, params![filespace.0, day.0, directory]).map(drop)
    })
}
