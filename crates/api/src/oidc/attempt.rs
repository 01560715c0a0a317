//! Attempts to sign in, as the cookie of a browser keeps them: sealed, so that nobody reads or
//! makes one, and the server keeps nothing of them.

use data_encoding::BASE64URL_NOPAD;
use model::{PersonId, ServerTime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::seal::SealKey;

/// Time in which a person signs in at the provider, and then gives the code of the second factor,
/// in microseconds: ten minutes each.
const VALID_MICROS: i64 = 600_000_000;
/// Purposes for which attempts are sealed.
const ATTEMPT: &[u8] = b"attempt to sign in by OpenID Connect";
const PROOF: &[u8] = b"sign-in by OpenID Connect without its second factor";

/// An attempt, while the person is at the provider.
#[derive(Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
}

/// Content with the end of its time.
#[derive(Serialize, Deserialize)]
struct Perishable<T> {
    content: T,
    ends: i64,
}

impl Attempt {
    /// Returns the value of the cookie of an attempt that begins at `now`.
    pub(super) fn seal(&self, seals: &SealKey, now: ServerTime) -> String {
        seal(seals, ATTEMPT, self, now)
    }

    /// Opens the attempt in a cookie, unless its time is over.
    pub(super) fn open(seals: &SealKey, cookie: &str, now: ServerTime) -> Option<Self> {
        open(seals, ATTEMPT, cookie, now)
    }
}

/// Returns the value of the cookie of a person who has signed in at the provider, and has to give
/// the code of the second factor.
pub(crate) fn seal_proof(seals: &SealKey, person: PersonId, now: ServerTime) -> String {
    seal(seals, PROOF, &person.0, now)
}

/// Opens what [`seal_proof`] has made, unless its time is over.
pub(crate) fn open_proof(seals: &SealKey, cookie: &str, now: ServerTime) -> Option<PersonId> {
    open(seals, PROOF, cookie, now).map(PersonId)
}

fn seal(seals: &SealKey, purpose: &[u8], content: &impl Serialize, now: ServerTime) -> String {
    let perishable = Perishable { content, ends: now.0 + VALID_MICROS };
    let text = serde_json::to_vec(&perishable).expect("an attempt is text");
    BASE64URL_NOPAD.encode(&seals.seal(purpose, &text))
}

fn open<T: DeserializeOwned>(
    seals: &SealKey,
    purpose: &[u8],
    cookie: &str,
    now: ServerTime,
) -> Option<T> {
    let sealed = BASE64URL_NOPAD.decode(cookie.as_bytes()).ok()?;
    let perishable = serde_json::from_slice(&seals.open(purpose, &sealed)?).ok()?;
    let Perishable { content, ends } = perishable;
    (now.0 < ends).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_for_its_time_its_purpose_and_its_server() {
        let (seals, others) = (SealKey::new(&[1; 32]), SealKey::new(&[2; 32]));
        let [state, nonce, verifier] = ["s", "n", "v"].map(str::to_owned);
        let cookie = Attempt { state, nonce, verifier }.seal(&seals, ServerTime(10));
        let at = |seals, micros| Attempt::open(seals, &cookie, ServerTime(micros));
        let end = 10 + VALID_MICROS;
        assert_eq!(at(&seals, end - 1).map(|attempt| attempt.state).as_deref(), Some("s"));
        assert!(at(&seals, end).is_none());
        assert!(at(&others, 11).is_none());
        assert_eq!(open_proof(&seals, &cookie, ServerTime(11)), None);
        let proof = seal_proof(&seals, PersonId(7), ServerTime(10));
        assert_eq!(open_proof(&seals, &proof, ServerTime(end - 1)), Some(PersonId(7)));
        assert_eq!(open_proof(&seals, &proof, ServerTime(end)), None);
        assert!(Attempt::open(&seals, &proof, ServerTime(11)).is_none());
        for bad in ["", "***", &cookie[1..], &"a".repeat(100_000)] {
            assert!(Attempt::open(&seals, bad, ServerTime(11)).is_none());
        }
    }
}
