//! Versions and archive copies of a node.

use std::collections::BTreeMap;

use model::ClassId;
use wire::proto;

use super::connection::Admin;
use crate::link::portions::{self, Section};
use crate::link::versions::{Entries, Selection, decode};
use crate::path::absolute;
use crate::{ArchiveSummary, ClientError, ListedVersion};

impl Admin {
    /// Calls `visit` with each version in a filespace of a node, active and inactive, until it
    /// returns false. `filespace` is the name of a filespace, or of one of an archive.
    pub fn versions(
        &mut self,
        node: &str,
        filespace: &[u8],
        visit: &mut dyn FnMut(ListedVersion) -> bool,
    ) -> Result<(), ClientError> {
        let selection = Selection { all_versions: true, ..Selection::of_filespace(filespace) };
        let request = proto::NodeVersionsRequest {
            node: node.to_owned(),
            selection: Some(selection.message("")),
        };
        let stream = self.call(async |server| server.node_versions(request).await)?;
        self.visit(stream, &selection, visit)
    }

    /// Calls `visit` with each version in a filespace of a node that has data on a volume, until it
    /// returns false.
    pub fn volume_versions(
        &mut self,
        volume: &str,
        (node, filespace): (&str, &[u8]),
        visit: &mut dyn FnMut(ListedVersion) -> bool,
    ) -> Result<(), ClientError> {
        let selection = Selection { all_versions: true, ..Selection::of_filespace(filespace) };
        let request = proto::VolumeVersionsRequest {
            volume: volume.to_owned(),
            node: node.to_owned(),
            selection: Some(selection.message("")),
        };
        let stream = self.call(async |server| server.volume_versions(request).await)?;
        self.visit(stream, &selection, visit)
    }

    fn visit(
        &mut self,
        mut stream: tonic::Streaming<proto::VersionsReply>,
        selection: &Selection,
        visit: &mut dyn FnMut(ListedVersion) -> bool,
    ) -> Result<(), ClientError> {
        let classes = self.class_names()?;
        while let Some(message) = self.next(&mut stream)? {
            let Entries { entries, .. } = decode(&message, selection)?;
            for entry in entries {
                let version = ListedVersion {
                    path: absolute(&selection.filespace, &entry.directory.join(&entry.object.name)),
                    class: classes.get(&entry.object.class).cloned().unwrap_or_default(),
                    object: entry.object,
                    deactivated: entry.deactivated,
                };
                if !visit(version) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Lists the archives of a node, newest first.
    pub fn archives(&mut self, node: &str) -> Result<Vec<ArchiveSummary>, ClientError> {
        let archives = portions::all(|portion| {
            let node = node.to_owned();
            let request = proto::NodeArchivesRequest { node, portion: Some(portion) };
            let reply = self.call(async |server| server.node_archives(request).await)?;
            Ok(Section { items: reply.archives, next: reply.next })
        })?;
        Ok(archives.into_iter().map(ArchiveSummary::parse).collect())
    }

    /// Returns the names of the classes of all active sets, by their numbers.
    fn class_names(&mut self) -> Result<BTreeMap<ClassId, String>, ClientError> {
        let domains = portions::all(|portion| {
            let request = proto::DomainsRequest { name: String::new(), portion: Some(portion) };
            let reply = self.call(async |server| server.domains(request).await)?;
            Ok(Section { items: reply.domains, next: reply.next })
        })?;
        let sets = domains.into_iter().filter_map(|domain: proto::Domain| domain.active);
        let classes = sets.flat_map(|set| set.classes);
        let numbered = classes
            .filter_map(|class| Some((ClassId(u16::try_from(class.number).ok()?), class.name)));
        Ok(numbered.collect())
    }
}
