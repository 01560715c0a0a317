//! Guesses of passwords by login: they are slowed wherever they come from, and the owner is not
//! locked out.
//!
//! | failures count for | and slow |
//! |---|---|
//! | the login at the place | the next attempts at the place |
//! | the login at all strange places together | the next attempts at all strange places |
//!
//! A place is an origin. It is known to a login once somebody has shown the password there, and
//! strange before. So guesses that are spread over many addresses get no further than those from a
//! few, and the owner gets in from known places meanwhile. From a strange place, the owner waits as
//! the guessers do, or uses a sign-in or a key.
//!
//! A login that nobody has is slowed in the same way, so that nobody learns which logins exist.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use server::{Guesses, Origin};
use sys::lock::Mutex;

/// Number of failures at strange places together that no pause follows: the owner makes mistakes at
/// new places, too.
const STRANGE_FREE_MAX: u32 = 20;
/// Time for which a place is known after the last success there.
const KNOWN: Duration = Duration::from_secs(30 * 86_400);
/// Maximum number of known places. With one more, the place is forgotten whose success is oldest.
const KNOWN_MAX: usize = 10_000;

/// A login, and the origin of an attempt; `None` for the administration socket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) login: String,
    pub(crate) from: Option<Origin>,
}

/// PlaceKind of a place, as far as guesses elsewhere concern it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlaceKind {
    Known,
    Strange,
}

/// Failed attempts by login, and the places at which attempts succeeded.
pub(crate) struct LoginGuesses {
    at_places: Guesses<Place>,
    /// Failures at strange places, by login.
    at_strange_places: Guesses<String>,
    known: Mutex<BTreeMap<Place, Instant>>,
}

impl Default for LoginGuesses {
    fn default() -> Self {
        let at_strange_places = Guesses::with_free(STRANGE_FREE_MAX);
        Self { at_places: Guesses::default(), at_strange_places, known: Mutex::default() }
    }
}

impl LoginGuesses {
    /// Admits an attempt as far as earlier ones at the place allow it, or returns the time after
    /// which it may be tried again.
    pub(crate) fn admit(&self, place: &Place, now: Instant) -> Result<(), Duration> {
        self.at_places.admit(place, now)
    }

    /// Returns the kind of the place as far as this process knows it.
    pub(crate) fn kind(&self, place: &Place, now: Instant) -> PlaceKind {
        let is_new = |since: &Instant| now.saturating_duration_since(*since) < KNOWN;
        let is_known = place.from.is_none() || self.known.lock().get(place).is_some_and(is_new);
        if is_known { PlaceKind::Known } else { PlaceKind::Strange }
    }

    /// Admits an attempt as far as attempts at other places allow it.
    pub(crate) fn admit_among_all(
        &self,
        place: &Place,
        kind: PlaceKind,
        now: Instant,
    ) -> Result<(), Duration> {
        match kind {
            PlaceKind::Known => Ok(()),
            PlaceKind::Strange => self.at_strange_places.admit(&place.login, now),
        }
    }

    /// Counts an attempt as failed, before anybody looks at its password.
    pub(crate) fn failed(&self, place: &Place, kind: PlaceKind, now: Instant) {
        self.at_places.failed(place.clone(), now);
        if kind == PlaceKind::Strange {
            self.at_strange_places.failed(place.login.clone(), now);
        }
    }

    /// Makes the place known after an attempt that succeeded. `was_counted` is true if the attempt
    /// was counted as failed before.
    pub(crate) fn succeeded(
        &self,
        place: &Place,
        kind: PlaceKind,
        was_counted: bool,
        now: Instant,
    ) {
        self.at_places.succeeded(place);
        if kind == PlaceKind::Strange && was_counted {
            // The failures of others still count: the owner's success makes no guess free.
            self.at_strange_places.withdraw(&place.login);
        }
        let mut known = self.known.lock();
        known.insert(place.clone(), now);
        if known.len() > KNOWN_MAX {
            let oldest = known.iter().min_by_key(|(_, since)| **since);
            let oldest = oldest.map(|(place, _)| place.clone()).expect("there are several places");
            known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn place(login: &str, number: u32) -> Place {
        let from = Some(Origin::Address(Ipv4Addr::from_bits(number)));
        Place { login: login.to_owned(), from }
    }

    /// Attempts once with a wrong password. Returns true if it was admitted.
    fn guess(guesses: &LoginGuesses, place: &Place, now: Instant) -> bool {
        let kind = guesses.kind(place, now);
        let admitted = guesses
            .admit(place, now)
            .and_then(|()| guesses.admit_among_all(place, kind, now));
        if admitted.is_ok() {
            guesses.failed(place, kind, now);
        }
        admitted.is_ok()
    }

    #[test]
    fn guesses_from_everywhere_get_no_further_than_from_a_few_places() {
        let (guesses, now) = (LoginGuesses::default(), sys::clock::monotonic());
        let home = place("anna", 1);
        guesses.failed(&home, PlaceKind::Strange, now);
        guesses.succeeded(&home, PlaceKind::Strange, true, now);
        let admitted = |login: &str, now| {
            (100..1_100)
                .filter(|number| guess(&guesses, &place(login, *number), now))
                .count()
        };
        assert_eq!(admitted("anna", now), 20);
        assert_eq!(admitted("nobody", now), 20, "a login that nobody has is slowed as well");
        let later = now + Duration::from_secs(2);
        assert_eq!(admitted("anna", later), 1, "one guess in a pause");
        assert!(guess(&guesses, &home, later), "the owner gets in at home");
        assert!(!guess(&guesses, &place("anna", 2), later));
    }

    #[test]
    fn a_success_makes_a_place_known_and_no_guess_free() {
        let (guesses, now) = (LoginGuesses::default(), sys::clock::monotonic());
        for number in 0..19 {
            assert!(guess(&guesses, &place("anna", number), now));
        }
        let new = place("anna", 77);
        assert_eq!(guesses.kind(&new, now), PlaceKind::Strange);
        guesses.failed(&new, PlaceKind::Strange, now);
        guesses.succeeded(&new, PlaceKind::Strange, true, now);
        assert_eq!(guesses.kind(&new, now), PlaceKind::Known);
        assert_eq!(guesses.kind(&new, now + KNOWN), PlaceKind::Strange);
        assert!(guess(&guesses, &place("anna", 100), now));
        assert!(!guess(&guesses, &place("anna", 101), now));
    }

    #[test]
    fn the_memory_of_places_is_bounded() {
        let (guesses, now) = (LoginGuesses::default(), sys::clock::monotonic());
        for number in 0..=10_000 {
            let later = now + Duration::from_millis(number.into());
            guesses.succeeded(&place("anna", number), PlaceKind::Known, false, later);
        }
        assert_eq!(guesses.known.lock().len(), KNOWN_MAX);
        assert_eq!(guesses.kind(&place("anna", 0), now), PlaceKind::Strange);
        assert_eq!(guesses.kind(&place("anna", 1), now), PlaceKind::Known);
    }
}
