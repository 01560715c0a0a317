//! The certificate authority (CA) that a machine trusts when it enrols with a password.
//!
//! ```text
//!   fingerprint that is given --\
//!   file with the certificate ----> the CA that the server shows has to be this one
//!   the system's store ---------/
//!   a person who compares the fingerprint that is shown; without one, nothing is trusted
//! ```

use std::path::PathBuf;

use client::authority::Fingerprint;

use crate::error::CommandError;

/// Knowledge about the CA before the first connection.
#[derive(Default)]
pub(crate) struct AuthorityClues {
    pub(crate) fingerprint: Option<Fingerprint>,
    /// File with the certificate of the CA, in PEM. It may have those of other servers, too.
    pub(crate) file: Option<PathBuf>,
}

/// Where the trust in a CA comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Given,
    System,
    Person,
}

/// Finds the CA of the server, if it can be trusted. `is_agreed` asks a person; without a terminal
/// it says no.
pub(crate) fn trusted(
    server: &str,
    known: &AuthorityClues,
    is_agreed: &mut dyn FnMut(&str) -> Result<bool, CommandError>,
) -> Result<Fingerprint, CommandError> {
    let shown = Fingerprint::shown_by(server)?;
    let given = match (&known.fingerprint, &known.file) {
        (Some(fingerprint), _) => vec![*fingerprint],
        (None, Some(file)) => Fingerprint::all_of_file(file)?,
        (None, None) => Vec::new(),
    };
    let is_trusted = match source(!given.is_empty(), || shown.is_in_system_store()) {
        Source::Given => given.contains(&shown),
        Source::System => true,
        Source::Person => return asked(server, shown, is_agreed),
    };
    if is_trusted {
        return Ok(shown);
    }
    let message = format!(
        "the server {server} is not trusted: its CA has the fingerprint {shown}, which is \
         not the one that is given"
    );
    Err(CommandError::new(message).with_hint("nothing was sent to the server"))
}

fn source(is_given: bool, is_in_system_store: impl FnOnce() -> bool) -> Source {
    match is_given {
        true => Source::Given,
        false if is_in_system_store() => Source::System,
        false => Source::Person,
    }
}

fn asked(
    server: &str,
    shown: Fingerprint,
    is_agreed: &mut dyn FnMut(&str) -> Result<bool, CommandError>,
) -> Result<Fingerprint, CommandError> {
    let question = format!(
        "This machine does not know the CA of the server {server}. Its fingerprint (SHA-256) \
         is\n{shown}\nIs this what the server's administrator has told you?"
    );
    if is_agreed(&question)? {
        return Ok(shown);
    }
    let message = format!("the CA of the server {server} is not known here");
    Err(CommandError::new(message).with_hint(
        "nothing was sent to the server; get its file ca.pem, or the fingerprint, from its \
         administrator",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_comes_before_the_systems_store_and_a_person_is_last() {
        assert_eq!(source(true, || true), Source::Given);
        assert_eq!(source(true, || false), Source::Given);
        assert_eq!(source(false, || true), Source::System);
        assert_eq!(source(false, || false), Source::Person);
    }

    #[test]
    fn a_person_sees_the_fingerprint_and_decides() {
        let shown = Fingerprint([0xab; 32]);
        let mut question = String::new();
        let agreed = asked("host:1500", shown, &mut |text| {
            question = text.to_owned();
            Ok(true)
        });
        assert_eq!(agreed.ok(), Some(shown));
        assert!(question.contains(&shown.to_string()), "{question}");
        let refused = asked("host:1500", shown, &mut |_| Ok(false)).expect_err("is refused");
        assert!(refused.message.contains("is not known here"), "{}", refused.message);
    }
}
