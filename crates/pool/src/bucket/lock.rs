//! Object locks. Until a certain day the store lets nobody delete a locked object, whatever keys
//! are used.
//!
//! A bucket with object locks keeps versions. If an object is deleted, the store adds a deletion
//! marker as the newest version; if it is written again, the store adds the new content as the
//! newest version. Therefore this module locks and removes all versions under the key of a pack,
//! and finds objects that are covered by a deletion marker.

use std::collections::BTreeMap;
use std::io;

use data_encoding::BASE64;
use http::{Method, StatusCode};
use jiff::Timestamp;
use md5::{Digest as _, Md5};
use model::{PackNumber, ServerTime};
use object_store::path::Path as Key;
use serde::Deserialize;

use super::Bucket;
use super::location::LockMode;
use super::parallel::{AT_ONCE, each_of};
use super::request::{Refusal, Request, Requests};
use super::runtime::wait;
use crate::hold::Hold;

/// Codes with which stores answer that an object or a bucket has no lock.
const NO_LOCK: [&str; 3] =
    ["NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRequest"];
/// Codes, besides the code of a forbidden request, with which stores refuse to remove a locked
/// version.
const LOCKED: [&str; 2] = ["InvalidRequest", "ObjectLocked"];

/// The store's answer about the lock of a version.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Retention {
    mode: String,
    retain_until_date: String,
}

/// The lock of a version.
struct VersionLock {
    mode: String,
    until: ServerTime,
}

/// Result of locking an object.
#[derive(Clone, Copy)]
struct HoldOutcome {
    until: ServerTime,
    /// True if a request had to set the lock.
    was_asked: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LockConfiguration {
    object_lock_enabled: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionList {
    #[serde(default)]
    version: Vec<KeyVersion>,
    #[serde(default)]
    delete_marker: Vec<KeyVersion>,
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_version_id_marker: Option<String>,
}

/// A version of an object, or the marker of its deletion.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "PascalCase")]
struct KeyVersion {
    key: String,
    version_id: String,
    is_latest: bool,
    last_modified: String,
}

/// The version after which the next part of a list begins.
struct VersionMarker {
    key: String,
    version: String,
}

/// All versions and deletion markers under one key.
#[derive(Default, PartialEq, Eq, Debug)]
struct Versions {
    /// Versions of the object, the oldest first.
    objects: Vec<KeyVersion>,
    markers: Vec<KeyVersion>,
}

impl Versions {
    /// Returns true if somebody has deleted the object and a version of it still exists.
    fn is_covered(&self) -> bool {
        !self.objects.is_empty() && self.markers.iter().any(|marker| marker.is_latest)
    }
}

/// Converts a time to the form that stores read.
fn moment(time: ServerTime) -> io::Result<Timestamp> {
    // Stores know whole seconds only: the time is rounded up.
    let secs = time.secs().saturating_add(i64::from(time.0.rem_euclid(1_000_000) > 0));
    Timestamp::from_second(secs).map_err(io::Error::other)
}

/// Parses a time that a store has written.
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

/// Turns a refusal to remove a version into an error. MinIO has another code for locked versions.
fn not_removed(refusal: Refusal) -> io::Error {
    if refusal.status == StatusCode::BAD_REQUEST && LOCKED.contains(&refusal.code.as_str()) {
        return io::Error::new(io::ErrorKind::PermissionDenied, refusal);
    }
    refusal.into()
}

impl Bucket {
    fn ask(&self, request: Request<'_>) -> io::Result<Result<bytes::Bytes, Refusal>> {
        wait(self.requests.ask(&self.store, request))?
    }

    /// Returns true if the pool's URL asks for object locks.
    pub(crate) fn has_locks(&self) -> bool {
        self.url.lock_mode().is_some()
    }

    /// Fails if the pool's URL asks for locks and the bucket does not support them.
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
        let help = "the bucket has no object lock, which lock= needs; most stores enable it for \
                    new buckets only";
        if is_enabled { Ok(()) } else { Err(io::Error::new(io::ErrorKind::Unsupported, help)) }
    }

    /// Locks the pack for the period `hold`. Returns true if a request had to set the lock.
    pub(crate) fn hold(&self, pack: PackNumber, hold: Hold) -> io::Result<bool> {
        let known = self.holds.lock().get(&pack).copied();
        if known.is_some_and(|until| until >= hold.least) {
            return Ok(false);
        }
        let held = self.hold_versions(&self.pack_key(pack), hold)?;
        assert!(held.until >= hold.least, "a hold that succeeds is long enough");
        self.holds.lock().insert(pack, held.until);
        Ok(held.was_asked)
    }

    /// Locks a small file beside the packs, or the mark of the pool. Returns true if a request had
    /// to set the lock.
    pub(crate) fn hold_beside(&self, name: &str, hold: Hold) -> io::Result<bool> {
        Ok(self.hold_versions(&self.file_key(name), hold)?.was_asked)
    }

    /// Locks all versions under the key. The right version is chosen when the object is brought
    /// back.
    fn hold_versions(&self, key: &Key, hold: Hold) -> io::Result<HoldOutcome> {
        let objects = self.versions(key)?.objects;
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{key} does not exist"));
        if objects.len() > 1 {
            tracing::warn!(%key, bucket = %self.url, "all versions of an object are locked");
        }
        let held = |version| self.hold_version(key, version, hold);
        let held = objects.iter().map(held).collect::<io::Result<Vec<_>>>()?;
        let until = held.iter().map(|held| held.until).min().ok_or_else(missing)?;
        Ok(HoldOutcome { until, was_asked: held.iter().any(|held| held.was_asked) })
    }

    fn hold_version(&self, key: &Key, version: &KeyVersion, hold: Hold) -> io::Result<HoldOutcome> {
        let is_enough = |lock: &VersionLock| self.is_strong(&lock.mode) && lock.until >= hold.least;
        let found = self.retention(key, version)?;
        // A weaker lock that lasts longer becomes stronger, and keeps its end.
        let most = found.as_ref().map_or(hold.most, |lock| hold.most.max(lock.until));
        assert!(most >= hold.least, "a hold is at least as long as it must be");
        if let Some(VersionLock { until, .. }) = found.filter(is_enough) {
            return Ok(HoldOutcome { until, was_asked: false });
        }
        match self.put_retention(key, version, most) {
            Ok(()) => Ok(HoldOutcome { until: most, was_asked: true }),
            // Another server may have locked the version for longer meanwhile.
            Err(error) => {
                let found = self.retention(key, version)?.filter(is_enough).ok_or(error)?;
                Ok(HoldOutcome { until: found.until, was_asked: true })
            }
        }
    }

    /// Returns true if a lock of this mode is at least as strong as the pool's mode.
    fn is_strong(&self, mode: &str) -> bool {
        mode == LockMode::Compliance.word() || self.url.lock_mode() == Some(LockMode::Governance)
    }

    fn put_retention(&self, key: &Key, version: &KeyVersion, until: ServerTime) -> io::Result<()> {
        assert!(self.has_locks(), "only a bucket with locks holds objects");
        let mode = self.url.lock_mode().map_or(LockMode::Governance.word(), LockMode::word);
        let until = moment(until)?;
        let body = format!(
            "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode>\
             <RetainUntilDate>{until}</RetainUntilDate></Retention>"
        );
        let request = Request::new(Method::PUT, Some(key))
            .query("retention", "")
            .query("versionId", version.version_id.as_str())
            // Stores demand this header for requests that set a lock.
            .header("content-md5", BASE64.encode(&Md5::digest(&body)))
            .body(body);
        self.ask(request)?.map(drop).map_err(io::Error::from)
    }

    fn retention(&self, key: &Key, version: &KeyVersion) -> io::Result<Option<VersionLock>> {
        let request = Request::new(Method::GET, Some(key))
            .query("retention", "")
            .query("versionId", version.version_id.as_str());
        match self.ask(request)? {
            Ok(body) => {
                let Retention { mode, retain_until_date } = understood(&body)?;
                let until = server_time(&retain_until_date)?;
                Ok(Some(VersionLock { mode, until }))
            }
            Err(refusal) if has_none(&refusal) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Returns the latest day until which the store keeps a version under the pack's key. The store
    /// is asked again only after that day: a pack whose lock is removed early stays until then.
    pub(crate) fn locked_until(&self, pack: PackNumber) -> io::Result<Option<ServerTime>> {
        let known = self.stuck.lock().get(&pack).copied();
        // Stores use clocks of their own: the server's clock may have been put ahead.
        if known.is_some_and(|until| until > sys::clock::system()) {
            return Ok(known);
        }
        let key = self.pack_key(pack);
        let mut latest = None;
        for version in self.versions(&key)?.objects {
            latest = latest.max(self.retention(&key, &version)?.map(|lock| lock.until));
        }
        match latest {
            Some(until) => drop(self.stuck.lock().insert(pack, until)),
            None => drop(self.stuck.lock().remove(&pack)),
        }
        Ok(latest)
    }

    /// Drops the known days of the pack's locks.
    pub(crate) fn forget_lock(&self, pack: PackNumber) {
        self.holds.lock().remove(&pack);
        self.stuck.lock().remove(&pack);
    }

    fn versions(&self, key: &Key) -> io::Result<Versions> {
        Ok(self.versions_below(key)?.remove(key.as_ref()).unwrap_or_default())
    }

    /// Lists all versions and deletion markers under the key, and under the keys that begin with
    /// it.
    fn versions_below(&self, key: &Key) -> io::Result<BTreeMap<String, Versions>> {
        let mut found: BTreeMap<String, Versions> = BTreeMap::new();
        let mut after: Option<VersionMarker> = None;
        loop {
            let mut request = Request::new(Method::GET, None)
                .query("versions", "")
                .query("prefix", key.to_string());
            if let Some(VersionMarker { key, version }) = &after {
                request = request.query("key-marker", key).query("version-id-marker", version);
            }
            let body = self.ask(request)??;
            let listed: VersionList = understood(&body)?;
            for version in listed.version {
                found.entry(version.key.clone()).or_default().objects.push(version);
            }
            for marker in listed.delete_marker {
                found.entry(marker.key.clone()).or_default().markers.push(marker);
            }
            let next_key = listed.next_key_marker.filter(|_| listed.is_truncated);
            let version = listed.next_version_id_marker.unwrap_or_default();
            after = next_key.map(|key| VersionMarker { key, version });
            if after.is_none() {
                break;
            }
        }
        let age = |version: &KeyVersion| (version.is_latest, version.last_modified.clone());
        found.values_mut().for_each(|versions| versions.objects.sort_by_key(age));
        Ok(found)
    }

    fn delete_version(&self, key: &Key, version: &KeyVersion) -> io::Result<()> {
        let request =
            Request::new(Method::DELETE, Some(key)).query("versionId", version.version_id.as_str());
        self.ask(request)?.map(drop).map_err(not_removed)
    }

    /// Removes all versions and deletion markers under the key. Fails if one of them is locked.
    pub(super) fn delete_versions(&self, key: &Key) -> io::Result<()> {
        let Versions { objects, markers } = self.versions(key)?;
        let all = objects.iter().chain(&markers);
        all.into_iter().try_for_each(|version| self.delete_version(key, version))
    }

    /// Removes all versions under the key except the newest. A failure, such as a locked version,
    /// is only logged.
    pub(super) fn delete_older(&self, key: &Key) {
        let older = self.versions(key).and_then(|Versions { objects, markers }| {
            let mut older = objects.iter().chain(&markers).filter(|version| !version.is_latest);
            older.try_for_each(|version| self.delete_version(key, version))
        });
        if let Err(error) = older {
            tracing::debug!(%key, %error, "older versions stay");
        }
    }

    /// Brings back the objects below the key that somebody has deleted.
    pub(super) fn uncover_below(&self, key: &Key) -> io::Result<()> {
        let covered: Vec<(Key, Versions)> = self
            .versions_below(key)?
            .into_iter()
            .filter(|(_, versions)| versions.is_covered())
            .filter_map(|(name, versions)| Some((Key::parse(name).ok()?, versions)))
            // The store compares prefixes letter by letter, so it also lists keys beside `key`.
            .filter(|(found, _)| found.prefix_matches(key))
            .collect();
        if covered.is_empty() {
            return Ok(());
        }
        let (count, bucket) = (covered.len(), &self.url);
        tracing::warn!(count, %bucket, "objects that somebody had deleted are brought back");
        // After a failure, the remaining objects are not tried.
        covered.chunks(AT_ONCE).try_for_each(|some| {
            let failures = each_of(some, |(key, versions)| {
                versions.markers.iter().try_for_each(|marker| self.delete_version(key, marker))
            });
            failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
        })
    }

    /// Makes readers get the newest complete version of the pack, because somebody may have deleted
    /// or overwritten the pack. `is_whole` checks the version that readers get at that moment.
    /// Returns false if no version is complete.
    pub(crate) fn bring_back(
        &self,
        pack: PackNumber,
        is_whole: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        self.bring_back_key(&self.pack_key(pack), &mut || {
            self.forget(pack);
            self.forget_lock(pack);
            is_whole()
        })
    }

    /// Does the same as [`Self::bring_back`] for a small file beside the packs, or for the mark of
    /// the pool.
    pub(crate) fn bring_back_beside(
        &self,
        name: &str,
        is_whole: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        self.bring_back_key(&self.file_key(name), is_whole)
    }

    /// Removes only deletion markers. Then copies older versions to the top, the newest of them
    /// first, until `is_whole` returns true.
    fn bring_back_key(&self, key: &Key, is_whole: &mut dyn FnMut() -> bool) -> io::Result<bool> {
        assert!(self.has_locks(), "only a bucket with locks keeps versions");
        let versions = self.versions(key)?;
        if versions.is_covered() {
            versions
                .markers
                .iter()
                .try_for_each(|marker| self.delete_version(key, marker))?;
            if is_whole() {
                return Ok(true);
            }
        }
        for older in versions.objects.iter().rev().skip(1) {
            let source = Requests::source(self.url.bucket(), key, &older.version_id);
            let request = Request::new(Method::PUT, Some(key)).header("x-amz-copy-source", source);
            self.ask(request)??;
            if is_whole() {
                return Ok(true);
            }
        }
        Ok(false)
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
        let listed: VersionList = understood(text.as_bytes()).unwrap();
        let ids = |versions: &[KeyVersion]| {
            versions.iter().map(|one| one.version_id.clone()).collect::<String>()
        };
        assert_eq!((ids(&listed.version), ids(&listed.delete_marker)), ("21".into(), "39".into()));
        assert!(listed.delete_marker[0].is_latest && !listed.is_truncated);
    }

    #[test]
    fn what_was_deleted_is_told_from_what_is_gone() {
        let version = |id: u8, is_latest: bool| {
            let last_modified = format!("2026-11-22T14:00:0{id}.000Z");
            let (key, version_id) = ("a".to_owned(), id.to_string());
            KeyVersion { key, version_id, is_latest, last_modified }
        };
        let of = |objects: &[KeyVersion], markers: &[KeyVersion]| {
            Versions { objects: objects.to_vec(), markers: markers.to_vec() }.is_covered()
        };
        assert!(!of(&[version(1, true)], &[]));
        assert!(of(&[version(1, false)], &[version(2, true)]));
        assert!(!of(&[version(3, true)], &[version(2, false)]), "the object was written again");
        assert!(!of(&[], &[version(2, true)]), "nothing is left to bring back");
    }

    #[test]
    fn what_is_locked_may_not_be_removed_whatever_the_store_calls_that() {
        let kind = |status, code: &str| {
            let (code, message) = (code.to_owned(), "no".to_owned());
            not_removed(Refusal { status, code, message }).kind()
        };
        let forbidden = io::ErrorKind::PermissionDenied;
        assert_eq!(kind(StatusCode::FORBIDDEN, "AccessDenied"), forbidden);
        assert_eq!(kind(StatusCode::BAD_REQUEST, "InvalidRequest"), forbidden);
        assert_eq!(kind(StatusCode::BAD_REQUEST, "MalformedXML"), io::ErrorKind::Other);
        assert_eq!(kind(StatusCode::NOT_FOUND, "NoSuchVersion"), io::ErrorKind::NotFound);
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
