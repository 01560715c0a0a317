//! Second factors: one-time codes by time (RFC 6238), as apps on telephones show them.

use std::net::IpAddr;

use catalog::Person;
use data_encoding::BASE32_NOPAD;
use model::ServerTime;
use totp_rs::{Builder, Totp};

use crate::authentication::kind_of_place;
use crate::desk::{Desk, origin};
use crate::login_guesses::{Place, PlaceKind};
use crate::problem::{Kind, Problem};

/// Length of a secret in bytes: that of the hash, as RFC 4226 recommends.
const SECRET_BYTES: usize = 20;
/// Name of this service in the apps.
const ISSUER: &str = "Holdfast";

/// A new secret, before the person has shown that an app has it.
pub(crate) struct NewSecret {
    pub(crate) secret: [u8; SECRET_BYTES],
    /// Address that apps read, as text or as a picture.
    pub(crate) url: String,
}

/// Makes a secret for the person with this login.
pub(crate) fn make(login: &str) -> NewSecret {
    let secret = sys::entropy::bytes::<SECRET_BYTES>();
    let url = format!(
        "otpauth://totp/{ISSUER}:{login}?secret={}&issuer={ISSUER}",
        BASE32_NOPAD.encode(&secret)
    );
    NewSecret { secret, url }
}

fn codes(secret: &[u8]) -> Result<Totp, Problem> {
    let codes = Builder::new().with_secret(secret.to_vec()).build();
    codes.map_err(|error| Problem::new(Kind::Bug, format!("the second factor: {error}")))
}

/// Returns the step of time for which `code` is right; `None` if it is wrong.
pub(crate) fn step(secret: &[u8], code: &str, now: ServerTime) -> Result<Option<u64>, Problem> {
    let secs = u64::try_from(now.secs()).unwrap_or(0);
    Ok(codes(secret)?.check(code.trim(), secs))
}

/// Fails unless `code` is right for `person`, and was not used before. A person without a second
/// factor needs no code. Guesses from strange places do not slow attempts from places at which the
/// person has signed in, nor those of a caller who is known to be the person: `is_own`.
pub(crate) fn check(
    desk: &Desk,
    (address, is_own): (Option<IpAddr>, bool),
    person: &Person,
    code: Option<&str>,
) -> Result<(), Problem> {
    let Some(sealed) = &person.second_factor else { return Ok(()) };
    let needed = || Problem::new(Kind::SecondFactor, "give the code that your app shows");
    let code = code.ok_or_else(needed)?;
    let context = person.id.0.to_le_bytes();
    let secret = desk.seals.open(&context, sealed).ok_or_else(|| {
        Problem::new(Kind::Damaged, "the second factor cannot be read; ask for its removal")
    })?;
    let (guesses, now) = (&desk.guesses_of_codes, sys::clock::monotonic());
    let place = Place { login: person.id.to_string(), from: origin(address) };
    guesses.admit(&place, now).map_err(Problem::too_many)?;
    let kind = match is_own {
        true => PlaceKind::Known,
        false => kind_of_place(desk, guesses, &place, Some(person), now)?,
    };
    guesses.admit_among_all(&place, kind, now).map_err(Problem::too_many)?;
    // The attempt counts before anybody looks at its code, as that with a password does.
    guesses.failed(&place, kind, now);
    let step = step(&secret, code, sys::clock::system())?;
    let is_right = match step {
        Some(step) => desk.store().catalog.use_code(person.id, step)?,
        None => false,
    };
    if is_right {
        guesses.succeeded(&place, kind, true, now);
        return Ok(());
    }
    Err(Problem::new(Kind::SecondFactor, "the code is wrong, or was used before"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret and two values of RFC 6238, appendix B, cut to 6 digits.
    #[test]
    fn codes_are_those_of_the_rfc() {
        let secret = b"12345678901234567890";
        let check = |code: &str, secs| {
            step(secret, code, ServerTime::from_secs(secs)).expect("the secret is right")
        };
        assert_eq!(check("287082", 59), Some(1));
        assert_eq!(check("081804", 1_111_111_109), Some(37_037_036));
        assert_eq!(check("287082", 59 + 30), Some(1), "a clock may be late by one step");
        assert_eq!(check("287082", 59 + 60), None);
        assert_eq!(check("287083", 59), None);
        assert_eq!(check("", 59), None);
    }
}
