//! Uploads that nobody continues: their server died before the object was whole. The store keeps
//! their parts, and charges for them, until it is told to drop them.

use std::io;

use http::Method;
use model::PackNumber;
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Key;
use serde::Deserialize;

use super::Bucket;
use super::request::Request;
use super::runtime::{io_error, wait};
use crate::layout;

/// One answer of the store: a list of uploads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UploadList {
    #[serde(default)]
    upload: Vec<UnfinishedUpload>,
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_upload_id_marker: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UnfinishedUpload {
    key: String,
    upload_id: String,
}

/// The upload after which the next part of a list begins.
struct UploadMarker {
    key: String,
    id: String,
}

impl UploadList {
    fn next(&mut self) -> Option<UploadMarker> {
        let key = self.next_key_marker.take().filter(|_| self.is_truncated)?;
        Some(UploadMarker { key, id: self.next_upload_id_marker.take().unwrap_or_default() })
    }
}

impl Bucket {
    /// Ends uploads that nobody continues: all uploads, or only uploads of packs below a number.
    /// Returns the number of ended uploads.
    pub(crate) fn end_orphans(&self, below: Option<PackNumber>) -> io::Result<usize> {
        let is_orphan = |name: &str| {
            below.is_none_or(|below| layout::number(name).is_some_and(|pack| pack < below))
        };
        wait(self.end_uploads(is_orphan))?
    }

    /// Ends the uploads below the pool's prefix for which `is_orphan` returns true. It gets the
    /// last part of the key.
    async fn end_uploads(&self, is_orphan: impl Fn(&str) -> bool) -> io::Result<usize> {
        let mut ended = 0;
        let mut after: Option<UploadMarker> = None;
        loop {
            let mut listed = self.list_uploads(after.as_ref()).await?;
            for UnfinishedUpload { key, upload_id } in &listed.upload {
                let key = Key::parse(key).map_err(io::Error::other)?;
                // The store compares prefixes letter by letter, so it also lists keys beside the
                // prefix.
                let is_ours = key.prefix_matches(self.url.prefix());
                if is_ours && is_orphan(key.filename().unwrap_or_default()) {
                    self.store.abort_multipart(&key, upload_id).await.map_err(io_error)?;
                    ended += 1;
                }
            }
            after = listed.next();
            if after.is_none() {
                return Ok(ended);
            }
        }
    }

    async fn list_uploads(&self, after: Option<&UploadMarker>) -> io::Result<UploadList> {
        let mut request = Request::new(Method::GET, None)
            .query("uploads", "")
            .query("prefix", self.url.prefix().to_string());
        if let Some(UploadMarker { key, id }) = after {
            request = request.query("key-marker", key).query("upload-id-marker", id);
        }
        let body = self.requests.ask(&self.store, request).await??;
        quick_xml::de::from_reader(&body[..]).map_err(io::Error::other)
    }
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
        let mut listed: UploadList = quick_xml::de::from_str(text).unwrap();
        assert_eq!(listed.upload.len(), 2);
        assert_eq!(listed.upload[1].upload_id, "y");
        assert!(listed.next().is_some_and(|next| next.key == "k" && next.id == "i"));
        let none = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>\
                    </ListMultipartUploadsResult>";
        let mut none: UploadList = quick_xml::de::from_str(none).unwrap();
        assert!(none.upload.is_empty() && none.next().is_none());
    }
}
