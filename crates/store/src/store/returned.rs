//! Pools that are away: numbers that their packs may have, and packs that come back with them.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{CatalogError, PackRow, PackState, Write};
use model::{PackNumber, PoolId};
use pool::{Inventory, PackRecord, PoolSpec};

use super::{CATALOG_DOMAIN, Store, known_packs, log_damage};
use crate::error::StoreError;

/// Number of pack numbers that are skipped at a start while a pool is away: far more than a server
/// can use for packs that it has not recorded yet.
const NUMBERS_LEFT_OUT: u64 = 1 << 16;

impl Store {
    /// Returns the records of packs with which pools are opened.
    pub(crate) fn pack_records(&self) -> Result<BTreeMap<PackNumber, PackRecord>, CatalogError> {
        Ok(known_packs(&self.catalog.packs()?))
    }

    /// Claims each available pool of `specs` on its own, so that another server that has one of
    /// them keeps away no other. Returns the pools that are refused. The reason is in the log once.
    pub(crate) fn claim_each(&self, specs: &[PoolSpec]) -> BTreeSet<PoolId> {
        let mut refused = BTreeSet::new();
        for spec in specs {
            let claimed = match self.fleet {
                None => self.ownership.claim_more(spec),
                Some(_) => self.ownership.lock_more(spec),
            };
            let Err(error) = claimed else {
                self.refused.lock().remove(&spec.id);
                continue;
            };
            refused.insert(spec.id);
            let reason = model::chain(&error);
            let known = self.refused.lock().insert(spec.id, reason.clone());
            if known.as_ref() != Some(&reason) {
                tracing::error!(pool = %spec.id, error = reason, "a pool is refused");
            }
        }
        refused
    }

    /// Claims the available pools, so that no other server uses them while this server is running,
    /// and releases all others.
    pub(crate) fn claim_pools(&self) {
        let specs = self.pools.specs();
        self.ownership.unlock_others(&specs);
        for pool in self.claim_each(&specs) {
            // It is in use here, and not only refused.
            if self.pools.usage(pool).is_there {
                tracing::error!(%pool, "two servers use one pool: stop one of them");
            }
        }
    }

    /// Skips numbers, durably, if a pool is away at the start. The server that wrote to it may have
    /// died before it recorded its last packs, so the catalogue does not know their numbers.
    pub(super) fn leave_out_numbers(&self) -> Result<(), CatalogError> {
        let Some(number) = self.pools.leave_out_numbers(NUMBERS_LEFT_OUT) else { return Ok(()) };
        // The catalogue counts on from the highest number that a row has had.
        let (domain, state) = (CATALOG_DOMAIN, PackState::Sealed);
        let row = PackRow { number, domain, state, bytes: 0, node: None };
        self.catalog.commit(vec![Write::PutPack(row), Write::RemovePack(number)])
    }

    /// Records the packs that were found in pools that have come back, as a start does: packs that
    /// the catalogue does not know, and packs that it has as open. Adds the chunks to the index
    /// that the start could not add without the pools. What cannot be recorded is tried again by
    /// the next call.
    pub(crate) fn take_back(&self, mut found: Inventory) -> Result<(), StoreError> {
        log_damage(&found);
        join(&mut found, std::mem::take(&mut *self.returned.lock()));
        if found.sealed.is_empty() && found.recovered.is_empty() {
            return Ok(());
        }
        let recorded = self.record_returned(&mut found);
        if recorded.is_err() {
            join(&mut self.returned.lock(), found);
        }
        recorded
    }

    /// Adds the sealed packs to the index that nobody could read before.
    pub(crate) fn index_unread(&self) -> Result<(), CatalogError> {
        let unread = self.unread.lock().clone();
        if unread.is_empty() || self.index.is_absent() {
            return Ok(());
        }
        let rows = self.catalog.packs()?;
        let sealed = rows.iter().filter(|row| row.state.is_sealed()).map(|row| row.number);
        for pack in sealed.filter(|pack| unread.contains(pack)) {
            if !self.condemned().holds(pack) {
                self.index_or_note(pack);
            }
        }
        Ok(())
    }

    fn record_returned(&self, found: &mut Inventory) -> Result<(), StoreError> {
        if let (Some(fleet), Some(last)) = (&self.fleet, found.last) {
            fleet.pass(last)?;
        }
        // No pack is condemned or removed until the rows are written.
        let condemned = self.condemned();
        let rows = self.catalog.packs()?;
        self.leave_unknown(found, &rows);
        let sealed = found.sealed.iter().copied();
        let news = self.news_of(&found.recovered, sealed, &rows, &condemned);
        let mut packs: BTreeSet<PackNumber> = news.keys().copied().collect();
        if !news.is_empty() {
            self.catalog.commit(news.into_values().collect())?;
        }
        // Commits wait for the lock, and reading many tables takes long.
        drop(condemned);
        // The start has noted the packs that it knew and could not read.
        let unread = self.unread.lock().clone();
        packs.extend(found.sealed.iter().filter(|pack| unread.contains(*pack)));
        for pack in packs {
            if !self.index.is_absent() && !self.condemned().holds(pack) {
                self.index_or_note(pack);
            }
        }
        Ok(())
    }
}

/// Adds the packs of `others` that can be used to those of `packs`.
fn join(packs: &mut Inventory, others: Inventory) {
    packs.sealed.extend(others.sealed);
    packs.recovered.extend(others.recovered);
    packs.last = packs.last.max(others.last);
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::PathBuf;

    use index::IndexError;

    use super::*;
    use crate::pools::{self, FIRST, PoolChange, PoolSettings};
    use crate::samples::{TestServer, mount, stored, unmount};

    /// Returns a server with two primary pools. New packs are made in the second one while the
    /// first one is away.
    fn server_with_next_pool() -> TestServer {
        let server = TestServer::new();
        server.add_pool("NEXT", false);
        let next = Some(Some("NEXT".to_owned()));
        let settings = PoolSettings { next, ..PoolSettings::default() };
        let change = PoolChange { name: "PRIMARY".to_owned(), settings, is_replaced: false };
        pools::change(&server.store, &change).expect("is changed");
        server
    }

    /// Packs that a killed server had left in a pool were recovered by the next start, and not if
    /// the pool came back later. Numbers of packs that nobody had recorded were given again.
    #[test]
    fn packs_of_a_killed_server_are_recovered_when_their_pool_is_back() {
        let mut server = server_with_next_pool();
        server.back_up("/a/", &[("x", &[1])]);
        server.seal();
        server.back_up("/b/", &[("y", &[2])]);
        // The seal of the second pack is not recorded, and nothing of the third pack is.
        server.store.pools.seal_all().expect("is sealed");
        assert_eq!(stored(&server.store, &[3]).places[0].pack(), PackNumber(3));
        server.store.pools.sync().expect("is synced");
        let pool = server.path().join("pool");
        unmount(&pool);
        server.reopen();
        server.back_up("/c/", &[("z", &[4])]);
        let since = server.store.catalog.packs().expect("are listed").pop().expect("a pack");
        assert!(since.number > PackNumber(NUMBERS_LEFT_OUT), "the pool may have such a pack");

        mount(&pool);
        pools::refresh(&server.store);
        let mut rows = server.store.catalog.packs().expect("are listed");
        assert_eq!(rows.pop(), Some(since));
        let states: Vec<_> = rows.iter().map(|row| (row.number.0, row.state)).collect();
        assert_eq!(states, [1, 2, 3].map(|number| (number, PackState::Sealed)));
        let table = server.store.pools.table_at(FIRST, PackNumber(3)).expect("it has a footer");
        assert_eq!(table.chunk_count(), 1);
        let packs = stored(&server.store, &[1, 2, 3]).places;
        let packs: Vec<u64> = packs.iter().map(|place| place.pack().0).collect();
        assert_eq!(packs, [1, 2, 3], "the chunks are found");
    }

    #[test]
    fn the_index_is_not_complete_up_to_a_pack_that_is_away() {
        for is_rebuilt in [false, true] {
            let mut server = server_with_next_pool();
            server.back_up("/a/", &[("x", &[1])]);
            server.seal();
            if is_rebuilt {
                // The tables of packs are no longer in memory.
                server.store.close().expect("the index is written");
                server.reopen();
            }
            let pool = server.path().join("pool");
            unmount(&pool);
            if is_rebuilt {
                pools::refresh(&server.store);
            } else {
                server.reopen();
            }
            server.back_up("/b/", &[("y", &[2])]);
            server.seal();
            if is_rebuilt {
                let (path, source) = (PathBuf::from("run"), ErrorKind::PermissionDenied.into());
                server.store.index.give_up(&IndexError::Io { path, source }, "write");
                server.store.tend_index();
                assert!(!server.store.lacks_index());
                assert!(server.store.unread.lock().contains(&PackNumber(1)), "it is noted");
            } else {
                server.store.close().expect("the index is written");
            }
            mount(&pool);
            server.reopen();
            let packs = stored(&server.store, &[1, 2]).places;
            let packs: Vec<_> = packs.iter().map(|place| place.pack()).collect();
            let rows = server.store.catalog.packs().expect("are listed");
            let recorded: Vec<_> = rows.iter().map(|row| row.number).collect();
            assert_eq!(packs, recorded, "the chunks are found: {is_rebuilt}");
        }
    }

    #[test]
    fn a_pool_that_is_refused_keeps_no_other_away() {
        let server = TestServer::new();
        let next = server.add_pool("NEXT", false).row.id;
        let folders = [server.path().join("pool"), server.beside("NEXT")];
        let is_there = || {
            pools::refresh(&server.store);
            [FIRST, next].map(|pool| server.store.pools.usage(pool).is_there)
        };
        folders.iter().for_each(|folder| unmount(folder));
        assert_eq!(is_there(), [false, false]);
        let owner = folders[0].join("holdfast-owner");
        std::fs::write(owner, format!("{}\n", "7".repeat(32))).expect("is written");
        folders.iter().for_each(|folder| mount(folder));
        assert_eq!(is_there(), [false, true]);
    }

    #[test]
    fn a_pool_that_another_server_has_taken_does_not_come_back() {
        let server = TestServer::new();
        let pool = server.path().join("pool");
        let owner = pool.join("holdfast-owner");
        let is_there = || {
            pools::refresh(&server.store);
            server.store.pools.usage(FIRST).is_there
        };
        unmount(&pool);
        assert!(!is_there(), "it is away");
        let own = std::fs::read(&owner).expect("is read");
        std::fs::write(&owner, format!("{}\n", "7".repeat(32))).expect("is written");
        mount(&pool);
        assert!(!is_there(), "it belongs to another server");
        let put = server.store.pools.put_file(FIRST, "1.copy", b"");
        assert!(put.is_err(), "nothing is written to the pool of another server");
        std::fs::write(&owner, own).expect("is written");
        assert!(is_there());
    }
}
