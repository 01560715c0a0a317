//! The writes of a batch, in as few round trips to the database as possible.
//!
//! ```text
//!   sent at once:  begin, settle, look at the server, lock the filespaces, look up the first pages
//!   sent at once:  rows of the first group, look-up of the pages of the second
//!   ...
//!   sent at once:  rows of the last group, sums, commit
//! ```
//!
//! 1. A batch of one group, as a transaction of a backup usually is, takes two round trips. Each
//!    further group, and each statement of a write outside the groups, takes one more. Many new
//!    pages are copied, which takes six more and costs the database less.
//! 2. No write of the batch is performed before the answers of the first round trip are there: the
//!    transaction has begun, the server may write, and its filespaces exist.
//! 3. The row of the connection is written in the first round trip, although the commit makes it
//!    durable. So this row is locked when the commit is sent: if the answer is lost, who asks for
//!    the row waits until the transaction has ended.
//! 4. If a statement fails, the database performs none of those behind it, and its answer to the
//!    commit is a rollback.

mod group;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use format::path_hash;
use futures_executor::block_on;
use model::{DirPath, FilespaceId};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use self::group::{Group, Part, parts};
use super::membership::Terms;
use super::session::{
    Attempt, COMMIT, Request, Session, TransactionId, Values, WriterLock, opening,
};
use crate::sql::digest_sums::SumChanges;
use crate::sql::pages::{self, PageNumbers, page_number_after, page_numbers};
use crate::sql::{Performer, Row, amounts, batches, events, packs, params, sessions};
use crate::{CatalogError, Day, PageKey, PageRow, Write};

/// Minimum number of new pages for COPY, which costs more round trips to the database and less for
/// each row.
const COPIED_MIN: usize = 512;

/// Performs the writes of a batch in their order, as one transaction. The value is false, and
/// nothing is written, if `terms` do not hold.
pub(super) fn perform(session: &Session, terms: Terms, writes: &[Write]) -> Attempt<bool> {
    let transaction = session.next_transaction();
    let last = match write_all(session, transaction, terms, writes) {
        Ok(Some(last)) => last,
        Ok(None) => {
            session.roll_back();
            return Attempt { value: Some(false), ended: Ok(()) };
        }
        Err(error) => {
            let abort = session.abort(WriterLock::Shared, error);
            session.roll_back();
            return Attempt { value: None, ended: Err(abort) };
        }
    };
    let ended = session.send(&last).map(drop).map_err(|error| {
        let abort = session.abort_of_commit(transaction, error);
        // If the commit was not sent, the transaction is still open.
        session.roll_back();
        abort
    });
    Attempt { value: Some(true), ended }
}

/// Begins the transaction and performs the writes, except the requests that it returns. The last of
/// them is the commit. Returns `None` if `terms` do not hold.
fn write_all<'a>(
    session: &Session,
    transaction: TransactionId,
    terms: Terms,
    writes: &'a [Write],
) -> Result<Option<Vec<Request<'a>>>, CatalogError> {
    let parts = parts(writes);
    let filespaces: BTreeSet<FilespaceId> = writes.iter().filter_map(Write::filespace).collect();
    let mut opening = opening(WriterLock::Shared, transaction, terms)?;
    let question = opening.len() - 1;
    // A filespace is locked until the transaction ends: otherwise two transactions might give the
    // same number to two pages. The filespaces are locked in the order of their numbers, so that no
    // two transactions wait for each other.
    for filespace in &filespaces {
        let lock = "SELECT 1 FROM filespace WHERE id = ? FOR NO KEY UPDATE";
        opening.push(Request::of(lock, params![filespace.0])?);
    }
    if let Some(Part::Group(first)) = parts.first() {
        opening.extend(look_up(first));
    }
    let mut answers = session.send(&opening)?.into_iter().skip(question);
    if !terms.hold(&answers.next().unwrap_or_default())? {
        return Ok(None);
    }
    for _ in &filespaces {
        if answers.next().is_none_or(|known| known.is_empty()) {
            return Err(CatalogError::NotFound { what: "the filespace" });
        }
    }
    let mut writer =
        Writer { session, waiting: Vec::new(), sums: SumChanges::default(), kept: BTreeMap::new() };
    let mut found = answers.next();
    for part in parts {
        match part {
            Part::Group(group) => writer.put_group(&group, found.take())?,
            Part::One(one) => {
                writer.send_waiting()?;
                // It changes no sum: only pages that are put or removed do, and they are in groups.
                batches::perform_one(session, one, &mut writer.sums)?;
            }
        }
    }
    writer.finish().map(Some)
}

/// Asks for the pages of the group, if it has any: their numbers and digests, the number of the
/// last page of the filespace, and the sum that is kept for it.
fn look_up<'a>(group: &Group<'a>) -> Option<Request<'a>> {
    let filespace = group.filespace.filter(|_| !group.pages.is_empty())?;
    // OFFSET is there for the planner, as in `pages::pages_at` of this engine.
    let select = "SELECT asked.place, known.page, known.hash, known.digest, known.first,
                    (SELECT max(id) FROM page WHERE id >= CAST(?4 AS BIGINT)
                                                AND id < CAST(?5 AS BIGINT)),
                    (SELECT sum FROM digest_sum WHERE filespace = CAST(?3 AS BIGINT))
                  FROM unnest(CAST(?1 AS BYTEA[]), CAST(?2 AS BYTEA[])) WITH ORDINALITY
                    AS asked(in_path, from_name, place)
                  LEFT JOIN LATERAL (
                    SELECT page, hash, digest, digest.first
                    FROM directory LEFT JOIN digest ON digest.id = page
                    WHERE filespace = CAST(?3 AS BIGINT) AND path = in_path
                      AND directory.first = from_name
                    OFFSET 0
                  ) AS known ON TRUE";
    let keys = || group.pages.keys().copied();
    let paths: Vec<&'a [u8]> = keys().map(|key| key.directory.as_bytes()).collect();
    let firsts: Vec<&'a [u8]> = keys().map(|key| &key.first[..]).collect();
    assert_eq!(paths.len(), firsts.len(), "the arrays are read in parallel");
    let PageNumbers { first, end } = page_numbers(filespace);
    let of_filespace = i64::from(filespace.0);
    let values: Values<'a> = vec![
        Box::new(paths),
        Box::new(firsts),
        Box::new(of_filespace),
        Box::new(first),
        Box::new(end),
    ];
    Some(Request::Statement { text: select, values })
}

/// The writes of a transaction.
struct Writer<'s, 'a> {
    session: &'s Session,
    /// Requests that are not sent yet.
    waiting: Vec<Request<'a>>,
    sums: SumChanges,
    /// The sums that the catalogue keeps for the filespaces of the pages, as they were before the
    /// transaction.
    kept: BTreeMap<FilespaceId, Option<u128>>,
}

impl<'a> Writer<'_, 'a> {
    fn send_waiting(&mut self) -> Result<(), CatalogError> {
        self.session.send(&std::mem::take(&mut self.waiting)).map(drop)
    }

    /// Performs the writes of the group. `found` is the answer to its look-up, if that was sent.
    fn put_group(
        &mut self,
        group: &Group<'a>,
        found: Option<Vec<tokio_postgres::Row>>,
    ) -> Result<(), CatalogError> {
        let found = match found {
            Some(found) => found,
            None => self.ask(group)?,
        };
        if let Some(filespace) = group.filespace {
            let sorted = self.sort(filespace, group, &found)?;
            self.add_endings(filespace, group);
            self.put_pages(filespace, sorted)?;
        }
        for other in &group.others {
            let waiting = &mut self.waiting;
            let add: Performer<'_> = &mut |text, values| {
                waiting.push(Request::of(text, values)?);
                Ok(())
            };
            match other {
                Write::Grow { filespace, growth } => amounts::grow_by(*filespace, *growth, add)?,
                Write::PutPack(pack) => packs::put_by(pack, add)?,
                Write::AddSession(row) => sessions::add_by(row, add)?,
                Write::AddEvent(event) => events::add_by(event, add)?,
                other => unreachable!("a group has no such write: {other:?}"),
            }
        }
        Ok(())
    }

    /// Sends what waits, and then the look-up of the group, if it has pages. Returns its answer.
    fn ask(&mut self, group: &Group<'a>) -> Result<Vec<tokio_postgres::Row>, CatalogError> {
        let Some(question) = look_up(group) else {
            self.send_waiting()?;
            return Ok(Vec::new());
        };
        self.waiting.push(question);
        let mut answers = self.session.send(&std::mem::take(&mut self.waiting))?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Numbers the pages of the group: a known page keeps its number, a new page gets the next
    /// number. Changes the sums. `found` is the answer to the look-up.
    fn sort(
        &mut self,
        filespace: FilespaceId,
        group: &Group<'a>,
        found: &[tokio_postgres::Row],
    ) -> Result<SortedPages<'a>, CatalogError> {
        let (mut known, mut last): (BTreeMap<i64, i64>, Option<i64>) = (BTreeMap::new(), None);
        for row in found {
            let row = Row(row);
            let number: Option<i64> = row.get(1)?;
            if let Some(number) = number {
                known.insert(row.get(0)?, number);
            }
            if let Some(old) = pages::digest_of(&row, 2)? {
                self.sums.take(filespace, &old);
            }
            last = row.get(5)?;
            let sum = row.get::<Option<[u8; 16]>>(6)?.map(u128::from_le_bytes);
            self.kept.entry(filespace).or_insert(sum);
        }
        let mut sorted = SortedPages::default();
        let mut next = None;
        // An ordinal counts from 1.
        for (place, (key, page)) in (1..).zip(&group.pages) {
            if let Some(page) = *page {
                self.sums.add(filespace, &page.digest_row());
            }
            match (known.get(&place), *page) {
                (Some(&number), Some(page)) => sorted.known.push(NumberedPage { page, number }),
                (Some(&number), None) => sorted.removed.push((*key, number)),
                (None, None) => {}
                (None, Some(page)) => {
                    let number = match next {
                        Some(number) => number,
                        None => page_number_after(filespace, last)?,
                    };
                    next = Some(number + 1);
                    sorted.new.push(NumberedPage { page, number });
                }
            }
        }
        if next > Some(page_numbers(filespace).end) {
            return Err(CatalogError::failed("the filespace has used up its page numbers"));
        }
        Ok(sorted)
    }

    /// Adds the marks, versions and endings of the group. The marks are first: see the second rule
    /// of [`group`].
    fn add_endings(&mut self, filespace: FilespaceId, group: &Group<'a>) {
        let of_filespace = i64::from(filespace.0);
        if !group.marks.is_empty() {
            // ORDER BY makes the planner use the index.
            let text = "INSERT INTO ending SELECT CAST(?1 AS BIGINT), of_day, in_directory
                        FROM unnest(CAST(?2 AS BIGINT[]), CAST(?3 AS BYTEA[]))
                          AS marked(of_day, in_directory)
                        CROSS JOIN LATERAL (
                          SELECT 1 FROM version
                          WHERE filespace = CAST(?1 AS BIGINT) AND directory = in_directory
                          ORDER BY name LIMIT 1
                        ) AS found WHERE TRUE
                        ON CONFLICT(filespace, day, directory) DO NOTHING";
            let values = ending_values(of_filespace, &group.marks);
            self.waiting.push(Request::Statement { text, values });
        }
        if !group.versions.is_empty() {
            self.add_versions(of_filespace, group);
        }
        if !group.endings.is_empty() {
            let text = "INSERT INTO ending SELECT CAST(?1 AS BIGINT), day, directory
                        FROM unnest(CAST(?2 AS BIGINT[]), CAST(?3 AS BYTEA[]))
                          AS new(day, directory)
                        ON CONFLICT(filespace, day, directory) DO NOTHING";
            let values = ending_values(of_filespace, &group.endings);
            self.waiting.push(Request::Statement { text, values });
        }
    }

    fn add_versions(&mut self, of_filespace: i64, group: &Group<'a>) {
        let text = "INSERT INTO version
                      SELECT CAST(?1 AS BIGINT), directory, name, deactivated, inserted, body
                    FROM unnest(CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]), CAST(?4 AS BIGINT[]),
                      CAST(?5 AS BIGINT[]), CAST(?6 AS BYTEA[]))
                      AS new(directory, name, deactivated, inserted, body)
                    ON CONFLICT(filespace, directory, name, deactivated, inserted)
                    DO UPDATE SET body = excluded.body";
        let versions = || group.versions.values().copied();
        let directories: Vec<&'a [u8]> =
            versions().map(|version| version.directory.as_bytes()).collect();
        let names: Vec<&'a [u8]> = versions().map(|version| version.name.as_bytes()).collect();
        let deactivated: Vec<i64> = versions().map(|version| version.deactivated.0).collect();
        let inserted: Vec<i64> = versions().map(|version| version.inserted.0).collect();
        let bodies: Vec<&'a [u8]> = versions().map(|version| &version.body[..]).collect();
        let values: Values<'a> = vec![
            Box::new(of_filespace),
            Box::new(directories),
            Box::new(names),
            Box::new(deactivated),
            Box::new(inserted),
            Box::new(bodies),
        ];
        self.waiting.push(Request::Statement { text, values });
    }

    fn put_pages(
        &mut self,
        filespace: FilespaceId,
        sorted: SortedPages<'a>,
    ) -> Result<(), CatalogError> {
        let SortedPages { new, mut known, removed } = sorted;
        if new.len() < COPIED_MIN {
            known.extend(new);
        } else {
            self.send_waiting()?;
            copy_pages(self.session, filespace, &new)?;
        }
        if !known.is_empty() {
            self.waiting.extend(merge_pages(filespace, &known));
        }
        for (key, number) in removed {
            let delete = "DELETE FROM directory WHERE filespace = ? AND path = ? AND first = ?";
            let values = params![filespace.0, key.directory.as_bytes(), key.first];
            self.waiting.push(Request::of(delete, values)?);
            for delete in ["DELETE FROM page WHERE id = ?", "DELETE FROM digest WHERE id = ?"] {
                self.waiting.push(Request::of(delete, params![number])?);
            }
        }
        Ok(())
    }

    /// Returns the requests that are left, with the sums and the commit.
    fn finish(mut self) -> Result<Vec<Request<'a>>, CatalogError> {
        let (kept, waiting) = (self.kept, &mut self.waiting);
        let of_filespace = |filespace: FilespaceId| Ok(kept.get(&filespace).copied().flatten());
        self.sums.keep_by(of_filespace, &mut |put, values| {
            waiting.push(Request::of(put, values)?);
            Ok(())
        })?;
        self.waiting.push(Request::Command(COMMIT.to_owned()));
        Ok(self.waiting)
    }
}

/// Returns the parameters of a statement that adds endings: the filespace, the days and the
/// directories.
fn ending_values<'a>(of_filespace: i64, endings: &BTreeSet<(Day, &'a DirPath)>) -> Values<'a> {
    let days: Vec<i64> = endings.iter().map(|(day, _)| day.0).collect();
    let directories: Vec<&'a [u8]> =
        endings.iter().map(|&(_, directory)| directory.as_bytes()).collect();
    vec![Box::new(of_filespace), Box::new(days), Box::new(directories)]
}

/// The pages of a group, by what the catalogue has of them.
#[derive(Default)]
struct SortedPages<'a> {
    new: Vec<NumberedPage<'a>>,
    known: Vec<NumberedPage<'a>>,
    /// Known pages that are removed, with their numbers.
    removed: Vec<(&'a PageKey, i64)>,
}

/// A page with its number.
struct NumberedPage<'a> {
    page: &'a PageRow,
    number: i64,
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

    fn hash(&self) -> Vec<u8> {
        path_hash(&self.page.key.directory).0.to_vec()
    }

    fn digest(&self) -> Option<&'a [u8]> {
        self.page.digest.as_ref().map(|digest| &digest.0[..])
    }

    /// First name as the table of digests has it: NULL for the first page of a directory.
    fn first_of_digest(&self) -> Option<&'a [u8]> {
        Some(self.first()).filter(|first| !first.is_empty())
    }
}

impl Session {
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

/// Adds pages that the catalogue does not have. No other transaction adds pages, because this one
/// has locked the filespace.
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
            Box::new(row.hash()),
            Box::new(row.digest()),
            Box::new(row.first_of_digest()),
        ]
    })
}

/// Returns the statements that add or replace pages.
fn merge_pages<'a>(filespace: FilespaceId, pages: &[NumberedPage<'a>]) -> [Request<'a>; 3] {
    let of_filespace = i64::from(filespace.0);
    let numbers: Vec<i64> = pages.iter().map(|row| row.number).collect();
    let paths: Vec<&'a [u8]> = pages.iter().map(NumberedPage::path).collect();
    let firsts: Vec<&'a [u8]> = pages.iter().map(NumberedPage::first).collect();
    let counts: Vec<i64> = pages.iter().map(NumberedPage::objects).collect();
    let text = "INSERT INTO directory SELECT CAST(?1 AS BIGINT), path, first, page, objects
         FROM unnest(CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]), CAST(?4 AS BIGINT[]),
           CAST(?5 AS BIGINT[])) AS new(path, first, page, objects)
         ON CONFLICT(filespace, path, first) DO UPDATE SET objects = excluded.objects";
    let values: Values<'a> = vec![
        Box::new(of_filespace),
        Box::new(paths),
        Box::new(firsts),
        Box::new(numbers.clone()),
        Box::new(counts),
    ];
    let directory = Request::Statement { text, values };
    let bodies: Vec<&'a [u8]> = pages.iter().map(|row| &row.page.body[..]).collect();
    let text = "INSERT INTO page SELECT id, body
         FROM unnest(CAST(?1 AS BIGINT[]), CAST(?2 AS BYTEA[])) AS new(id, body)
         ON CONFLICT(id) DO UPDATE SET body = excluded.body";
    let values: Values<'a> = vec![Box::new(numbers.clone()), Box::new(bodies)];
    let page = Request::Statement { text, values };
    let hashes: Vec<Vec<u8>> = pages.iter().map(NumberedPage::hash).collect();
    let digests: Vec<Option<&'a [u8]>> = pages.iter().map(NumberedPage::digest).collect();
    let firsts: Vec<Option<&'a [u8]>> = pages.iter().map(NumberedPage::first_of_digest).collect();
    let text = "INSERT INTO digest SELECT id, hash, digest, first
         FROM unnest(CAST(?1 AS BIGINT[]), CAST(?2 AS BYTEA[]), CAST(?3 AS BYTEA[]),
           CAST(?4 AS BYTEA[])) AS new(id, hash, digest, first)
         ON CONFLICT(id) DO UPDATE SET digest = excluded.digest";
    let values: Values<'a> =
        vec![Box::new(numbers), Box::new(hashes), Box::new(digests), Box::new(firsts)];
    [directory, page, Request::Statement { text, values }]
}
