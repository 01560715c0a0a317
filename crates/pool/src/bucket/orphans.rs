//! Uploads that nobody goes on with: their server died before the object was whole. The store keeps
//! their parts, and asks for money, until it is told to forget them.

use std::io;

use http::Method;
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Key;
use serde::Deserialize;

use super::io_error;
use super::location::BucketUrl;
use super::request::{Request, Requests};

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
    (store, requests): (&AmazonS3, &Requests),
    is_orphan: impl Fn(&str) -> bool,
) -> io::Result<usize> {
    let mut ended = 0;
    let mut behind: Option<(String, String)> = None;
    loop {
        let listed = list(url, (store, requests), behind.as_ref()).await?;
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
    (store, requests): (&AmazonS3, &Requests),
    behind: Option<&(String, String)>,
) -> io::Result<Listed> {
    let mut request = Request::new(Method::GET, None)
        .query("uploads", "")
        .query("prefix", url.prefix().to_string());
    if let Some((key, id)) = behind {
        request = request.query("key-marker", key).query("upload-id-marker", id);
    }
    let body = requests.ask(store, request).await??;
    quick_xml::de::from_reader(&body[..]).map_err(io::Error::other)
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
    }
}
