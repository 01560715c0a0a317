//! Tests of condemned packs that other servers report.

use model::DomainId;
use proptest::prelude::*;

use super::*;

const PACK: PackNumber = PackNumber(7);

fn row(state: PackState) -> PackRow {
    PackRow { number: PACK, domain: DomainId(1), state, bytes: 1, node: None }
}

fn states() -> impl Strategy<Value = Option<PackState>> {
    prop_oneof![
        Just(None),
        Just(Some(PackState::Open)),
        Just(Some(PackState::Sealed)),
        Just(Some(PackState::Condemned)),
        Just(Some(PackState::Damaged)),
    ]
}

/// Generates the successive states of a pack. A pack that was removed does not come back.
fn history() -> impl Strategy<Value = Vec<Option<PackState>>> {
    prop::collection::vec(states(), 1..8).prop_map(|mut states| {
        if let Some(end) = states.iter().position(Option::is_none) {
            states.truncate(end + 1);
        }
        states
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_server_agrees_with_the_row_that_it_has_taken_in(history in history()) {
        let mut condemned = CondemnedPacks::default();
        for state in history {
            let row = state.map(row);
            let was_held = condemned.holds(PACK);
            let is_new = condemned.take_in(PACK, row.as_ref());
            prop_assert!(condemned.agrees(PACK, row.as_ref()));
            prop_assert_eq!(is_new, !was_held && condemned.holds(PACK));
            let is_held = !matches!(state, Some(PackState::Open | PackState::Sealed));
            prop_assert_eq!(condemned.holds(PACK), is_held);
            prop_assert!(!condemned.holds(PackNumber(8)), "another pack");
        }
    }
}

#[test]
fn a_look_is_forgotten_only_when_the_pack_is_no_longer_condemned() {
    let mut condemned = CondemnedPacks::default();
    let look = LookEnd { here: 1, generation: 2 };
    condemned.packs.insert(PACK, Some(look));
    condemned.take_in(PACK, Some(&row(PackState::Condemned)));
    assert_eq!(condemned.packs[&PACK], Some(look), "the same state was reported again");
    condemned.take_in(PACK, Some(&row(PackState::Sealed)));
    condemned.take_in(PACK, Some(&row(PackState::Condemned)));
    assert_eq!(condemned.packs[&PACK], None, "the pack was back in service meanwhile");
}

#[test]
fn a_server_that_starts_knows_the_condemned_and_the_damaged_packs() {
    let numbered = |number, state| PackRow { number: PackNumber(number), ..row(state) };
    let rows = [
        numbered(1, PackState::Sealed),
        numbered(2, PackState::Condemned),
        numbered(3, PackState::Damaged),
        numbered(4, PackState::Open),
    ];
    let condemned = condemned_packs(&rows);
    let held: Vec<u64> = (0..6).filter(|pack| condemned.holds(PackNumber(*pack))).collect();
    assert_eq!(held, [2, 3]);
    assert!(rows.iter().all(|row| condemned.agrees(row.number, Some(row))));
}
