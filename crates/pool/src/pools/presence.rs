//! Presence of pools and packs, which changes when disks are mounted or unmounted, when people move
//! files by hand, and when packs are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use model::{PackNumber, PoolId};

use super::{Pools, open_member};
use crate::disk;
use crate::spec::PoolSpec;
use crate::storage::Presence;

impl Pools {
    /// Looks for a sealed pack in all available pools: somebody may have removed it or put it back
    /// by hand.
    pub fn look_for(&self, pack: PackNumber) {
        if self.is_open(pack) {
            return;
        }
        let storages = self.state().storages_there(|_| true);
        for (pool, storage) in storages {
            let found = storage.find(pack);
            let found = found.inspect_err(|error| disk::note_pack(&*storage, pack, "find", error));
            let Ok(presence) = found else { continue };
            let mut state = self.state();
            let Some(member) = state.members.get_mut(&pool) else { continue };
            match presence {
                Presence::There { bytes } if !member.has(pack) => member.put(pack, bytes),
                Presence::Gone if member.has(pack) => {
                    let mark = member.mark();
                    drop(state);
                    // A pool whose disk is unavailable has lost nothing.
                    if !storage.files().is_marked(mark) {
                        continue;
                    }
                    state = self.state();
                    let Some(member) = state.members.get_mut(&pool) else { continue };
                    member.remove(pack);
                }
                Presence::There { .. } | Presence::Gone | Presence::Unasked => continue,
            }
            state.forget(pool, pack);
        }
    }

    /// Returns the present definitions of the pools.
    pub fn specs(&self) -> Vec<PoolSpec> {
        self.state().members.values().map(|member| member.spec.clone()).collect()
    }

    /// Changes the pools to `specs`: opens new pools, and drops pools that `specs` lacks.
    pub fn set(&self, specs: &[PoolSpec]) -> io::Result<()> {
        let ids: BTreeSet<PoolId> = specs.iter().map(|spec| spec.id).collect();
        assert_eq!(ids.len(), specs.len(), "two pools have one id");
        for spec in specs {
            let is_same_place =
                |known: &PoolSpec| known.folder == spec.folder && known.mark == spec.mark;
            let mut state = self.state();
            match state.members.get_mut(&spec.id) {
                Some(member) if is_same_place(&member.spec) => member.redefine(spec.clone()),
                _ => {
                    drop(state);
                    let member = open_member(spec, &BTreeMap::new())?;
                    self.state().admit(member);
                }
            }
        }
        let mut state = self.state();
        let all: Vec<PoolId> = state.members.keys().copied().collect();
        for pool in all.into_iter().filter(|pool| !ids.contains(pool)) {
            state.let_go(pool);
            state.members.remove(&pool);
        }
        Ok(())
    }

    /// Checks which pools have become available or unavailable, because a disk was mounted or
    /// unmounted. Returns the pools that have become available. A pool that cannot be opened stays
    /// as it was.
    pub fn refresh(&self) -> Vec<PoolId> {
        let before: Vec<(PoolSpec, bool)> = {
            let state = self.state();
            let members = state.members.values();
            members.map(|member| (member.spec.clone(), member.is_there)).collect()
        };
        let mut come = Vec::new();
        for (spec, was_there) in before {
            if crate::spec::is_marked(&spec) == was_there {
                continue;
            }
            match open_member(&spec, &BTreeMap::new()) {
                Ok(now) => {
                    come.extend(now.is_there.then_some(spec.id));
                    self.state().admit(now);
                }
                Err(error) => {
                    disk::note_folder(&spec.folder, &error);
                    let place = spec.folder.display();
                    tracing::error!(%error, %place, "a pool cannot be opened");
                }
            }
        }
        come
    }

    /// Removes a sealed pack from the available primary pools, durably. Nothing may name its chunks
    /// any more. Copy pools keep it until they have the packs that replace it.
    pub fn remove(&self, pack: PackNumber) -> io::Result<()> {
        let primaries: Vec<PoolId> = {
            let state = self.state();
            // Another server may have put the pack into shared storage, and this server may not
            // know yet.
            let is_shared = state.numbers.is_shared();
            let may_have = state.primaries().filter(|member| {
                let is_shared = is_shared && member.storage.is_shared();
                member.has(pack) || (is_shared && member.is_there)
            });
            may_have.map(crate::member::Member::id).collect()
        };
        primaries.into_iter().try_for_each(|pool| self.remove_from(pool, pack))
    }

    /// Removes a sealed pack from `pool`, durably.
    pub fn remove_from(&self, pool: PoolId, pack: PackNumber) -> io::Result<()> {
        let storage = {
            let mut state = self.state();
            let open = state.open_pack(pack).map(crate::open::OpenPack::pool);
            assert!(open != Some(pool), "an open pack stays");
            state.forget(pool, pack);
            let Some(member) = state.members.get(&pool) else { return Ok(()) };
            std::sync::Arc::clone(&member.storage)
        };
        let removed = storage.remove(pack);
        let removed =
            removed.inspect_err(|error| disk::note_pack(&*storage, pack, "remove", error));
        // A reader may have opened the pack again meanwhile.
        let mut state = self.state();
        state.forget(pool, pack);
        removed?;
        if let Some(member) = state.members.get_mut(&pool) {
            member.remove(pack);
        }
        Ok(())
    }
}
