//! Draining with recompression: what goes to volumes or to another cold place is compressed harder
//! on its way.
//!
//! ```text
//!   packs that are to leave --live chunks--> new packs --moved--> next pool
//!            |
//!            +--> condemned, removed
//! ```
//!
//! A pack is never compressed anew under its own number. All copies of a pack are equal, and much
//! relies on that: a copy pool lacks a pack if its length differs (`tend::missing`), a reader takes
//! each quantum from any pool by one table (`Pools::read`), a repair joins quanta of several pools
//! (`Pools::put`), and the parts of a pack on volumes are found by their offsets. With other bytes
//! under the same number, each of these would read garbage, or replace the smaller copy.
//!
//! So the live chunks go to new packs, and the pages name their new places, by the protocol of
//! reclamation: nothing is lost if the run is killed at any point, or if a backup changes a page
//! meanwhile. Copy pools get the new packs with the next copy, and keep the old ones until then.
//!
//! 1. The packs to move are chosen before anything is written, as without recompression.
//! 2. New packs are made in the first pool, which needs room for them. A round replaces as many
//!    packs as there is room for, and moves the new packs before the next round begins.
//! 3. Packs that cannot be replaced move as they are: see [`reclaim::replace`]. They are counted.
//!    So the drain goes on if there is no room for new packs.
//! 4. An old pack that a reader may still need stays in its pool, condemned. The next reclamation
//!    removes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::PoolRow;
use chunk::Recompression;
use model::PackNumber;

use super::lookup::only;
use super::outcome::{Listener, Outcome};
use super::tend::{Run, ends, leaving, move_on, seal};
use crate::error::StoreError;
use crate::lifecycle::reclaim::{self, RecompressionEffect};
use crate::store::Store;

/// Moves packs of the pool `name` to its next pool as [`super::drain`] does, compressed anew.
pub fn drain_anew(
    store: &Arc<Store>,
    name: &str,
    all: bool,
    effort: Recompression,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    // The claim comes before the lock of runs over packs, in the order of locks.
    let paused = store.pause_reclamation()?;
    let _only = only(store)?;
    let (row, next) = ends(store, name)?;
    // Data that is being written must not share packs with data that leaves.
    seal(store)?;
    let mut rest = leaving(store, &row, &next, all)?;
    let mut effect = RecompressionEffect::new(effort);
    let mut outcome = Outcome { recompression: Some(effect), ..Outcome::default() };
    while !rest.is_empty() {
        let packs = rest.iter().map(|(pack, _)| *pack).collect();
        let mut goes_on =
            |_: &reclaim::Outcome| !store.stopping.load(Ordering::Relaxed) && listener(&outcome);
        let round = reclaim::replace(store, &packs, effort, &mut goes_on)?;
        effect.before_bytes += round.effect.before_bytes;
        effect.after_bytes += round.effect.after_bytes;
        effect.gpu_bytes += round.effect.gpu_bytes;
        outcome.recompression = Some(effect);
        // Pages name the new packs even if no old pack was replaced.
        if !round.made.is_empty() {
            seal(store)?;
            outcome = move_made(store, outcome, &round.made, &next, listener)?;
        }
        if round.replaced.is_empty() {
            break;
        }
        rest.retain(|(pack, _)| !round.replaced.contains(pack));
    }
    outcome.packs_unchanged = rest.len() as u64;
    let mut run = Run::new(store, listener);
    // The rest moves as in any drain, which may take hours and replaces nothing. As a reader the
    // run keeps the packs from being removed.
    drop(paused);
    run.outcome = outcome;
    move_on(store, &mut run, (&row, &next), rest, all)?;
    Ok(run.outcome)
}

/// Moves new packs to `next`, from the primary pools in which they were made.
fn move_made(
    store: &Arc<Store>,
    outcome: Outcome,
    made: &BTreeSet<PackNumber>,
    next: &PoolRow,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    // The run counts as a reader only while it moves packs: the next round removes packs.
    let mut run = Run::new(store, listener);
    run.outcome = outcome;
    let rows = store.catalog.pools()?;
    for row in rows.iter().filter(|row| !row.is_copy && row.id != next.id) {
        let there = store.pools.packs_of(row.id).into_iter();
        let leaving = there.filter(|(pack, _)| made.contains(pack)).collect();
        move_on(store, &mut run, (row, next), leaving, true)?;
    }
    Ok(run.outcome)
}

#[cfg(test)]
mod tests {
    use catalog::change::Change;
    use model::{Object, ServerTime};

    use super::*;
    use crate::lifecycle::audit;
    use crate::places::places;
    use crate::pools::{PoolChange, PoolSettings, change, copy};
    use crate::samples::{self, TestServer};

    fn go_on(_: &Outcome) -> bool {
        true
    }

    fn packs(server: &TestServer, name: &str) -> Vec<u64> {
        let rows = server.store.catalog.pools().expect("are listed");
        let pool = rows.iter().find(|row| row.name == name).expect("exists").id;
        server.store.pools.packs_of(pool).into_keys().map(|pack| pack.0).collect()
    }

    /// Makes a server whose first pool drains to the pool NEXT, with data in two packs, the copies
    /// of which are in the pool COPIES.
    fn server() -> TestServer {
        let server = TestServer::new();
        server.add_pool("NEXT", false);
        server.add_pool("COPIES", true);
        let settings =
            PoolSettings { next: Some(Some("NEXT".to_owned())), ..PoolSettings::default() };
        let name = "PRIMARY".to_owned();
        let next = PoolChange { name, settings, ..PoolChange::default() };
        change(&server.store, &next).expect("is changed");
        for (directory, chunks) in [("/a/", [1, 2, 3]), ("/b/", [4, 5, 6])] {
            server.back_up(directory, &[("file", &chunks)]);
            server.seal();
        }
        copy(&server.store, "", &mut go_on).expect("are copied");
        server
    }

    #[track_caller]
    fn check_data(server: &TestServer) {
        for (directory, numbers) in [("/a/", [1, 2, 3]), ("/b/", [4, 5, 6])] {
            let object = &server.objects(directory)[0];
            let digests = numbers.map(|number| {
                let chunk = samples::chunk(number);
                server.store.pools.digest_of(crate::store::DOMAIN, &chunk)
            });
            let found: Vec<_> = places(object)
                .map(|place| server.store.pools.chunk(place).expect("is there").1)
                .collect();
            assert_eq!(found, digests);
        }
        let order = audit::Order { data: true, rate: None };
        let outcome = audit::run(&server.store, order, &mut |_| true).expect("runs");
        assert!(outcome.damages.is_empty(), "{outcome:?}");
    }

    #[test]
    fn a_drain_with_recompression_moves_new_packs_and_copies_follow() {
        let server = server();
        assert_eq!(packs(&server, "PRIMARY"), [1, 2]);
        let effort = Recompression::of_level(19).expect("a level");
        let outcome = drain_anew(&server.store, "PRIMARY", true, effort, &mut go_on);
        let outcome = outcome.expect("are moved");
        let effect = outcome.recompression.expect("was asked for");
        assert!(effect.before_bytes > 0 && effect.after_bytes > 0, "{effect:?}");
        assert_eq!((outcome.packs_done, outcome.packs_unchanged), (1, 0), "{outcome:?}");
        assert_eq!((packs(&server, "PRIMARY"), packs(&server, "NEXT")), (vec![], vec![3]));
        assert_eq!(packs(&server, "COPIES"), [1, 2], "until the new pack is there");
        check_data(&server);
        copy(&server.store, "", &mut go_on).expect("are copied");
        assert_eq!(packs(&server, "COPIES"), [3]);
        check_data(&server);
    }

    #[test]
    fn what_a_backup_may_append_to_and_what_a_reader_needs_stays() {
        let server = server();
        let reading = server.store.use_packs(false);
        let outcome =
            drain_anew(&server.store, "PRIMARY", true, Recompression::STANDARD, &mut go_on);
        assert_eq!(outcome.expect("are moved").packs_unchanged, 0);
        assert_eq!(packs(&server, "PRIMARY"), [1, 2], "the reader may need them");
        drop(reading);
        let order = reclaim::Order { is_dry: false, dead_percent: 1, recompress: None };
        reclaim::run(&server.store, order, &mut |_| true).expect("runs");
        assert!(packs(&server, "PRIMARY").is_empty());
        check_data(&server);
    }

    /// Adds a file to a directory that has the chunks of the first file in `of`.
    fn name_again(server: &TestServer, of: &str, directory: &str) {
        let file = server.objects(of).remove(0);
        let other = Object { name: samples::name("other"), ..file };
        let change = Change { backed_up: vec![other], ..Change::default() };
        server.apply(directory, change, ServerTime(2000));
    }

    /// Drains the first pool. Meanwhile a backup names the old packs of these directories again.
    fn drain_while_named(server: &TestServer, directories: &[&str]) -> Outcome {
        let mut passes = 0;
        let mut listener = |_: &Outcome| {
            passes += 1;
            // The third pass over the catalogue has read the pages that it rewrites.
            if passes == 3 {
                directories
                    .iter()
                    .for_each(|directory| name_again(server, directory, directory));
            }
            true
        };
        let effort = Recompression::STANDARD;
        drain_anew(&server.store, "PRIMARY", true, effort, &mut listener).expect("are moved")
    }

    #[test]
    fn a_pack_that_a_backup_names_again_meanwhile_leaves_in_the_next_round() {
        let server = server();
        let outcome = drain_while_named(&server, &["/b/"]);
        assert_eq!((outcome.packs_done, outcome.packs_unchanged), (2, 0), "{outcome:?}");
        assert_eq!((packs(&server, "PRIMARY"), packs(&server, "NEXT")), (vec![], vec![3, 4]));
        check_data(&server);
    }

    #[test]
    fn what_a_round_makes_moves_even_if_it_replaces_nothing() {
        let server = server();
        name_again(&server, "/a/", "/c/");
        let outcome = drain_while_named(&server, &["/a/", "/b/"]);
        assert_eq!((outcome.packs_done, outcome.packs_unchanged), (3, 2), "{outcome:?}");
        assert_eq!((packs(&server, "PRIMARY"), packs(&server, "NEXT")), (vec![], vec![1, 2, 3]));
        let effect = outcome.recompression.expect("was asked for");
        assert!(effect.before_bytes > 0 && effect.after_bytes > 0, "{effect:?}");
        let place = places(&server.objects("/c/")[0]).next().expect("a chunk");
        assert_eq!(place.pack(), PackNumber(3), "named by the page that did not change");
        check_data(&server);
    }

    /// Packs may take hours to move. A reclamation, and the deletion of an archive, need not wait
    /// until the packs have moved that nothing replaces.
    #[test]
    fn what_cannot_be_replaced_moves_beside_a_reclamation() {
        let server = server();
        let (mut passes, mut free) = (0, Vec::new());
        let mut listener = |outcome: &Outcome| {
            passes += 1;
            if passes == 3 {
                ["/a/", "/b/"]
                    .iter()
                    .for_each(|directory| name_again(&server, directory, directory));
            }
            if outcome.packs_unchanged > 0 {
                free.push(server.store.pause_reclamation().is_ok());
            }
            true
        };
        let effort = Recompression::STANDARD;
        drain_anew(&server.store, "PRIMARY", true, effort, &mut listener).expect("are moved");
        assert!(!free.is_empty() && free.iter().all(|is_free| *is_free), "{free:?}");
        check_data(&server);
    }

    #[test]
    fn without_room_in_the_middle_of_a_round_nothing_is_replaced() {
        let server = server();
        let pools = &server.store.pools;
        let _paused = server.store.pause_reclamation().expect("is claimed");
        let mut passes = 0;
        let mut listener = |_: &reclaim::Outcome| {
            passes += 1;
            // The second pass over the catalogue has collected the data that is to be written.
            if passes == 2 {
                pools.keep_reserve(pool::Reserve { percent: 200, bytes_max: u64::MAX });
            }
            true
        };
        let old = [PackNumber(1), PackNumber(2)].into();
        let round = reclaim::replace(&server.store, &old, Recompression::STANDARD, &mut listener);
        let round = round.expect("is no error");
        assert!(round.replaced.is_empty() && round.made.is_empty());
        pools.keep_reserve(pool::Reserve::default());
        assert_eq!(packs(&server, "PRIMARY"), [1, 2]);
        check_data(&server);
    }

    #[test]
    fn a_pack_that_nothing_names_is_removed_instead_of_moved() {
        let server = server();
        samples::stored(&server.store, &[7, 8, 9]);
        server.seal();
        assert_eq!(packs(&server, "PRIMARY"), [1, 2, 3]);
        let effort = Recompression::STANDARD;
        let outcome = drain_anew(&server.store, "PRIMARY", true, effort, &mut go_on);
        let outcome = outcome.expect("are moved");
        assert_eq!((outcome.packs_done, outcome.packs_unchanged), (1, 0), "{outcome:?}");
        assert_eq!((packs(&server, "PRIMARY"), packs(&server, "NEXT")), (vec![], vec![4]));
        let events = server.store.catalog.events(None, 9).expect("are read");
        let details = events.iter().find(|row| row.event.what == "space reclaimed");
        let details = &details.expect("is recorded").event.details;
        assert!(details.starts_with("3 packs of "), "{details}");
        check_data(&server);
    }

    #[test]
    fn a_drain_with_recompression_may_be_cancelled_and_finished() {
        let server = server();
        let cancelled =
            drain_anew(&server.store, "PRIMARY", true, Recompression::STANDARD, &mut |_| false);
        assert!(matches!(cancelled, Err(StoreError::Cancelled(_))), "{cancelled:?}");
        check_data(&server);
        let outcome =
            drain_anew(&server.store, "PRIMARY", true, Recompression::STANDARD, &mut go_on);
        outcome.expect("are moved");
        check_data(&server);
    }
}
