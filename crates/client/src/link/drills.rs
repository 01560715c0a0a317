//! Restore drills at the server.

use model::SampleAmount;
use tonic::{Code, Status};
use wire::proto;

use super::Link;
use crate::drills::{Drill, LastDrills};
use crate::error::{ClientError, ErrorKind};
use crate::options::Sample;

impl Link {
    /// Begins a drill. Returns its number.
    pub(crate) fn begin_drill(&self, sample: Sample) -> Result<u64, ClientError> {
        use proto::begin_drill_request::Amount;
        let amount = match sample.amount {
            SampleAmount::Files(number) => Amount::Versions(number),
            SampleAmount::Bytes(bytes) => Amount::Bytes(bytes),
            SampleAmount::Millionths(share) => Amount::Millionths(share),
        };
        let request = proto::BeginDrillRequest { amount: Some(amount), seed: sample.seed };
        let begun = self.runtime.block_on(self.client().begin_drill(request));
        Ok(begun.map_err(|status| self.about_drills(status))?.into_inner().number)
    }

    /// Gives the node's result of a drill. Returns the server's.
    pub(crate) fn end_drill(&self, request: proto::EndDrillRequest) -> Result<Drill, ClientError> {
        let ended = self.runtime.block_on(self.client().end_drill(request));
        Ok(ended.map_err(|status| self.about_drills(status))?.into_inner().into())
    }

    /// Returns the last drills of the node; `None` from an older server.
    pub(crate) fn last_drills(&self) -> Result<Option<LastDrills>, ClientError> {
        let request = proto::DrillsRequest {};
        match self.runtime.block_on(self.client().drills(request)) {
            Ok(reply) => Ok(Some(reply.into_inner().last.unwrap_or_default().into())),
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    fn about_drills(&self, status: Status) -> ClientError {
        if status.code() != Code::Unimplemented {
            return status.into();
        }
        let server = &self.hello.server_version;
        let message = format!("server {server} is too old to draw samples; upgrade the server");
        ClientError::new(ErrorKind::Usage, message)
    }
}
