//! The servers of one catalogue: which there are, what each has for itself, and what each tells the
//! others.
//!
//! ```text
//! enter --> beat, beat, beat ... --> leave          each server, about once a second
//!             |                                     what it still fills and reads
//!             +--> who is silent is taken off the list, and what it had is anybody's
//!             +--> one of them keeps house
//! ```
//!
//! 1. Whoever is on the list may write. Each transaction looks whether its server still is, and to
//!    take one off waits for the transactions that go on: a server that stood still meanwhile
//!    writes nothing any more.
//! 2. What a server has for itself, such as a filespace that it backs up, ends with it.
//! 3. `horizon` of a server is not above a pack that it fills, or has filled for a session that
//!    goes on. It is set with the numbers that the server takes for its packs, before it uses any,
//!    and only a server that has taken none since may take it back.
//! 4. The changes of packs are found by the number of their transaction: what was not over when
//!    somebody looked is looked at again.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::PackNumber;

use super::{Alone, PATIENCE, Postgres, Session};
use crate::relocate::Standing;
use crate::sql::{Row, Sql, params, read};
use crate::{CatalogError, PackRow};

/// A server that was not heard of for so long is taken for dead.
pub const SILENCE: Duration = Duration::from_secs(15);
/// Changes of packs are kept for so long: who did not look meanwhile is not on the list any more.
const CHANGES_KEPT_HOURS: u32 = 24;

/// What a server says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Not above the packs that it fills; `None` where it fills none.
    pub horizon: Option<PackNumber>,
    /// The end of the numbers that it had taken for packs when it looked.
    pub numbers_end: PackNumber,
    /// Whoever reads there knows of all that was condemned up to here.
    pub generation: u64,
    /// Backups that go on.
    pub sessions: u64,
}

/// A server that is on the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerRow {
    pub id: u64,
    /// Where nodes reach it.
    pub address: String,
    /// The program's version.
    pub version: String,
    pub started: model::ServerTime,
    /// Since it was heard of last.
    pub silent: Duration,
    pub keeps_house: bool,
    /// See [`Beat`].
    pub horizon: Option<PackNumber>,
    pub generation: u64,
    pub sessions: u64,
}

/// All that are on the list, at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roll {
    pub servers: Vec<ServerRow>,
    /// No server has taken this number for a pack, nor a later one.
    pub numbers_end: PackNumber,
    /// Whether nothing is to be taken for unneeded, see [`Postgres::hold`].
    pub is_held: bool,
}

impl Roll {
    /// Nobody, and nothing taken.
    pub fn empty() -> Self {
        Self { servers: Vec::new(), numbers_end: PackNumber(0), is_held: false }
    }

    /// What is below was told of to all, or will never be.
    pub fn horizon(&self) -> PackNumber {
        let horizons = self.servers.iter().filter_map(|server| server.horizon);
        horizons.min().unwrap_or(self.numbers_end)
    }

    /// The one that keeps house.
    pub fn keeper(&self) -> Option<&ServerRow> {
        self.servers.iter().find(|server| server.keeps_house)
    }
}

/// What has become of packs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackChanges {
    /// How often packs were condemned, when this was looked up.
    pub generation: u64,
    /// Where to go on.
    pub position: u64,
    /// As they are now; `None` for those that are gone.
    pub packs: Vec<(PackNumber, Option<PackRow>)>,
}

impl Postgres {
    /// Puts this server on the list; what its process of before had there goes. `place` is what the
    /// server's folder is known by. Returns its number; `None` while the catalogue is being moved,
    /// or a program that knows nothing of others has it.
    pub fn enter(
        &self,
        place: &[u8; 16],
        (address, version): (&str, &str),
    ) -> Result<Option<u64>, CatalogError> {
        let mut stay = self.stay.lock().unwrap_or_else(PoisonError::into_inner);
        let session = self.connect(PATIENCE)?;
        if !session.try_lock_shared()? {
            return Ok(None);
        }
        let id = self.transact((Alone::Yes, None), &mut |session| {
            session.check_not_moved()?;
            let sql: &dyn Sql = session;
            sql.execute("DELETE FROM server WHERE place = ?", params![place])?;
            let insert = "INSERT INTO server(place, address, version, generation)
                          VALUES(?, ?, ?, ?) RETURNING id";
            let generation = generation(sql)?;
            sql.one(insert, params![place, address, version, generation], |row| row.get(0))
        })?;
        self.server.store(id, Ordering::SeqCst);
        *stay = Some(session);
        Ok(Some(id.unsigned_abs()))
    }

    /// Takes this server off the list: it has ended in order.
    pub fn leave(&self) -> Result<(), CatalogError> {
        let id = self.server.swap(-1, Ordering::SeqCst);
        self.retried(|sql| sql.execute("DELETE FROM server WHERE id = ?", &[&id]).map(drop))
    }

    /// Has nobody else use the catalogue for as long as this value lives; `false` where somebody
    /// does.
    pub fn try_alone(&self) -> Result<bool, CatalogError> {
        let mut stay = self.stay.lock().unwrap_or_else(PoisonError::into_inner);
        let session = self.connect(PATIENCE)?;
        if !session.try_lock()? {
            return Ok(false);
        }
        self.transact((Alone::Yes, None), &mut |session| {
            session.check_not_moved()?;
            // None of them lives, or it would have the lock; one that stands still finds out.
            (session as &dyn Sql).execute("DELETE FROM server", &[]).map(drop)
        })?;
        *stay = Some(session);
        Ok(true)
    }

    /// Says that this server is there, by a connection that nobody else waits for. Fails with
    /// `Fenced` where it is not on the list any more.
    pub fn say_alive(&self) -> Result<(), CatalogError> {
        let mut stay = self.stay.lock().unwrap_or_else(PoisonError::into_inner);
        if stay.as_ref().is_none_or(|session| session.client.is_closed()) {
            *stay = None;
            let session = self.connect(PATIENCE)?;
            if !session.try_lock_shared()? {
                return Err(CatalogError::Fenced);
            }
            *stay = Some(session);
        }
        let Some(session) = stay.as_ref() else { return Err(CatalogError::Fenced) };
        let id = self.server.load(Ordering::SeqCst);
        let update = "UPDATE server SET seen = clock_timestamp() WHERE id = ?";
        match (session as &dyn Sql).execute(update, &[&id])? {
            0 => Err(CatalogError::Fenced),
            _ => Ok(()),
        }
    }

    /// Says what this server fills and reads, and hears of all of them. Fails with `Fenced` where
    /// it is not on the list any more, or the database knows less of its numbers than it was told:
    /// it is an older one.
    pub fn beat(&self, beat: &Beat) -> Result<Roll, CatalogError> {
        let id = self.server.load(Ordering::SeqCst);
        let Beat { horizon, numbers_end, generation, sessions } = *beat;
        let horizon = horizon.map(|pack| pack.0);
        let update = "UPDATE server SET generation = ?1, sessions = ?2,
                        horizon = CASE WHEN reserved = ?3 THEN ?4 ELSE horizon END
                      WHERE id = ?5 AND reserved >= ?3";
        let values = params![generation, sessions, numbers_end.0, horizon, id];
        self.retried(|sql| match sql.execute(update, values)? {
            0 => Err(CatalogError::Fenced),
            _ => roll(sql),
        })
    }

    /// The servers that there are.
    pub fn roll(&self) -> Result<Roll, CatalogError> {
        self.retried(roll)
    }

    /// Says to all servers whether nothing is to be taken for unneeded: the catalogue was made
    /// again, and may know less than there is.
    pub fn hold(&self, is_held: bool) -> Result<(), CatalogError> {
        let say = if is_held {
            "INSERT INTO counter VALUES('held', 1) ON CONFLICT(name) DO NOTHING"
        } else {
            "DELETE FROM counter WHERE name = 'held'"
        };
        self.retried(|sql| sql.execute(say, &[]).map(drop))
    }

    /// Has this server keep house where nobody does, and takes those of the `dead` off the list
    /// that were not heard of meanwhile. Returns how many it took off. Fails where somebody does
    /// not let go of the catalogue: it is tried again.
    pub fn tidy(&self, dead: &[u64]) -> Result<usize, CatalogError> {
        let id = self.server.load(Ordering::SeqCst);
        self.transact((Alone::Soon, None), &mut |session| {
            let sql: &dyn Sql = session;
            let bury = "DELETE FROM server
                        WHERE id = ?
                          AND seen < clock_timestamp() - CAST(? AS BIGINT) * INTERVAL '1 second'";
            let mut gone = 0;
            for other in dead {
                gone += sql.execute(bury, params![other, SILENCE.as_secs()])?;
            }
            let keep = "UPDATE server SET keeper = 1
                        WHERE id = ? AND NOT EXISTS (SELECT 1 FROM server WHERE keeper = 1)";
            sql.execute(keep, &[&id])?;
            Ok(gone)
        })
    }

    /// Has numbers of packs go on behind `last`, which is there: the database may be an older one.
    pub fn pass_pack_number(&self, last: PackNumber) -> Result<(), CatalogError> {
        let pass = "UPDATE counter SET value = ?1 WHERE name = 'pack' AND value < ?1";
        self.retried(|sql| sql.execute(pass, params![last.0]).map(drop))
    }

    /// Takes `count` numbers for packs that nobody else gets.
    pub fn take_pack_numbers(&self, count: u32) -> Result<Range<PackNumber>, CatalogError> {
        let id = self.server.load(Ordering::SeqCst);
        let take = "WITH taken AS (
                      UPDATE counter SET value = value + ?1 WHERE name = 'pack' RETURNING value)
                    UPDATE server SET reserved = taken.value + 1,
                      horizon = coalesce(horizon, taken.value - ?1 + 1)
                    FROM taken WHERE id = ?2 RETURNING reserved";
        let end = self.retried(|sql| {
            let end = sql.first(take, params![count, id], |row| row.get::<u64>(0))?;
            end.ok_or(CatalogError::Fenced)
        })?;
        Ok(PackNumber(end - u64::from(count))..PackNumber(end))
    }

    /// Has this server have `what` for itself, such as a filespace. Returns the server that has it.
    pub fn try_have(&self, what: &str) -> Result<u64, CatalogError> {
        let id = self.server.load(Ordering::SeqCst);
        let insert = "INSERT INTO busy SELECT ?, id FROM server WHERE id = ?
                      ON CONFLICT(what) DO UPDATE SET server = busy.server RETURNING server";
        self.retried(|sql| {
            let has = sql.first(insert, params![what, id], |row| row.get(0))?;
            has.ok_or(CatalogError::Fenced)
        })
    }

    /// Lets go of it, if the database is there: whoever waited for it before has waited enough.
    pub fn let_go(&self, what: &str) -> Result<(), CatalogError> {
        let id = self.server.load(Ordering::SeqCst);
        let delete = "DELETE FROM busy WHERE what = ? AND server = ?";
        self.with_within(Duration::ZERO, |session| {
            (session as &dyn Sql).execute(delete, params![what, id]).map(drop)
        })?
    }

    /// All that this server has for itself.
    pub fn had(&self) -> Result<Vec<String>, CatalogError> {
        let id = self.server.load(Ordering::SeqCst);
        let select = "SELECT what FROM busy WHERE server = ?";
        self.retried(|sql| sql.all(select, &[&id], |row| row.get(0)))
    }

    /// Where changes of packs begin that are not over yet.
    pub fn pack_position(&self) -> Result<u64, CatalogError> {
        Ok(self.retried(look)?.1)
    }

    /// What has become of packs since `position`, some of which was told before.
    pub fn pack_changes(&self, position: u64) -> Result<PackChanges, CatalogError> {
        let select = "SELECT changed.pack, pack.number, domain, sealed, bytes, node
                      FROM (SELECT DISTINCT pack FROM pack_change WHERE change >= ?) AS changed
                        LEFT JOIN pack ON pack.number = changed.pack
                      ORDER BY changed.pack";
        self.retried(|sql| {
            // In this order: what the first has seen the second sees too.
            let (generation, next) = look(sql)?;
            let packs = sql.all(select, &[&position], pack_change)?;
            Ok(PackChanges { generation, position: next, packs })
        })
    }

    /// Forgets changes of packs of long ago.
    pub fn forget_pack_changes(&self) -> Result<(), CatalogError> {
        let delete = "DELETE FROM pack_change WHERE at < now() - make_interval(hours => ?)";
        self.retried(|sql| sql.execute(delete, &[&CHANGES_KEPT_HOURS]).map(drop))
    }
}

/// How often packs were condemned.
fn generation(sql: &dyn Sql) -> Result<u64, CatalogError> {
    let select = "SELECT value FROM counter WHERE name = 'generation'";
    Ok(sql.first(select, &[], |row| row.get(0))?.unwrap_or(0))
}

/// The generation, and the first transaction that goes on.
fn look(sql: &dyn Sql) -> Result<(u64, u64), CatalogError> {
    let select = "SELECT coalesce((SELECT value FROM counter WHERE name = 'generation'), 0),
                    CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)";
    sql.one(select, &[], |row| Ok((row.get(0)?, row.get(1)?)))
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
    Ok((number, Some(read::pack(row, 1)?)))
}

impl Session {
    /// Takes the lock that says that the catalogue is used, for as long as the connection stands.
    fn try_lock_shared(&self) -> Result<bool, CatalogError> {
        let select = format!("SELECT 1 WHERE pg_try_advisory_lock_shared({})", super::CLAIM);
        (self as &dyn Sql).exists(&select, &[])
    }

    /// The same alone.
    fn try_lock(&self) -> Result<bool, CatalogError> {
        let select = format!("SELECT 1 WHERE pg_try_advisory_lock({})", super::CLAIM);
        (self as &dyn Sql).exists(&select, &[])
    }

    fn check_not_moved(&self) -> Result<(), CatalogError> {
        Standing::read(self)?.check()
    }

    /// Fails with `Fenced` unless the server is on the list, 0 being anybody, and with `Stale`
    /// where packs were condemned since `generation`.
    pub(super) fn check(&self, server: i64, generation: Option<u64>) -> Result<(), CatalogError> {
        if server == 0 && generation.is_none() {
            return Ok(());
        }
        let select = "SELECT coalesce((SELECT value FROM counter WHERE name = 'generation'), 0),
                        (SELECT id FROM server WHERE id = ?)";
        let columns = |row: &Row<'_>| Ok((row.get::<u64>(0)?, row.get::<Option<i64>>(1)?));
        let (now, found) = (self as &dyn Sql).one(select, &[&server], columns)?;
        match generation {
            _ if server != 0 && found.is_none() => Err(CatalogError::Fenced),
            Some(known) if known != now => Err(CatalogError::Stale),
            _ => Ok(()),
        }
    }
}
