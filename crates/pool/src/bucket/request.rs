//! Requests that the library for object stores lacks. They are signed with the library's keys, and
//! repeated for as long as the library's own requests.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use object_store::aws::{AmazonS3, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody};
use object_store::path::Path as Key;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::connect::{self, Connector};
use super::location::{BACKOFF_FIRST, BACKOFF_MAX, BucketUrl, RETRY_TIMEOUT};
use super::runtime::io_error;

const DEFAULT_REGION: &str = "us-east-1";

/// A request to the store.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// Key of the object; `None` for the bucket itself.
    pub(super) key: Option<&'a Key>,
    pub(super) query: Vec<(&'a str, String)>,
    pub(super) headers: Vec<(&'a str, String)>,
    pub(super) body: Bytes,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: Method, key: Option<&'a Key>) -> Self {
        Self { method, key, query: Vec::new(), headers: Vec::new(), body: Bytes::new() }
    }

    pub(super) fn query(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
}

/// Reason why the store refuses a request.
#[derive(Debug, thiserror::Error)]
#[error("the store answers {status}: {code}: {message}")]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// Name of the reason, such as `NoSuchKey`.
    pub(super) code: String,
    pub(super) message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RefusalBody {
    code: String,
    message: String,
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.status {
            StatusCode::NOT_FOUND => io::ErrorKind::NotFound,
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, refusal)
    }
}

/// Sends requests to the store of one bucket.
pub(super) struct Requests {
    /// URL of the bucket, without a slash at its end.
    base: String,
    region: String,
    client: HttpClient,
}

impl Requests {
    pub(super) fn new(url: &BucketUrl) -> io::Result<Self> {
        let settings = url.settings()?;
        let said = |key: AmazonS3ConfigKey| settings.get_config_value(&key);
        let region = said(AmazonS3ConfigKey::Region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let endpoint = said(AmazonS3ConfigKey::S3Endpoint).or(said(AmazonS3ConfigKey::Endpoint));
        let bucket = url.bucket();
        let base = match (endpoint, url.is_virtual_hosted()) {
            (Some(endpoint), true) => endpoint.trim_end_matches('/').to_owned(),
            (Some(endpoint), false) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            (None, true) => format!("https://{bucket}.s3.{region}.amazonaws.com"),
            (None, false) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
        };
        assert!(!base.ends_with('/'), "a key follows after one slash");
        let client = Connector::default().connect(&url.client_options()?);
        Ok(Self { base, region, client: client.map_err(io_error)? })
    }

    /// Returns the name of an object's version for the header that gives the source of a copy.
    pub(super) fn source(bucket: &str, key: &Key, version: &str) -> String {
        format!("/{bucket}/{}?versionId={}", escaped_path(key), escaped(version))
    }

    /// Returns the store's answer. A request that fails in the network, or because of a fault of
    /// the store, is tried again for a while.
    pub(super) async fn ask(
        &self,
        store: &AmazonS3,
        request: Request<'_>,
    ) -> io::Result<Result<Bytes, Refusal>> {
        let began = sys::clock::monotonic();
        let mut pause = BACKOFF_FIRST;
        loop {
            let answer = self.ask_once(store, &request).await;
            let may_help = match &answer {
                Ok(Err(refusal)) => {
                    let status = refusal.status;
                    let is_ill = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
                    is_ill || status == StatusCode::TOO_MANY_REQUESTS
                }
                Ok(Ok(_)) => false,
                Err(error) => !connect::is_untrusted(error),
            };
            if !may_help || began.elapsed() + pause > RETRY_TIMEOUT {
                return answer;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BACKOFF_MAX).max(Duration::from_millis(1));
        }
    }

    async fn ask_once(
        &self,
        store: &AmazonS3,
        request: &Request<'_>,
    ) -> io::Result<Result<Bytes, Refusal>> {
        let mut url = self.base.clone();
        url.push('/');
        if let Some(key) = request.key {
            url.push_str(&escaped_path(key));
        }
        let pairs = request.query.iter();
        let query: Vec<String> =
            pairs.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        if !query.is_empty() {
            url = format!("{url}?{}", query.join("&"));
        }
        let mut signed = http::Request::builder().method(request.method.clone()).uri(url);
        for (name, value) in &request.headers {
            signed = signed.header(*name, value);
        }
        let body = HttpRequestBody::from(request.body.clone());
        let mut signed: HttpRequest = signed.body(body).map_err(io::Error::other)?;
        let credential = store.credentials().get_credential().await.map_err(io_error)?;
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .try_authorize(&mut signed, None)
            .map_err(io_error)?;
        let response = self.client.execute(signed).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().bytes().await.map_err(io::Error::other)?;
        if status.is_success() {
            return Ok(Ok(body));
        }
        let RefusalBody { code, message } =
            quick_xml::de::from_reader(&body[..]).unwrap_or_default();
        Ok(Err(Refusal { status, code, message }))
    }
}

/// Characters that are escaped in a query, and in the text that is signed.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn escaped(value: &str) -> String {
    utf8_percent_encode(value, ESCAPED).to_string()
}

fn escaped_path(key: &Key) -> String {
    let parts: Vec<String> = key.as_ref().split('/').map(escaped).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_signed() {
        assert_eq!(escaped("a/b c"), "a%2Fb%20c");
        assert_eq!(escaped_path(&Key::from("a b/c-d")), "a%20b/c-d");
        let source = Requests::source("packs", &Key::from("a/1.pack"), "v+1");
        assert_eq!(source, "/packs/a/1.pack?versionId=v%2B1");
    }

    #[test]
    fn a_refusal_is_understood() {
        let text = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>forbidden by \
                    object lock</Message><BucketName>b</BucketName></Error>";
        let RefusalBody { code, message } = quick_xml::de::from_str(text).unwrap();
        let refusal = Refusal { status: StatusCode::FORBIDDEN, code, message };
        assert_eq!(
            refusal.to_string(),
            "the store answers 403 Forbidden: AccessDenied: forbidden by object lock"
        );
        assert_eq!(io::Error::from(refusal).kind(), io::ErrorKind::PermissionDenied);
        // Some stores answer with nothing but the status.
        let RefusalBody { code, .. } = quick_xml::de::from_str("").unwrap_or_default();
        assert_eq!(code, "");
    }
}
