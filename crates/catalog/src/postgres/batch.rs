//! The writes of a batch. Consecutive pages and versions are written by few large statements, and
//! new pages by COPY: each statement costs a round trip to the database.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use format::path_hash;
use futures_executor::block_on;
use model::FilespaceId;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::session::Session;
use crate::sql::digest_sums::SumChanges;
use crate::sql::pages::{self, PageNumbers, page_numbers};
use crate::sql::{Row, Sql, batches, params, versions};
use crate::{CatalogError, Day, PageKey, PageRow, VersionRow, Write};

/// Maximum number of rows of one statement.
const ROWS_MAX: usize = 1000;
/// Minimum number of rows of a large statement; fewer rows are written one by one.
const ROWS_MIN: usize = 3;
/// Minimum number of new pages for COPY, which costs more round trips to the database and less for
/// each row.
const COPIED_MIN: usize = 32;

/// Consecutive writes that are performed together.
enum Run<'a> {
    Pages(FilespaceId, Vec<&'a PageRow>),
    Versions(FilespaceId, Vec<&'a VersionRow>),
    One(&'a Write),
}

/// Performs the writes of a batch in their order.
pub(super) fn perform(session: &Session, writes: &[Write]) -> Result<(), CatalogError> {
    lock_filespaces(session, writes)?;
    let mut sums = SumChanges::default();
    for run in runs(writes) {
        match run {
            Run::Pages(filespace, pages) => put_pages(session, filespace, &pages, &mut sums)?,
            Run::Versions(filespace, versions) => add_versions(session, filespace, &versions)?,
            Run::One(one) => batches::perform_one(session, one, &mut sums)?,
        }
    }
    sums.keep(session)
}

/// Locks the filespaces of the writes until the transaction ends: otherwise two transactions might
/// give the same number to two pages. Fails with `NotFound` for an unknown filespace.
fn lock_filespaces(session: &Session, writes: &[Write]) -> Result<(), CatalogError> {
    // The filespaces are locked in the order of their numbers, so that no two transactions wait for
    // each other.
    let filespaces: BTreeSet<FilespaceId> = writes.iter().filter_map(Write::filespace).collect();
    let sql: &dyn Sql = session;
    let select = "SELECT 1 FROM filespace WHERE id = ? FOR NO KEY UPDATE";
    filespaces.into_iter().try_for_each(|filespace| {
        let is_known = sql.exists(select, params![filespace.0])?;
        if is_known { Ok(()) } else { Err(CatalogError::NotFound { what: "the filespace" }) }
    })
}

/// Divides the writes into runs of consecutive pages and versions, in their order.
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
    let count = |run: &Run<'_>| match run {
        Run::Pages(_, pages) => pages.len(),
        Run::Versions(_, versions) => versions.len(),
        Run::One(_) => 1,
    };
    assert_eq!(runs.iter().map(count).sum::<usize>(), writes.len(), "no write is lost");
    runs
}

impl Session {
    /// Executes a statement whose parameters are arrays.
    fn put(&self, statement: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), CatalogError> {
        let prepared = self.prepare(statement)?;
        let done = block_on(self.client.execute(&prepared, values));
        done.map(drop).map_err(|error| self.failed(&error))
    }

    /// Adds rows to the table, which must have none of them. `columns` returns the values of a row.
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
                assert_eq!(columns.len(), types.len(), "one value for each type");
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
    sums: &mut SumChanges,
) -> Result<(), CatalogError> {
    let keys: BTreeSet<&PageKey> = pages.iter().map(|page| &page.key).collect();
    if pages.len() < ROWS_MIN || keys.len() < pages.len() {
        return pages.iter().try_for_each(|page| pages::put(session, filespace, page, sums));
    }
    let numbered = number(session, filespace, pages, sums)?;
    assert_eq!(numbered.len(), pages.len(), "each page gets a number");
    let (new, known): (Vec<NumberedPage<'_>>, Vec<NumberedPage<'_>>) =
        numbered.into_iter().partition(|numbered| numbered.is_new);
    if new.len() < COPIED_MIN {
        return merge_pages(session, filespace, &[new, known].concat());
    }
    copy_pages(session, filespace, &new)?;
    if known.is_empty() { Ok(()) } else { merge_pages(session, filespace, &known) }
}

/// A page with its number.
#[derive(Clone, Copy)]
struct NumberedPage<'a> {
    page: &'a PageRow,
    number: i64,
    /// True if the catalogue does not have the page yet.
    is_new: bool,
}

impl<'a> NumberedPage<'a> {
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

    /// First name as the table of digests has it: NULL for the first page of a directory.
    fn first_of_digest(&self) -> Option<&'a [u8]> {
        Some(self.first()).filter(|first| !first.is_empty())
    }
}

/// Adds pages that the catalogue does not have. No other transaction adds pages: see
/// [`lock_filespaces`].
fn copy_pages(
    session: &Session,
    filespace: FilespaceId,
    pages: &[NumberedPage<'_>],
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

/// Adds or replaces pages.
fn merge_pages(
    session: &Session,
    filespace: FilespaceId,
    pages: &[NumberedPage<'_>],
) -> Result<(), CatalogError> {
    let of_filespace = i64::from(filespace.0);
    assert!(pages.len() <= ROWS_MAX, "a statement has a bounded number of rows");
    let numbers: Vec<i64> = pages.iter().map(|row| row.number).collect();
    let paths: Vec<&[u8]> = pages.iter().map(NumberedPage::path).collect();
    let firsts: Vec<&[u8]> = pages.iter().map(NumberedPage::first).collect();
    let counts: Vec<i64> = pages.iter().map(NumberedPage::objects).collect();
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
    let digests: Vec<Option<&[u8]>> = pages.iter().map(NumberedPage::digest).collect();
    let firsts: Vec<Option<&[u8]>> = pages.iter().map(NumberedPage::first_of_digest).collect();
    session.put(
        "INSERT INTO digest SELECT id, hash, digest, first
         FROM unnest(CAST(?1 AS BIGINT[]), CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]),
           CAST(?4 AS BYTEA[])) AS new(id, hash, digest, first)
         ON CONFLICT(id) DO UPDATE SET digest = excluded.digest",
        &[&numbers, &hashes, &digests, &firsts],
    )
}

/// Numbers the pages, whose keys differ: a known page keeps its number, a new page gets the next
/// number. The pages replace the known ones in `sums`.
fn number<'a>(
    session: &Session,
    filespace: FilespaceId,
    pages: &[&'a PageRow],
    sums: &mut SumChanges,
) -> Result<Vec<NumberedPage<'a>>, CatalogError> {
    let paths: Vec<&[u8]> = pages.iter().map(|page| page.key.directory.as_bytes()).collect();
    let firsts: Vec<&[u8]> = pages.iter().map(|page| &page.key.first[..]).collect();
    let select = session.prepare(
        "SELECT new.place, directory.page, digest.hash, digest.digest, digest.first
         FROM unnest(CAST(?1 AS BYTEA[]), CAST(?2 AS BYTEA[])) WITH ORDINALITY
           AS new(path, first, place)
         JOIN directory ON directory.filespace = CAST(?3 AS BIGINT)
           AND directory.path = new.path AND directory.first = new.first
         LEFT JOIN digest ON digest.id = directory.page",
    )?;
    let of_filespace = i64::from(filespace.0);
    let values: [&(dyn ToSql + Sync); 3] = [&paths, &firsts, &of_filespace];
    assert_eq!(paths.len(), firsts.len(), "the arrays are read in parallel");
    let rows = block_on(session.client.query(&select, &values));
    let mut known: BTreeMap<i64, i64> = BTreeMap::new();
    for row in rows.map_err(|error| session.failed(&error))? {
        known.insert(row.get(0), row.get(1));
        pages::digest_of(&Row(&row), 2)?
            .iter()
            .for_each(|old| sums.take(filespace, old));
    }
    pages.iter().for_each(|page| sums.add(filespace, &page.digest_row()));
    let mut next =
        if known.len() < pages.len() { pages::next_page_number(session, filespace)? } else { 0 };
    let PageNumbers { end, .. } = page_numbers(filespace);
    // An ordinal counts from 1.
    let numbered = (1..).zip(pages).map(|(place, page)| match known.get(&place) {
        Some(number) => NumberedPage { page, number: *number, is_new: false },
        None => {
            next += 1;
            NumberedPage { page, number: next - 1, is_new: true }
        }
    });
    let numbered = numbered.collect();
    if next > end {
        return Err(CatalogError::failed("the filespace has used up its page numbers"));
    }
    Ok(numbered)
}

fn add_versions(
    session: &Session,
    filespace: FilespaceId,
    versions: &[&VersionRow],
) -> Result<(), CatalogError> {
    let keys: BTreeSet<_> = versions
        .iter()
        .map(|row| (&row.directory, &row.name, row.inserted, row.deactivated))
        .collect();
    if versions.len() < ROWS_MIN || keys.len() < versions.len() {
        return versions.iter().try_for_each(|row| versions::add(session, filespace, row));
    }
    assert!(versions.len() <= ROWS_MAX, "a statement has a bounded number of rows");
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
