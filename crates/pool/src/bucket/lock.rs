//! Locks on objects: until a day the store lets nobody, whoever's keys he has, take an object away.
//!
//! A bucket that locks keeps versions. Whoever deletes an object only covers it, and what is put
//! again lies above what was there: so packs are removed here version by version, and what somebody
//! has covered is found beneath.

use std::collections::BTreeMap;
use std::io;
use std::sync::{MutexGuard, PoisonError};

use data_encoding::BASE64;
use http::Method;
use jiff::Timestamp;
use md5::{Digest as _, Md5};
use model::{PackNumber, ServerTime};
use object_store::path::Path as Key;
use serde::Deserialize;

use super::location::LockMode;
use super::request::{Refusal, Request, Requests};
use super::{Bucket, Locks, wait};
use crate::Hold;

/// What stores answer where an object, or a bucket, has no lock.
const NO_LOCK: [&str; 3] =
    ["NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRequest"];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Retention {
    retain_until_date: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LockConfiguration {
    object_lock_enabled: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedVersions {
    #[serde(default)]
    version: Vec<KeyVersion>,
    #[serde(default)]
    delete_marker: Vec<KeyVersion>,
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_version_id_marker: Option<String>,
}

/// One version of an object, or the mark that it was deleted.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "PascalCase")]
struct KeyVersion {
    key: String,
    version_id: String,
    is_latest: bool,
    last_modified: String,
}

/// All that lies under one key.
#[derive(Default, PartialEq, Eq, Debug)]
struct Versions {
    /// Oldest first.
    objects: Vec<KeyVersion>,
    markers: Vec<KeyVersion>,
}

/// What becomes of an object that somebody may have covered.
#[derive(PartialEq, Eq, Debug)]
enum Uncovering<'a> {
    Nothing,
    /// These marks say that it was deleted.
    Unmark(&'a [KeyVersion]),
    /// This is the first that was put; what lies above is another one.
    PutAgain(&'a KeyVersion),
}

fn uncovering(versions: &Versions) -> Uncovering<'_> {
    if versions.objects.is_empty() {
        return Uncovering::Nothing;
    }
    if versions.markers.iter().any(|marker| marker.is_latest) {
        return Uncovering::Unmark(&versions.markers);
    }
    match &versions.objects[..] {
        [first, .., _] => Uncovering::PutAgain(first),
        _ => Uncovering::Nothing,
    }
}

fn moment(time: ServerTime) -> io::Result<Timestamp> {
    // Stores know whole seconds.
    let secs = time.secs().saturating_add(i64::from(time.0.rem_euclid(1_000_000) > 0));
    Timestamp::from_second(secs).map_err(io::Error::other)
}

fn server_time(text: &str) -> io::Result<ServerTime> {
    let time: Timestamp = text.parse().map_err(io::Error::other)?;
    Ok(ServerTime(time.as_microsecond()))
}

fn understood<T: for<'de> Deserialize<'de>>(body: &[u8]) -> io::Result<T> {
    quick_xml::de::from_reader(body).map_err(io::Error::other)
}

fn has_none(refusal: &Refusal) -> bool {
    NO_LOCK.contains(&refusal.code.as_str())
}

impl Bucket {
    fn ask(&self, request: Request<'_>) -> io::Result<Result<bytes::Bytes, Refusal>> {
        wait(self.requests.ask(&self.store, request))?
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether objects are locked here where policy says so.
    pub(crate) fn has_locks(&self) -> bool {
        self.url.lock_mode().is_some()
    }

    /// Fails where locks are asked for and the bucket has none to give.
    pub(crate) fn check_locks(&self) -> io::Result<()> {
        if !self.has_locks() {
            return Ok(());
        }
        let request = Request::new(Method::GET, None).query("object-lock", "");
        let is_enabled = match self.ask(request)? {
            Ok(body) => {
                let found: LockConfiguration = understood(&body)?;
                found.object_lock_enabled.as_deref() == Some("Enabled")
            }
            Err(refusal) if has_none(&refusal) => false,
            Err(refusal) => return Err(refusal.into()),
        };
        let help = "the bucket has no object lock, which lock= asks for; most stores give it to \
                    new buckets only";
        if is_enabled { Ok(()) } else { Err(io::Error::new(io::ErrorKind::Unsupported, help)) }
    }

    /// Has the pack stay for as long as `hold` says. Returns whether the store had to be told.
    pub(crate) fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool> {
        let key = self.pack_key(pack);
        if self.locked_until(pack)?.is_some_and(|until| until >= hold.least) {
            return Ok(false);
        }
        let put = self.put_retention(&key, hold.most);
        // Another server may have held it for longer meanwhile.
        self.locks().remove(&pack);
        let now = self.locked_until(pack)?;
        match put {
            Err(error) if now.is_none_or(|until| until < hold.least) => Err(error),
            _ => Ok(true),
        }
    }

    /// The same for what says whose pool it is.
    pub(crate) fn hold_mark(&self, hold: Hold) -> io::Result<bool> {
        self.hold_beside(super::MARK, hold)
    }

    /// The same for a small file beside the packs.
    pub(crate) fn hold_beside(&self, name: &str, hold: Hold) -> io::Result<bool> {
        let key = self.file_key(name);
        if self.retention(&key)?.is_some_and(|until| until >= hold.least) {
            return Ok(false);
        }
        self.put_retention(&key, hold.most).map(|()| true)
    }

    fn put_retention(&self, key: &Key, until: ServerTime) -> io::Result<()> {
        let mode = self.url.lock_mode().map_or(LockMode::Governance.word(), LockMode::word);
        let until = moment(until)?;
        let body = format!(
            "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode>\
             <RetainUntilDate>{until}</RetainUntilDate></Retention>"
        );
        let request = Request::new(Method::PUT, Some(key))
            .query("retention", "")
            // Stores ask for it where a lock is set.
            .header("content-md5", BASE64.encode(&Md5::digest(&body)))
            .body(body);
        self.ask(request)?.map(drop).map_err(io::Error::from)
    }

    fn retention(&self, key: &Key) -> io::Result<Option<ServerTime>> {
        let request = Request::new(Method::GET, Some(key)).query("retention", "");
        match self.ask(request)? {
            Ok(body) => {
                let found: Retention = understood(&body)?;
                server_time(&found.retain_until_date).map(Some)
            }
            Err(refusal) if has_none(&refusal) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Until when the store keeps the pack; the store is asked once.
    pub(crate) fn locked_until(&self, pack: PackNumber) -> io::Result<Option<ServerTime>> {
        if let Some(known) = self.locks().get(&pack) {
            return Ok(*known);
        }
        let found = self.retention(&self.pack_key(pack))?;
        self.locks().insert(pack, found);
        Ok(found)
    }

    pub(super) fn forget_lock(&self, pack: PackNumber) {
        self.locks().remove(&pack);
    }

    fn versions(&self, key: &Key) -> io::Result<Versions> {
        Ok(self.versions_below(key)?.remove(key.as_ref()).unwrap_or_default())
    }

    /// All that lies under the key, and under those that begin with it.
    fn versions_below(&self, key: &Key) -> io::Result<BTreeMap<String, Versions>> {
        let mut found: BTreeMap<String, Versions> = BTreeMap::new();
        let mut behind: Option<(String, String)> = None;
        loop {
            let mut request = Request::new(Method::GET, None)
                .query("versions", "")
                .query("prefix", key.to_string());
            if let Some((key, version)) = &behind {
                request = request.query("key-marker", key).query("version-id-marker", version);
            }
            let body = self.ask(request)??;
            let listed: ListedVersions = understood(&body)?;
            for version in listed.version {
                found.entry(version.key.clone()).or_default().objects.push(version);
            }
            for marker in listed.delete_marker {
                found.entry(marker.key.clone()).or_default().markers.push(marker);
            }
            behind = match (listed.is_truncated, listed.next_key_marker) {
                (true, Some(key)) => Some((key, listed.next_version_id_marker.unwrap_or_default())),
                _ => break,
            };
        }
        let age = |version: &KeyVersion| (version.is_latest, version.last_modified.clone());
        found.values_mut().for_each(|versions| versions.objects.sort_by_key(age));
        Ok(found)
    }

    fn delete_version(&self, key: &Key, version: &KeyVersion) -> io::Result<()> {
        let request =
            Request::new(Method::DELETE, Some(key)).query("versionId", version.version_id.as_str());
        self.ask(request)?.map(drop).map_err(io::Error::from)
    }

    /// Removes all that lies under the key. One that is locked stays as it is.
    pub(super) fn delete_versions(&self, key: &Key) -> io::Result<()> {
        let Versions { objects, markers } = self.versions(key)?;
        let all = objects.iter().chain(&markers);
        all.into_iter().try_for_each(|version| self.delete_version(key, version))
    }

    /// Removes what lies beneath the newest under the key, where that may go.
    pub(super) fn delete_older(&self, key: &Key) {
        let older = self.versions(key).and_then(|Versions { objects, markers }| {
            let mut older = objects.iter().chain(&markers).filter(|version| !version.is_latest);
            older.try_for_each(|version| self.delete_version(key, version))
        });
        if let Err(error) = older {
            tracing::debug!(%key, %error, "older versions stay");
        }
    }

    /// Brings back what somebody has deleted of what lies under the key, and under those that begin
    /// with it.
    pub(super) fn uncover_below(&self, key: &Key) -> io::Result<()> {
        let mut count = 0;
        for (name, versions) in self.versions_below(key)? {
            let key = Key::parse(name).map_err(io::Error::other)?;
            // The store goes by the letters of a prefix, not by its parts.
            let is_ours = key.prefix_matches(self.url.prefix());
            if let Uncovering::Unmark(markers) = uncovering(&versions)
                && is_ours
            {
                markers.iter().try_for_each(|marker| self.delete_version(&key, marker))?;
                count += 1;
            }
        }
        if count > 0 {
            let bucket = &self.url;
            tracing::warn!(count, %bucket, "objects that somebody had deleted are back");
        }
        Ok(())
    }

    /// Brings the pack back as it was first put, where somebody has deleted it or put another one
    /// above it. Takes nothing away but the marks of deletion. Returns whether there was anything.
    pub(crate) fn uncover(&self, pack: PackNumber) -> io::Result<bool> {
        let key = self.pack_key(pack);
        let versions = self.versions(&key)?;
        match uncovering(&versions) {
            Uncovering::Nothing => return Ok(false),
            Uncovering::Unmark(markers) => {
                markers.iter().try_for_each(|marker| self.delete_version(&key, marker))?;
            }
            Uncovering::PutAgain(first) => {
                let source = Requests::source(self.url.bucket(), &key, &first.version_id);
                let request =
                    Request::new(Method::PUT, Some(&key)).header("x-amz-copy-source", source);
                self.ask(request)??;
            }
        }
        self.forget(pack);
        self.forget_lock(pack);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_understood_in_whatever_order_they_are_listed() {
        let text = "<ListVersionsResult><Name>b</Name><IsTruncated>false</IsTruncated>\
            <DeleteMarker><Key>a</Key><VersionId>3</VersionId><IsLatest>true</IsLatest>\
            <LastModified>2026-11-22T14:00:03.000Z</LastModified></DeleteMarker>\
            <Version><Key>a</Key><VersionId>2</VersionId><IsLatest>false</IsLatest>\
            <LastModified>2026-11-22T14:00:02.000Z</LastModified><Size>5</Size></Version>\
            <DeleteMarker><Key>b</Key><VersionId>9</VersionId><IsLatest>true</IsLatest>\
            <LastModified>2026-11-22T14:00:01.000Z</LastModified></DeleteMarker>\
            <Version><Key>b</Key><VersionId>1</VersionId><IsLatest>false</IsLatest>\
            <LastModified>2026-11-22T14:00:00.000Z</LastModified><Size>5</Size></Version>\
            </ListVersionsResult>";
        let listed: ListedVersions = understood(text.as_bytes()).unwrap();
        let ids = |versions: &[KeyVersion]| {
            versions.iter().map(|one| one.version_id.clone()).collect::<String>()
        };
        assert_eq!((ids(&listed.version), ids(&listed.delete_marker)), ("21".into(), "39".into()));
        assert!(listed.delete_marker[0].is_latest && !listed.is_truncated);
    }

    fn version(id: u8, is_latest: bool) -> KeyVersion {
        let last_modified = format!("2026-11-22T14:00:0{id}.000Z");
        KeyVersion { key: "a".to_owned(), version_id: id.to_string(), is_latest, last_modified }
    }

    #[test]
    fn what_was_covered_is_found_beneath() {
        let mut versions = Versions { objects: vec![version(1, true)], markers: Vec::new() };
        assert_eq!(uncovering(&versions), Uncovering::Nothing);
        versions.objects = vec![version(1, false), version(2, true)];
        assert_eq!(uncovering(&versions), Uncovering::PutAgain(&version(1, false)));
        versions.objects = vec![version(1, false)];
        versions.markers = vec![version(2, true)];
        assert_eq!(uncovering(&versions), Uncovering::Unmark(&[version(2, true)]));
        versions.objects.clear();
        assert_eq!(uncovering(&versions), Uncovering::Nothing, "nothing is left to bring back");
    }

    #[test]
    fn days_are_written_as_stores_read_them() {
        let time = ServerTime(1_795_269_600_000_001);
        assert_eq!(moment(time).unwrap().to_string(), "2026-11-21T14:00:01Z");
        let read = server_time("2026-11-21T14:00:00.5Z").unwrap();
        assert_eq!(read.0, 1_795_269_600_500_000);
        assert!(server_time("tomorrow").is_err());
    }
}
