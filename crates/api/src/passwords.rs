//! Passwords of people: their rules, hashes (argon2id), and checks.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use model::PersonId;
use sys::lock::Mutex;

use crate::problem::Problem;

/// Length of a password in bytes.
const BYTES_MIN: usize = 12;
const BYTES_MAX: usize = 1024;
/// Time for which a checked password is known without its hash being computed again: programs send
/// it with each request.
const KNOWN: Duration = Duration::from_secs(300);
/// Maximum number of passwords that are known.
const KNOWN_MAX: usize = 10_000;

/// Checks of passwords, and those that were right lately.
pub(crate) struct Passwords {
    /// Key of the digests of passwords that are known. It lives as long as the process.
    key: [u8; 32],
    known: Mutex<HashMap<(PersonId, [u8; 32]), Instant>>,
    /// Lock for computing a hash, which takes 19 MiB: one at a time.
    computing: Mutex<()>,
    /// Hash of a random password, for people who do not exist.
    decoy: String,
}

/// Fails if `password` cannot be the password of `login`.
pub(crate) fn check_rules(login: &str, password: &str) -> Result<(), Problem> {
    if !(BYTES_MIN..=BYTES_MAX).contains(&password.len()) {
        let text = format!("a password has {BYTES_MIN} to {BYTES_MAX} bytes");
        return Err(Problem::invalid(text));
    }
    if password.to_lowercase().contains(&login.to_lowercase()) {
        return Err(Problem::invalid("a password must not contain the login"));
    }
    let first = password.chars().next();
    if password.chars().all(|one| Some(one) == first) {
        return Err(Problem::invalid("a password must have more than one character"));
    }
    Ok(())
}

/// Returns the hash of a password as a PHC string.
fn hash(password: &str) -> String {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.expect("the parameters are right").to_string()
}

impl Passwords {
    pub(crate) fn new() -> Self {
        let random = sys::entropy::bytes::<32>();
        let decoy = hash(&data_encoding::HEXLOWER.encode(&random));
        let (key, known) = (sys::entropy::bytes(), Mutex::default());
        Self { key, known, computing: Mutex::default(), decoy }
    }

    /// Returns true if `password` is the person's password, whose hash is `stored`. Without a
    /// person, takes as long and returns false.
    pub(crate) fn is_right(
        &self,
        person: Option<(PersonId, &str)>,
        password: &str,
        now: Instant,
    ) -> bool {
        if password.len() > BYTES_MAX {
            return false;
        }
        let Some((person, stored)) = person else {
            self.compute(&self.decoy, password);
            return false;
        };
        let is_right = self.compute(stored, password);
        if is_right {
            self.note(person, self.digest(stored, password), now);
        }
        is_right
    }

    /// Returns true if `password` was the person's password lately, with the same hash.
    pub(crate) fn is_known(
        &self,
        (person, stored): (PersonId, &str),
        password: &str,
        now: Instant,
    ) -> bool {
        let digest = self.digest(stored, password);
        let is_new = |since: &Instant| now.saturating_duration_since(*since) < KNOWN;
        self.known.lock().get(&(person, digest)).is_some_and(is_new)
    }

    /// Returns the hash of a password as a PHC string.
    pub(crate) fn hash(&self, password: &str) -> String {
        let _one_at_a_time = self.computing.lock();
        hash(password)
    }

    fn compute(&self, stored: &str, password: &str) -> bool {
        let _one_at_a_time = self.computing.lock();
        PasswordHash::new(stored).is_ok_and(|stored| {
            Argon2::default().verify_password(password.as_bytes(), &stored).is_ok()
        })
    }

    fn digest(&self, stored: &str, password: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&(stored.len() as u64).to_le_bytes());
        hasher.update(stored.as_bytes()).update(password.as_bytes());
        hasher.finalize().into()
    }

    fn note(&self, person: PersonId, digest: [u8; 32], now: Instant) {
        let mut known = self.known.lock();
        known.retain(|_, since| now.saturating_duration_since(*since) < KNOWN);
        if known.len() < KNOWN_MAX {
            known.insert((person, digest), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_passwords_are_refused() {
        assert_eq!(check_rules("anna", "correct horse"), Ok(()));
        for bad in ["short", "", "aaaaaaaaaaaaaaaa", "I am ANNA, really", &"x y".repeat(400)] {
            assert!(check_rules("anna", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_password_is_right() {
        let passwords = Passwords::new();
        let (stored, now) = (hash("correct horse"), sys::clock::monotonic());
        assert!(stored.starts_with("$argon2id$"), "{stored}");
        let check =
            |password: &str| passwords.is_right(Some((PersonId(1), &stored)), password, now);
        let known = |password: &str| passwords.is_known((PersonId(1), &stored), password, now);
        assert!(!known("correct horse"));
        assert!(check("correct horse") && known("correct horse"));
        assert!(!check("wrong horse") && !check(""));
        assert!(!passwords.is_right(None, "correct horse", now));
        let other = hash("another horse");
        let changed = Some((PersonId(1), other.as_str()));
        assert!(!passwords.is_right(changed, "correct horse", now));
        assert!(!passwords.is_known((PersonId(1), &other), "correct horse", now));
    }
}
