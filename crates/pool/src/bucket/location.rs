//! The place of a bucket: `s3://BUCKET/PREFIX?endpoint=URL&...`.
//!
//! The URL is parsed by hand, because values are taken as they are written: a parser of URLs would
//! decode `+` and `%` in them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, Checksum};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};

use super::connect::Connector;
use super::credentials::{self, SharedFile};
use super::runtime::io_error;

/// Time limit for an answer of the store, long enough for sending a part of a pack.
const READ_TIMEOUT: Duration = Duration::from_secs(180);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a failed request is repeated. The pauses between the attempts grow at random.
pub(super) const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRIES_MAX: usize = 1000;
pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(100);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Reason why a URL names no bucket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BucketUrlError {
    #[error("the URL does not begin with s3://BUCKET")]
    NoBucket,
    #[error("the prefix {0:?} cannot begin a key")]
    Prefix(String),
    #[error(
        "{0} is not an option of a bucket; use endpoint, region, style, ca, class, \
         lock, profile, credentials or checksum"
    )]
    Option(String),
    #[error("{option}={value} is not possible; use {possible}")]
    Value { option: &'static str, value: String, possible: &'static str },
}

/// Strength of the locks on objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LockMode {
    /// A user with a special permission at the store may remove a lock early.
    Governance,
    /// Nobody may remove a lock early.
    Compliance,
}

impl LockMode {
    /// The store's word for the mode.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }
}

/// A bucket, or the part of a bucket below a prefix. The URL names the places of secrets and never
/// contains a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketUrl {
    text: String,
    bucket: String,
    prefix: Key,
    /// URL of the store; `None` for AWS in the region.
    endpoint: Option<String>,
    region: Option<String>,
    is_virtual_hosted: bool,
    /// File of certificates that are trusted in addition to the certificates of the system.
    ca: Option<PathBuf>,
    storage_class: Option<String>,
    lock: Option<LockMode>,
    profile: Option<String>,
    credentials: Option<PathBuf>,
    has_checksums: bool,
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for BucketUrl {
    type Err = BucketUrlError;

    fn from_str(text: &str) -> Result<Self, BucketUrlError> {
        let rest = text.strip_prefix("s3://").ok_or(BucketUrlError::NoBucket)?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() || bucket.contains(['@', ':']) {
            return Err(BucketUrlError::NoBucket);
        }
        let unfit = |_| BucketUrlError::Prefix(prefix.to_owned());
        let mut url = Self {
            text: text.to_owned(),
            bucket: bucket.to_owned(),
            prefix: Key::parse(prefix.trim_end_matches('/')).map_err(unfit)?,
            endpoint: None,
            region: None,
            is_virtual_hosted: false,
            ca: None,
            storage_class: None,
            lock: None,
            profile: None,
            credentials: None,
            has_checksums: true,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            url.set(name, value)?;
        }
        Ok(url)
    }
}

/// Returns true if `value` is the first of two allowed values, false if it is the second, and an
/// error otherwise.
fn one_of(
    option: &'static str,
    value: &str,
    [yes, no]: [&'static str; 2],
    possible: &'static str,
) -> Result<bool, BucketUrlError> {
    if value == yes || value == no {
        return Ok(value == yes);
    }
    Err(BucketUrlError::Value { option, value: value.to_owned(), possible })
}

impl BucketUrl {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BucketUrlError> {
        let text = || Some(value.to_owned());
        match name {
            "endpoint" => {
                if !value.starts_with("https://") && !value.starts_with("http://") {
                    let (value, possible) = (value.to_owned(), "https://HOST:PORT");
                    return Err(BucketUrlError::Value { option: "endpoint", value, possible });
                }
                self.endpoint = text();
            }
            "region" => self.region = text(),
            "style" => {
                let possible = "path or virtual";
                self.is_virtual_hosted = one_of("style", value, ["virtual", "path"], possible)?;
            }
            "ca" => self.ca = Some(value.into()),
            "class" => self.storage_class = text(),
            "lock" => {
                let possible = "governance or compliance";
                let modes = ["compliance", "governance"];
                let is_strict = one_of("lock", value, modes, possible)?;
                let mode = if is_strict { LockMode::Compliance } else { LockMode::Governance };
                self.lock = Some(mode);
            }
            "profile" => self.profile = text(),
            "credentials" => self.credentials = Some(value.into()),
            "checksum" => {
                let possible = "sha256 or none";
                self.has_checksums = one_of("checksum", value, ["sha256", "none"], possible)?;
            }
            _ => return Err(BucketUrlError::Option(name.to_owned())),
        }
        Ok(())
    }

    /// Returns true if one of the two URLs covers all objects of the other URL.
    pub fn overlaps(&self, other: &Self) -> bool {
        let within =
            self.prefix.prefix_matches(&other.prefix) || other.prefix.prefix_matches(&self.prefix);
        within && self.bucket == other.bucket && self.endpoint == other.endpoint
    }

    pub(super) fn prefix(&self) -> &Key {
        &self.prefix
    }

    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    pub(super) fn storage_class(&self) -> Option<&str> {
        self.storage_class.as_deref()
    }

    pub(super) fn lock_mode(&self) -> Option<LockMode> {
        self.lock
    }

    pub(super) fn is_virtual_hosted(&self) -> bool {
        self.is_virtual_hosted
    }

    /// Returns the settings for the library: first from the environment, then from the URL.
    pub(super) fn settings(&self) -> std::io::Result<AmazonS3Builder> {
        let mut builder = AmazonS3Builder::new();
        for (name, value) in credentials::variables() {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let mut builder = builder
            .with_bucket_name(&self.bucket)
            .with_virtual_hosted_style_request(self.is_virtual_hosted)
            .with_client_options(self.client_options()?)
            .with_http_connector(Connector::default())
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: BACKOFF_FIRST,
                    max_backoff: BACKOFF_MAX,
                    base: 2.0,
                },
                max_retries: RETRIES_MAX,
                retry_timeout: RETRY_TIMEOUT,
            });
        if self.has_checksums {
            builder = builder.with_checksum_algorithm(Checksum::SHA256);
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &self.region {
            builder = builder.with_region(region);
        }
        let file = SharedFile::find(self.credentials.as_deref(), self.profile.as_deref());
        Ok(match file {
            Some(file) => builder.with_credentials(Arc::new(file)),
            None => builder,
        })
    }

    pub(super) fn client_options(&self) -> std::io::Result<ClientOptions> {
        let is_plain = self.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let mut options = ClientOptions::new()
            .with_allow_http(is_plain)
            // Only the time without an answer is limited. A whole request may take as long as it
            // needs.
            .with_timeout_disabled()
            .with_read_timeout(READ_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT);
        if let Some(path) = &self.ca {
            let unusable = |error: String| {
                std::io::Error::other(format!(
                    "cannot use the certificates {}: {error}",
                    path.display()
                ))
            };
            let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
            let found = Certificate::from_pem_bundle(&pem);
            for certificate in found.map_err(|error| unusable(error.to_string()))? {
                options = options.with_root_certificate(certificate);
            }
        }
        Ok(options)
    }

    pub(super) fn store(&self) -> std::io::Result<AmazonS3> {
        self.settings()?.build().map_err(io_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BucketUrl, BucketUrlError> {
        text.parse()
    }

    #[test]
    fn urls_say_where_a_bucket_is() {
        let url = parsed(
            "s3://packs/of/one?endpoint=https://s3.example.org:3900&region=garage&style=virtual\
             &ca=/etc/ca.pem&class=STANDARD_IA&lock=compliance&profile=backup\
             &credentials=/etc/keys&checksum=none",
        )
        .unwrap();
        assert_eq!((url.bucket(), url.prefix().as_ref()), ("packs", "of/one"));
        assert_eq!(url.endpoint.as_deref(), Some("https://s3.example.org:3900"));
        assert_eq!(url.storage_class(), Some("STANDARD_IA"));
        assert!(url.is_virtual_hosted() && !url.has_checksums);
        assert_eq!(url.lock_mode(), Some(LockMode::Compliance));
        let plain = parsed("s3://packs").unwrap();
        assert_eq!(plain.prefix().as_ref(), "");
        assert!(plain.has_checksums && !plain.is_virtual_hosted());
    }

    #[test]
    fn what_is_no_bucket_is_said() {
        assert_eq!(parsed("file:///a"), Err(BucketUrlError::NoBucket));
        assert_eq!(parsed("s3:///a"), Err(BucketUrlError::NoBucket));
        // Secrets do not belong in URLs, which are shown and stored.
        assert_eq!(parsed("s3://key:secret@packs"), Err(BucketUrlError::NoBucket));
        assert_eq!(parsed("s3://a?colour=1"), Err(BucketUrlError::Option("colour".to_owned())));
        assert!(matches!(parsed("s3://a?lock=yes"), Err(BucketUrlError::Value { .. })));
        assert!(matches!(parsed("s3://a?style=x"), Err(BucketUrlError::Value { .. })));
        assert!(matches!(parsed("s3://a?endpoint=host"), Err(BucketUrlError::Value { .. })));
        assert!(matches!(parsed("s3://a/b//c"), Err(BucketUrlError::Prefix(_))));
    }

    #[test]
    fn places_within_each_other_are_seen() {
        let url = |text: &str| parsed(text).unwrap();
        assert!(url("s3://a/b").overlaps(&url("s3://a/b/c")));
        assert!(url("s3://a").overlaps(&url("s3://a/b")));
        assert!(!url("s3://a/b").overlaps(&url("s3://a/bc")));
        assert!(!url("s3://a").overlaps(&url("s3://b")));
        assert!(url("s3://a/b").overlaps(&url("s3://a/b/?class=GLACIER_IR")));
    }
}
