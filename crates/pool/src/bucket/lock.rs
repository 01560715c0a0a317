//! Locks on objects: until a day the store lets nobody, whoever's keys he has, take an object away.
//!
//! A bucket that locks keeps versions. Whoever deletes an object only covers it, and what is put
//! again lies above what was there. So packs are held and removed here with all versions that lie
//! under their keys, and what somebody has covered is found beneath.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::BASE64;
use http::{Method, StatusCode};
use jiff::Timestamp;
use md5::{Digest as _, Md5};
use model::{PackNumber, ServerTime};
use object_store::path::Path as Key;
use serde::Deserialize;

use super::location::LockMode;
use super::request::{Refusal, Request, Requests};
use super::{Bucket, Locks, wait};
use crate::Hold;

/// Keys of which the store is asked at once.
const AT_ONCE: usize = 8;
/// What stores answer where an object, or a bucket, has no lock.
const NO_LOCK: [&str; 3] =
    ["NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError", "InvalidRequest"];

/// How a version of an object is locked.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Retention {
    mode: String,
    retain_until_date: String,
}

/// What stores answer, beside that it is forbidden, to who removes what is locked.
const LOCKED: [&str; 2] = ["InvalidRequest", "ObjectLocked"];

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

impl Versions {
    /// Whether somebody has deleted what is there.
    fn is_covered(&self) -> bool {
        !self.objects.is_empty() && self.markers.iter().any(|marker| marker.is_latest)
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

/// Why a version of an object is not removed. MinIO does not call it forbidden that one is locked.
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
        let known = self.locks().get(&pack).copied();
        if known.is_some_and(|until| until >= hold.least) {
            return Ok(false);
        }
        let (until, was_told) = self.hold_versions(&self.pack_key(pack), hold)?;
        self.locks().insert(pack, until);
        Ok(was_told)
    }

    /// The same for a small file beside the packs, or for what says whose pool it is.
    pub(crate) fn hold_beside(&self, name: &str, hold: Hold) -> io::Result<bool> {
        self.hold_versions(&self.file_key(name), hold).map(|(_, was_told)| was_told)
    }

    /// Has all that lies under the key stay: which of it is right is not asked here. Returns until
    /// when it does, and whether the store had to be told.
    fn hold_versions(&self, key: &Key, hold: Hold) -> io::Result<(ServerTime, bool)> {
        let objects = self.versions(key)?.objects;
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{key} is not there"));
        if objects.len() > 1 {
            tracing::warn!(%key, bucket = %self.url, "an object lies above another one");
        }
        let held = |version| self.hold_version(key, version, hold);
        let held = objects.iter().map(held).collect::<io::Result<Vec<_>>>()?;
        let until = held.iter().map(|(until, _)| *until).min().ok_or_else(missing)?;
        Ok((until, held.iter().any(|(_, was_told)| *was_told)))
    }

    fn hold_version(
        &self,
        key: &Key,
        version: &KeyVersion,
        hold: Hold,
    ) -> io::Result<(ServerTime, bool)> {
        let is_enough =
            |(mode, until): &(String, ServerTime)| self.is_strong(mode) && *until >= hold.least;
        let found = self.retention(key, version)?;
        // A weaker lock that is longer becomes no shorter.
        let most = found.as_ref().map_or(hold.most, |(_, until)| hold.most.max(*until));
        if let Some((_, until)) = found.filter(is_enough) {
            return Ok((until, false));
        }
        match self.put_retention(key, version, most) {
            Ok(()) => Ok((most, true)),
            // Another server may have held it for longer meanwhile.
            Err(error) => {
                let found = self.retention(key, version)?.filter(is_enough);
                found.map(|(_, until)| (until, true)).ok_or(error)
            }
        }
    }

    /// Whether a lock of this mode holds as well as the pool's.
    fn is_strong(&self, mode: &str) -> bool {
        mode == LockMode::Compliance.word() || self.url.lock_mode() == Some(LockMode::Governance)
    }

    fn put_retention(&self, key: &Key, version: &KeyVersion, until: ServerTime) -> io::Result<()> {
        let mode = self.url.lock_mode().map_or(LockMode::Governance.word(), LockMode::word);
        let until = moment(until)?;
        let body = format!(
            "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode>\
             <RetainUntilDate>{until}</RetainUntilDate></Retention>"
        );
        let request = Request::new(Method::PUT, Some(key))
            .query("retention", "")
            .query("versionId", version.version_id.as_str())
            // Stores ask for it where a lock is set.
            .header("content-md5", BASE64.encode(&Md5::digest(&body)))
            .body(body);
        self.ask(request)?.map(drop).map_err(io::Error::from)
    }

    fn retention(
        &self,
        key: &Key,
        version: &KeyVersion,
    ) -> io::Result<Option<(String, ServerTime)>> {
        let request = Request::new(Method::GET, Some(key))
            .query("retention", "")
            .query("versionId", version.version_id.as_str());
        match self.ask(request)? {
            Ok(body) => {
                let Retention { mode, retain_until_date } = understood(&body)?;
                server_time(&retain_until_date).map(|until| Some((mode, until)))
            }
            Err(refusal) if has_none(&refusal) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Until when the store keeps anything that lies under the pack's key, by any lock. It is asked
    /// again only when that is over: who lifts a lock before its day has the pack stay for longer.
    pub(crate) fn locked_until(&self, pack: PackNumber) -> io::Result<Option<ServerTime>> {
        let stuck = || self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stuck().get(&pack).copied();
        // Stores go by their own clocks, whatever this server's was put ahead by.
        if known.is_some_and(|until| until > sys::clock::system()) {
            return Ok(known);
        }
        let key = self.pack_key(pack);
        let mut latest = None;
        for version in self.versions(&key)?.objects {
            latest = latest.max(self.retention(&key, &version)?.map(|(_, until)| until));
        }
        match latest {
            Some(until) => drop(stuck().insert(pack, until)),
            None => drop(stuck().remove(&pack)),
        }
        Ok(latest)
    }

    pub(crate) fn forget_lock(&self, pack: PackNumber) {
        self.locks().remove(&pack);
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).remove(&pack);
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
        self.ask(request)?.map(drop).map_err(not_removed)
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

    /// Brings back what somebody has deleted of what lies under the key.
    pub(super) fn uncover_below(&self, key: &Key) -> io::Result<()> {
        let covered: Vec<(Key, Versions)> = self
            .versions_below(key)?
            .into_iter()
            .filter(|(_, versions)| versions.is_covered())
            .filter_map(|(name, versions)| Some((Key::parse(name).ok()?, versions)))
            // The store goes by the letters of a prefix, not by its parts.
            .filter(|(found, _)| found.prefix_matches(key))
            .collect();
        if covered.is_empty() {
            return Ok(());
        }
        let (count, bucket) = (covered.len(), &self.url);
        tracing::warn!(count, %bucket, "objects that somebody had deleted are brought back");
        // A store that does not answer is not asked for each.
        covered.chunks(AT_ONCE).try_for_each(|some| {
            let failures = each_of(some, |(key, versions)| {
                versions.markers.iter().try_for_each(|marker| self.delete_version(key, marker))
            });
            failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
        })
    }

    /// Has one of the versions of the pack be what is read that `is_whole`, where somebody has
    /// deleted it or put something above it. Returns whether there is one.
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

    /// The same of a small file beside the packs, or of what says whose pool it is.
    pub(crate) fn bring_back_beside(
        &self,
        name: &str,
        is_whole: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        self.bring_back_key(&self.file_key(name), is_whole)
    }

    /// Takes nothing away but marks of deletion: older versions are put again above the others, the
    /// newest first.
    fn bring_back_key(&self, key: &Key, is_whole: &mut dyn FnMut() -> bool) -> io::Result<bool> {
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

/// Does `work` for each, several at once; returns those with which it failed, and why.
pub(crate) fn each_of<T: Sync>(
    all: &[T],
    work: impl Fn(&T) -> io::Result<()> + Sync,
) -> Vec<(&T, io::Error)> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(all.len()) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = work(one) {
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push((one, error));
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
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
        assert!(!of(&[version(3, true)], &[version(2, false)]), "it was put again");
        assert!(!of(&[], &[version(2, true)]), "nothing is left to bring back");
    }

    #[test]
    fn each_is_done_once_and_failures_are_told() {
        let all: Vec<usize> = (0..100).collect();
        let sum = AtomicUsize::new(0);
        let failures = each_of(&all, |one| {
            sum.fetch_add(*one, Ordering::Relaxed);
            if one.is_multiple_of(50) { Err(io::Error::other("no")) } else { Ok(()) }
        });
        let mut failed: Vec<usize> = failures.iter().map(|(one, _)| **one).collect();
        failed.sort_unstable();
        assert_eq!((sum.into_inner(), failed), (4950, vec![0, 50]));
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
