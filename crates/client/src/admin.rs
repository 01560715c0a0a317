//! Administration over the socket in the server's folder.

use std::path::Path;

use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use wire::proto;
use wire::proto::admin_client::AdminClient;

pub use wire::proto::{AddNodeReply, NodeInfo};

use crate::{ClientError, ErrorKind};

/// A connection to a server's administration socket.
pub struct Admin {
    runtime: Runtime,
    client: AdminClient<Channel>,
}

impl Admin {
    /// Connects to the socket `socket_name` of the server in `folder`, which must be running.
    pub fn connect(folder: &Path, socket_name: &'static str) -> Result<Self, ClientError> {
        let runtime = crate::link::runtime()?;
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
        // The socket is asked first: its error says more than the transport's.
        sys::net::connect_unix(&folder, socket_name).map_err(|error| refused(&folder, &error))?;
        let endpoint = Endpoint::from_static("http://admin.holdfast.internal");
        let channel = runtime
            .block_on(endpoint.connect_with_connector(connector))
            .map_err(|error| refused(&folder, &error))?;
        Ok(Self { runtime, client: AdminClient::new(channel) })
    }

    /// Registers a node, or gives one that exists a new token; `lifetime_secs` 0 is the default.
    pub fn add_node(
        &mut self,
        name: &str,
        domain: &str,
        lifetime_secs: i64,
        again: bool,
    ) -> Result<AddNodeReply, ClientError> {
        let request = proto::AddNodeRequest {
            name: name.to_owned(),
            domain: domain.to_owned(),
            token_lifetime_secs: lifetime_secs,
            again,
        };
        let reply = self.runtime.block_on(self.client.add_node(request))?;
        Ok(reply.into_inner())
    }

    /// One node, or all.
    pub fn nodes(&mut self, name: Option<&str>) -> Result<Vec<NodeInfo>, ClientError> {
        let request = proto::ListNodesRequest { name: name.unwrap_or_default().to_owned() };
        let reply = self.runtime.block_on(self.client.list_nodes(request))?;
        Ok(reply.into_inner().nodes)
    }

    pub fn lock_node(&mut self, name: &str, locked: bool) -> Result<NodeInfo, ClientError> {
        self.set_node(name, Some(locked), None)
    }

    pub fn rename_node(&mut self, name: &str, new_name: &str) -> Result<NodeInfo, ClientError> {
        self.set_node(name, None, Some(new_name.to_owned()))
    }

    fn set_node(
        &mut self,
        name: &str,
        locked: Option<bool>,
        new_name: Option<String>,
    ) -> Result<NodeInfo, ClientError> {
        let request = proto::SetNodeRequest { name: name.to_owned(), locked, new_name };
        let reply = self.runtime.block_on(self.client.set_node(request))?;
        Ok(reply.into_inner())
    }

    /// Removes a node; with its backups only when `with_data` says so.
    pub fn remove_node(&mut self, name: &str, with_data: bool) -> Result<NodeInfo, ClientError> {
        let request = proto::RemoveNodeRequest { name: name.to_owned(), with_data };
        let reply = self.runtime.block_on(self.client.remove_node(request))?;
        Ok(reply.into_inner())
    }
}
