//! Plans of recalls, and reading of volumes for them.

use model::{CopyId, space_filespace};
use tokio::task::JoinHandle;
use tonic::Streaming;
use wire::proto;

use super::Link;
use crate::error::{ClientError, ErrorKind};

/// Bytes of a copy's identity in a request: its batch, and its index in the batch.
const COPY_BYTES: usize = 10;

/// Reason of a recall. It decides which reader the server serves first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PurposeKind {
    #[default]
    Restore,
    /// A program waits for the file that it has opened.
    Open,
    /// A user recalls a list of files.
    List,
    /// Data is checked, or read in a mount: no file is restored.
    Read,
}

/// Reason of a recall, with the user and the program that cause it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Purpose {
    pub kind: PurposeKind,
    pub user: u32,
    pub program: String,
    /// Number by which the waits for the recall are recognised; 0 for none.
    pub reference: u64,
}

impl Purpose {
    /// Returns the purpose of data that is checked or shown, and not restored.
    pub(crate) fn reading() -> Self {
        Self { kind: PurposeKind::Read, ..Self::default() }
    }

    pub(super) fn message(self) -> proto::Purpose {
        let kind = match self.kind {
            PurposeKind::Restore => proto::purpose::Kind::Restore,
            PurposeKind::Open => proto::purpose::Kind::Open,
            PurposeKind::List => proto::purpose::Kind::List,
            PurposeKind::Read => proto::purpose::Kind::Read,
        };
        let Self { user, program, reference, .. } = self;
        proto::Purpose { kind: kind.into(), user, program, reference }
    }
}

/// Plan of a recall.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecallPlan {
    /// Indices of the copies that the server has, in the best order to recall them.
    pub order: Vec<u32>,
    /// Volumes in the order in which they are read.
    pub volumes: Vec<PlannedVolume>,
    /// Number of copies that need no volume.
    pub disk_files: u64,
    pub disk_bytes: u64,
    /// Indices of the copies that the server does not have.
    pub unknown: Vec<u32>,
    pub mounts: u32,
    /// Time until the last copy is read, if no other work needs a drive.
    pub estimate_secs: f64,
}

/// Volume of a plan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlannedVolume {
    pub library: String,
    pub volume: String,
    pub is_mounted: bool,
    /// Number of files that begin on the volume.
    pub files: u64,
    pub bytes: u64,
    pub packs: u64,
    pub estimate_secs: f64,
    /// Reason why the volume cannot be read; empty if it can.
    pub problem: String,
}

impl RecallPlan {
    fn parse(plan: proto::RecallPlan) -> Self {
        let volume = |volume: proto::PlannedVolume| PlannedVolume {
            library: volume.library,
            volume: volume.volume,
            is_mounted: volume.is_mounted,
            files: volume.files,
            bytes: volume.bytes,
            packs: volume.packs,
            estimate_secs: volume.estimate_secs,
            problem: volume.problem,
        };
        Self {
            order: plan.order,
            volumes: plan.volumes.into_iter().map(volume).collect(),
            disk_files: plan.disk_files,
            disk_bytes: plan.disk_bytes,
            unknown: plan.unknown,
            mounts: plan.mounts,
            estimate_secs: plan.estimate_secs,
        }
    }
}

/// Choice whether the server only plans a recall, or reads the volumes too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageMode {
    /// Only make the plan.
    Preview,
    /// Make the plan, then read the volumes.
    Read,
}

/// Reading of volumes for a recall. The reading ends when this value is dropped.
#[derive(Debug)]
pub struct Staging(JoinHandle<()>);

impl Drop for Staging {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// Makes the server plan the recall of `copies` of files of `mount_point`, and read the volumes
    /// for them if `mode` says so.
    pub(crate) fn stage(
        &self,
        mount_point: &[u8],
        copies: &[CopyId],
        mode: StageMode,
        purpose: Purpose,
    ) -> Result<(RecallPlan, Staging), ClientError> {
        let request = proto::StageRequest {
            filespace: space_filespace(mount_point).into(),
            copies: encode_copies(copies).into(),
            preview: mode == StageMode::Preview,
            purpose: Some(purpose.message()),
        };
        let mut replies = self.runtime.block_on(self.client().stage(request))?.into_inner();
        let ended = || {
            ClientError::new(
                ErrorKind::Retry,
                "the server ended the stream before it sent the plan",
            )
        };
        let first = self.runtime.block_on(replies.message())?.ok_or_else(ended)?;
        let unknown = self.unknown_message();
        let plan = match first.message {
            Some(proto::stage_reply::Message::Plan(plan)) => plan,
            Some(_) => return Err(ClientError::new(ErrorKind::Bug, "the server sent no plan")),
            None => return Err(unknown),
        };
        let listening = self.runtime.spawn(async move {
            if let Err(error) = listen(replies, unknown).await {
                // The recall continues without the staging, and reports its own failures.
                tracing::warn!(
                    error = error.message,
                    "the server stopped reading volumes for a recall"
                );
            }
        });
        Ok((RecallPlan::parse(plan), Staging(listening)))
    }
}

/// Reads the messages after the plan until the server has read all volumes. The progress in them is
/// not used, because a recall shows its progress by the data that arrives. Fails with `unknown` at
/// a message that this client does not know.
async fn listen(
    mut replies: Streaming<proto::StageReply>,
    unknown: ClientError,
) -> Result<(), ClientError> {
    while let Some(reply) = replies.message().await? {
        if reply.message.is_none() {
            return Err(unknown);
        }
    }
    Ok(())
}

fn encode_copies(copies: &[CopyId]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(copies.len() * COPY_BYTES);
    for copy in copies {
        bytes.extend(copy.batch.0.to_le_bytes());
        bytes.extend(copy.index.to_le_bytes());
    }
    assert_eq!(bytes.len(), copies.len() * COPY_BYTES, "all copies have the same length");
    bytes
}

#[cfg(test)]
mod tests {
    use model::BatchId;

    use super::*;

    #[test]
    fn copies_are_listed_as_the_server_reads_them() {
        let copies =
            [CopyId { batch: BatchId(1), index: 2 }, CopyId { batch: BatchId(3), index: 4 }];
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0];
        assert_eq!(encode_copies(&copies), bytes);
        assert!(encode_copies(&[]).is_empty());
    }

    #[test]
    fn a_plan_says_what_the_server_says() {
        let volume = proto::PlannedVolume {
            library: "lib".to_owned(),
            volume: "A00001".to_owned(),
            is_mounted: true,
            files: 1,
            bytes: 2,
            packs: 3,
            estimate_secs: 4.0,
            problem: "it is offline".to_owned(),
        };
        let plan = RecallPlan::parse(proto::RecallPlan {
            order: vec![2, 0],
            volumes: vec![volume],
            disk_files: 5,
            disk_bytes: 6,
            unknown: vec![1],
            mounts: 7,
            estimate_secs: 8.0,
        });
        assert_eq!((&plan.order[..], &plan.unknown[..]), (&[2, 0][..], &[1][..]));
        assert_eq!((plan.disk_files, plan.disk_bytes, plan.mounts), (5, 6, 7));
        let [volume] = &plan.volumes[..] else { panic!("one volume") };
        assert_eq!((volume.library.as_str(), volume.volume.as_str()), ("lib", "A00001"));
        assert_eq!((volume.files, volume.bytes, volume.packs), (1, 2, 3));
        assert_eq!(volume.problem, "it is offline");
    }
}
