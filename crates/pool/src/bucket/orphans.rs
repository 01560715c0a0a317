//! Uploads that nobody goes on with: their server died before the object was whole. The store keeps
//! their parts, and asks for money, until it is told to forget them.

use std::io;

use object_store::aws::{AmazonS3, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{HttpConnector as _, HttpRequest, HttpRequestBody, ReqwestConnector};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Key;
use serde::Deserialize;

use super::io_error;
use super::location::BucketUrl;

const DEFAULT_REGION: &str = "us-east-1";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(default)]
    upload: Vec<Begun>,
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_upload_id_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    key: String,
    upload_id: String,
}

/// Ends the uploads below the prefix that `is_orphan`, which hears the last part of the key.
/// Returns how many.
pub(super) async fn end(
    url: &BucketUrl,
    store: &AmazonS3,
    is_orphan: impl Fn(&str) -> bool,
) -> io::Result<usize> {
    let mut ended = 0;
    let mut behind: Option<(String, String)> = None;
    loop {
        let listed = list(url, store, behind.as_ref()).await?;
        for Begun { key, upload_id } in &listed.upload {
            let key = Key::parse(key).map_err(io::Error::other)?;
            // The store goes by the letters of a prefix, not by its parts.
            let is_ours = key.prefix_matches(url.prefix());
            if is_ours && is_orphan(key.filename().unwrap_or_default()) {
                store.abort_multipart(&key, upload_id).await.map_err(io_error)?;
                ended += 1;
            }
        }
        behind = match (listed.is_truncated, listed.next_key_marker) {
            (true, Some(key)) => Some((key, listed.next_upload_id_marker.unwrap_or_default())),
            _ => return Ok(ended),
        };
    }
}

/// One answer of the store: uploads behind those that are named.
async fn list(
    url: &BucketUrl,
    store: &AmazonS3,
    behind: Option<&(String, String)>,
) -> io::Result<Listed> {
    let settings = url.settings()?;
    let said = |key: AmazonS3ConfigKey| settings.get_config_value(&key);
    let region = said(AmazonS3ConfigKey::Region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
    let endpoint = said(AmazonS3ConfigKey::S3Endpoint).or(said(AmazonS3ConfigKey::Endpoint));
    let base = match (endpoint, url.is_virtual_hosted()) {
        (Some(endpoint), true) => endpoint,
        (Some(endpoint), false) => format!("{}/{}", endpoint.trim_end_matches('/'), url.bucket()),
        (None, true) => format!("https://{}.s3.{region}.amazonaws.com", url.bucket()),
        (None, false) => format!("https://s3.{region}.amazonaws.com/{}", url.bucket()),
    };
    let mut query = vec![("uploads", String::new()), ("prefix", url.prefix().to_string())];
    if let Some((key, id)) = behind {
        query.extend([("key-marker", key.clone()), ("upload-id-marker", id.clone())]);
    }
    let query = query
        .iter()
        .map(|(name, value)| format!("{name}={}", escaped(value)))
        .collect::<Vec<_>>()
        .join("&");
    let mut request: HttpRequest = http::Request::get(format!("{base}/?{query}"))
        .body(HttpRequestBody::empty())
        .map_err(io::Error::other)?;
    let credential = store.credentials().get_credential().await.map_err(io_error)?;
    AwsAuthorizer::new(&credential, "s3", &region)
        .try_authorize(&mut request, None)
        .map_err(io_error)?;
    let client = ReqwestConnector::default().connect(&url.client_options()?).map_err(io_error)?;
    let response = client.execute(request).await.map_err(io::Error::other)?;
    let status = response.status();
    let body = response.into_body().bytes().await.map_err(io::Error::other)?;
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body).into_owned();
        return Err(io::Error::other(format!("the store lists no uploads: {status}: {text}")));
    }
    quick_xml::de::from_reader(&body[..]).map_err(io::Error::other)
}

/// As a query has it, and as it is signed.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push_str(&data_encoding::HEXUPPER.encode(&[byte]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_uploads_is_understood() {
        let text = "<?xml version=\"1.0\"?><ListMultipartUploadsResult>\
                    <Bucket>b</Bucket><IsTruncated>true</IsTruncated>\
                    <NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>i</NextUploadIdMarker>\
                    <Upload><Key>packs/1</Key><UploadId>x</UploadId>\
                    <Initiated>2026-11-22T07:00:00.000Z</Initiated></Upload>\
                    <Upload><Key>packs/2</Key><UploadId>y</UploadId>\
                    <Initiated>2026-11-22T07:00:01.000Z</Initiated></Upload>\
                    </ListMultipartUploadsResult>";
        let listed: Listed = quick_xml::de::from_str(text).unwrap();
        assert!(listed.is_truncated && listed.upload.len() == 2);
        assert_eq!(listed.upload[1].upload_id, "y");
        let none = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>\
                    </ListMultipartUploadsResult>";
        assert!(quick_xml::de::from_str::<Listed>(none).unwrap().upload.is_empty());
        assert_eq!(escaped("a/b c"), "a%2Fb%20c");
    }
}
