//! Signing in by OpenID Connect, at a provider that runs beside the server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use e2e::harness::api::{Answer, Caller};
use e2e::harness::{IdProvider, Return};
use serde_json::{Value, json};

use crate::api::{Provider, current_code, fields, take_second_factor};

/// Address to which the provider sends browsers back. Nobody listens there: the test reads what a
/// page would read.
pub(crate) const RETURN: &str = "https://127.0.0.1:1/sign-in/return";
/// Name of the cookie of an attempt.
pub(crate) const COOKIE: &str = "__Host-holdfast-oidc";

/// Returns the section about the provider, as a guide tells to write it, and writes the secret.
pub(crate) fn section(service: &Provider, provider: &IdProvider, more: &str) -> String {
    let secret = service.server.dir().join("oidc-secret");
    fs::write(&secret, format!("{}\n", IdProvider::SECRET)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let (issuer, client) = (provider.issuer(), IdProvider::CLIENT);
    format!(
        "\n[oidc]\nissuer = \"{issuer}\"\nclient_id = \"{client}\"\n\
         client_secret_file = \"oidc-secret\"\nredirect_url = \"{RETURN}\"\n\
         title = \"The university\"\n{more}\n"
    )
}

/// A service with a provider.
struct Site {
    service: Provider,
    provider: IdProvider,
    /// The configuration without the provider.
    config: String,
}

impl Site {
    /// Starts a service with a provider; `more` are further keys of the section `[oidc]`.
    fn new(more: &str) -> Option<Self> {
        Self::with_options(json!({}), more)
    }

    /// Starts a service with a provider that has these options.
    fn with_options(options: Value, more: &str) -> Option<Self> {
        let service = Provider::new();
        let provider = IdProvider::start(&service.scratch.join("provider"), RETURN, options)?;
        service.root.post("/v1/domains", &json!({ "name": "LAB" })).expect(201);
        let config = fs::read_to_string(service.server.dir().join("server.toml")).unwrap();
        let mut site = Self { service, provider, config };
        let section = section(&site.service, &site.provider, more);
        site.configure(&section);
        Some(site)
    }

    /// Starts the server again with this section about the provider.
    #[track_caller]
    fn configure(&mut self, section: &str) {
        let file = self.service.server.dir().join("server.toml");
        fs::write(file, format!("{}{section}", self.config)).unwrap();
        self.service.server.restart();
    }

    /// Begins a sign-in. Returns the caller with the cookie of the attempt, and the address at the
    /// provider.
    #[track_caller]
    fn begin(&self) -> (Caller, String) {
        let begun = self.service.stranger.post("/v1/sign-in/oidc", &json!({})).expect(200);
        let caller = self.with_cookie(&begun, COOKIE);
        (caller, begun.json()["url"].as_str().unwrap().to_owned())
    }

    /// Returns a stranger with the cookie of this name from an answer.
    #[track_caller]
    fn with_cookie(&self, answer: &Answer, name: &str) -> Caller {
        with_cookie(&self.service.stranger, answer, name)
    }

    /// Signs a person in by the provider.
    #[track_caller]
    fn sign_in(&self, login: &str) -> Answer {
        let (browser, url) = self.begin();
        complete(&browser, &self.provider.sign_in(&url, login))
    }

    /// Returns the caller of a sign-in.
    #[track_caller]
    fn signed_in(&self, answer: &Answer, guard: &Value) -> Caller {
        let guard = format!("X-Holdfast-Guard: {}", guard.as_str().unwrap());
        self.with_cookie(answer, "__Host-holdfast").with_headers(&[&guard])
    }

    fn logins(&self) -> Vec<String> {
        fields(&self.service.root.get("/v1/users").expect(200).json(), "login")
    }

    /// Makes the identity `subject` one of a person.
    #[track_caller]
    fn link(&self, login: &str, subject: &str) -> Value {
        let identities = json!([{ "issuer": self.provider.issuer(), "subject": subject }]);
        let change = json!({ "identities": identities });
        let path = format!("/v1/users/{login}");
        let changed = self.service.root.patch(&path, &change).expect(200).json();
        assert_eq!(changed["identities"], identities);
        identities
    }
}

/// Returns the cookie of this name that an answer sets, with its attributes.
fn cookie<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let cookies = answer.headers.iter().filter(|(header, _)| header == "set-cookie");
    let mut values = cookies.map(|(_, value)| value.as_str());
    values.find(|value| value.starts_with(&format!("{name}=")))
}

/// Returns the caller with the cookie of this name from an answer.
#[track_caller]
pub(crate) fn with_cookie(caller: &Caller, answer: &Answer, name: &str) -> Caller {
    let cookie = cookie(answer, name).expect("a cookie");
    for part in ["; Path=/;", "; Secure;", "; HttpOnly;", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    caller.with_headers(&[&format!("Cookie: {cookie}")])
}

fn complete(browser: &Caller, back: &Return) -> Answer {
    let body = json!({ "code": back.code, "state": back.state });
    browser.post("/v1/sign-in/oidc/completion", &body)
}

/// Checks that an answer refuses a sign-in.
#[track_caller]
fn refused(answer: Answer) {
    let answer = answer.expect(401);
    assert_eq!(answer.json()["code"], "unauthenticated");
    assert_eq!(cookie(&answer, "__Host-holdfast"), None);
}

#[test]
fn a_person_signs_in_at_the_provider_and_out_again() {
    let Some(site) = Site::new("") else { return };
    let ways = site.service.stranger.get("/v1/sign-in/ways").expect(200).json();
    assert_eq!(ways["oidc"]["title"], "The university");
    site.service.person("anna", &["tenant@LAB"]);
    let unknown = site.sign_in("anna").expect(403).json();
    assert!(unknown["detail"].as_str().unwrap().contains("'anna'"), "{unknown}");
    let identity = site.link("anna", "anna");
    let signed = site.sign_in("anna").expect(200);
    let sign_in = &signed.json()["sign_in"];
    assert_eq!(sign_in["account"]["login"], "anna");
    let ended = cookie(&signed, COOKIE).expect("is ended");
    assert!(ended.contains("Max-Age=0"), "{ended}");
    let anna = site.signed_in(&signed, &sign_in["guard"]);
    assert_eq!(fields(&anna.get("/v1/domains").expect(200).json(), "name"), ["LAB"]);
    anna.post("/v1/sign-out", &json!({})).expect(204);
    anna.get("/v1/account").expect(401);
    let ways = site.service.stranger.get("/v1/sign-in/ways").expect(200).json();
    let out = ways["oidc"]["sign_out_url"].as_str().unwrap();
    assert!(out.starts_with(&format!("{}/session/end?", site.provider.issuer())), "{out}");
    // Nobody else becomes anna, and nobody is registered by itself.
    site.sign_in("bert").expect(403);
    site.service.person("carl", &[]);
    let change = json!({ "identities": identity });
    site.service.root.patch("/v1/users/carl", &change).expect(409);
    assert_eq!(site.logins(), ["anna", "carl", "root"]);
    let log = site.service.root.get("/v1/log?kind=signed%20in").expect(200).json();
    let details = log["items"][0]["details"].as_str().unwrap();
    assert!(details.contains("by OpenID Connect"), "{log}");
}

#[test]
fn a_person_without_the_identity_or_the_right_does_not_stay_in() {
    let Some(site) = Site::new("") else { return };
    site.service.person("anna", &["tenant@LAB"]);
    site.link("anna", "anna");
    let signed = site.sign_in("anna").expect(200);
    let anna = site.signed_in(&signed, &signed.json()["sign_in"]["guard"]);
    anna.get("/v1/account").expect(200);
    let none = json!({ "identities": [] });
    anna.patch("/v1/users/anna", &none).expect(403);
    site.service.root.patch("/v1/users/anna", &none).expect(200);
    anna.get("/v1/account").expect(401);
    site.sign_in("anna").expect(403);
    site.link("anna", "anna");
    site.service
        .root
        .patch("/v1/users/anna", &json!({ "locked": true }))
        .expect(200);
    refused(site.sign_in("anna"));
}

#[test]
fn a_return_belongs_to_its_browser_and_serves_once() {
    let Some(site) = Site::new("trusts_logins = true") else { return };
    site.service.person("anna", &["tenant@LAB"]);
    let (browser, url) = site.begin();
    let (other, other_url) = site.begin();
    for part in ["code_challenge_method=S256", "response_type=code", "nonce=", "state="] {
        assert!(url.contains(part), "{url}");
    }
    let back = site.provider.sign_in(&url, "anna");
    let other_back = site.provider.sign_in(&other_url, "anna");
    refused(complete(&site.service.stranger, &back));
    refused(complete(&other, &back));
    refused(complete(&browser, &Return { state: other_back.state.clone(), ..back.clone() }));
    // The code of another attempt has another verifier and another nonce.
    refused(complete(&browser, &Return { code: other_back.code, ..back.clone() }));
    complete(&browser, &back).expect(200);
    refused(complete(&browser, &back));
    let forged = site.service.stranger.with_headers(&["Cookie: __Host-holdfast-oidc=AAAA"]);
    refused(complete(&forged, &back));
}

#[test]
fn a_second_factor_here_is_asked_for_after_the_provider() {
    let Some(mut site) = Site::new("") else { return };
    let anna = site.service.person("anna", &["tenant@LAB"]);
    site.link("anna", "anna");
    let signed = site.sign_in("anna").expect(200);
    let browser = site.signed_in(&signed, &signed.json()["sign_in"]["guard"]);
    let (secret, _) = take_second_factor(&browser);
    let half = site.sign_in("anna").expect(200);
    assert_eq!(half.json(), json!({}));
    assert_eq!(cookie(&half, "__Host-holdfast"), None);
    let browser = site.with_cookie(&half, COOKIE);
    browser.get("/v1/account").expect(401);
    let path = "/v1/sign-in/oidc/second-factor";
    let give = |caller: &Caller, code: &str| caller.post(path, &json!({ "code": code }));
    let wrong = give(&browser, "000000").expect(401).json();
    assert_eq!(wrong["code"], "second-factor-needed");
    let code = current_code(&secret, 1);
    refused(give(&site.service.stranger, &code));
    let (attempt, _) = site.begin();
    refused(give(&attempt, &code));
    let signed = give(&browser, &code).expect(200);
    let browser = site.signed_in(&signed, &signed.json()["guard"]);
    assert_eq!(browser.get("/v1/account").expect(200).json()["login"], "anna");
    anna.get("/v1/account").expect(200);
    // A provider that checks it can be trusted with it.
    let trusting = section(&site.service, &site.provider, "asks_second_factor = false");
    site.configure(&trusting);
    let signed = site.sign_in("anna").expect(200).json();
    assert_eq!(signed["sign_in"]["account"]["has_second_factor"], true);
}

#[test]
fn groups_of_the_provider_give_roles() {
    let more = "registers = true\n[[oidc.groups]]\ngroup = \"admins\"\nrole = \"tenant\"\n\
                domain = \"LAB\"\n[[oidc.groups]]\ngroup = \"readers\"\nrole = \"auditor\"";
    let Some(site) = Site::new(more) else { return };
    site.sign_in("eve").expect(403);
    assert_eq!(site.logins(), ["root"], "nobody is registered without a role");
    let roles = |login: &str| -> Value {
        site.sign_in(login).expect(200).json()["sign_in"]["account"]["roles"].clone()
    };
    assert_eq!(roles("anna.admins"), json!([{ "role": "tenant", "domain": "LAB" }]));
    assert_eq!(roles("carl.readers.others"), json!([{ "role": "auditor" }]));
    // The groups decide at each sign-in.
    let change = json!({ "roles": [{ "role": "system" }] });
    site.service.root.patch("/v1/users/carl.readers.others", &change).expect(200);
    assert_eq!(roles("carl.readers.others"), json!([{ "role": "auditor" }]));
    // A person who has left all groups keeps no role, for example by a key.
    let identity = json!({
        "identities": [{ "issuer": site.provider.issuer(), "subject": "fred" }],
    });
    let fred = site.service.person("fred", &["system"]);
    site.service.root.patch("/v1/users/fred", &identity).expect(200);
    fred.get("/v1/users").expect(200);
    site.sign_in("fred").expect(403);
    fred.get("/v1/users").expect(403);
    // A person of the same name who is registered here is another one.
    site.service.person("dora.admins", &["owner@LAB"]);
    site.sign_in("dora.admins").expect(403);
}

#[test]
fn an_address_for_mail_counts_only_if_the_provider_has_checked_it() {
    let more = "registers = true\nlogin_claim = \"email\"";
    let Some(site) = Site::with_options(json!({ "checked": false }), more) else { return };
    site.sign_in("anna").expect(403);
    assert_eq!(site.logins(), ["root"]);
    let Some(site) = Site::new(more) else { return };
    let signed = site.sign_in("anna").expect(200).json();
    assert_eq!(signed["sign_in"]["account"]["login"], "anna@example.org");
}

#[test]
fn only_the_signature_and_the_time_of_the_provider_count() {
    let more = "registers = true";
    for signature in ["ES256", "PS256", "EdDSA"] {
        let options = json!({ "signature": signature });
        let Some(site) = Site::with_options(options, more) else { return };
        site.sign_in("anna").expect(200);
    }
    // The secret of the service is no key of the provider.
    let Some(site) = Site::with_options(json!({ "signature": "HS256" }), more) else { return };
    refused(site.sign_in("anna"));
    let Some(site) = Site::with_options(json!({ "late": 3_600 }), more) else { return };
    refused(site.sign_in("anna"));
    assert_eq!(site.logins(), ["root"]);
}

#[test]
fn a_provider_that_is_away_stops_nobody_else() {
    let Some(mut site) = Site::new("registers = true") else { return };
    site.service.person("bert", &["auditor"]);
    let (browser, url) = site.begin();
    let back = site.provider.sign_in(&url, "anna");
    site.provider.stop();
    let unwell = complete(&browser, &back).expect(503).json();
    assert_eq!(unwell["code"], "unavailable");
    site.service.server.restart();
    let begin = || site.service.stranger.post("/v1/sign-in/oidc", &json!({}));
    let unwell = begin().expect(503).json();
    assert!(unwell["detail"].as_str().unwrap().contains("with a password"), "{unwell}");
    begin().expect(503);
    let body = json!({ "login": "bert", "password": crate::api::PASSWORD });
    site.service.stranger.post("/v1/sign-in", &body).expect(200);
}

#[test]
fn only_the_provider_with_this_certificate_is_asked() {
    let service = Provider::new();
    let folder = service.scratch.join("provider");
    let Some(provider) = IdProvider::start_with_tls(&folder, RETURN) else { return };
    let config = fs::read_to_string(service.server.dir().join("server.toml")).unwrap();
    let mut site = Site { service, provider, config };
    let authority = |path: &str| format!("registers = true\nauthority = \"{path}\"");
    let own = site.provider.authority().to_str().unwrap().to_owned();
    let text = section(&site.service, &site.provider, &authority(&own));
    site.configure(&text);
    site.sign_in("anna").expect(200);
    let begin = |site: &Site| site.service.stranger.post("/v1/sign-in/oidc", &json!({}));
    // The server's own authority has not certified the provider.
    let other = section(&site.service, &site.provider, &authority("ca.pem"));
    site.configure(&other);
    begin(&site).expect(503);
}

#[test]
fn a_provider_that_calls_itself_by_another_name_is_not_used() {
    let Some(mut site) = Site::new("registers = true") else { return };
    let text = section(&site.service, &site.provider, "registers = true");
    let other = text.replace("http://127.0.0.1:", "http://localhost:");
    assert_ne!(text, other);
    site.configure(&other);
    site.service.stranger.post("/v1/sign-in/oidc", &json!({})).expect(503);
    site.configure(&text);
    site.sign_in("anna").expect(200);
}

#[test]
fn a_service_without_a_provider_has_no_sign_ins_there() {
    let service = Provider::new();
    assert_eq!(service.stranger.get("/v1/sign-in/ways").expect(200).json(), json!({}));
    service.stranger.post("/v1/sign-in/oidc", &json!({})).expect(404);
    let back = Return { code: "a".to_owned(), state: "b".to_owned() };
    complete(&service.stranger, &back).expect(404);
    let code = json!({ "code": "000000" });
    service.stranger.post("/v1/sign-in/oidc/second-factor", &code).expect(404);
}
