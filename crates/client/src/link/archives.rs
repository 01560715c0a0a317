//! Archives and deletions at the server.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use model::{DirPath, Name, ServerTime, mount_point};
use tonic::Code;
use wire::proto;

use super::Link;
use super::portions::{self, Section};
use super::versions::Selection;
use crate::error::{ClientError, ErrorKind, shortened};
use crate::options::{ArchiveFilter, DeleteOptions, Origin};
use crate::path::only_named;

/// Archive, as the server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveSummary {
    pub number: u64,
    pub description: String,
    pub created: ServerTime,
    /// Time of the event that starts the archive's retention; `None` before the event.
    pub event: Option<ServerTime>,
    pub held: bool,
    pub complete: bool,
    pub objects: u64,
    pub bytes: u64,
    /// Mount points on the node from which the archive's objects came.
    pub mount_points: Vec<Vec<u8>>,
    filespaces: Vec<Vec<u8>>,
}

/// Filespaces in which the paths of a command are looked up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sources {
    /// Names of the filespaces of each part: of the backups, or of an archive. Complete archives
    /// come before incomplete ones, and then newer ones before older ones.
    pub(crate) parts: Vec<Vec<Vec<u8>>>,
    /// Numbers of the incomplete archives.
    pub(crate) incomplete: BTreeSet<u64>,
}

impl Sources {
    /// Returns the filespaces of `archives`, which come newest first.
    fn of_archives(mut archives: Vec<ArchiveSummary>) -> Self {
        archives.sort_by_key(|archive| !archive.complete);
        let incomplete = archives.iter().filter(|archive| !archive.complete);
        let incomplete = incomplete.map(|archive| archive.number).collect();
        let parts = archives.into_iter().map(|archive| archive.filespaces).collect();
        Self { parts, incomplete }
    }
}

/// Deletion at the server, done or planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletionSummary {
    /// Number with which the deletion can be undone; `None` if nothing was deleted.
    pub number: Option<u64>,
    pub versions: u64,
    pub details: String,
    pub time: Option<ServerTime>,
    /// End of the time in which the deletion can be undone.
    pub until: Option<ServerTime>,
    /// Rows of the catalogue that cannot be read, so that their versions stay.
    pub damage: Option<String>,
}

/// Names of objects, by the directories that hold them.
pub(crate) type NamedObjects = BTreeMap<DirPath, BTreeSet<Name>>;

/// Deletion of objects by their names, done or planned.
pub(crate) struct ObjectsDeletion {
    pub(crate) summary: DeletionSummary,
    /// Paths within the filespace of the objects that have such versions.
    pub(crate) found: BTreeSet<Vec<u8>>,
}

fn time(micros: i64) -> Option<ServerTime> {
    (micros != 0).then_some(ServerTime(micros))
}

impl ArchiveSummary {
    pub(crate) fn parse(archive: proto::Archive) -> Self {
        let filespaces: Vec<_> = archive.filespaces.iter().map(|name| name.to_vec()).collect();
        Self {
            number: archive.number,
            description: archive.description,
            created: ServerTime(archive.created),
            event: time(archive.event),
            held: archive.held,
            complete: archive.complete,
            objects: archive.objects,
            bytes: archive.bytes,
            mount_points: filespaces.iter().map(|name| mount_point(name).to_vec()).collect(),
            filespaces,
        }
    }

    /// Returns the names of the archive's filespaces.
    pub fn filespaces(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.filespaces.iter().map(Vec::as_slice)
    }
}

impl DeletionSummary {
    fn parse(deletion: proto::Deletion) -> Self {
        Self {
            number: (deletion.number != 0).then_some(deletion.number),
            versions: deletion.versions,
            details: deletion.details,
            time: time(deletion.time),
            until: time(deletion.until),
            damage: Some(shortened(deletion.damage)).filter(|damage| !damage.is_empty()),
        }
    }
}

impl Link {
    pub(crate) fn open_archive(&self, description: &str) -> Result<ArchiveSummary, ClientError> {
        let request = proto::OpenArchiveRequest { description: description.to_owned() };
        let archive = self.runtime.block_on(self.client().open_archive(request))?.into_inner();
        Ok(ArchiveSummary::parse(archive))
    }

    /// Marks an archive as complete, because it has all its objects. Returns their number.
    pub(crate) fn complete_archive(&self, number: u64) -> Result<u64, ClientError> {
        let complete = true;
        let request = proto::SetArchiveRequest { number, complete, ..Default::default() };
        let archive = self.runtime.block_on(self.client().set_archive(request))?.into_inner();
        Ok(archive.objects)
    }

    /// Reports the event of an archive, if `event` is set, and holds or releases it.
    pub(crate) fn set_archive(
        &self,
        number: u64,
        event: bool,
        held: Option<bool>,
    ) -> Result<ArchiveSummary, ClientError> {
        let request = proto::SetArchiveRequest { number, complete: false, event, held };
        let archive = self.runtime.block_on(self.client().set_archive(request))?.into_inner();
        Ok(ArchiveSummary::parse(archive))
    }

    /// Returns the node's archives, newest first.
    pub(crate) fn archives(&self) -> Result<Vec<ArchiveSummary>, ClientError> {
        let archives = portions::all(|portion| {
            let node = self.reading.clone();
            let request = proto::ArchivesRequest { portion: Some(portion), node };
            let reply = self.runtime.block_on(self.client().archives(request))?.into_inner();
            Ok(Section { items: reply.archives, next: reply.next })
        })?;
        let archives: Vec<_> = archives.into_iter().map(ArchiveSummary::parse).collect();
        self.keep_complete(&archives);
        Ok(archives)
    }

    /// Keeps the names of the filespaces of complete archives. A command may look into each of many
    /// archives, and each look would list all of them.
    fn keep_complete(&self, archives: &[ArchiveSummary]) {
        let complete = archives.iter().filter(|archive| archive.complete);
        let names = complete.map(|archive| (archive.number, archive.filespaces.clone()));
        *self.complete_archives.lock() = names.collect();
    }

    /// Returns the archives that `filter` selects, newest first. Fails if there are none.
    pub(crate) fn archives_matching(
        &self,
        filter: &ArchiveFilter,
    ) -> Result<Vec<ArchiveSummary>, ClientError> {
        let ArchiveFilter { number, description } = filter;
        let mut all = self.archives()?;
        all.retain(|archive| number.is_none_or(|number| archive.number == number));
        all.retain(|archive| {
            description
                .as_ref()
                .is_none_or(|pattern| model::matches_wildcards(pattern, &archive.description))
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

    /// Returns the names of the filespaces of the archive `number`, or of the backups.
    pub(crate) fn filespaces_of(&self, archive: Option<u64>) -> Result<Vec<Vec<u8>>, ClientError> {
        let Some(number) = archive else {
            return Ok(self.filespaces(false)?.into_iter().map(|known| known.name).collect());
        };
        let known = self.complete_archives.lock().get(&number).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let filter = ArchiveFilter { number: Some(number), description: None };
        let archives = self.archives_matching(&filter)?;
        Ok(archives.into_iter().flat_map(|archive| archive.filespaces).collect())
    }

    /// Returns the filespaces of each part of `origin`: the backups, or the archives. Fails if
    /// there are no such archives.
    pub(crate) fn filespaces_from(&self, origin: &Origin) -> Result<Sources, ClientError> {
        let backups = |filespaces| Sources { parts: vec![filespaces], ..Sources::default() };
        Ok(match origin {
            Origin::Backups => backups(self.filespaces_of(None)?),
            Origin::Filespace(name) => backups(only_named(self.filespaces_of(None)?, Some(name))?),
            Origin::Archives(filter) => Sources::of_archives(self.archives_matching(filter)?),
        })
    }

    /// Deletes those versions of `selection` that `options` name.
    pub(crate) fn delete(
        &self,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<DeletionSummary, ClientError> {
        let request = proto::DeleteRequest {
            selection: Some(selection.message("")),
            active: options.active,
            inactive: options.inactive,
            dry_run: options.dry_run,
        };
        let deletion = self.runtime.block_on(self.client().delete(request))?.into_inner();
        Ok(DeletionSummary::parse(deletion))
    }

    /// Deletes those versions of `objects` of `filespace` that `options` name. Returns `None` if
    /// the server does not know the request.
    pub(crate) fn delete_objects(
        &self,
        filespace: &[u8],
        objects: &NamedObjects,
        options: &DeleteOptions,
    ) -> Result<Option<ObjectsDeletion>, ClientError> {
        let named = objects.iter().map(|(directory, names)| proto::NamedObjects {
            directory: Bytes::copy_from_slice(directory.as_bytes()),
            names: names.iter().map(|name| Bytes::copy_from_slice(name.as_bytes())).collect(),
        });
        let request = proto::DeleteObjectsRequest {
            filespace: Bytes::copy_from_slice(filespace),
            objects: named.collect(),
            active: options.active,
            inactive: options.inactive,
            dry_run: options.dry_run,
        };
        let reply = match self.runtime.block_on(self.client().delete_objects(request)) {
            Err(status) if status.code() == Code::Unimplemented => return Ok(None),
            reply => reply?.into_inner(),
        };
        let found = reply.found.iter().flat_map(|of_directory| {
            let directory = &of_directory.directory[..];
            of_directory.names.iter().map(move |name| [directory, &name[..]].concat())
        });
        // A server has no reason to name more objects than it was asked for.
        let asked: usize = objects.values().map(BTreeSet::len).sum();
        let found = found.take(asked).collect();
        let summary = DeletionSummary::parse(reply.deletion.unwrap_or_default());
        Ok(Some(ObjectsDeletion { summary, found }))
    }

    /// Deletes the images of `filespace` that were taken at the times `taken`.
    pub(crate) fn delete_images(
        &self,
        filespace: &[u8],
        taken: &[ServerTime],
        dry_run: bool,
    ) -> Result<DeletionSummary, ClientError> {
        let taken = taken.iter().map(|time| time.0).collect();
        let filespace = Bytes::copy_from_slice(filespace);
        let request = proto::DeleteImagesRequest { filespace, taken, dry_run };
        let deleted = self.runtime.block_on(self.client().delete_images(request));
        let deletion = deleted.map_err(|status| match status.code() {
            Code::Unimplemented => {
                let server = &self.hello.server_version;
                let message =
                    format!("server {server} is too old to delete images; upgrade the server");
                ClientError::new(ErrorKind::Usage, message)
            }
            _ => status.into(),
        })?;
        Ok(DeletionSummary::parse(deletion.into_inner()))
    }

    /// Returns the deletions that can be undone, newest first.
    pub(crate) fn deletions(&self) -> Result<Vec<DeletionSummary>, ClientError> {
        let deletions = portions::all(|portion| {
            let request = proto::DeletionsRequest { portion: Some(portion) };
            let reply = self.runtime.block_on(self.client().deletions(request))?.into_inner();
            Ok(Section { items: reply.deletions, next: reply.next })
        })?;
        Ok(deletions.into_iter().map(DeletionSummary::parse).collect())
    }

    pub(crate) fn undelete(&self, number: u64) -> Result<DeletionSummary, ClientError> {
        let request = proto::UndeleteRequest { number };
        let deletion = self.runtime.block_on(self.client().undelete(request))?.into_inner();
        Ok(DeletionSummary::parse(deletion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(number: u64, complete: bool) -> ArchiveSummary {
        ArchiveSummary::parse(proto::Archive {
            number,
            complete,
            filespaces: vec![model::archive_filespace(number, b"/").into()],
            ..Default::default()
        })
    }

    #[test]
    fn complete_archives_come_before_incomplete_ones() {
        let archives = [(9, false), (7, true), (5, false), (3, true)];
        let archives = archives.map(|(number, complete)| archive(number, complete));
        let sources = Sources::of_archives(archives.to_vec());
        let number = |part: &Vec<Vec<u8>>| model::archive_number(&part[0]).expect("an archive");
        assert_eq!(sources.parts.iter().map(number).collect::<Vec<_>>(), [7, 3, 9, 5]);
        assert_eq!(sources.incomplete, BTreeSet::from([5, 9]));
    }

    #[test]
    fn the_server_is_asked_once_for_the_filespaces_of_a_complete_archive() {
        // Nobody answers.
        let link = crate::link::tests::unanswered(crate::rules::tests::hello());
        link.keep_complete(&[archive(7, true), archive(9, false)]);
        let known = link.filespaces_of(Some(7)).expect("was listed");
        assert_eq!(known, [model::archive_filespace(7, b"/")]);
        assert!(link.filespaces_of(Some(9)).is_err(), "others may come to it");
    }

    #[test]
    fn times_that_are_not_set_are_none() {
        let archive = ArchiveSummary::parse(proto::Archive {
            number: 7,
            filespaces: vec![model::archive_filespace(7, b"/home").into()],
            ..Default::default()
        });
        assert_eq!(archive.event, None);
        assert_eq!(archive.mount_points, [b"/home"]);
        assert_eq!(archive.filespaces().count(), 1);
        let nothing = DeletionSummary::parse(proto::Deletion::default());
        assert_eq!((nothing.number, nothing.time, nothing.until), (None, None, None));
    }
}
