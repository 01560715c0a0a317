//! Signing in by a provider of OpenID Connect: the authorization code flow with PKCE.
//!
//! ```text
//!   page ----- begin -------> the attempt, sealed in a cookie, and an address at the provider
//!   browser ----------------> the provider, which checks who it is
//!   provider --- redirect --> page, with a code and the state
//!   page ----- complete ----> code -> tokens -> claims, which name the person
//! ```
//!
//! 1. The cookie binds an attempt to its browser, the state binds the return to the attempt, the
//!    nonce binds the token to it, and PKCE binds the code to it.
//! 2. A token counts if the provider has signed it for this service with a key of a pair, and its
//!    time is not over. Signatures with the secret of the service do not count.
//! 3. Requests go to the provider's own host, and to those that the settings name. None follows a
//!    redirection, each ends after some time, and few sign-ins make them at once.
//! 4. While the provider does not answer, people sign in with their passwords as before.

mod attempt;
mod claimant;
mod transport;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreClientAuthMethod, CoreErrorResponseType, CoreGenderClaim,
    CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreResponseType,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::url::Url;
use openidconnect::{
    AccessTokenHash, AuthType, AuthenticationFlow, AuthorizationCode, ClaimsVerificationError,
    Client, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, IdTokenFields, IssuerUrl, Nonce, OAuth2TokenResponse as _,
    PkceCodeChallenge, PkceCodeVerifier, ProviderMetadataWithLogout, RedirectUrl,
    RequestTokenError, Scope, StandardErrorResponse, StandardTokenResponse, SubjectIdentifier,
    TokenResponse as _, UserInfoClaims, UserInfoError,
};
use serde_json::{Map, Value};
use store::folder::{OidcGroup, OidcSettings};
use sys::lock::Mutex;
use tokio::runtime::Handle;

use self::attempt::Attempt;
pub(crate) use self::attempt::{open_proof, seal_proof};
pub(crate) use self::claimant::Claimant;
use self::claimant::{MoreClaims, by_name};
use self::transport::{Transport, is_of_this_machine};
use crate::problem::{Kind, Problem};
use crate::roles::Role;
use crate::seal::SealKey;

/// Time for which the provider's description and keys are used.
const FRESH: Duration = Duration::from_secs(300);
/// Time for which a provider that did not answer is not asked again.
const AWAY: Duration = Duration::from_secs(5);
/// Signatures that count: those with a key that the provider alone has.
const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Reason why the settings of the provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    #[error("cannot read {path}, which the section [oidc] of server.toml names")]
    File { path: String, source: std::io::Error },
    #[error("others can read the secret in {path}; take the right from them with 'chmod 600'")]
    OpenSecret { path: String },
    #[error("{path} has no certificates in PEM")]
    Certificates { path: String, source: reqwest::Error },
    #[error("cannot make requests to the provider")]
    Client(#[source] reqwest::Error),
    #[error("{url} is not an address; correct the section [oidc] of server.toml")]
    Url { url: String, source: openidconnect::url::ParseError },
    #[error("{0} must begin with https://; correct the section [oidc] of server.toml")]
    Plain(String),
    #[error(
        "the role {0} is unknown, or needs a domain; correct the section [oidc] of server.toml"
    )]
    Role(String),
}

type Tokens = StandardTokenResponse<
    IdTokenFields<
        MoreClaims,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

type OidcClient = Client<
    MoreClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The provider.
pub(crate) struct Provider {
    pub(crate) settings: OidcSettings,
    issuer: IssuerUrl,
    redirect: RedirectUrl,
    secret: Option<ClientSecret>,
    transport: Transport,
    known: Mutex<Knowledge>,
}

/// Description of the provider with its keys, and the times of the last look.
#[derive(Default)]
struct Knowledge {
    read: Option<(Instant, Arc<ProviderMetadataWithLogout>)>,
    failed: Option<Instant>,
}

/// The outset of an attempt.
pub(crate) struct Outset {
    /// Address at the provider.
    pub(crate) url: String,
    /// Value of the cookie.
    pub(crate) cookie: String,
}

/// The problem of a provider that does not answer as it should.
fn away() -> Problem {
    let text = "the provider of sign-ins does not answer as it should; sign in with a password, \
                or try again later";
    Problem::new(Kind::Unavailable, text)
}

fn failed(error: &dyn std::error::Error) -> Problem {
    tracing::warn!(error = model::chain(error), "the OpenID Connect provider cannot be used");
    away()
}

fn refused(error: &dyn std::error::Error) -> Problem {
    tracing::info!(error = model::chain(error), "a sign-in by OpenID Connect is refused");
    stale()
}

/// The problem of an attempt that is not valid.
pub(crate) fn stale() -> Problem {
    let text = "the sign-in at the provider is not valid, or took too long; begin again";
    Problem::new(Kind::Unauthenticated, text)
}

impl Provider {
    /// Prepares sign-ins at the provider in `settings`. Relative paths in them are in `folder`.
    /// Does not connect.
    pub(crate) fn new(settings: OidcSettings, folder: &Path) -> Result<Self, OidcError> {
        let issuer = IssuerUrl::new(settings.issuer.clone()).map_err(of(&settings.issuer))?;
        let redirect = RedirectUrl::new(settings.redirect_url.clone());
        let redirect = redirect.map_err(of(&settings.redirect_url))?;
        check(&settings, issuer.url(), redirect.url())?;
        let secret = settings.client_secret_file.as_deref();
        let secret = secret.map(|path| read_secret(&folder.join(path))).transpose()?;
        let authorities = match &settings.authority {
            None => None,
            Some(path) => {
                let path = folder.join(path);
                let pem = std::fs::read(&path).map_err(of_file(&path))?;
                let all = reqwest::Certificate::from_pem_bundle(&pem);
                let path = path.display().to_string();
                Some(all.map_err(|source| OidcError::Certificates { path, source })?)
            }
        };
        let hosts = settings.hosts.clone();
        let transport = Transport::new(issuer.url().clone(), hosts, authorities);
        let transport = transport.map_err(OidcError::Client)?;
        Ok(Self { settings, issuer, redirect, secret, transport, known: Mutex::default() })
    }

    /// Returns the provider's description, and reads it if the known one is older than `fresh`.
    fn metadata(&self, fresh: Duration) -> Result<Arc<ProviderMetadataWithLogout>, Problem> {
        let now = sys::clock::monotonic();
        let is_within = |time: Instant, span| now.saturating_duration_since(time) < span;
        let known = self.known.lock();
        if let Some((time, read)) = &known.read
            && is_within(*time, fresh)
        {
            return Ok(Arc::clone(read));
        }
        if known.failed.is_some_and(|time| is_within(time, AWAY)) {
            return Err(away());
        }
        drop(known);
        let send = |request| self.transport.send(request);
        let issuer = self.issuer.clone();
        let reading = ProviderMetadataWithLogout::discover_async(issuer, &send);
        match Handle::current().block_on(reading) {
            Ok(read) => {
                let read = Arc::new(read);
                let (now, read_now) = (sys::clock::monotonic(), Arc::clone(&read));
                *self.known.lock() = Knowledge { read: Some((now, read_now)), failed: None };
                Ok(read)
            }
            Err(error) => {
                self.known.lock().failed = Some(sys::clock::monotonic());
                Err(failed(&error))
            }
        }
    }

    fn client(&self, metadata: &ProviderMetadataWithLogout) -> OidcClient {
        let id = ClientId::new(self.settings.client_id.clone());
        let methods = metadata.token_endpoint_auth_methods_supported();
        let takes_basic = methods
            .is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let kind = if takes_basic { AuthType::BasicAuth } else { AuthType::RequestBody };
        OidcClient::from_provider_metadata(metadata.clone(), id, self.secret.clone())
            .set_redirect_uri(self.redirect.clone())
            .set_auth_type(kind)
    }

    /// Begins an attempt.
    pub(crate) fn begin(&self, seals: &SealKey) -> Result<Outset, Problem> {
        let _visit = self.transport.visit()?;
        let client = self.client(&*self.metadata(FRESH)?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        let scopes = self.settings.scopes.iter().cloned().map(Scope::new);
        let (url, state, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        if !self.transport.is_safe(&url) {
            let host = url.host_str().unwrap_or_default();
            tracing::warn!(host, "the OpenID Connect provider names a wrong address for sign-ins");
            return Err(away());
        }
        let attempt = Attempt {
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
        };
        Ok(Outset { url: url.to_string(), cookie: attempt.seal(seals, sys::clock::now()) })
    }

    /// Completes the attempt in the cookie with the code and the state that came back.
    pub(crate) fn complete(
        &self,
        seals: &SealKey,
        cookie: &str,
        (code, state): (&str, &str),
    ) -> Result<Claimant, Problem> {
        let attempt = Attempt::open(seals, cookie, sys::clock::now()).ok_or_else(stale)?;
        if blake3::hash(attempt.state.as_bytes()) != blake3::hash(state.as_bytes()) {
            return Err(stale());
        }
        let _visit = self.transport.visit()?;
        let client = self.client(&*self.metadata(FRESH)?);
        let tokens = self.tokens(&client, code, attempt.verifier)?;
        let nonce = Nonce::new(attempt.nonce);
        let checked = match self.claims(&client, &tokens, &nonce) {
            // The provider may have new keys.
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                let client = self.client(&*self.metadata(Duration::ZERO)?);
                self.claims(&client, &tokens, &nonce)
            }
            checked => checked,
        };
        let claims = checked.map_err(|error| refused(&error))?;
        let subject = claims.get("sub").and_then(Value::as_str).ok_or_else(stale)?.to_owned();
        let more = self.more_claims(&client, &tokens, &subject)?;
        let claims = more.into_iter().chain(claims).collect();
        Ok(Claimant { issuer: self.settings.issuer.clone(), subject, claims })
    }

    fn tokens(&self, client: &OidcClient, code: &str, verifier: String) -> Result<Tokens, Problem> {
        let request = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let request = request.map_err(|error| failed(&error))?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier));
        let send = |request| self.transport.send(request);
        let exchanged = Handle::current().block_on(request.request_async(&send));
        exchanged.map_err(|error| match &error {
            RequestTokenError::ServerResponse(answer)
                if *answer.error() == CoreErrorResponseType::InvalidGrant =>
            {
                refused(&error)
            }
            // All others say that the provider does not know this service, or is not well.
            _ => failed(&error),
        })
    }

    /// Returns the claims of the token, after all of its checks.
    fn claims(
        &self,
        client: &OidcClient,
        tokens: &Tokens,
        nonce: &Nonce,
    ) -> Result<Map<String, Value>, ClaimsVerificationError> {
        let wrong = |text: &str| ClaimsVerificationError::Other(text.to_owned());
        let token = tokens.id_token().ok_or_else(|| wrong("the provider gave no token"))?;
        let verifier = client.id_token_verifier().set_allowed_algs(SIGNATURES);
        let claims = token.claims(&verifier, nonce)?;
        if claims
            .authorized_party()
            .is_some_and(|party| **party != self.settings.client_id)
        {
            return Err(wrong("the token was made for another service"));
        }
        if let Some(expected) = claims.access_token_hash() {
            let of_signature = ClaimsVerificationError::SignatureVerification;
            let algorithm = token.signing_alg().map_err(of_signature)?;
            let key = token.signing_key(&verifier).map_err(of_signature)?;
            let found = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if found.ok().as_ref() != Some(expected) {
                return Err(wrong("the access token is not the one of the token"));
            }
        }
        Ok(by_name(claims))
    }

    /// Returns the claims that the provider tells apart from the token, if it does.
    fn more_claims(
        &self,
        client: &OidcClient,
        tokens: &Tokens,
        subject: &str,
    ) -> Result<Map<String, Value>, Problem> {
        let subject = SubjectIdentifier::new(subject.to_owned());
        let Ok(request) = client.user_info(tokens.access_token().clone(), Some(subject)) else {
            return Ok(Map::new());
        };
        let send = |request| self.transport.send(request);
        let read = Handle::current().block_on(request.request_async(&send));
        let claims: UserInfoClaims<MoreClaims, CoreGenderClaim> =
            read.map_err(|error| match &error {
                UserInfoError::ClaimsVerification(_) => refused(&error),
                _ => failed(&error),
            })?;
        Ok(by_name(&claims))
    }

    /// Returns the address at which a person signs out at the provider, too, as far as it is known.
    pub(crate) fn sign_out_url(&self) -> Option<String> {
        let known = self.known.lock();
        let (_, metadata) = known.read.as_ref()?;
        let end = metadata.additional_metadata().end_session_endpoint.as_ref()?;
        let mut url = end.url().clone();
        url.query_pairs_mut().append_pair("client_id", &self.settings.client_id);
        self.transport.is_safe(&url).then(|| url.to_string())
    }
}

/// Returns the conversion of an error about the address `url`.
fn of(url: &str) -> impl FnOnce(openidconnect::url::ParseError) -> OidcError {
    let url = url.to_owned();
    move |source| OidcError::Url { url, source }
}

fn of_file(path: &Path) -> impl Fn(std::io::Error) -> OidcError {
    let path = path.display().to_string();
    move |source| OidcError::File { path: path.clone(), source }
}

/// Reads the secret in a file that its owner alone may read: its first line.
fn read_secret(path: &Path) -> Result<ClientSecret, OidcError> {
    let mode = std::fs::metadata(path).map_err(of_file(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(OidcError::OpenSecret { path: path.display().to_string() });
    }
    let text = std::fs::read_to_string(path).map_err(of_file(path))?;
    Ok(ClientSecret::new(text.lines().next().unwrap_or_default().trim().to_owned()))
}

/// Fails for settings that cannot be carried out.
fn check(settings: &OidcSettings, issuer: &Url, redirect: &Url) -> Result<(), OidcError> {
    if issuer.scheme() != "https" && !is_of_this_machine(issuer) {
        return Err(OidcError::Plain(settings.issuer.clone()));
    }
    if redirect.scheme() != "https" {
        return Err(OidcError::Plain(settings.redirect_url.clone()));
    }
    let is_wrong = |group: &&OidcGroup| match Role::of_name(&group.role) {
        Some(Role::Tenant | Role::Owner) => group.domain.is_none(),
        Some(_) => false,
        None => true,
    };
    match settings.groups.iter().find(is_wrong) {
        Some(group) => Err(OidcError::Role(group.role.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Makes the provider of settings that differ in these keys.
    fn provider(changes: &Value) -> Result<Provider, OidcError> {
        let mut all = json!({
            "issuer": "https://id.example.org",
            "client_id": "holdfast",
            "redirect_url": "https://backup.example.org:1580/sign-in/return",
        });
        for (key, value) in changes.as_object().expect("an object") {
            all[key] = value.clone();
        }
        let folder = tempfile::tempdir().expect("a folder");
        Provider::new(serde_json::from_value(all).expect("settings"), folder.path())
    }

    #[track_caller]
    fn check_refused(changes: &Value, expected: &str) {
        let refused = provider(changes).err().expect("is refused").to_string();
        assert!(refused.contains(expected), "{refused}");
    }

    #[test]
    fn settings_that_cannot_be_carried_out_are_refused() {
        assert!(provider(&json!({})).is_ok());
        assert!(provider(&json!({ "issuer": "http://127.0.0.1:4000" })).is_ok());
        check_refused(&json!({ "issuer": "http://id.example.org" }), "must begin with https://");
        check_refused(&json!({ "redirect_url": "http://a/sign-in" }), "must begin with https://");
        check_refused(&json!({ "issuer": "id" }), "is not an address");
        check_refused(&json!({ "client_secret_file": "absent" }), "cannot read");
        check_refused(&json!({ "authority": "absent" }), "cannot read");
        for role in ["tenant", "owner", "root"] {
            let groups = json!([{ "group": "g", "role": role }]);
            check_refused(&json!({ "groups": groups }), "is unknown, or needs a domain");
        }
        let groups = json!([{ "group": "g", "role": "tenant", "domain": "LAB" }]);
        assert!(provider(&json!({ "groups": groups })).is_ok());
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, "a secret\n").expect("is written");
        let with_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("is set");
            read_secret(&path)
        };
        for open in [0o644, 0o640, 0o604] {
            let refused = with_mode(open).expect_err("is refused");
            assert!(matches!(refused, OidcError::OpenSecret { .. }), "{refused}");
        }
        assert_eq!(with_mode(0o600).expect("is read").secret(), "a secret");
    }
}
