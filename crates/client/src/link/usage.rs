//! Usage of the server by a node.

use model::mount_point;
use tonic::Streaming;
use wire::proto;

use super::Link;
use crate::drills::LastDrills;
use crate::error::ClientError;

/// Versions of one class in one filespace, and the space of their data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    pub node: String,
    /// Name of the filespace, or of the filespace of an archive.
    pub filespace: Vec<u8>,
    pub class: String,
    pub active_objects: u64,
    /// Sizes of files, as they are on the node.
    pub active_bytes: u64,
    pub inactive_versions: u64,
    pub inactive_bytes: u64,
    /// Space that the data takes in one pool. Data that occurs several times counts once.
    pub stored_bytes: u64,
    /// Number of packs that cannot be read, and whose data does not count.
    pub packs_unread: u64,
    /// Last restore drills of the node; `None` from an older server.
    pub drills: Option<LastDrills>,
}

impl Usage {
    /// Returns the mount point of the filespace.
    pub fn mount_point(&self) -> &[u8] {
        mount_point(&self.filespace)
    }
}

impl From<proto::Usage> for Usage {
    fn from(message: proto::Usage) -> Self {
        Self {
            node: message.node,
            filespace: message.filespace.to_vec(),
            class: message.class,
            active_objects: message.active_objects,
            active_bytes: message.active_bytes,
            inactive_versions: message.inactive_versions,
            inactive_bytes: message.inactive_bytes,
            stored_bytes: message.stored_bytes,
            packs_unread: message.packs_unread,
            drills: None,
        }
    }
}

/// Reader of the replies about the usage, which come node by node.
#[derive(Default)]
pub(crate) struct UsageReader {
    /// The last drills of the node whose usage comes.
    drills: Option<LastDrills>,
}

impl UsageReader {
    /// Returns the usage in a reply, with the drills of its node.
    pub(crate) fn read(&mut self, reply: proto::StatsReply) -> impl Iterator<Item = Usage> {
        if let Some(drills) = reply.drills {
            self.drills = Some(drills.into());
        }
        let drills = self.drills.clone();
        let usage = reply.usage.into_iter().map(Usage::from);
        usage.map(move |usage| Usage { drills: drills.clone(), ..usage })
    }
}

impl Link {
    /// Calls `visit` with the usage of each filespace of the node, by class, until it returns
    /// false.
    pub(crate) fn usage(&self, visit: &mut dyn FnMut(Usage) -> bool) -> Result<(), ClientError> {
        let request = proto::StatsRequest::default();
        let stream = self.runtime.block_on(self.client().stats(request))?;
        let mut stream: Streaming<proto::StatsReply> = stream.into_inner();
        let mut reader = UsageReader::default();
        while let Some(reply) = self.runtime.block_on(stream.message())? {
            if !reader.read(reply).all(&mut *visit) {
                break;
            }
        }
        Ok(())
    }
}
