//! Packs in which restores and downloads have found damage that no copy makes up for.
//!
//! 1. The reader notes the pack, and goes on. A server that does not keep house hands its notes to
//!    the one that does.
//! 2. The regular work of the server that keeps house reads the pack again. A pack is
//!    damaged if every pool that has it has lost data of it: a pool that does not answer has lost
//!    nothing. While any pool is away, nothing is decided, and the notes stay where they are.
//! 3. The other packs are marked as an audit marks them: people are told, and no backup relies on
//!    their data any more.
//! 4. The versions that need the lost data are counted for their nodes, as an audit counts them, so
//!    that owners are told. If the server ends before, the next audit does this.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::{PackRow, PackState, Write};
use format::pack::QuantumEntry;
use model::{PackNumber, Place, PoolId};

use crate::counts::counted;
use crate::error::StoreError;
use crate::lifecycle::victims;
use crate::store::Store;

/// Maximum number of versions that need lost data and are named in the log.
const LOGGED_MAX: usize = 100;

/// The chunks of a pack that are lost: ranges of their indexes, for each pool that has the pack.
struct LostChunks(Vec<Vec<Range<u32>>>);

impl LostChunks {
    /// Returns true if no pool has the chunk.
    fn has(&self, index: u32) -> bool {
        self.0.iter().all(|ranges| ranges.iter().any(|range| range.contains(&index)))
    }
}

/// Marks the packs that readers have noted, if they are damaged. `refresh` checks which pools are
/// there now. Returns the number of packs that are marked.
pub(super) fn mark(store: &Store, refresh: fn(&Store)) -> Result<u64, StoreError> {
    let is_any_away = || {
        refresh(store);
        store.pools.is_any_away()
    };
    let noted = store.lost()?;
    if noted.is_empty() {
        return Ok(0);
    }
    // A drain would move packs to other pools while they are read.
    let Some(only) = store.try_tend() else { return Ok(0) };
    if is_any_away() {
        return Ok(0);
    }
    let news = noted.iter().copied().filter(|pack| !store.condemned().holds(*pack));
    let lost = news.filter_map(|pack| Some((pack, lost_chunks(store, pack)?)));
    let mut lost: BTreeMap<PackNumber, LostChunks> = lost.collect();
    // A disk may have gone while the packs were read.
    if is_any_away() {
        return Ok(0);
    }
    let marked = put_out_of_service(store, &lost.keys().copied().collect())?;
    drop(only);
    lost.retain(|pack, _| marked.contains(pack));
    let count = lost.len() as u64;
    // Comes before the notes go: marked packs are no news when the notes are read again.
    if count > 0 {
        let details = format!("{} that restores or downloads needed", counted(count, "pack"));
        store.record("damage found", details)?;
    }
    // If this server ends before, the next one still has the notes.
    store.forget_lost(&noted)?;
    if count > 0 {
        note_victims(store, &lost)?;
    }
    Ok(count)
}

/// Notes how many versions of each node need lost chunks, and names the first of these versions in
/// the log. Reads the whole catalogue.
fn note_victims(store: &Store, lost: &BTreeMap<PackNumber, LostChunks>) -> Result<(), StoreError> {
    let is_lost =
        |place: Place| lost.get(&place.pack()).is_some_and(|chunks| chunks.has(place.index()));
    let found = victims::find(store, &is_lost, &mut || {
        let goes_on = !store.stopping.load(Ordering::Relaxed);
        let cancelled = || StoreError::cancelled("the next audit names who needs the lost data");
        goes_on.then_some(()).ok_or_else(cancelled)
    })?;
    for victim in found.named.iter().take(LOGGED_MAX) {
        let (node, path) = (&victim.node, model::escaped(&victim.path));
        tracing::error!(%node, %path, "a version needs data that is lost");
    }
    victims::note_more(store, &found, &|pack| lost.contains_key(&pack))
}

/// Returns the chunks that are lost if each pool that has the pack has lost data of it.
fn lost_chunks(store: &Store, pack: PackNumber) -> Option<LostChunks> {
    let pools = &store.pools;
    // The pools themselves are read, and not what this server has kept of them.
    pools.forget_kept(pack);
    pools.look_for(pack);
    let is_back = pools.bring_back(pack).unwrap_or_else(|error| {
        tracing::warn!(%pack, %error, "older versions of a pack's object cannot be listed");
        true
    });
    if is_back {
        return None;
    }
    let in_pool = |pool| Some(lost_in(store, pool, pack)).filter(|ranges| !ranges.is_empty());
    let in_pools: Option<Vec<_>> = pools.homes(pack).into_iter().map(in_pool).collect();
    in_pools.map(LostChunks)
}

/// Returns the ranges of the pack's chunks that the pool has lost. A pool that does not answer has
/// lost nothing. Packs on volumes are read only on request: see `shelving::audit`.
fn lost_in(store: &Store, pool: PoolId, pack: PackNumber) -> Vec<Range<u32>> {
    if store.pools.is_shelf(pool) {
        return Vec::new();
    }
    let (table, end) = match store.pools.table_at(pool, pack) {
        Ok(table) => (Arc::new(table), None),
        Err(error) if !error.is_loss() => return Vec::new(),
        Err(_) => match store.pools.table(pack) {
            // The chunks after the last readable record are not known.
            Ok(table) => {
                let end = table.chunk_count()..u32::MAX;
                (table, Some(end))
            }
            Err(_) => return vec![0..u32::MAX],
        },
    };
    let is_lost = |quantum: &&QuantumEntry| {
        let read = store.pools.read_at(pool, pack, quantum);
        read.is_err_and(|error| error.is_loss())
    };
    let chunks =
        |quantum: &QuantumEntry| quantum.first_index..quantum.first_index + quantum.chunk_count;
    table.quanta().iter().filter(is_lost).map(chunks).chain(end).collect()
}

/// Marks sealed packs as damaged, so that no new page names them. Returns the packs that were
/// marked.
fn put_out_of_service(
    store: &Store,
    lost: &BTreeSet<PackNumber>,
) -> Result<BTreeSet<PackNumber>, StoreError> {
    if lost.is_empty() {
        return Ok(BTreeSet::new());
    }
    // The guard waits for the commits under way, and blocks new commits.
    let mut condemned = store.condemned_mut();
    let mut rows = store.catalog.packs()?;
    rows.retain(|row| row.state == PackState::Sealed && lost.contains(&row.number));
    let marked: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
    if marked.is_empty() {
        return Ok(marked);
    }
    let damaged = |row: PackRow| Write::PutPack(PackRow { state: PackState::Damaged, ..row });
    condemned.advance(store.catalog.condemn(rows.into_iter().map(damaged).collect())?);
    condemned.damaged.extend(&marked);
    drop(condemned);
    store.forget_packs(&marked);
    Ok(marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::refresh;
    use crate::samples::{TestServer, stored};

    /// Returns a server with two sealed packs. Each pack holds one file.
    fn server() -> TestServer {
        let server = TestServer::new();
        for (name, chunk) in [("one", 1), ("two", 2)] {
            server.back_up("/", &[(name, &[chunk])]);
            server.seal();
        }
        server
    }

    fn states(server: &TestServer) -> Vec<PackState> {
        let rows = server.store.catalog.packs().expect("are listed");
        rows.into_iter().map(|row| row.state).collect()
    }

    #[test]
    fn a_noted_pack_is_marked_once_if_it_is_damaged() {
        let server = server();
        server.damage(PackNumber(1));
        for number in [1, 2] {
            server.store.pools.note_lost(PackNumber(number));
        }
        assert_eq!(mark(&server.store, refresh).expect("is marked"), 1);
        assert_eq!(states(&server), [PackState::Damaged, PackState::Sealed]);
        assert_eq!(server.store.lost().expect("are listed"), BTreeSet::new(), "both are decided");
        let again = stored(&server.store, &[1]);
        assert!(again.places[0].pack() > PackNumber(2), "the damaged chunk is stored again");
        server.store.pools.note_lost(PackNumber(1));
        assert_eq!(mark(&server.store, refresh).expect("is known"), 0);
    }

    /// The owner of a node heard of damage that a restore had met only after the next audit.
    #[test]
    fn versions_that_need_lost_data_are_counted_for_their_node_at_once() {
        let server = server();
        for (pack, count) in [(1, 1), (2, 2)] {
            server.damage(PackNumber(pack));
            server.store.pools.note_lost(PackNumber(pack));
            assert_eq!(mark(&server.store, refresh).expect("is marked"), 1);
            let nodes = server.store.catalog.nodes().expect("are listed");
            let noted = victims::noted(&server.store, &nodes).expect("are read");
            assert_eq!(noted, BTreeMap::from([(server.node.id, count)]));
        }
    }

    fn of_pools(pools: &[&[Range<u32>]]) -> LostChunks {
        LostChunks(pools.iter().map(|ranges| ranges.to_vec()).collect())
    }

    #[test]
    fn a_chunk_is_lost_if_no_pool_has_it() {
        let lost = of_pools(&[&[0..3, 7..9], &[2..8]]);
        let indexes: Vec<u32> = (0..10).filter(|index| lost.has(*index)).collect();
        assert_eq!(indexes, [2, 7]);
        assert!(of_pools(&[]).has(5), "no pool has the pack");
    }

    #[test]
    fn a_pack_that_a_copy_pool_has_is_not_lost() {
        let server = server();
        server.add_pool("COPIES", true);
        crate::pools::copy(&server.store, "", &mut |_| true).expect("are copied");
        server.damage(PackNumber(1));
        server.store.pools.note_lost(PackNumber(1));
        assert_eq!(mark(&server.store, refresh).expect("nothing is marked"), 0);
        assert_eq!(states(&server), [PackState::Sealed, PackState::Sealed]);
    }

    #[test]
    fn nothing_is_decided_while_a_pool_is_away() {
        let server = server();
        server.add_pool("COPIES", true);
        server.damage(PackNumber(1));
        std::fs::remove_dir_all(server.beside("COPIES")).expect("is removed");
        refresh(&server.store);
        server.store.pools.note_lost(PackNumber(1));
        assert_eq!(mark(&server.store, refresh).expect("waits"), 0);
        assert_eq!(server.store.lost().expect("are listed"), BTreeSet::from([PackNumber(1)]));
    }
}
