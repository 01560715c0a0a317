//! The node's waits for packs on volumes, as the server sees them.

use std::time::Duration;

use wire::proto;

use super::Link;
use super::portions::{self, Section};
use crate::error::{ClientError, ErrorKind};

/// Wait of this node for packs on volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnWait {
    /// [`super::stage::Purpose::reference`] of the request; 0 if it had none.
    pub reference: u64,
    /// Volume for which the request waits, if it is known.
    pub volume: Option<String>,
    /// Number of requests for the same volume that come before, of all nodes.
    pub ahead: u32,
    /// Time until the data has been read, if it is known.
    pub estimate: Option<Duration>,
}

impl From<proto::OwnWait> for OwnWait {
    fn from(message: proto::OwnWait) -> Self {
        Self {
            reference: message.reference,
            volume: Some(message.volume).filter(|volume| !volume.is_empty()),
            ahead: message.ahead,
            estimate: message.estimate_secs.map(Duration::from_secs),
        }
    }
}

impl Link {
    /// Returns the node's waits. A server that does not answer within `at_most` is an error of
    /// [`ErrorKind::Retry`]. An older server, which does not know the question, gives none.
    pub(crate) fn waits(&self, at_most: Duration) -> Result<Vec<OwnWait>, ClientError> {
        let silent = || ClientError::new(ErrorKind::Retry, "the server does not answer");
        let waits = portions::all(|portion| {
            let request = proto::WaitsRequest { portion: Some(portion) };
            let mut client = self.client();
            let asked = async { tokio::time::timeout(at_most, client.waits(request)).await };
            match self.runtime.block_on(asked).map_err(|_| silent())? {
                Ok(reply) => {
                    let proto::WaitsReply { waits, next } = reply.into_inner();
                    Ok(Section { items: waits, next })
                }
                Err(status) if status.code() == tonic::Code::Unimplemented => {
                    Ok(Section { items: Vec::new(), next: Default::default() })
                }
                Err(status) => Err(status.into()),
            }
        })?;
        Ok(waits.into_iter().map(OwnWait::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_volume_has_no_name() {
        let message = proto::OwnWait { reference: 7, ahead: 2, ..proto::OwnWait::default() };
        let wait = OwnWait::from(message.clone());
        assert_eq!((wait.reference, wait.volume, wait.ahead, wait.estimate), (7, None, 2, None));
        let known = proto::OwnWait { volume: "A1".to_owned(), estimate_secs: Some(9), ..message };
        let wait = OwnWait::from(known);
        assert_eq!(wait.volume.as_deref(), Some("A1"));
        assert_eq!(wait.estimate, Some(Duration::from_secs(9)));
    }
}
