//! The connection to a server's administration socket.

use std::path::Path;

use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};
use wire::proto::admin_client::AdminClient;
use wire::proto::{AuditReply, CopyCatalogReply, ExpireReply, ReclaimReply, TendPoolReply};

use crate::{ClientError, ErrorKind};

/// A connection to a server's administration socket.
pub struct Admin {
    runtime: Runtime,
    client: AdminClient<Channel>,
}

impl Admin {
    /// Connects to the socket `socket_name` of the server in `folder`, which must be running.
    pub fn connect(folder: &Path, socket_name: &'static str) -> Result<Self, ClientError> {
        let runtime = crate::link::runtime::runtime()?;
        let folder = folder.to_owned();
        let refused = |folder: &Path, error: &dyn std::fmt::Display| {
            let message = format!("cannot reach the server in {}: {error}", folder.display());
            ClientError::new(ErrorKind::Retry, message)
        };
        let connect_folder = folder.clone();
        let connector = tower::service_fn(move |_| {
            let folder = connect_folder.clone();
            async move {
                let stream = sys::net::connect_unix(&folder, socket_name)?;
                let stream = tokio::net::UnixStream::from_std(stream)?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        // This connection is made only for its error, which says more than an error of the
        // transport.
        sys::net::connect_unix(&folder, socket_name).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => forbidden(&folder),
            _ => refused(&folder, &error),
        })?;
        let endpoint = Endpoint::from_static("http://admin.holdfast.internal");
        let channel = runtime
            .block_on(endpoint.connect_with_connector(connector))
            .map_err(|error| refused(&folder, &error))?;
        Ok(Self { runtime, client: AdminClient::new(channel) })
    }

    /// Makes one call and waits for its reply.
    pub(super) fn call<R>(
        &mut self,
        call: impl AsyncFnOnce(&mut AdminClient<Channel>) -> Result<Response<R>, Status>,
    ) -> Result<R, ClientError> {
        Ok(self.runtime.block_on(call(&mut self.client))?.into_inner())
    }

    /// Returns the next message of a stream, or `None` at its end.
    pub(super) fn next<M>(&self, stream: &mut Streaming<M>) -> Result<Option<M>, ClientError> {
        Ok(self.runtime.block_on(stream.message())?)
    }

    /// Reads a stream of the progress of work. `visit` sees each message except the last, which has
    /// the result and is returned. The server stops the work when the connection ends.
    pub(super) fn follow<M: ProgressMessage, R: From<M>>(
        &self,
        mut stream: Streaming<M>,
        visit: &mut dyn FnMut(&R),
    ) -> Result<R, ClientError> {
        while let Some(message) = self.next(&mut stream)? {
            if message.is_last() {
                return Ok(message.into());
            }
            visit(&message.into());
        }
        Err(ClientError::new(
            ErrorKind::Retry,
            "the server ended the connection before the request was done",
        ))
    }
}

/// Returns the error for a user who may not open the socket in `folder`.
fn forbidden(folder: &Path) -> ClientError {
    use std::os::unix::fs::MetadataExt as _;
    let owner = match std::fs::metadata(folder) {
        Ok(found) => format!("the user with id {}, who owns it", found.uid()),
        Err(_) => "its owner".to_owned(),
    };
    let message = format!(
        "administration of the server in {} needs root, or {owner}; run the command as such a \
         user, as with sudo",
        folder.display()
    );
    ClientError::new(ErrorKind::Refused, message)
}

/// A message of a stream of progress.
pub(super) trait ProgressMessage {
    /// Returns true for the last message, which has the result.
    fn is_last(&self) -> bool;
}

macro_rules! progress_messages {
    ($($message:ty),+) => {
        $(impl ProgressMessage for $message {
            fn is_last(&self) -> bool {
                self.is_last
            }
        })+
    };
}

progress_messages!(AuditReply, CopyCatalogReply, ExpireReply, ReclaimReply, TendPoolReply);
