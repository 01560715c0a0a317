//! Making appended quanta durable, and sealing packs.

use std::collections::BTreeMap;

use model::{PackNumber, PoolId};

use super::Pools;
use crate::disk;
use crate::error::AppendError;
use crate::open::{NewPack, OpenPack, PackFailure, SealingPack, SyncHandle, SyncPoint};
use crate::pack::PACK_BYTES;
use crate::reserve::Purpose;
use crate::state::{ClosingPack, State};

/// Treatment by a sync of the open packs that are not full yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnfilledPacks {
    Keep,
    Seal,
}

/// Packs of one sync.
struct SyncWork {
    sealing: Vec<OpenPack>,
    unsynced: Vec<SyncHandle>,
}

/// The results of one sync, pack by pack.
struct SyncOutcome {
    sealed: Vec<Result<NewPack, PackFailure>>,
    synced: Vec<Result<SyncPoint, PackFailure>>,
}

impl SyncWork {
    /// Takes the packs to seal out of the state. Readers find them in `being_sealed` from then on.
    fn take(state: &mut State, unfilled: UnfilledPacks) -> Self {
        let mut sealing = std::mem::take(&mut state.sealing);
        let is_ended = |open: &OpenPack| unfilled == UnfilledPacks::Seal || open.ends_with_sync();
        let ended = state.open.extract_if(.., |_, open| is_ended(open));
        sealing.extend(ended.map(|(_, open)| open));
        assert!(state.being_sealed.is_empty(), "one sync at a time");
        for open in &sealing {
            let closing = ClosingPack {
                durable_chunks: open.durable_chunks(),
                file: open.file(),
                pool: open.pool(),
                table: open.table(),
            };
            let before = state.being_sealed.insert(open.number(), closing);
            assert!(before.is_none(), "a pack is sealed once");
            // Without this table, readers would scan the pack until its footer is written.
            state.tables.put(open.number(), open.table());
        }
        assert!(!state.open.values().any(is_ended), "packs that end with a sync are sealed");
        let unsynced = state.open.values().filter(|open| open.is_unsynced());
        Self { sealing, unsynced: unsynced.map(OpenPack::sync_handle).collect() }
    }

    /// Returns all packs, by pool.
    fn packs(&self) -> BTreeMap<PoolId, Vec<PackNumber>> {
        let mut packs: BTreeMap<PoolId, Vec<PackNumber>> = BTreeMap::new();
        for open in &self.sealing {
            packs.entry(open.pool()).or_default().push(open.number());
        }
        for point in self.unsynced.iter().map(SyncHandle::point) {
            packs.entry(point.pool).or_default().push(point.pack);
        }
        packs
    }

    /// Seals and syncs all packs. All seals are begun before the first is finished, because stores
    /// take several packs at once.
    fn run(self) -> SyncOutcome {
        let begun: Vec<_> = self.sealing.into_iter().map(OpenPack::begin_seal).collect();
        let synced = self.unsynced.into_iter().map(SyncHandle::sync).collect();
        SyncOutcome { sealed: begun.into_iter().map(SealingPack::finish).collect(), synced }
    }
}

impl Pools {
    /// Makes everything durable that was appended before the call, and seals the packs that are
    /// full.
    pub fn sync(&self) -> Result<(), AppendError> {
        self.sync_and(UnfilledPacks::Keep)
    }

    /// Does the same as [`Pools::sync`], and seals all open packs: for an orderly stop.
    pub fn seal_all(&self) -> Result<(), AppendError> {
        self.sync_and(UnfilledPacks::Seal)
    }

    /// Seals the open packs if one of their pools has no room for another pack of full size. An
    /// open pack takes no part in reclamation, and its pool may be too full to ever fill it.
    pub fn seal_where_short(&self) -> Result<(), AppendError> {
        let of_open =
            |state: &State| -> Vec<PoolId> { state.open.keys().map(|slot| slot.pool).collect() };
        let rooms = self.rooms(Purpose::Data, of_open);
        if rooms.into_iter().any(|room| room < PACK_BYTES) { self.seal_all() } else { Ok(()) }
    }

    fn sync_and(&self, unfilled: UnfilledPacks) -> Result<(), AppendError> {
        let _turn = self.syncing.lock();
        let work = SyncWork::take(&mut self.state(), unfilled);
        let packs = work.packs();
        let synced = self.note_outcome(work.run());
        let named = self.sync_names(&packs);
        self.state().being_sealed.clear();
        synced.and(named)
    }

    /// Records the results in the state. The error comes from the last pack that failed.
    fn note_outcome(&self, outcome: SyncOutcome) -> Result<(), AppendError> {
        let mut state = self.state();
        let mut failures = Vec::new();
        for sealed in outcome.sealed {
            match sealed {
                Ok(NewPack { pool, sealed }) => state.note_sealed(pool, &sealed),
                Err(failure) => failures.push(failure),
            }
        }
        for synced in outcome.synced {
            match synced {
                Ok(point) => state.note_synced(&point),
                Err(failure) => failures.push(failure),
            }
        }
        let mut last = Ok(());
        for PackFailure { pack, source } in failures {
            last = Err(state.failure(pack, source));
            // It is unknown whether the kernel still has the bytes: see invariant 4.
            state.give_up(pack);
        }
        last
    }

    /// Makes the names of the packs durable in their storages. Returns the first error.
    fn sync_names(&self, packs: &BTreeMap<PoolId, Vec<PackNumber>>) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        for (pool, packs) in packs {
            assert!(!packs.is_empty(), "a pool is synced because of its packs");
            let done = self.sync_names_of(*pool, packs[0]);
            if done.is_err() {
                // It is unknown whether the names of these packs are durable.
                packs.iter().for_each(|pack| self.state().give_up(*pack));
                outcome = outcome.and(done);
            }
        }
        outcome
    }

    fn sync_names_of(&self, pool: PoolId, pack: PackNumber) -> Result<(), AppendError> {
        let found = {
            let state = self.state();
            let member = state.members.get(&pool);
            member.map(|member| (std::sync::Arc::clone(&member.storage), member.mark()))
        };
        let Some((storage, mark)) = found else {
            return Err(AppendError::Away { folder: Default::default() });
        };
        let synced = storage.intake().map_or(Ok(()), |intake| intake.sync_names(mark, pack));
        synced.inspect_err(|error| disk::note_write(&*storage, error))
    }
}
