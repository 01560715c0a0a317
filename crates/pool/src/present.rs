//! Which pools and packs are there: disks come and go, and files may be moved by hand.

use std::io;
use std::path::PathBuf;

use model::{PackNumber, PoolId};

use crate::member::{Member, is_marked};
use crate::{PoolSpec, Pools, stored_bytes};

impl Pools {
    /// Looks for a sealed pack in the folders of all pools that are there: it may have been taken
    /// away, or put back, by hand.
    pub fn look_for(&self, pack: PackNumber) {
        let folders: Vec<(PoolId, PathBuf, PoolSpec)> = {
            if self.is_open(pack) {
                return;
            }
            let state = self.state();
            let is_folder = |member: &&Member| member.is_there && member.spec.shelf().is_none();
            let there = state.members.values().filter(is_folder);
            let place = |member: &Member| (member.spec.id, member.path(pack), member.spec.clone());
            there.map(place).collect()
        };
        for (pool, path, spec) in folders {
            let found = match spec.bucket() {
                Some(bucket) => {
                    let found = bucket.0.find(pack);
                    found.and_then(|bytes| bytes.ok_or_else(|| io::ErrorKind::NotFound.into()))
                }
                None => std::fs::metadata(&path).map(|metadata| metadata.len()),
            };
            let is_gone = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
            let mut state = self.state();
            let Some(member) = state.members.get_mut(&pool) else { continue };
            match found {
                Ok(bytes) if !member.packs.contains_key(&pack) => member.put(pack, bytes),
                Err(_) if is_gone && is_marked(&spec) && member.packs.contains_key(&pack) => {
                    member.remove(pack);
                }
                _ => continue,
            }
            state.files.forget((pool, pack));
            state.tables.forget(pack);
        }
    }

    /// Goes on with these pools: new ones are looked at, those that are missing go.
    pub fn set(&self, specs: &[PoolSpec]) -> io::Result<()> {
        for spec in specs {
            let known = self.state().members.get(&spec.id).map(|member| member.spec.clone());
            match known {
                Some(known) if known.folder == spec.folder && known.mark == spec.mark => {
                    if let Some(member) = self.state().members.get_mut(&spec.id) {
                        member.spec = spec.clone();
                    }
                }
                _ => {
                    let member = Member::open(spec.clone(), |pack| stored_bytes(spec, pack))?;
                    self.state().admit(member);
                }
            }
        }
        let mut state = self.state();
        let gone: Vec<PoolId> = state.members.keys().copied().collect();
        for pool in gone.into_iter().filter(|pool| specs.iter().all(|spec| spec.id != *pool)) {
            state.let_go(pool);
            state.members.remove(&pool);
        }
        Ok(())
    }

    /// Sees which pools have come or gone: a disk that is mounted or unmounted. Returns those that
    /// are there now and were not. One that cannot be looked at is away.
    pub fn refresh(&self) -> Vec<PoolId> {
        let before: Vec<(PoolSpec, bool)> = {
            let state = self.state();
            let members = state.members.values();
            members.map(|member| (member.spec.clone(), member.is_there)).collect()
        };
        let mut come = Vec::new();
        for (spec, was_there) in before {
            if is_marked(&spec) == was_there {
                continue;
            }
            match Member::open(spec.clone(), |pack| stored_bytes(&spec, pack)) {
                Ok(now) => {
                    come.extend(now.is_there.then_some(spec.id));
                    self.state().admit(now);
                }
                Err(error) => {
                    let folder = spec.folder.display();
                    tracing::error!(%error, %folder, "a pool cannot be looked at");
                }
            }
        }
        come
    }
}
