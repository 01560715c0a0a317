//! Requests to the provider, within limits.

use std::time::Duration;

use openidconnect::url::Url;
use openidconnect::{HttpRequest, HttpResponse};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::problem::{Kind, Problem};

/// Maximum time of one request.
const REQUEST_TIME: Duration = Duration::from_secs(15);
/// Maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Maximum number of sign-ins that ask the provider at once. Strangers begin them, and each holds a
/// thread that works for requests.
const VISITS_MAX: usize = 16;
/// Time after which a sign-in that found too many others may be tried again.
const BUSY_PAUSE: Duration = Duration::from_secs(3);

/// Failure of a request to the provider.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error(transparent)]
    Transfer(#[from] reqwest::Error),
    #[error(
        "the provider names the address {0}, which is at another host than the issuer; if it is \
         right, add the host to hosts in the section [oidc] of server.toml"
    )]
    Host(String),
    #[error("the provider names the address {0}, which is wrong")]
    Address(String),
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error(transparent)]
    Form(#[from] openidconnect::http::Error),
}

/// The way to the provider.
pub(super) struct Transport {
    client: Client,
    issuer: Url,
    /// Further hosts of the provider, each as `HOST` or `HOST:PORT`.
    hosts: Vec<String>,
    visits: Semaphore,
}

impl Transport {
    /// Makes the way to the provider at `issuer`. With `authorities`, the provider must be
    /// certified by one of them.
    pub(super) fn new(
        issuer: Url,
        hosts: Vec<String>,
        authorities: Option<Vec<Certificate>>,
    ) -> Result<Self, reqwest::Error> {
        let mut client = Client::builder().redirect(Policy::none()).timeout(REQUEST_TIME);
        if let Some(authorities) = authorities {
            client = client.tls_certs_only(authorities);
        }
        let visits = Semaphore::new(VISITS_MAX);
        Ok(Self { client: client.build()?, issuer, hosts, visits })
    }

    /// Gives the right to ask the provider for one sign-in.
    pub(super) fn visit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        self.visits.try_acquire().map_err(|_| {
            let text = "too many people sign in at the provider at once; try again";
            Problem { retry_after: Some(BUSY_PAUSE), ..Problem::new(Kind::Unavailable, text) }
        })
    }

    /// Returns true for an address to which a browser may be sent: one with encryption, or like
    /// the issuer on this machine.
    pub(super) fn is_safe(&self, url: &Url) -> bool {
        url.scheme() == "https" || is_of_this_machine(url) && self.issuer.scheme() == url.scheme()
    }

    fn check(&self, text: &str) -> Result<(), RequestError> {
        let url = Url::parse(text).map_err(|_| RequestError::Address(text.to_owned()))?;
        if !self.is_safe(&url) || !url.username().is_empty() || url.password().is_some() {
            return Err(RequestError::Address(text.to_owned()));
        }
        let host = url.host_str().unwrap_or_default();
        let place = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let is_of_provider = url.origin() == self.issuer.origin() || self.hosts.contains(&place);
        if is_of_provider { Ok(()) } else { Err(RequestError::Host(text.to_owned())) }
    }

    /// Sends a request, and returns its answer.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, RequestError> {
        self.check(&request.uri().to_string())?;
        let mut response = self.client.execute(request.try_into()?).await?;
        let mut built = openidconnect::http::Response::builder().status(response.status());
        for (name, value) in response.headers() {
            built = built.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(RequestError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(built.body(body)?)
    }
}

/// Returns true for an address on this machine.
pub(super) fn is_of_this_machine(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(issuer: &str, hosts: &[&str], good: &[&str], bad: &[&str]) {
        let issuer = Url::parse(issuer).expect("an address");
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let transport = Transport::new(issuer, hosts, None).expect("a client");
        for url in good {
            assert!(transport.check(url).is_ok(), "{url}");
        }
        for url in bad {
            assert!(transport.check(url).is_err(), "{url}");
        }
    }

    #[test]
    fn requests_go_to_the_provider_only() {
        check(
            "https://id.example.org/realms/a",
            &["keys.example.org", "keys.example.org:8443"],
            &[
                "https://id.example.org/token",
                "https://id.example.org:443/token",
                "https://keys.example.org/keys",
                "https://keys.example.org:8443/keys",
            ],
            &[
                "http://id.example.org/token",
                "https://id.example.org:8443/token",
                "https://id.example.org.evil.example/token",
                "https://id.example.org@evil.example/token",
                "https://user@id.example.org/token",
                "https://keys.example.org:9443/keys",
                "http://keys.example.org/keys",
                "https://127.0.0.1/token",
                "http://127.0.0.1/token",
                "https://169.254.169.254/latest",
                "file:///etc/passwd",
                "/token",
            ],
        );
        check(
            "http://127.0.0.1:4000",
            &[],
            &["http://127.0.0.1:4000/token"],
            &["http://127.0.0.1:4001/token", "http://id.example.org/token"],
        );
    }

    #[test]
    fn browsers_are_not_sent_to_places_without_encryption() {
        let issuer = Url::parse("https://id.example.org").expect("an address");
        let transport = Transport::new(issuer, Vec::new(), None).expect("a client");
        let is_safe = |url: &str| transport.is_safe(&Url::parse(url).expect("an address"));
        assert!(is_safe("https://login.example.org/authorize"));
        for bad in ["http://login.example.org", "javascript:alert(1)", "http://127.0.0.1/"] {
            assert!(!is_safe(bad), "{bad}");
        }
    }

    #[test]
    fn strangers_do_not_hold_all_threads() {
        let issuer = Url::parse("https://id.example.org").expect("an address");
        let transport = Transport::new(issuer, Vec::new(), None).expect("a client");
        let held: Vec<_> = (0..VISITS_MAX).map(|_| transport.visit().expect("is free")).collect();
        let refused = transport.visit().expect_err("is one too many");
        assert_eq!((refused.kind, refused.retry_after), (Kind::Unavailable, Some(BUSY_PAUSE)));
        drop(held);
        assert!(transport.visit().is_ok());
    }
}
