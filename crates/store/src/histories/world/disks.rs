//! Disks of a server in other hands: people put an older catalogue back, and take a pool away.
//!
//! 1. A server with an older catalogue is held. While it is held it removes no pack, so that the
//!    newer copy of the catalogue brings everything back. A release ends the hold.
//! 2. A server counts nothing as lost that only a pool has that is away. When the pool is back,
//!    everything can be read, also if the server before was killed and has left packs open there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use model::PackNumber;

use super::{World, away};
use crate::error::StoreError;
use crate::folder::config::CATALOG_FILE;
use crate::folder::hold::Hold;
use crate::histories::step::{POOLS, Work};
use crate::lifecycle::{audit, recovery};
use crate::pools;

impl World {
    /// Puts the catalogue back as it was after `part` thousandths of the changes since the last
    /// power cut. The pools stay as they are. Then rebuilds the newer catalogue from its copy.
    pub(super) fn use_older_catalog(
        &mut self,
        part: u64,
        is_released: bool,
    ) -> Result<(), StoreError> {
        let then = self.position(0, self.disk.position(), part, false);
        self.work(&Work::CopyCatalog)?;
        let newer = self.standing.copies.as_ref().expect("a copy was made").number;
        drop(self.drop_server());
        let folder = self.standing.folder.clone();
        let files = ["", "-wal"].map(|suffix| folder.join(format!("{CATALOG_FILE}{suffix}")));
        if !self.disk.put_back(then, &files) {
            // The catalogue was made after that time.
            return self.open();
        }
        self.has_put_back = true;
        self.standing.has_older = true;
        let met = self.meet_older_catalog(newer, is_released);
        let done = met.and_then(|()| self.rebuild());
        if done.is_err() {
            // The next start rebuilds the catalogue.
            drop(self.drop_server());
        }
        done
    }

    /// Starts the server with a catalogue that is older than its copy `newer`, and lets it work.
    fn meet_older_catalog(&mut self, newer: u64, is_released: bool) -> Result<(), StoreError> {
        self.open()?;
        // A fault may hide the newer copy.
        self.check_no_fault()?;
        let hold = self.store()?.hold()?;
        assert_eq!(hold, Some(Hold::Older { copy: newer }), "the catalogue is older");
        let packs = self.packs()?;
        for work in [Work::Reclaim, Work::CopyCatalog] {
            assert!(self.work(&work).is_err(), "{work:?} is done with an older catalogue");
        }
        for work in [Work::Expire, Work::CopyPacks, Work::Drain] {
            // The older catalogue may name packs that are gone.
            drop(self.work(&work));
        }
        self.check_no_fault()?;
        assert!(packs.is_subset(&self.packs()?), "a server that is held removes a pack");
        if !is_released {
            return Ok(());
        }
        recovery::release(self.store()?)?;
        drop(self.drop_server());
        self.open()?;
        self.check_no_fault()?;
        assert_eq!(self.store()?.hold()?, None, "the hold comes back");
        Ok(())
    }

    /// Stops or kills the server, takes a pool away, as a disk that is not mounted, and brings it
    /// back.
    pub(super) fn lack_pool(&mut self, pool: &str, is_killed: bool) -> Result<(), StoreError> {
        if let Some(store) = self.drop_server().filter(|_| !is_killed) {
            store.close()?;
        }
        let mark = self.mark_of(pool);
        std::fs::rename(&mark, aside(&mark)).map_err(|error| away(&error))?;
        let done = self.work_without(pool);
        if done.is_err() {
            // The next start brings the pool back.
            drop(self.drop_server());
        }
        done
    }

    fn work_without(&mut self, pool: &str) -> Result<(), StoreError> {
        self.open()?;
        let order = audit::Order { data: true, rate: None };
        let audit = audit::run(self.store()?, order, &mut |_| true)?;
        self.check_no_fault()?;
        assert_eq!(audit.away, [pool], "one pool is away");
        assert_eq!((audit.damages, audit.victims.count), (Vec::new(), 0), "nothing is lost");
        for work in [Work::Reclaim, Work::CopyPacks, Work::Drain] {
            // Some of them need the pool.
            drop(self.work(&work));
        }
        self.bring_pools_back()?;
        pools::refresh(self.store()?);
        // No operation of the check may fail.
        self.is_hurt |= self.disk.relieve();
        if !self.is_hurt {
            self.check();
        }
        Ok(())
    }

    /// Brings all pools back that are away.
    pub(super) fn bring_pools_back(&self) -> Result<(), StoreError> {
        for pool in POOLS {
            let mark = self.mark_of(pool);
            match std::fs::rename(aside(&mark), &mark) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(away(&error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the path of the file by which the server recognises a pool.
    fn mark_of(&self, pool: &str) -> PathBuf {
        self.disk.root().join(pool.to_lowercase()).join("holdfast-pool")
    }

    fn check_no_fault(&self) -> Result<(), StoreError> {
        if self.disk.has_failed() {
            return Err(StoreError::away("an operation has failed"));
        }
        Ok(())
    }

    /// Returns the packs of all pools that are there.
    fn packs(&self) -> Result<BTreeSet<PackNumber>, StoreError> {
        let pools = &self.store()?.pools;
        let of = |pool| pools.packs_of(pool).into_keys();
        Ok(pools.present().into_iter().flat_map(of).collect())
    }
}

/// Path of a mark while its pool is away.
fn aside(mark: &Path) -> PathBuf {
    mark.with_extension("aside")
}
