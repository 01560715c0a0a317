//! People as a provider describes them.

use openidconnect::AdditionalClaims;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Claim with the address of a person, and the claim that says that the provider has checked it.
const MAIL: &str = "email";
const MAIL_IS_CHECKED: &str = "email_verified";

/// Claims besides the usual ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MoreClaims {
    #[serde(flatten)]
    all: Map<String, Value>,
}

impl AdditionalClaims for MoreClaims {}

/// A person whom the provider knows.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Claimant {
    pub(crate) issuer: String,
    /// The provider's name of the person, which never changes.
    pub(crate) subject: String,
    pub(super) claims: Map<String, Value>,
}

impl Claimant {
    /// Returns a claim that is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns the claim that names the person here. An address that the provider has not checked
    /// names nobody: anybody could have given it.
    pub(crate) fn login(&self, name: &str) -> Option<&str> {
        let is_checked = self.claims.get(MAIL_IS_CHECKED) == Some(&Value::Bool(true));
        self.text(name).filter(|_| name != MAIL || is_checked)
    }

    /// Returns a claim that is a list of texts, or one text.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        match self.claims.get(name) {
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one],
            _ => Vec::new(),
        }
    }
}

/// Returns claims by their names.
pub(super) fn by_name(claims: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(claims) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant(claims: &Value) -> Claimant {
        let claims = claims.as_object().expect("an object").clone();
        Claimant { issuer: String::new(), subject: String::new(), claims }
    }

    #[test]
    fn groups_are_a_list_or_one_text() {
        let known = claimant(&serde_json::json!({ "groups": ["a", 7, "b"], "team": "c" }));
        assert_eq!(known.list("groups"), ["a", "b"]);
        assert_eq!(known.list("team"), ["c"]);
        assert_eq!(known.list("absent"), [""; 0]);
        assert_eq!((known.text("team"), known.text("groups")), (Some("c"), None));
    }

    #[test]
    fn an_address_names_a_person_once_it_is_checked() {
        let login = |claims| claimant(&claims).login(MAIL).map(str::to_owned);
        let mail = "anna@example.org";
        let checked = |value: Value| serde_json::json!({ MAIL: mail, MAIL_IS_CHECKED: value });
        assert_eq!(login(checked(true.into())).as_deref(), Some(mail));
        assert_eq!(login(checked(false.into())), None);
        assert_eq!(login(checked("true".into())), None);
        assert_eq!(login(serde_json::json!({ MAIL: mail })), None);
        let known = claimant(&serde_json::json!({ "preferred_username": "anna", MAIL: mail }));
        assert_eq!(known.login("preferred_username"), Some("anna"));
    }
}
