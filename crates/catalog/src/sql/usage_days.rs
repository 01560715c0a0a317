//! Statements about the space of each day.

use model::DomainId;

use super::{Engine, Row, Sql, params};
use crate::{CatalogError, Day, UsageDay, UsageDays, UsageSubject};

impl<E: Engine> UsageDays for E {
    fn put_usage_days(&self, days: &[UsageDay]) -> Result<(), CatalogError> {
        let days = days.to_vec();
        self.write(move |sql| days.iter().try_for_each(|day| put(sql, day)))
    }

    fn usage_days(
        &self,
        subject: UsageSubject,
        (from, to): (Day, Day),
    ) -> Result<Vec<UsageDay>, CatalogError> {
        let select = "SELECT day, bytes, bytes_max FROM usage_day
                      WHERE kind = ? AND subject = ? AND day >= ? AND day <= ? ORDER BY day";
        let columns = |row: &Row<'_>| {
            let day = Day(row.get(0)?);
            Ok(UsageDay { subject, day, bytes: row.get(1)?, bytes_max: row.get(2)? })
        };
        let (kind, number) = key(subject);
        self.read(|sql| sql.all(select, params![kind, number, from.0, to.0], columns))
    }

    fn forget_usage_days(&self, before: Day) -> Result<(), CatalogError> {
        self.write(move |sql| {
            sql.execute("DELETE FROM usage_day WHERE day < ?", params![before.0]).map(drop)
        })
    }
}

/// Columns of a subject.
fn key(subject: UsageSubject) -> (u32, u32) {
    match subject {
        UsageSubject::Pool(pool) => (0, pool.0),
        UsageSubject::Domain(domain) => (1, domain.0),
    }
}

/// Removes the sizes of a domain that is gone: another domain gets its number.
pub(super) fn forget_domain(sql: &dyn Sql, domain: DomainId) -> Result<(), CatalogError> {
    let (kind, number) = key(UsageSubject::Domain(domain));
    let delete = "DELETE FROM usage_day WHERE kind = ? AND subject = ?";
    sql.execute(delete, params![kind, number]).map(drop)
}

fn put(sql: &dyn Sql, day: &UsageDay) -> Result<(), CatalogError> {
    let insert = "INSERT INTO usage_day(kind, subject, day, bytes, bytes_max)
                  VALUES(?, ?, ?, ?, ?) ON CONFLICT(kind, subject, day) DO UPDATE
                  SET bytes = excluded.bytes, bytes_max = excluded.bytes_max";
    let (kind, number) = key(day.subject);
    let values = params![kind, number, day.day.0, day.bytes, day.bytes_max];
    sql.execute(insert, values).map(drop)
}
