//! Archives of the node: making, finding and releasing them, and deleting what the server holds.

use std::sync::Arc;

use model::{Kind, Object, ServerTime, mount_point};
use sys::Dir;
use wire::proto;

use crate::backup::NO_CHANGE_TIME;
use crate::link::Link;
use crate::progress::Progress;
use crate::report::{BackupReport, Failure};
use crate::restore::{normalise, places, verify};
use crate::{
    ArchiveFilter, ClientError, DeleteOptions, ErrorKind, FilespaceSummary, ListOptions,
    VerifyOptions, list,
};

/// An archive as the server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveSummary {
    pub number: u64,
    pub description: String,
    pub created: ServerTime,
    pub event: Option<ServerTime>,
    pub held: bool,
    pub complete: bool,
    pub objects: u64,
    pub bytes: u64,
    /// Where on the node its objects were.
    pub mount_points: Vec<Vec<u8>>,
    filespaces: Vec<Vec<u8>>,
}

/// What was deleted at once, or would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletionSummary {
    /// `None` where nothing was deleted.
    pub number: Option<u64>,
    pub versions: u64,
    pub details: String,
    pub time: Option<ServerTime>,
    /// Until then it can be undone.
    pub until: Option<ServerTime>,
}

fn summary(archive: proto::Archive) -> ArchiveSummary {
    let filespaces: Vec<Vec<u8>> = archive.filespaces.iter().map(|name| name.to_vec()).collect();
    ArchiveSummary {
        number: archive.number,
        description: archive.description,
        created: ServerTime(archive.created),
        event: (archive.event != 0).then_some(ServerTime(archive.event)),
        held: archive.held,
        complete: archive.complete,
        objects: archive.objects,
        bytes: archive.bytes,
        mount_points: filespaces.iter().map(|name| mount_point(name).to_vec()).collect(),
        filespaces,
    }
}

fn deletion(message: proto::Deletion) -> DeletionSummary {
    let time = |micros: i64| (micros != 0).then_some(ServerTime(micros));
    DeletionSummary {
        number: (message.number != 0).then_some(message.number),
        versions: message.versions,
        details: message.details,
        time: time(message.time),
        until: time(message.until),
    }
}

impl Link {
    pub(crate) fn open_archive(&self, description: &str) -> Result<ArchiveSummary, ClientError> {
        let request = proto::OpenArchiveRequest { description: description.to_owned() };
        let mut client = self.client();
        Ok(summary(self.runtime.block_on(client.open_archive(request))?.into_inner()))
    }

    /// Says that all that was asked for is in it.
    pub(crate) fn complete_archive(&self, number: u64) -> Result<(), ClientError> {
        let complete = true;
        let request = proto::SetArchiveRequest { number, complete, ..Default::default() };
        let mut client = self.client();
        self.runtime.block_on(client.set_archive(request))?;
        Ok(())
    }

    pub(crate) fn set_archive(
        &self,
        number: u64,
        event: bool,
        held: Option<bool>,
    ) -> Result<ArchiveSummary, ClientError> {
        let request = proto::SetArchiveRequest { number, complete: false, event, held };
        let mut client = self.client();
        Ok(summary(self.runtime.block_on(client.set_archive(request))?.into_inner()))
    }

    pub(crate) fn archives(&self) -> Result<Vec<ArchiveSummary>, ClientError> {
        let mut client = self.client();
        let reply = self.runtime.block_on(client.archives(proto::ArchivesRequest {}))?;
        Ok(reply.into_inner().archives.into_iter().map(summary).collect())
    }

    pub(crate) fn deletions(&self) -> Result<Vec<DeletionSummary>, ClientError> {
        let mut client = self.client();
        let reply = self.runtime.block_on(client.deletions(proto::DeletionsRequest {}))?;
        Ok(reply.into_inner().deletions.into_iter().map(deletion).collect())
    }

    pub(crate) fn undelete(&self, number: u64) -> Result<DeletionSummary, ClientError> {
        let mut client = self.client();
        let request = proto::UndeleteRequest { number };
        Ok(deletion(self.runtime.block_on(client.undelete(request))?.into_inner()))
    }
}

impl ArchiveSummary {
    /// Its filespaces, to look for paths in.
    pub(crate) fn filespaces(&self) -> Vec<FilespaceSummary> {
        let summary = |name: &Vec<u8>| FilespaceSummary {
            name: name.clone(),
            active_objects: 0,
            last_backup: None,
        };
        self.filespaces.iter().map(summary).collect()
    }
}

/// The archives that are meant, newest first. An error if there are none.
pub(crate) fn matching(
    link: &Link,
    filter: &ArchiveFilter,
) -> Result<Vec<ArchiveSummary>, ClientError> {
    let ArchiveFilter { number, description } = filter;
    let mut all = link.archives()?;
    all.retain(|archive| number.is_none_or(|number| archive.number == number));
    all.retain(|archive| {
        description.as_ref().is_none_or(|wanted| matches(wanted, &archive.description))
    });
    if all.is_empty() {
        let message = match (number, description) {
            (Some(number), _) => format!("there is no archive {number}"),
            (None, Some(description)) => format!("no archive is described as '{description}'"),
            (None, None) => "this node has no archives".to_owned(),
        };
        let message = format!("{message}; 'holdfast archives' shows all");
        return Err(ClientError::new(ErrorKind::NotFound, message));
    }
    Ok(all)
}

/// Whether `text` is what `pattern` says, where `*` is any text and `?` any character.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            let tails = text.char_indices().map(|(at, _)| &text[at..]);
            tails.chain([""]).any(|tail| matches(rest, tail))
        }
        Some(wanted) => match text.chars().next() {
            Some(found) if wanted == '?' || wanted == found => {
                matches(&pattern[wanted.len_utf8()..], &text[found.len_utf8()..])
            }
            _ => false,
        },
    }
}

/// Deletes what `options` say at the server.
pub(crate) fn delete(link: &Link, options: &DeleteOptions) -> Result<DeletionSummary, ClientError> {
    let path = normalise(&options.path)?;
    let filespaces = match options.archive {
        Some(number) => {
            let filter = ArchiveFilter { number: Some(number), description: None };
            matching(link, &filter)?.iter().flat_map(ArchiveSummary::filespaces).collect()
        }
        None => link.filespaces(false)?,
    };
    for place in places(&filespaces, &path) {
        let request = proto::DeleteRequest {
            selection: Some(place.selection(true)),
            active: options.active,
            inactive: options.inactive,
            dry_run: options.dry_run,
        };
        let mut client = link.client();
        let reply = link.runtime.block_on(client.delete(request))?.into_inner();
        if reply.versions > 0 {
            return Ok(deletion(reply));
        }
    }
    let message = format!("the server holds nothing of {} to delete", model::escaped(&path));
    Err(ClientError::new(ErrorKind::NotFound, message))
}

/// Deletes the archived files on this machine, once the server has shown that it has them. A file
/// that has changed since stays.
pub(crate) fn delete_local(
    link: &Link,
    number: u64,
    report: &mut BackupReport,
    progress: &Arc<Progress>,
) -> Result<(), ClientError> {
    let keep = |report: &mut BackupReport, why: &str| {
        report
            .warnings
            .push(format!("no file was deleted on this machine, because {why}"));
    };
    if report.failed > 0 {
        keep(report, "not everything could be archived");
        return Ok(());
    }
    let options = VerifyOptions { data: true, archive: Some(number), ..VerifyOptions::default() };
    if verify(link, &options, progress)?.damaged > 0 {
        keep(report, "the archive could not be verified");
        return Ok(());
    }
    let options = ListOptions { recursive: true, archive: Some(number), ..ListOptions::default() };
    let mut failures = Vec::new();
    let mut deleted = 0;
    list::run(link, &options, &mut |listed| {
        match remove(&listed.path, &listed.object) {
            Ok(true) => deleted += 1,
            Ok(false) => {}
            Err(error) => failures.push(Failure { path: listed.path.clone(), error }),
        }
        true
    })?;
    report.deleted = deleted;
    failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(())
}

/// Removes what is no directory; whether it did.
fn remove(path: &[u8], object: &Object) -> Result<bool, String> {
    if object.stat.kind == Kind::Directory {
        return Ok(false);
    }
    let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else { return Ok(false) };
    let failed = |error: std::io::Error| format!("it was archived but not deleted: {error}");
    let dir = Dir::open(&path[..=slash]).map_err(failed)?;
    let name = &path[slash + 1..];
    let found = dir.stat(name).map_err(failed)?;
    let archived = &object.stat;
    let is_same = found.is_some_and(|found| {
        let stat = found.stat;
        // Deleting one name of several changes the time at the others.
        let same_ctime =
            archived.linked || archived.ctime == NO_CHANGE_TIME || stat.ctime == archived.ctime;
        (stat.kind, stat.size, stat.mtime, stat.inode)
            == (archived.kind, archived.size, archived.mtime, archived.inode)
            && same_ctime
    });
    if !is_same {
        return Err("it has changed since it was archived; it was not deleted".to_owned());
    }
    dir.remove(name, false).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_match_with_wildcards() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("project*", "project 2026", true),
            ("*2026", "project 2026", true),
            ("p?oject*", "pr\u{f6}ject", false),
            ("pr?ject", "pr\u{f6}ject", true),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
