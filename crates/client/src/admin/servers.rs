//! The servers of one catalogue.

use std::time::Duration;

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use super::optional;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// A server of the catalogue.
#[derive(Clone, Debug)]
pub struct Server {
    pub address: String,
    pub version: String,
    pub started: ServerTime,
    /// Time since the server's last sign of life.
    pub silence: Duration,
    /// True for the server that keeps house: it expires, reclaims and moves packs for all servers.
    pub keeps_house: bool,
    /// True for the server that sent this list.
    pub is_this: bool,
    /// Number of backups in progress at the server.
    pub backups: u64,
    /// Health of the server that sent the list. The others do not report theirs.
    pub health: Health,
    /// Why the servers of the catalogue are held, and what ends the hold.
    pub hold: Option<String>,
}

impl Server {
    /// Returns true if an administrator has to do something.
    pub fn is_impaired(&self) -> bool {
        self.health.is_impaired() || self.hold.is_some()
    }
}

/// Health of a server.
#[derive(Clone, Debug)]
pub struct Health {
    /// Errors of disks since the server started.
    pub disk_errors: u64,
    /// Description of the last error of a disk.
    pub last_disk_error: Option<String>,
    /// True if the server runs without a chunk index.
    pub lacks_index: bool,
    /// True if the server refuses new data because no pool has room.
    pub refuses_data: bool,
}

impl Health {
    fn is_impaired(&self) -> bool {
        self.disk_errors > 0 || self.lacks_index || self.refuses_data
    }
}

impl From<proto::Server> for Server {
    fn from(message: proto::Server) -> Self {
        Self {
            address: message.address,
            version: message.version,
            started: ServerTime(message.started),
            silence: Duration::from_millis(message.silent_millis),
            keeps_house: message.keeps_house,
            is_this: message.is_this,
            backups: message.backups,
            health: Health {
                disk_errors: message.disk_errors,
                last_disk_error: optional::text(message.last_disk_error),
                lacks_index: message.lacks_index,
                refuses_data: message.refuses_data,
            },
            hold: optional::text(message.hold),
        }
    }
}

impl Admin {
    /// Lists the servers of the catalogue, as the connected server sees them.
    pub fn servers(&mut self) -> Result<Vec<Server>, ClientError> {
        let servers = portions::all(|portion| {
            let request = proto::ServersRequest { portion: Some(portion) };
            let reply = self.call(async |server| server.servers(request).await)?;
            Ok(Section { items: reply.servers, next: reply.next })
        })?;
        Ok(servers.into_iter().map(Server::from).collect())
    }
}
