//! Keys of programs.
//!
//! A key is `ID:SECRET`. The catalogue has the id and the hash of the secret. The secret has 256
//! random bits, so its hash needs no salt and no slow function.

use std::collections::BTreeSet;
use std::fmt;

use catalog::ApiKeyRow;
use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use model::{DomainId, ServerTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Beginning of the ids of keys, by which people and scanners recognise them.
const PREFIX: &str = "hf-";

/// Character between the kind of a key and the domains that it reaches, in the catalogue.
const REACH: char = '@';

/// Kind of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyKind {
    /// All that its person may do.
    Full,
    /// All that its person may read.
    Readonly,
    /// Registration of a number of nodes.
    Enroller,
    /// All that another person may do, who is named in each request.
    Impersonator,
}

/// A new key, with its secret.
pub(crate) struct NewKey {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) hash: [u8; 32],
}

impl KeyKind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Full, Self::Readonly, Self::Enroller, Self::Impersonator];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Readonly => "readonly",
            Self::Enroller => "enroller",
            Self::Impersonator => "impersonator",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the kind of a key as the catalogue keeps it, as in `full@2,5`. `reach` has the
/// domains of those who make the key for another person; `None` if the key reaches all that its
/// person does.
pub(crate) fn kept_kind(kind: KeyKind, reach: Option<&BTreeSet<DomainId>>) -> String {
    let Some(reach) = reach else { return kind.name().to_owned() };
    let domains: Vec<String> = reach.iter().map(|domain| domain.0.to_string()).collect();
    format!("{kind}{REACH}{}", domains.join(","))
}

/// Parses what [`kept_kind`] returns.
pub(crate) fn parse_kind(text: &str) -> Option<(KeyKind, Option<BTreeSet<DomainId>>)> {
    let Some((kind, domains)) = text.split_once(REACH) else {
        return Some((KeyKind::of_name(text)?, None));
    };
    let parse = |number: &str| number.parse::<u32>().ok().map(DomainId);
    let reach: Option<BTreeSet<DomainId>> = domains.split_terminator(',').map(parse).collect();
    Some((KeyKind::of_name(kind)?, Some(reach?)))
}

/// Makes a key.
pub(crate) fn make() -> NewKey {
    let id = BASE32_NOPAD.encode(&sys::entropy::bytes::<10>()).to_lowercase();
    let secret = BASE64URL_NOPAD.encode(&sys::entropy::bytes::<32>());
    NewKey { id: format!("{PREFIX}{id}"), hash: hash(&secret), secret }
}

/// Returns the hash of a secret, which the catalogue keeps.
pub(crate) fn hash(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// Returns true if `row` is the row of a key that is valid at `now` and has this secret.
pub(crate) fn is_valid(row: &ApiKeyRow, secret: &str, now: ServerTime) -> bool {
    // Equality of digests takes the same time wherever they differ.
    let is_secret = blake3::Hash::from(row.hash) == blake3::Hash::from(hash(secret));
    let is_current = row.revoked.is_none() && row.expires.is_none_or(|expires| now < expires);
    is_secret && is_current
}

#[cfg(test)]
mod tests {
    use model::PersonId;

    use super::*;

    #[test]
    fn a_key_is_valid_until_its_end() {
        let key = make();
        assert_eq!((key.id.len(), key.secret.len()), (PREFIX.len() + 16, 43));
        let row = ApiKeyRow {
            id: key.id,
            hash: key.hash,
            person: PersonId(1),
            kind: "full".to_owned(),
            description: String::new(),
            uses_max: None,
            uses: 0,
            made: ServerTime(0),
            made_by: String::new(),
            expires: Some(ServerTime(9)),
            revoked: None,
        };
        assert!(is_valid(&row, &key.secret, ServerTime(8)));
        assert!(!is_valid(&row, &key.secret, ServerTime(9)));
        assert!(!is_valid(&row, "another", ServerTime(8)));
        let revoked = ApiKeyRow { revoked: Some(ServerTime(1)), ..row };
        assert!(!is_valid(&revoked, &key.secret, ServerTime(8)));
    }

    #[test]
    fn the_reach_of_a_key_is_kept_with_its_kind() {
        let domains =
            |all: &[u32]| Some(all.iter().copied().map(DomainId).collect::<BTreeSet<_>>());
        for (reach, text) in [
            (None, "readonly"),
            (domains(&[]), "readonly@"),
            (domains(&[2]), "readonly@2"),
            (domains(&[2, 15]), "readonly@2,15"),
        ] {
            assert_eq!(kept_kind(KeyKind::Readonly, reach.as_ref()), text);
            assert_eq!(parse_kind(text), Some((KeyKind::Readonly, reach)));
        }
        for wrong in ["", "@2", "full@x", "full@2,,3", "fuller"] {
            assert_eq!(parse_kind(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn kinds_are_read_and_written() {
        for kind in KeyKind::ALL {
            assert_eq!(KeyKind::of_name(kind.name()), Some(kind));
            let json = serde_json::to_string(&kind).expect("is text");
            assert_eq!(json, format!("\"{kind}\""));
        }
    }
}
