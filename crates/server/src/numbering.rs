//! Numbers of objects that the catalogue numbers over all domains, as callers get and give them.
//!
//! A caller who does not see the objects of all domains would learn from gaps between the numbers
//! how many others have, and when. So such a caller gets a *cover* in place of each number: the
//! image of the number under a permutation with a key of the server. Covers that the caller gives
//! are turned back.
//!
//! ```text
//!   number of the catalogue  <-- permutation of 1 to 2^52 - 1 -->  cover
//! ```
//!
//! 1. A cover is a number that programs keep exactly, also those that keep numbers as floating
//!    point.
//! 2. A guess is the cover of some number, too, but hardly ever of one that an object has: there
//!    are 2^52 of them. It is answered as one that does not exist, and if it should hit, as an
//!    object of others.
//! 3. A caller who sees everything may give a cover, too, as from an address that a tenant has
//!    passed on. It is told from a number of the catalogue by its size: see `COUNTED_MAX`.
//! 4. 0 stays 0, as it says that an object has no number yet. Numbers beyond 52 bits stay as they
//!    are: no object has one.

use std::fmt;

/// Bits of one half of a number.
const HALF_BITS: u32 = 26;
const HALF_MAX: u64 = (1 << HALF_BITS) - 1;
/// The largest number that is covered.
const COVERED_MAX: u64 = (1 << (2 * HALF_BITS)) - 1;
/// The largest number that is taken for one of the catalogue if a caller who sees everything gives
/// it; a larger one is taken for a cover. About one cover in 65,536 is not larger: only its tenant
/// can give it.
const COUNTED_MAX: u64 = (1 << 36) - 1;
/// Number of rounds of the network, as NIST SP 800-38G has it for small domains.
const ROUNDS: u8 = 10;

/// Kinds of objects. The covers of one kind tell nothing about those of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberKind {
    Event,
    Alert,
    Approval,
    /// Finished backups, whose numbers are in cursors only.
    Backup,
}

impl NumberKind {
    fn code(self) -> u8 {
        match self {
            Self::Event => 1,
            Self::Alert => 2,
            Self::Approval => 3,
            Self::Backup => 4,
        }
    }
}

/// Way in which a caller gets and gives numbers.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Numbering {
    /// Key of the permutation; `None` for a caller who does not know of covers.
    key: Option<[u8; 32]>,
    /// True for a caller who gets covers, and no numbers of the catalogue.
    is_covered: bool,
}

impl fmt::Debug for Numbering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_covered { "Numbering(covers)" } else { "Numbering(plain)" })
    }
}

impl Numbering {
    /// Returns the numbering for callers who see the objects of all domains. With the key of
    /// covers, they may give covers, too.
    pub fn plain(key: Option<[u8; 32]>) -> Self {
        Self { key, is_covered: false }
    }

    /// Returns the numbering for callers who do not.
    pub fn covered(key: [u8; 32]) -> Self {
        Self { key: Some(key), is_covered: true }
    }

    /// Returns true for callers who do not see the objects of all domains.
    pub fn is_covered(&self) -> bool {
        self.is_covered
    }

    /// Returns the number that the caller gets for a number of the catalogue.
    pub fn shown(&self, kind: NumberKind, number: u64) -> u64 {
        if !self.is_covered {
            return number;
        }
        self.walk(number, |key, number| permuted(key, kind, number))
    }

    /// Returns the number of the catalogue for a number that the caller gives.
    pub fn given(&self, kind: NumberKind, number: u64) -> u64 {
        if !self.is_covered && number <= COUNTED_MAX {
            return number;
        }
        self.walk(number, |key, number| restored(key, kind, number))
    }

    /// Takes steps of a permutation of all numbers of 52 bits until the result is not 0. So 0 is
    /// left out of the permutation.
    fn walk(&self, number: u64, step: impl Fn(&[u8; 32], u64) -> u64) -> u64 {
        let Some(key) = &self.key else { return number };
        if !(1..=COVERED_MAX).contains(&number) {
            return number;
        }
        let mut walked = step(key, number);
        while walked == 0 {
            walked = step(key, walked);
        }
        walked
    }
}

/// Returns the image of a number of 52 bits under a balanced Feistel network.
fn permuted(key: &[u8; 32], kind: NumberKind, number: u64) -> u64 {
    let (mut left, mut right) = (number >> HALF_BITS, number & HALF_MAX);
    for round in 0..ROUNDS {
        (left, right) = (right, left ^ mixed(key, kind, (round, right)));
    }
    (left << HALF_BITS) | right
}

/// Returns the number with this image.
fn restored(key: &[u8; 32], kind: NumberKind, image: u64) -> u64 {
    let (mut left, mut right) = (image >> HALF_BITS, image & HALF_MAX);
    for round in (0..ROUNDS).rev() {
        (left, right) = (right ^ mixed(key, kind, (round, left)), left);
    }
    (left << HALF_BITS) | right
}

/// The function of a round: half a number, mixed with the key.
fn mixed(key: &[u8; 32], kind: NumberKind, (round, half): (u8, u64)) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&[kind.code(), round]).update(&half.to_le_bytes());
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes) & HALF_MAX
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KINDS: [NumberKind; 4] =
        [NumberKind::Event, NumberKind::Alert, NumberKind::Approval, NumberKind::Backup];

    #[test]
    fn a_cover_is_turned_back_and_names_one_number() {
        let covered = Numbering::covered([7; 32]);
        let numbers = (0..2_000).chain([COVERED_MAX - 1, COVERED_MAX, COVERED_MAX + 1, u64::MAX]);
        let mut covers = BTreeSet::new();
        for number in numbers {
            let cover = covered.shown(NumberKind::Event, number);
            assert_eq!(covered.given(NumberKind::Event, cover), number);
            assert_eq!(cover == 0, number == 0, "{number}");
            assert_eq!(cover > COVERED_MAX, number > COVERED_MAX, "{number}");
            assert!(covers.insert(cover), "{number}");
        }
    }

    #[test]
    fn covers_tell_neither_order_nor_distance() {
        let covered = Numbering::covered([7; 32]);
        let covers: Vec<u64> =
            (1..=1_000).map(|number| covered.shown(NumberKind::Event, number)).collect();
        let rising = covers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&rising), "{rising} of 999 covers are larger than the last");
        let near = covers.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 1 << 30);
        assert_eq!(near.count(), 0);
        let odd = covers.iter().filter(|cover| *cover % 2 == 1).count();
        assert!((400..600).contains(&odd), "{odd} of 1000 covers are odd");
    }

    #[test]
    fn a_guess_names_no_number_that_an_object_has() {
        let covered = Numbering::covered([7; 32]);
        for guess in (1..10_000).chain([1 << 51, COVERED_MAX]) {
            assert!(covered.given(NumberKind::Event, guess) > 100_000, "{guess}");
        }
    }

    #[test]
    fn keys_and_kinds_have_covers_of_their_own() {
        let keys = [[7; 32], [8; 32]].map(Numbering::covered);
        let of_kind = |kind| keys.iter().map(move |covered| covered.shown(kind, 17));
        let covers: BTreeSet<u64> = KINDS.into_iter().flat_map(of_kind).collect();
        assert_eq!(covers.len(), 2 * KINDS.len());
        let codes: BTreeSet<u8> = KINDS.into_iter().map(NumberKind::code).collect();
        assert_eq!(codes.len(), KINDS.len());
    }

    #[test]
    fn who_sees_everything_gets_the_numbers_of_the_catalogue() {
        for plain in [Numbering::plain(None), Numbering::plain(Some([7; 32]))] {
            for number in [0, 1, 17, COUNTED_MAX, u64::MAX] {
                assert_eq!(plain.shown(NumberKind::Event, number), number);
                assert_eq!(plain.given(NumberKind::Event, number), number);
            }
        }
    }

    #[test]
    fn who_sees_everything_may_give_a_cover() {
        let covers = (1..100).map(|number| {
            let cover = Numbering::covered([7; 32]).shown(NumberKind::Event, number);
            (number, cover)
        });
        for (number, cover) in covers {
            let given = |key| Numbering::plain(key).given(NumberKind::Event, cover);
            assert_eq!(given(Some([7; 32])), number);
            assert_eq!(given(None), cover);
        }
    }
}
