//! Statements about directory pages.

use std::collections::HashSet;

use format::path_hash;
use model::{DirPath, DirectoryDigest, FilespaceId, PathHash};

use super::digest_sums::{self, SumChanges};
use super::{Engine, Row, Sql, ToValue, params, row_count};
use crate::{CatalogError, PageDigest, PageKey, PageRow, PageSpan, Pages};

/// Maximum number of digests that are read at once. The caller may wait for a client while it
/// passes them on, and holds no connection and no transaction meanwhile.
const DIGESTS_AT_ONCE: usize = 4096;

/// Number of low bits of a page's number that hold the page's count within its filespace.
pub(crate) const PAGE_COUNT_BITS: u32 = 36;

impl<E: Engine> Pages for E {
    fn digests(
        &self,
        filespace: FilespaceId,
        within: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError> {
        if within.as_bytes().len() <= 1 {
            return all_digests(self, filespace, visit);
        }
        digests_in(self, filespace, &PageSpan::Subtree(within.clone()), visit)
    }

    fn directory_digests(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError> {
        digests_in(self, filespace, &PageSpan::Directory(directory.clone()), visit)
    }

    fn digest_sum(&self, filespace: FilespaceId) -> Result<u128, CatalogError> {
        match self.read(|sql| digest_sums::kept(sql, filespace))? {
            Some(sum) => Ok(sum),
            None => self.write(move |sql| digest_sums::count(sql, filespace)),
        }
    }

    fn undigested(
        &self,
        filespace: FilespaceId,
        pages_max: usize,
    ) -> Result<Option<Vec<DirPath>>, CatalogError> {
        self.read(|sql| undigested(sql, filespace, pages_max))
    }

    fn page(&self, filespace: FilespaceId, key: &PageKey) -> Result<Option<PageRow>, CatalogError> {
        self.read(|sql| page(sql, filespace, key))
    }

    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError> {
        Engine::pages_at(self, filespace, keys)
    }

    fn page_holding(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &[u8],
    ) -> Result<Option<PageRow>, CatalogError> {
        self.read(|sql| page_holding(sql, filespace, directory, name))
    }

    fn pages(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&PageKey>,
        limit: usize,
    ) -> Result<Vec<PageRow>, CatalogError> {
        self.read(|sql| pages(sql, filespace, span, after, limit))
    }

    fn count_objects(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<u64, CatalogError> {
        self.read(|sql| count_objects(sql, filespace, directory))
    }
}

/// The range of page numbers of a filespace.
pub(crate) struct PageNumbers {
    pub(crate) first: i64,
    /// The number after the last page number.
    pub(crate) end: i64,
}

/// Returns the page numbers of a filespace. The range is empty for a filespace whose own number
/// leaves no room for the count.
pub(crate) fn page_numbers(filespace: FilespaceId) -> PageNumbers {
    let count = 1_i64 << PAGE_COUNT_BITS;
    let first = i64::from(filespace.0).saturating_mul(count);
    let end = first.saturating_add(count);
    assert!(0 <= first && first <= end, "numbers do not wrap");
    PageNumbers { first, end }
}

/// Reads the digest row whose columns begin at `column`, if there is one.
pub(crate) fn digest_of(row: &Row<'_>, column: usize) -> Result<Option<PageDigest>, CatalogError> {
    let Some(hash) = row.get::<Option<[u8; 8]>>(column)? else { return Ok(None) };
    Ok(Some(PageDigest {
        hash: PathHash(hash),
        digest: row.get::<Option<[u8; 16]>>(column + 1)?.map(DirectoryDigest),
        first: row.get::<Option<Vec<u8>>>(column + 2)?.unwrap_or_default(),
    }))
}

/// A page that the catalogue has.
struct KnownPage {
    number: i64,
    /// Absent only in a damaged catalogue.
    digest: Option<PageDigest>,
}

fn known_page(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<Option<KnownPage>, CatalogError> {
    let select = "SELECT page, hash, digest, digest.first
                  FROM directory LEFT JOIN digest ON digest.id = page
                  WHERE filespace = ? AND path = ? AND directory.first = ?";
    sql.first(select, params![filespace.0, key.directory.as_bytes(), key.first], |row| {
        Ok(KnownPage { number: row.get(0)?, digest: digest_of(row, 1)? })
    })
}

/// Reads the digest row in the first columns.
pub(super) fn digest_columns(row: &Row<'_>) -> Result<PageDigest, CatalogError> {
    digest_of(row, 0)?.ok_or_else(|| CatalogError::impossible("a digest without its path"))
}

/// Calls `visit` with the digests of all pages of a filespace, until it returns false.
fn all_digests(
    engine: &impl Engine,
    filespace: FilespaceId,
    visit: &mut dyn FnMut(&PageDigest) -> bool,
) -> Result<(), CatalogError> {
    let select = "SELECT hash, digest, first, id FROM digest WHERE id >= ? AND id < ?
                  ORDER BY id LIMIT ?";
    let (PageNumbers { mut first, end }, limit) =
        (page_numbers(filespace), row_count(DIGESTS_AT_ONCE));
    loop {
        let rows: Vec<(PageDigest, i64)> = engine.read(|sql| {
            sql.all(select, params![first, end, limit], |row| {
                Ok((digest_columns(row)?, row.get::<i64>(3)?))
            })
        })?;
        for (digest, _) in &rows {
            if !visit(digest) {
                return Ok(());
            }
        }
        let Some((_, last)) = rows.last().filter(|_| rows.len() >= DIGESTS_AT_ONCE) else {
            return Ok(());
        };
        // The numbers advance even in a damaged tree.
        if *last < first {
            return Err(CatalogError::impossible("the order of digests"));
        }
        first = last.saturating_add(1);
    }
}

/// Calls `visit` with the digests of all pages in `span`, until it returns false.
fn digests_in(
    engine: &impl Engine,
    filespace: FilespaceId,
    span: &PageSpan,
    visit: &mut dyn FnMut(&PageDigest) -> bool,
) -> Result<(), CatalogError> {
    let select = "SELECT hash, digest, digest.first, path, directory.first
                  FROM directory JOIN digest ON digest.id = page
                  WHERE filespace = ?1 AND (path, directory.first) >= (?2, ?3) AND path < ?4
                  ORDER BY path, directory.first LIMIT ?5";
    let (low, high) = span.bounds();
    let high = high.ok_or_else(|| CatalogError::impossible("a directory path"))?;
    let limit = row_count(DIGESTS_AT_ONCE);
    let mut from: (Vec<u8>, Vec<u8>) = (low.to_vec(), Vec::new());
    loop {
        let (mut rows, mut last) = (Vec::new(), from.clone());
        engine.read(|sql| {
            rows.clear();
            sql.each(select, params![filespace.0, from.0, from.1, high, limit], &mut |row| {
                rows.push(digest_columns(row)?);
                last = (row.get(3)?, row.get(4)?);
                Ok(true)
            })
        })?;
        for digest in &rows {
            if !visit(digest) {
                return Ok(());
            }
        }
        if rows.len() < DIGESTS_AT_ONCE {
            return Ok(());
        }
        if last < from {
            return Err(CatalogError::impossible("the order of digests"));
        }
        // In byte order nothing lies between a name and the same name followed by NUL.
        last.1.push(0);
        from = last;
    }
}

/// The digests are read first, because they take far less space than the paths. Usually only the
/// page above the root has no digest, and no path is read.
fn undigested(
    sql: &dyn Sql,
    filespace: FilespaceId,
    pages_max: usize,
) -> Result<Option<Vec<DirPath>>, CatalogError> {
    let select = "SELECT page FROM directory WHERE filespace = ? AND path = ?";
    let above_root: Vec<i64> =
        sql.all(select, params![filespace.0, DirPath::above_root().as_bytes()], |row| {
            row.get::<i64>(0)
        })?;
    let PageNumbers { first, end } = page_numbers(filespace);
    let most = pages_max.saturating_add(above_root.len());
    let select = "SELECT id FROM digest WHERE id >= ? AND id < ? AND digest IS NULL LIMIT ?";
    let limit = row_count(most.saturating_add(1));
    let found: Vec<i64> = sql.all(select, params![first, end, limit], |row| row.get::<i64>(0))?;
    if found.len() > most {
        return Ok(None);
    }
    let wanted: HashSet<i64> = found.into_iter().filter(|id| !above_root.contains(id)).collect();
    let mut directories = Vec::with_capacity(wanted.len());
    if wanted.is_empty() {
        return Ok(Some(directories));
    }
    let select = "SELECT page, path FROM directory WHERE filespace = ?";
    let mut left = wanted.len();
    sql.each(select, &[&filespace.0], &mut |row| {
        if wanted.contains(&row.get(0)?) {
            let path: Vec<u8> = row.get(1)?;
            let path = DirPath::new(&path);
            directories
                .push(path.map_err(|_| CatalogError::impossible("a page's directory path"))?);
            left -= 1;
        }
        Ok(left > 0)
    })?;
    Ok(Some(directories))
}

/// Query for pages; [`page_of`] reads its rows.
pub(crate) const PAGE: &str = "SELECT path, directory.first, objects, digest, body
                    FROM directory JOIN page ON page.id = page JOIN digest ON digest.id = page";

/// Query for all pages with their filespaces in the last column; [`page_of`] reads its rows. A row
/// without its body, which a sound catalogue does not have, has an empty one.
pub(crate) const ALL_PAGES: &str =
    "SELECT path, directory.first, objects, digest, coalesce(body, x''), directory.filespace
     FROM directory LEFT JOIN page ON page.id = page LEFT JOIN digest ON digest.id = page";

/// Reads a page from a row of [`PAGE`].
pub(crate) fn page_of(row: &Row<'_>) -> Result<PageRow, CatalogError> {
    let path: Vec<u8> = row.get(0)?;
    let directory =
        DirPath::new(&path).map_err(|_| CatalogError::impossible("a page's directory path"))?;
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

fn page_holding(
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

fn pages(
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
    // In byte order nothing lies between a name and the same name followed by NUL.
    let next = |key: &PageKey| (key.directory.as_bytes().to_vec(), [&key.first[..], &[0]].concat());
    let (path, first) = after.map(next).map_or(low.clone(), |next| next.max(low));
    let parameters = params![filespace.0, path, first, high, row_count(limit)];
    let rows: Vec<PageRow> = sql.all(&select, parameters, page_of)?;
    assert!(rows.len() <= limit, "the statement limits its rows");
    // The caller asks again with the last key as `after`: even in a damaged tree the keys must
    // advance.
    let advances =
        |row: &PageRow| (row.key.directory.as_bytes(), &row.key.first) >= (&path[..], &first);
    if rows.first().is_none_or(advances) && rows.is_sorted_by(|a, b| a.key < b.key) {
        Ok(rows)
    } else {
        Err(CatalogError::impossible("the order of pages"))
    }
}

fn count_objects(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<u64, CatalogError> {
    let select = "SELECT CAST(coalesce(sum(objects), 0) AS BIGINT) FROM directory
                  WHERE filespace = ?1 AND path >= ?2 AND (path < ?3 OR ?3 IS NULL)";
    let parameters = params![filespace.0, directory.as_bytes(), directory.end_of_subtree()];
    sql.one(select, parameters, |row| row.get(0))
}

fn page_number(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
) -> Result<Option<i64>, CatalogError> {
    let select = "SELECT page FROM directory WHERE filespace = ? AND path = ? AND first = ?";
    sql.first(select, params![filespace.0, key.directory.as_bytes(), key.first], |row| row.get(0))
}

fn next_page_number(sql: &dyn Sql, filespace: FilespaceId) -> Result<i64, CatalogError> {
    let PageNumbers { first, end } = page_numbers(filespace);
    let select = "SELECT max(id) FROM page WHERE id >= ? AND id < ?";
    let last: Option<i64> = sql.one(select, params![first, end], |row| row.get(0))?;
    page_number_after(filespace, last)
}

/// Returns the number of the page after `last`, which is the last page of the filespace.
pub(crate) fn page_number_after(
    filespace: FilespaceId,
    last: Option<i64>,
) -> Result<i64, CatalogError> {
    let PageNumbers { first, end } = page_numbers(filespace);
    let next = last.map_or(first, |last| last + 1);
    if next < first {
        return Err(CatalogError::impossible("the last page number of a filespace"));
    }
    if next < end {
        Ok(next)
    } else {
        Err(CatalogError::failed("the filespace has used up its page numbers"))
    }
}

pub(super) fn put(
    sql: &dyn Sql,
    filespace: FilespaceId,
    page: &PageRow,
    sums: &mut SumChanges,
) -> Result<(), CatalogError> {
    let number = match known_page(sql, filespace, &page.key)? {
        Some(known) => {
            known.digest.iter().for_each(|old| sums.take(filespace, old));
            known.number
        }
        None => next_page_number(sql, filespace)?,
    };
    sums.add(filespace, &page.digest_row());
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

pub(super) fn remove(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
    sums: &mut SumChanges,
) -> Result<(), CatalogError> {
    let Some(KnownPage { number, digest }) = known_page(sql, filespace, key)? else {
        return Ok(());
    };
    digest.iter().for_each(|old| sums.take(filespace, old));
    let delete = "DELETE FROM directory WHERE filespace = ? AND path = ? AND first = ?";
    sql.execute(delete, &[&filespace.0, &key.directory.as_bytes(), &key.first])?;
    sql.execute("DELETE FROM page WHERE id = ?", &[&number])?;
    sql.execute("DELETE FROM digest WHERE id = ?", &[&number])?;
    Ok(())
}

pub(super) fn rewrite(
    sql: &dyn Sql,
    filespace: FilespaceId,
    key: &PageKey,
    old: &[u8],
    new: &[u8],
) -> Result<(), CatalogError> {
    let Some(number) = page_number(sql, filespace, key)? else { return Ok(()) };
    let update = "UPDATE page SET body = ? WHERE id = ? AND body = ?";
    sql.execute(update, &[&new, &number, &old]).map(drop)
}
