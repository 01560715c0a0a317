//! Presence of pools and packs, which changes when disks are mounted or unmounted, when people move
//! files by hand, and when packs are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use model::{PackNumber, PoolId};

use super::{Inventory, Pools, open_member};
use crate::disk;
use crate::member::Member;
use crate::namesakes;
use crate::pack::PackRecord;
use crate::spec::PoolSpec;
use crate::storage::{Distance, Presence};

/// Pools that have come back.
#[derive(Debug, Default)]
pub struct Arrivals {
    pub pools: Vec<PoolId>,
    /// Packs that were found in those of them that are primary pools in folders or buckets.
    pub found: Inventory,
}

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
        let _turn = self.refreshing.lock();
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

    /// Returns the pools that were unavailable and are available again, until [`Pools::refresh`]
    /// takes them in.
    pub fn back(&self) -> BTreeSet<PoolId> {
        let away: Vec<PoolSpec> = {
            let state = self.state();
            let away = state.members.values().filter(|member| !member.is_there);
            away.map(|member| member.spec.clone()).collect()
        };
        let back = away.iter().filter(|spec| crate::spec::is_marked(spec));
        back.map(|spec| spec.id).collect()
    }

    /// Checks which pools have become available or unavailable, because a disk was mounted or
    /// unmounted. Takes in pools of `back` only, which the caller has claimed: their packs are
    /// examined as [`Pools::open`] does it, with the catalogue's `records` of packs. A pool that
    /// cannot be opened stays as it was.
    pub fn refresh(
        &self,
        back: &BTreeSet<PoolId>,
        records: &BTreeMap<PackNumber, PackRecord>,
    ) -> Arrivals {
        let _turn = self.refreshing.lock();
        let before: Vec<(PoolSpec, bool)> = {
            let state = self.state();
            let members = state.members.values();
            members.map(|member| (member.spec.clone(), member.is_there)).collect()
        };
        let mut arrivals = Arrivals::default();
        for (spec, was_there) in before {
            let may_change = was_there || back.contains(&spec.id);
            if !may_change || crate::spec::is_marked(&spec) == was_there {
                continue;
            }
            match open_member(&spec, &BTreeMap::new()) {
                // The pool has changed once more. The next call decides.
                Ok(now) if now.is_there == was_there => {}
                Ok(mut now) => {
                    if now.is_there {
                        self.examine_again(&mut now, records, &mut arrivals.found);
                        arrivals.pools.push(spec.id);
                    }
                    self.state().admit(now);
                }
                Err(error) => {
                    disk::note_folder(&spec.folder, &error);
                    let place = spec.folder.display();
                    tracing::error!(%error, %place, "a pool cannot be opened");
                }
            }
        }
        arrivals.found.sealed.sort_unstable();
        arrivals.found.sealed.dedup();
        arrivals
    }

    /// Examines the packs of a pool that has come back, before anybody uses them. Packs on volumes
    /// have no end that could be missing.
    fn examine_again(
        &self,
        member: &mut Member,
        records: &BTreeMap<PackNumber, PackRecord>,
        found: &mut Inventory,
    ) {
        if !member.is_primary() || member.storage.distance() == Distance::Volume {
            return;
        }
        let (own, mut namesakes) = {
            let mut state = self.state();
            let last = member.packs().keys().next_back().copied();
            found.last = found.last.max(last);
            // No pack that is made from now on has the number of a pack that came back.
            if let Some(last) = last {
                state.numbers.pass(last);
            }
            (state.unfinished(), namesakes::list(member, state.members.values()))
        };
        // Both this process and an earlier one have made a pack of this number.
        let foreign = own.iter().filter(|(pack, pool)| **pool != member.id() && member.has(**pack));
        let foreign: Vec<PackNumber> = foreign.map(|(pack, _)| *pack).collect();
        for pack in foreign {
            namesakes::set_aside(&*member.storage, pack);
            member.remove(pack);
        }
        namesakes.retain(|namesake| !own.contains_key(&namesake.pack));
        for (pool, pack) in namesakes::settle(member, &namesakes, records, &self.digest_of) {
            let mut state = self.state();
            state.forget(pool, pack);
            if let Some(other) = state.members.get_mut(&pool) {
                other.remove(pack);
            }
        }
        found.examine(member, records, &self.digest_of, &own);
    }

    /// Leaves out the next `count` numbers if a primary pool is away: it may have packs of which
    /// nobody has a record. Returns the last number that is left out. Servers that share their
    /// numbers leave out none, because each number is recorded before it is given.
    pub fn leave_out_numbers(&self, count: u64) -> Option<PackNumber> {
        assert!(count > 0, "at least one number is left out");
        let mut state = self.state();
        let is_any_away = state.primaries().any(|member| !member.is_there);
        if !is_any_away || state.numbers.is_shared() {
            return None;
        }
        let last = PackNumber(state.numbers.next().0 + count - 1);
        state.numbers.pass(last);
        Some(last)
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
            may_have.map(Member::id).collect()
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
            let member = state.members.get(&pool);
            // Nothing is removed from a pool that is away, or that is back and not examined yet.
            let member = member.filter(|member| member.is_there || member.has(pack));
            let Some(member) = member else { return Ok(()) };
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
