//! Packs in which restores and downloads have found damage that no copy makes up for.
//!
//! 1. The reader notes the pack, and goes on.
//! 2. The regular work of the server that keeps house reads the pack again. A pack that a pool has
//!    whole now is not damaged. While a pool is away that may have it, nothing is decided.
//! 3. The other packs are marked as an audit marks them: people are told, and no backup relies on
//!    their data any more.

use std::collections::BTreeSet;

use catalog::{PackRow, PackState, Write};
use model::PackNumber;

use crate::counts::counted;
use crate::error::StoreError;
use crate::store::Store;

/// Marks the packs that readers have noted, if they are damaged. Returns their number.
pub(super) fn mark(store: &Store) -> Result<u64, StoreError> {
    let noted = store.pools.take_lost();
    if noted.is_empty() {
        return Ok(0);
    }
    if store.pools.is_any_away() {
        noted.into_iter().for_each(|pack| store.pools.note_lost(pack));
        return Ok(0);
    }
    let is_news = |pack: &PackNumber| !store.condemned().holds(*pack);
    let lost = noted.into_iter().filter(is_news).filter(|pack| is_lost(store, *pack));
    let marked = put_out_of_service(store, &lost.collect())?;
    if marked > 0 {
        let details = format!("{} that restores or downloads needed", counted(marked, "pack"));
        store.record("damage found", details)?;
    }
    Ok(marked)
}

/// Returns true if no pool has the pack whole. Packs on volumes are read only on request: see
/// `shelving::audit`.
fn is_lost(store: &Store, pack: PackNumber) -> bool {
    let pools = &store.pools;
    let is_sound = |pool| pools.is_shelf(pool) || pools.is_whole(pool, pack);
    !pools.homes(pack).into_iter().any(is_sound)
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
        assert_eq!(mark(&server.store).expect("is marked"), 1);
        assert_eq!(states(&server), [PackState::Damaged, PackState::Sealed]);
        let again = stored(&server.store, &[1]);
        assert!(again.places[0].pack() > PackNumber(2), "the damaged chunk is stored again");
        server.store.pools.note_lost(PackNumber(1));
        assert_eq!(mark(&server.store).expect("is known"), 0);
    }

    #[test]
    fn a_pack_that_a_copy_pool_has_is_not_lost() {
        let server = server();
        server.add_pool("COPIES", true);
        crate::pools::copy(&server.store, "", &mut |_| true).expect("are copied");
        server.damage(PackNumber(1));
        server.store.pools.note_lost(PackNumber(1));
        assert_eq!(mark(&server.store).expect("nothing is marked"), 0);
        assert_eq!(states(&server), [PackState::Sealed, PackState::Sealed]);
    }

    #[test]
    fn nothing_is_decided_while_a_pool_is_away() {
        let server = server();
        server.add_pool("COPIES", true);
        server.damage(PackNumber(1));
        std::fs::remove_dir_all(server.beside("COPIES")).expect("is removed");
        server.store.pools.refresh();
        server.store.pools.note_lost(PackNumber(1));
        assert_eq!(mark(&server.store).expect("waits"), 0);
        assert_eq!(server.store.pools.take_lost(), BTreeSet::from([PackNumber(1)]));
    }
}
