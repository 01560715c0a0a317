//! Packs in which restores and downloads have found damage that no copy makes up for.
//!
//! 1. The reader notes the pack, and goes on. A server that does not keep house hands its notes to
//!    the one that does.
//! 2. The regular work of the server that keeps house reads the pack again. A pack is
//!    damaged if every pool that has it has lost data of it: a pool that does not answer has lost
//!    nothing. While any pool is away, nothing is decided, and the notes stay where they are.
//! 3. The other packs are marked as an audit marks them: people are told, and no backup relies on
//!    their data any more.

use std::collections::BTreeSet;

use catalog::{PackRow, PackState, Write};
use model::{PackNumber, PoolId};

use crate::counts::counted;
use crate::error::StoreError;
use crate::store::Store;

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
    let Some(_only) = store.try_tend() else { return Ok(0) };
    if is_any_away() {
        return Ok(0);
    }
    let news = noted.iter().copied().filter(|pack| !store.condemned().holds(*pack));
    let lost: BTreeSet<PackNumber> = news.filter(|pack| is_lost(store, *pack)).collect();
    // A disk may have gone while the packs were read.
    if is_any_away() {
        return Ok(0);
    }
    let marked = put_out_of_service(store, &lost)?;
    // Comes before the notes go: marked packs are no news when the notes are read again.
    if marked > 0 {
        let details = format!("{} that restores or downloads needed", counted(marked, "pack"));
        store.record("damage found", details)?;
    }
    // If this server ends before, the next one still has the notes.
    store.forget_lost(&noted)?;
    Ok(marked)
}

/// Returns true if each pool that has the pack has lost data of it. Packs on volumes are read only
/// on request: see `shelving::audit`.
fn is_lost(store: &Store, pack: PackNumber) -> bool {
    let pools = &store.pools;
    // The pools themselves are read, and not what this server has kept of them.
    pools.forget_kept(pack);
    pools.look_for(pack);
    let is_back = pools.bring_back(pack).unwrap_or_else(|error| {
        tracing::warn!(%pack, %error, "older versions of a pack's object cannot be listed");
        true
    });
    let has_lost = |pool| !pools.is_shelf(pool) && has_lost(store, pool, pack);
    !is_back && pools.homes(pack).into_iter().all(has_lost)
}

/// Returns true if the pool has lost data of the pack. A pool that does not answer has lost
/// nothing.
fn has_lost(store: &Store, pool: PoolId, pack: PackNumber) -> bool {
    let table = match store.pools.table_at(pool, pack) {
        Ok(table) => table,
        Err(error) => return error.is_loss(),
    };
    let read = |quantum| store.pools.read_at(pool, pack, quantum);
    table
        .quanta()
        .iter()
        .any(|quantum| read(quantum).is_err_and(|error| error.is_loss()))
}

/// Marks sealed packs as damaged, so that no new page names them. Returns their number.
fn put_out_of_service(store: &Store, lost: &BTreeSet<PackNumber>) -> Result<u64, StoreError> {
    if lost.is_empty() {
        return Ok(0);
    }
    // The guard waits for the commits under way, and blocks new commits.
    let mut condemned = store.condemned_mut();
    let mut rows = store.catalog.packs()?;
    rows.retain(|row| row.state == PackState::Sealed && lost.contains(&row.number));
    let marked: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
    if marked.is_empty() {
        return Ok(0);
    }
    let damaged = |row: PackRow| Write::PutPack(PackRow { state: PackState::Damaged, ..row });
    condemned.advance(store.catalog.condemn(rows.into_iter().map(damaged).collect())?);
    condemned.damaged.extend(&marked);
    drop(condemned);
    store.forget_packs(&marked);
    Ok(marked.len() as u64)
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
