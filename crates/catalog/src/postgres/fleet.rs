//! The list of the servers of one catalogue, their reservations, and their news of packs.
//!
//! ```text
//! enter --> beat, beat, beat ... --> leave          each server, about once a second:
//!             |                                     the packs that it fills, its news of packs
//!             +--> a silent server is removed from the list, with its reservations
//!             +--> one server keeps house
//! ```
//!
//! 1. A server in the list may write. Each transaction checks that its server is in the list. The
//!    removal of a server from the list waits for the running transactions. Therefore a server that
//!    hung meanwhile writes nothing more.
//! 2. A server's reservations, such as one of a filespace that it backs up, end with the server.
//! 3. The `horizon` of a server is not above any pack that the server fills, or has filled for a
//!    running session. It is set together with the numbers that the server takes for its packs,
//!    before the server uses any of them. A server may raise its horizon only if it has taken no
//!    numbers since it computed the new value.
//! 4. Changes of packs are found by the number of their transaction: a transaction that had not
//!    ended at the last query is read at the next query.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::PackNumber;

use super::connections::PATIENCE;
use super::engine::Postgres;
use super::membership::GONE;
use super::session::WriterLock;
use crate::sql::{Row, Sql, packs, params};
use crate::{CatalogError, MoveState, PackRow};

/// Time after which a silent server counts as dead.
pub const SILENCE: Duration = Duration::from_secs(15);
/// Time for which changes of packs are kept. A server that has not read changes for so long is not
/// in the list any more.
const CHANGES_KEPT_HOURS: u32 = 24;

/// The state that a server reports about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Lower limit of the numbers of the packs that the server fills; `None` if it fills none.
    pub horizon: Option<PackNumber>,
    /// Exclusive end of the numbers that the server had taken for packs when it computed `horizon`.
    pub numbers_end: PackNumber,
    /// Number of condemnations that all readers at the server know.
    pub generation: u64,
    /// Number of running backups.
    pub sessions: u64,
}

/// A server in the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerRow {
    pub id: u64,
    /// Address at which nodes reach the server.
    pub address: String,
    /// Version of the program.
    pub version: String,
    pub started: model::ServerTime,
    /// Time since the server's last sign of life.
    pub silent: Duration,
    pub keeps_house: bool,
    /// Reported lower limit of the server's packs; see [`Beat`].
    pub horizon: Option<PackNumber>,
    pub generation: u64,
    pub sessions: u64,
}

/// The list of servers, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roll {
    pub servers: Vec<ServerRow>,
    /// Lowest number that no server has taken for a pack.
    pub numbers_end: PackNumber,
    /// True while no pack counts as unneeded; see [`Postgres::hold`].
    pub is_held: bool,
}

impl Roll {
    /// Returns the empty list, for which no number is taken.
    pub fn empty() -> Self {
        Self { servers: Vec::new(), numbers_end: PackNumber(0), is_held: false }
    }

    /// Returns the lower limit of the packs that may still be recorded: no server will record
    /// another pack below it.
    pub fn horizon(&self) -> PackNumber {
        let horizons = self.servers.iter().filter_map(|server| server.horizon);
        horizons.min().unwrap_or(self.numbers_end)
    }

    /// The server that keeps house.
    pub fn keeper(&self) -> Option<&ServerRow> {
        self.servers.iter().find(|server| server.keeps_house)
    }
}

/// Changes of packs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackChanges {
    /// Number of condemnations when the changes were read.
    pub generation: u64,
    /// Position from which the next call continues.
    pub position: u64,
    /// The changed packs as they are now; `None` for a removed pack.
    pub packs: Vec<(PackNumber, Option<PackRow>)>,
}

impl Postgres {
    /// Adds this server to the list and removes the row of its earlier process. `place` identifies
    /// the server's folder. Returns the server's number; `None` while another process has the
    /// catalogue alone.
    pub fn enter(
        &self,
        place: &[u8; 16],
        address: &str,
        version: &str,
    ) -> Result<Option<u64>, CatalogError> {
        let mut claim = self.claim();
        let session = self.connections.connect(PATIENCE)?;
        if !session.try_lock_shared()? {
            return Ok(None);
        }
        let id: i64 = self.transact(WriterLock::Exclusive, &mut |session| {
            let sql: &dyn Sql = session;
            MoveState::read(sql)?.check()?;
            sql.execute("DELETE FROM server WHERE place = ?", params![place])?;
            let insert = "INSERT INTO server(place, address, version, generation)
                          VALUES(?, ?, ?, ?) RETURNING id";
            let generation = generation(sql)?;
            sql.one(insert, params![place, address, version, generation], |row| row.get(0))
        })?;
        assert!(id > 0, "the database counts servers from 1");
        self.server.store(id, Ordering::SeqCst);
        *claim = Some(session);
        Ok(Some(id.unsigned_abs()))
    }

    /// Removes this server from the list, because it stops in an orderly way.
    pub fn leave(&self) -> Result<(), CatalogError> {
        let id = self.server.swap(GONE, Ordering::SeqCst);
        self.retry(|sql| sql.execute("DELETE FROM server WHERE id = ?", &[&id]).map(drop))
    }

    /// Keeps all other processes from using the catalogue while this value lives. Returns false if
    /// another process uses it.
    pub fn try_alone(&self) -> Result<bool, CatalogError> {
        let mut claim = self.claim();
        let session = self.connections.connect(PATIENCE)?;
        if !session.try_lock()? {
            return Ok(false);
        }
        self.transact(WriterLock::Exclusive, &mut |session| {
            let sql: &dyn Sql = session;
            MoveState::read(sql)?.check()?;
            // A running server would have the lock. A server that hangs fails at its next
            // transaction.
            sql.execute("DELETE FROM server", &[]).map(drop)
        })?;
        *claim = Some(session);
        Ok(true)
    }

    /// Records a sign of life of this server, on a connection that nobody else waits for. Fails
    /// with `Fenced` if the server is not in the list any more.
    pub fn say_alive(&self) -> Result<(), CatalogError> {
        let mut claim = self.claim();
        if claim.as_ref().is_none_or(|session| session.client.is_closed()) {
            *claim = None;
            let session = self.connections.connect(PATIENCE)?;
            if !session.try_lock_shared()? {
                return Err(CatalogError::Fenced);
            }
            *claim = Some(session);
        }
        let Some(session) = claim.as_ref() else { return Err(CatalogError::Fenced) };
        let id = self.server_id();
        let update = "UPDATE server SET seen = clock_timestamp() WHERE id = ?";
        match (session as &dyn Sql).execute(update, &[&id])? {
            0 => Err(CatalogError::Fenced),
            _ => Ok(()),
        }
    }

    /// Records the state of this server and returns the list. Fails with `Fenced` if the server is
    /// not in the list any more, or if the database knows fewer of its numbers than it has taken:
    /// then the database is an older copy.
    pub fn beat(&self, beat: &Beat) -> Result<Roll, CatalogError> {
        let id = self.server_id();
        let Beat { horizon, numbers_end, generation, sessions } = *beat;
        let horizon = horizon.map(|pack| pack.0);
        let update = "UPDATE server SET generation = ?1, sessions = ?2,
                        horizon = CASE WHEN reserved = ?3 THEN ?4 ELSE horizon END
                      WHERE id = ?5 AND reserved >= ?3";
        let values = params![generation, sessions, numbers_end.0, horizon, id];
        self.retry(|sql| match sql.execute(update, values)? {
            0 => Err(CatalogError::Fenced),
            _ => roll(sql),
        })
    }

    /// Returns the list of servers.
    pub fn roll(&self) -> Result<Roll, CatalogError> {
        self.retry(roll)
    }

    /// If `is_held` is set, keeps all servers from treating any pack as unneeded; otherwise ends
    /// that. A restored catalogue may know less than the pools have.
    pub fn hold(&self, is_held: bool) -> Result<(), CatalogError> {
        let statement = if is_held {
            "INSERT INTO counter VALUES('held', 1) ON CONFLICT(name) DO NOTHING"
        } else {
            "DELETE FROM counter WHERE name = 'held'"
        };
        self.retry(|sql| sql.execute(statement, &[]).map(drop))
    }

    /// Makes this server keep house if no server does, and removes the servers of `dead` that are
    /// still silent from the list. Returns the number of removed servers. Fails if the transactions
    /// of others do not end soon: try again.
    pub fn tidy(&self, dead: &[u64]) -> Result<usize, CatalogError> {
        let id = self.server_id();
        self.transact(WriterLock::ExclusiveSoon, &mut |session| {
            let sql: &dyn Sql = session;
            let remove = "DELETE FROM server
                        WHERE id = ?
                          AND seen < clock_timestamp() - CAST(? AS BIGINT) * INTERVAL '1 second'";
            let mut removed = 0;
            for other in dead {
                removed += sql.execute(remove, params![other, SILENCE.as_secs()])?;
            }
            assert!(removed <= dead.len(), "a server has one row");
            let keep = "UPDATE server SET keeper = 1
                        WHERE id = ? AND NOT EXISTS (SELECT 1 FROM server WHERE keeper = 1)";
            sql.execute(keep, &[&id])?;
            Ok(removed)
        })
    }

    /// Makes the numbers of packs continue after `last`, the number of an existing pack, because
    /// the database may be an older copy.
    pub fn pass_pack_number(&self, last: PackNumber) -> Result<(), CatalogError> {
        let pass = "UPDATE counter SET value = ?1 WHERE name = 'pack' AND value < ?1";
        self.retry(|sql| sql.execute(pass, params![last.0]).map(drop))
    }

    /// Takes `count` numbers for packs; nobody else gets them. Fails with `Fenced` if this server
    /// is not in the list any more.
    pub fn take_pack_numbers(&self, count: u32) -> Result<Range<PackNumber>, CatalogError> {
        assert!(count > 0, "a pack needs a number");
        let id = self.server_id();
        let take = "WITH taken AS (
                      UPDATE counter SET value = value + ?1 WHERE name = 'pack' RETURNING value)
                    UPDATE server SET reserved = taken.value + 1,
                      horizon = coalesce(horizon, taken.value - ?1 + 1)
                    FROM taken WHERE id = ?2 RETURNING reserved";
        let end = self.retry(|sql| {
            let end = sql.first(take, params![count, id], |row| row.get::<u64>(0))?;
            end.ok_or(CatalogError::Fenced)
        })?;
        Ok(PackNumber(end - u64::from(count))..PackNumber(end))
    }

    /// Reserves `what`, such as a filespace, for this server. Returns the number of the server that
    /// has it reserved now. Fails with `Fenced` if this server is not in the list any more.
    pub fn try_reserve(&self, what: &str) -> Result<u64, CatalogError> {
        let id = self.server_id();
        let insert = "INSERT INTO busy SELECT ?, id FROM server WHERE id = ?
                      ON CONFLICT(what) DO UPDATE SET server = busy.server RETURNING server";
        self.retry(|sql| {
            let holder = sql.first(insert, params![what, id], |row| row.get(0))?;
            holder.ok_or(CatalogError::Fenced)
        })
    }

    /// Ends this server's reservation of `what`. Does not wait for a database that does not answer.
    pub fn release(&self, what: &str) -> Result<(), CatalogError> {
        let id = self.server_id();
        let delete = "DELETE FROM busy WHERE what = ? AND server = ?";
        self.connections.with(Duration::ZERO, |session| {
            (session as &dyn Sql).execute(delete, params![what, id]).map(drop)
        })?
    }

    /// All reservations of this server.
    pub fn reservations(&self) -> Result<Vec<String>, CatalogError> {
        let id = self.server_id();
        let select = "SELECT what FROM busy WHERE server = ?";
        self.retry(|sql| sql.all(select, &[&id], |row| row.get(0)))
    }

    /// Position of the first change of packs that may not be visible yet.
    pub fn pack_position(&self) -> Result<u64, CatalogError> {
        Ok(self.retry(Visibility::read)?.position)
    }

    /// The changes of packs since `position`; some of them may have been read before.
    pub fn pack_changes(&self, position: u64) -> Result<PackChanges, CatalogError> {
        let select = "SELECT changed.pack, pack.number, domain, sealed, bytes, node
                      FROM (SELECT DISTINCT pack FROM pack_change WHERE change >= ?) AS changed
                        LEFT JOIN pack ON pack.number = changed.pack
                      ORDER BY changed.pack";
        self.retry(|sql| {
            // The order of the two queries matters: each change that the first query sees is
            // visible to the second.
            let Visibility { generation, position: next } = Visibility::read(sql)?;
            let packs = sql.all(select, &[&position], pack_change)?;
            Ok(PackChanges { generation, position: next, packs })
        })
    }

    /// Notes packs of which readers at this server needed data that no pool could read, for the
    /// server that keeps house.
    pub fn note_lost(&self, packs: &BTreeSet<PackNumber>) -> Result<(), CatalogError> {
        let insert = "INSERT INTO counter(name, value) VALUES(?, ?) ON CONFLICT(name) DO NOTHING";
        self.retry(|sql| {
            packs.iter().try_for_each(|pack| {
                let name = format!("lost pack {}", pack.0);
                sql.execute(insert, params![name, pack.0]).map(drop)
            })
        })
    }

    /// Returns the packs that servers have noted, until they are forgotten.
    pub fn lost(&self) -> Result<BTreeSet<PackNumber>, CatalogError> {
        let select = "SELECT value FROM counter WHERE name LIKE 'lost pack %'";
        let noted: Vec<u64> = self.retry(|sql| sql.all(select, &[], |row| row.get::<u64>(0)))?;
        Ok(noted.into_iter().map(PackNumber).collect())
    }

    /// Removes the notes about these packs.
    pub fn forget_lost(&self, packs: &BTreeSet<PackNumber>) -> Result<(), CatalogError> {
        let delete = "DELETE FROM counter WHERE name = ?";
        self.retry(|sql| {
            packs.iter().try_for_each(|pack| {
                sql.execute(delete, params![format!("lost pack {}", pack.0)]).map(drop)
            })
        })
    }

    /// Removes old changes of packs.
    pub fn forget_pack_changes(&self) -> Result<(), CatalogError> {
        let delete = "DELETE FROM pack_change WHERE at < now() - make_interval(hours => ?)";
        self.retry(|sql| sql.execute(delete, &[&CHANGES_KEPT_HOURS]).map(drop))
    }
}

/// Number of condemnations so far.
fn generation(sql: &dyn Sql) -> Result<u64, CatalogError> {
    let select = "SELECT value FROM counter WHERE name = 'generation'";
    Ok(sql.first(select, &[], |row| row.get(0))?.unwrap_or(0))
}

/// The changes that are visible at one moment.
struct Visibility {
    generation: u64,
    /// Number of the first transaction that is still running.
    position: u64,
}

impl Visibility {
    fn read(sql: &dyn Sql) -> Result<Self, CatalogError> {
        let select = "SELECT coalesce((SELECT value FROM counter WHERE name = 'generation'), 0),
                        CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)";
        sql.one(select, &[], |row| Ok(Self { generation: row.get(0)?, position: row.get(1)? }))
    }
}

fn roll(sql: &dyn Sql) -> Result<Roll, CatalogError> {
    let select = "SELECT value + 1, CASE WHEN EXISTS (SELECT 1 FROM counter WHERE name = 'held')
                      THEN CAST(1 AS BIGINT) ELSE 0 END,
                    id, address, version, CAST(extract(epoch FROM started) * 1000000 AS BIGINT),
                    CAST(greatest(extract(epoch FROM clock_timestamp() - seen), 0) * 1000
                      AS BIGINT),
                    keeper, horizon, generation, sessions
                  FROM counter LEFT JOIN server ON TRUE WHERE name = 'pack' ORDER BY id";
    let mut roll = Roll::empty();
    sql.each(select, &[], &mut |row| {
        roll.numbers_end = PackNumber(row.get(0)?);
        roll.is_held = row.get(1)?;
        if row.get::<Option<u64>>(2)?.is_some() {
            roll.servers.push(server(row)?);
        }
        Ok(true)
    })?;
    Ok(roll)
}

fn server(row: &Row<'_>) -> Result<ServerRow, CatalogError> {
    Ok(ServerRow {
        id: row.get(2)?,
        address: row.get(3)?,
        version: row.get(4)?,
        started: model::ServerTime(row.get(5)?),
        silent: Duration::from_millis(row.get(6)?),
        keeps_house: row.get(7)?,
        horizon: row.get::<Option<u64>>(8)?.map(PackNumber),
        generation: row.get(9)?,
        sessions: row.get(10)?,
    })
}

fn pack_change(row: &Row<'_>) -> Result<(PackNumber, Option<PackRow>), CatalogError> {
    let number = PackNumber(row.get(0)?);
    if row.get::<Option<u64>>(1)?.is_none() {
        return Ok((number, None));
    }
    Ok((number, Some(packs::pack(row, 1)?)))
}
