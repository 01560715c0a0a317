//! Notices to programs by HTTP, signed.
//!
//! The signature is HMAC-SHA256 over the text `TIMESTAMP.BODY` with the secret of the webhook. The
//! receiver computes it anew, and refuses a notice whose timestamp is old: so nobody can make a
//! notice, or send one again later.

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::hmac;
use catalog::NoticeRow;
use data_encoding::HEXLOWER;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url};
use store::folder::WebhookSettings;

use crate::failure::{Failure, read_secret};

/// Header with the seconds since 1970 at which the notice was sent.
pub const TIMESTAMP: &str = "holdfast-timestamp";
/// Header with the signature: `sha256=`, and 64 hexadecimal digits.
pub const SIGNATURE: &str = "holdfast-signature";
/// Header with the number of the notice, which is the same if the notice is sent again.
const NUMBER: &str = "holdfast-notice";
/// Time for the whole request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reason why a webhook gets nothing.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("server.toml has no webhook {0} any more")]
    Unknown(String),
    #[error("cannot read {path}")]
    File { path: String, source: std::io::Error },
    #[error("the address of the webhook {0} is not a URL")]
    Address(String),
    #[error("cannot use the authority of the webhook {name}")]
    Authority { name: String, source: reqwest::Error },
    #[error("the webhook {name} cannot be reached")]
    Send { name: String, source: reqwest::Error },
    #[error("the webhook {name} has answered with {status}")]
    Refused { name: String, status: u16 },
}

/// A program that gets notices.
pub(crate) struct Webhook<'a> {
    settings: &'a WebhookSettings,
    client: Client,
    secret: Option<String>,
}

impl<'a> Webhook<'a> {
    /// Makes the way. Relative paths in the settings are in `folder`. Does not connect.
    pub(crate) fn new(settings: &'a WebhookSettings, folder: &Path) -> Result<Self, WebhookError> {
        if Url::parse(&settings.url).is_err() {
            return Err(WebhookError::Address(settings.name.clone()));
        }
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source| WebhookError::File { path, source }
        };
        let secret = match &settings.secret_file {
            Some(file) => Some(read_secret(folder, file).map_err(failed(file))?),
            None => None,
        };
        let mut builder = Client::builder().timeout(PATIENCE).redirect(Policy::none());
        let refused = |source| WebhookError::Authority { name: settings.name.clone(), source };
        if let Some(file) = &settings.authority {
            let pem = std::fs::read(folder.join(file)).map_err(failed(file))?;
            builder = builder.tls_certs_only([Certificate::from_pem(&pem).map_err(refused)?]);
        }
        let client = builder.build().map_err(refused)?;
        Ok(Self { settings, client, secret })
    }

    /// Sends a notice. `seconds` is the present time.
    pub(crate) async fn send(&self, notice: &NoticeRow, seconds: i64) -> Result<(), Failure> {
        let mut request = self
            .client
            .post(&self.settings.url)
            .header("content-type", "application/json")
            .header(NUMBER, notice.number)
            .header(TIMESTAMP, seconds)
            .body(notice.body.clone());
        if let Some(secret) = &self.secret {
            request = request.header(SIGNATURE, signature(secret, seconds, &notice.body));
        }
        let name = self.settings.name.clone();
        let answer = request.send().await;
        let answer = answer.map_err(|source| {
            let source = source.without_url();
            Failure::way(&WebhookError::Send { name: name.clone(), source })
        })?;
        if answer.status().is_success() {
            return Ok(());
        }
        let status = answer.status().as_u16();
        Err(Failure::notice(&WebhookError::Refused { name, status }))
    }
}

/// Returns the signature of a body that is sent at `seconds`.
fn signature(secret: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    format!("sha256={}", HEXLOWER.encode(tag.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value is that of `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac
    /// geheim`.
    #[test]
    fn a_signature_is_that_of_openssl() {
        let expected = "sha256=c2f0a59f12d0bcd3933234d85083c03b99e970604203fd059a320436bb602adf";
        assert_eq!(signature("geheim", 1_700_000_000, "{\"a\":1}"), expected);
    }

    #[test]
    fn a_secret_that_is_missing_is_named() {
        let settings = WebhookSettings {
            name: "chat".to_owned(),
            url: "https://chat.example.org".to_owned(),
            secret_file: Some("chat.secret".into()),
            authority: None,
        };
        let error = Webhook::new(&settings, Path::new("/nowhere")).err().expect("is refused");
        assert_eq!(error.to_string(), "cannot read chat.secret");
    }
}
