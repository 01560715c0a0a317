//! Settings of signing in by a provider of OpenID Connect.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The provider of OpenID Connect at which people sign in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcSettings {
    /// Address of the provider, as its tokens name it: `https:`, or `http:` on this machine.
    pub issuer: String,
    /// Name of this service at the provider.
    pub client_id: String,
    /// File with the secret of this service at the provider, which its owner alone may read. A
    /// relative path is in the server's folder. Without this key, the service has no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub client_secret_file: Option<PathBuf>,
    /// Address of the page to which the provider sends browsers back, as it is registered there:
    /// `https://HOST:PORT/sign-in/return`.
    pub redirect_url: String,
    /// Name of the provider for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the issuer"))]
    pub title: Option<String>,
    /// File with certificates of authorities that certify the provider, in PEM. A relative path is
    /// in the server's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the authorities that this machine trusts"))]
    pub authority: Option<PathBuf>,
    /// Further hosts of the provider to which the server sends requests, each as `HOST` or
    /// `HOST:PORT`. Without this key, it asks the host of the issuer only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub hosts: Vec<String>,
    /// Further scopes that the provider is asked for, besides `openid`.
    #[serde(default = "default_scopes")]
    #[schemars(extend("x-default" = "`profile`, `email`"))]
    pub scopes: Vec<String>,
    /// Claim that has the login of the person here. An `email` counts only if the provider says
    /// that it has checked it.
    #[serde(default = "default_login_claim")]
    pub login_claim: String,
    /// Claim that has the groups of the person.
    #[serde(default = "default_groups_claim")]
    pub groups_claim: String,
    /// True if a person who has a second factor here gives its code after the sign-in at the
    /// provider, too.
    #[serde(default = "default_asks_second_factor")]
    pub asks_second_factor: bool,
    /// True if a person who signs in for the first time becomes the person with the same login
    /// here. Only for a provider at which nobody can choose the own login.
    #[serde(default)]
    pub trusts_logins: bool,
    /// True if a person whom nobody has registered is registered at the first sign-in.
    #[serde(default)]
    pub registers: bool,
    /// Groups and their roles. With this list, people from the provider have exactly the roles of
    /// their groups from each sign-in on. Those without a role lose the roles that they had, and
    /// cannot sign in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub groups: Vec<OidcGroup>,
}

/// A group at the provider, with the role of its members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcGroup {
    /// Name of the group at the provider.
    pub group: String,
    /// Role of its members.
    pub role: String,
    /// Domain in which the members have the role; everywhere without this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub domain: Option<String>,
}

fn default_scopes() -> Vec<String> {
    ["profile", "email"].map(str::to_owned).to_vec()
}

fn default_login_claim() -> String {
    "preferred_username".to_owned()
}

fn default_groups_claim() -> String {
    "groups".to_owned()
}

fn default_asks_second_factor() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_strict_where_nothing_is_said() {
        let text = "issuer = \"https://id.example.org\"\nclient_id = \"holdfast\"\n\
                    redirect_url = \"https://backup.example.org/sign-in/return\"\n";
        let settings: OidcSettings = toml::from_str(text).expect("is valid");
        assert!(settings.asks_second_factor && !settings.trusts_logins && !settings.registers);
        assert_eq!(toml::from_str(&toml::to_string(&settings).expect("is text")), Ok(settings));
        assert!(toml::from_str::<OidcSettings>(&format!("{text}trust_logins = true\n")).is_err());
    }
}
