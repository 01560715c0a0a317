//! The exchange between the servers of one catalogue: reports of this server, and changes of packs
//! by other servers.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::postgres::{Beat, Roll};
use catalog::{CatalogError, PackRow, PackState};
use model::PackNumber;

use super::Store;
use super::condemned_packs::CondemnedPacks;
use crate::error::StoreError;
use crate::fleet::{Fleet, PATIENCE, PAUSE, PURGE_PAUSE, ServerSummary, shown};
use crate::folder::hold;

impl Store {
    /// Lists all servers of the catalogue.
    pub fn servers(&self) -> Vec<ServerSummary> {
        let Some(fleet) = &self.fleet else {
            return vec![ServerSummary {
                address: shown(&self.config.listen),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started: self.began,
                silent: Duration::ZERO,
                keeps_house: true,
                is_this: true,
                backups: self.backups(),
            }];
        };
        fleet
            .roll()
            .servers
            .into_iter()
            .map(|row| ServerSummary::new(row, fleet.id))
            .collect()
    }

    /// Returns the addresses at which nodes reach the servers of a fleet. The list is empty if this
    /// server is in no fleet.
    pub fn addresses(&self) -> Vec<String> {
        let servers = self.fleet.iter().flat_map(|fleet| fleet.roll().servers);
        servers.map(|server| server.address).collect()
    }

    /// Returns true if other servers may change the catalogue too.
    pub fn shares_catalog(&self) -> bool {
        self.fleet.is_some()
    }

    /// Returns true if this server does the work that has to happen once in a fleet.
    pub fn keeps_house(&self) -> bool {
        self.fleet.as_ref().is_none_or(|fleet| fleet.keeps_house())
    }

    /// Fails unless this server keeps house.
    pub fn check_keeps_house(&self) -> Result<(), StoreError> {
        if self.keeps_house() {
            return Ok(());
        }
        let roll = self.fleet.as_ref().map_or_else(Roll::empty, |fleet| fleet.roll());
        let keeper = roll.keeper().map_or("another server", |keeper| &keeper.address);
        Err(StoreError::conflict(format!(
            "{keeper} keeps house for all servers; give this command there"
        )))
    }

    /// Ends the hold after a recovery, for all servers: packs that nothing names may be removed.
    pub fn release(&self) -> Result<(), CatalogError> {
        self.fleet.as_ref().map_or(Ok(()), |fleet| fleet.postgres.hold(false))
    }

    /// Reports the packs that this server fills and reads, and takes in the changes by other
    /// servers. A server calls this once before it serves nodes, and then at regular intervals.
    /// Fails with `Fenced` if the other servers have declared this server dead.
    pub fn beat(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let before = fleet.roll();
        self.catch_up()?;
        self.note_indexed(fleet, &before);
        let is_idle = self.users.first_filled().is_none();
        let standing = self.pools.standing(is_idle);
        // This is read after `standing`: a pack that a session begins to fill in between has a
        // higher number.
        let filled = self.users.first_filled();
        let beat = Beat {
            horizon: standing.horizon.into_iter().chain(filled).min(),
            numbers_end: standing.numbers_end,
            generation: self.users.oldest_generation(),
            sessions: self.backups(),
        };
        fleet.beat(&beat)?;
        let now = fleet.roll();
        if self.recovered.swap(now.is_held, Ordering::Relaxed) && !now.is_held {
            hold::forget_hold(&self.folder);
        }
        let is_new =
            before.keeper().is_none_or(|keeper| keeper.id != fleet.id) && fleet.keeps_house();
        if is_new {
            tracing::info!("this server keeps house now");
        }
        let is_gone = |id: u64| now.servers.iter().all(|server| server.id != id);
        if is_new || before.servers.iter().any(|server| is_gone(server.id)) {
            self.has_left_behind.store(true, Ordering::Relaxed);
        }
        self.claims.release_forgotten()
    }

    /// Takes in the changes that other servers made to packs.
    pub fn catch_up(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let mut position = fleet.position();
        let mut changes = fleet.postgres.pack_changes(*position)?;
        let is_news = |condemned: &CondemnedPacks| {
            changes.generation != condemned.generation
                || changes.packs.iter().any(|(pack, row)| !condemned.agrees(*pack, row.as_ref()))
        };
        let has_news = is_news(&self.condemned());
        let mut gone = BTreeSet::new();
        if has_news {
            // The guard waits for the commits under way. The changes are read again, because this
            // server may have condemned packs meanwhile.
            let mut condemned = self.condemned_mut();
            changes = fleet.postgres.pack_changes(*position)?;
            for (pack, row) in &changes.packs {
                if condemned.take_in(*pack, row.as_ref()) {
                    gone.insert(*pack);
                }
            }
            condemned.generation = changes.generation;
        }
        self.users.know(changes.generation);
        *position = changes.position;
        drop(position);
        for (pack, row) in &changes.packs {
            match row {
                None => {
                    self.pools.forget(*pack);
                    self.unread.lock().remove(pack);
                }
                Some(row) if row.state == PackState::Sealed => self.meet(fleet, row),
                Some(_) => {}
            }
        }
        self.forget_packs(&gone);
        Ok(())
    }

    /// Hands the packs that readers at this server have noted as lost to the server that keeps
    /// house. If that fails, they stay noted here.
    pub(crate) fn hand_over_lost(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let lost = self.pools.take_lost();
        if lost.is_empty() {
            return Ok(());
        }
        let noted = fleet.postgres.note_lost(&lost);
        noted.inspect_err(|_| lost.into_iter().for_each(|pack| self.pools.note_lost(pack)))
    }

    /// Returns the packs that readers at this server and at others have noted as lost. They stay
    /// noted where the next server that keeps house finds them.
    pub(crate) fn lost(&self) -> Result<BTreeSet<PackNumber>, CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(self.pools.lost()) };
        self.hand_over_lost()?;
        fleet.postgres.lost()
    }

    /// Forgets notes about packs of which it is known whether they are damaged.
    pub(crate) fn forget_lost(&self, packs: &BTreeSet<PackNumber>) -> Result<(), CatalogError> {
        match &self.fleet {
            Some(fleet) => fleet.postgres.forget_lost(packs),
            None => {
                self.pools.forget_lost(packs);
                Ok(())
            }
        }
    }

    /// Makes a pack of another server readable, and queues it for the index.
    fn meet(&self, fleet: &Fleet, row: &PackRow) {
        let is_usable = !self.condemned().holds(row.number);
        if is_usable && self.pools.learn(row.number, row.bytes) {
            fleet.unindexed().insert(row.number);
        }
    }

    /// Adds the next pack of another server to the index. Returns false if no pack is left.
    pub fn index_others(&self) -> bool {
        let Some(fleet) = &self.fleet else { return false };
        let Some(pack) = fleet.unindexed().first().copied() else { return false };
        if !self.condemned().holds(pack) {
            self.index_or_note(pack);
        }
        fleet.unindexed().remove(&pack);
        true
    }

    /// Notes that the index has all packs that the servers had reported in `roll`.
    fn note_indexed(&self, fleet: &Fleet, roll: &Roll) {
        let first = fleet.unindexed().first().copied();
        let below = roll.horizon().min(first.unwrap_or(PackNumber(u64::MAX)));
        fleet.indexed.fetch_max(below.0, Ordering::Relaxed);
    }

    /// Returns the last pack up to which the index is known to be complete, at most `last`.
    pub fn index_limit(&self, last: PackNumber) -> PackNumber {
        let unread = self.unread.lock().first().copied();
        let last = unread.map_or(last, |unread| last.min(PackNumber(unread.0.saturating_sub(1))));
        let fleet = self.fleet.as_ref();
        let limit = fleet.map(|fleet| fleet.indexed.load(Ordering::Relaxed).saturating_sub(1));
        limit.map_or(last, |limit| last.min(PackNumber(limit)))
    }

    /// Returns the first pack that any server may still fill. The caller must list packs before
    /// this call. Then each listed pack below the horizon is complete.
    pub fn horizon(&self) -> Result<PackNumber, CatalogError> {
        let Some(fleet) = &self.fleet else {
            let (open, filled) = (self.pools.horizon(), self.users.first_filled());
            return Ok(filled.map_or(open, |filled| filled.min(open)));
        };
        // The list of servers is read first: a server that begins to fill a pack later takes a
        // higher number.
        let roll = fleet.postgres.roll()?;
        let others = roll.servers.iter().filter(|server| server.id != fleet.id);
        let theirs = others.filter_map(|server| server.horizon);
        let own = self.pools.standing(false).horizon.into_iter().chain(self.users.first_filled());
        Ok(theirs.chain(own).min().unwrap_or(roll.numbers_end))
    }

    /// Returns true if every other server knows the packs condemned up to `generation`, and has no
    /// reader left that began before it knew them. If `waits` is true, waits up to `PATIENCE`.
    pub fn all_know(&self, generation: u64, waits: bool) -> Result<bool, StoreError> {
        let Some(fleet) = &self.fleet else { return Ok(true) };
        let began = sys::clock::monotonic();
        loop {
            let roll = fleet.postgres.roll()?;
            let mut others = roll.servers.iter().filter(|server| server.id != fleet.id);
            if others.all(|server| server.generation >= generation) {
                return Ok(true);
            }
            let is_over = began.elapsed() > PATIENCE || self.stopping.load(Ordering::Relaxed);
            if is_over || !waits {
                return Ok(false);
            }
            sys::clock::sleep(PAUSE);
        }
    }

    /// Removes the remains of servers that have ended: unfinished uploads, and packs that no server
    /// has reported.
    pub fn clear_up(&self) -> Result<(), CatalogError> {
        if let Some(fleet) = &self.fleet {
            let purged = fleet.state().purged;
            if purged.elapsed() > PURGE_PAUSE {
                fleet.postgres.forget_pack_changes()?;
                fleet.state().purged = sys::clock::monotonic();
            }
        }
        if !self.has_left_behind.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        // A failure leaves the work to the next call.
        let again = || self.has_left_behind.store(true, Ordering::Relaxed);
        let Some(_tending) = self.try_tend() else {
            again();
            return Ok(());
        };
        let listed = match self.pools.list_objects() {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "remains of servers that have ended are removed later");
                again();
                return Ok(());
            }
        };
        let horizon = self.horizon().inspect_err(|_| again())?;
        self.pools.end_orphans(Some(horizon));
        self.condemn_unknown(listed.into_iter().filter(|(pack, _)| *pack < horizon))
            .inspect_err(|_| again())
    }

    /// Takes this server off the list of servers. A server in no fleet gives back the leases of its
    /// pools.
    pub fn leave(&self) {
        let Some(fleet) = &self.fleet else { return self.ownership.release(&self.pools.specs()) };
        fleet.pulse.is_over.store(true, Ordering::Relaxed);
        if let Err(error) = fleet.postgres.leave() {
            tracing::warn!(
                error = model::chain(&error),
                "this server is still on the list of servers; another server will take it off"
            );
        }
    }
}
