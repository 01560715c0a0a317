//! Usage of the server by its nodes.

use wire::proto;

use super::connection::Admin;
use crate::link::usage::UsageReader;
use crate::{ClientError, Usage};

impl Admin {
    /// Calls `visit` with the usage of each filespace of `node`, or of all nodes, by class, until
    /// it returns false.
    pub fn usage(
        &mut self,
        node: Option<&str>,
        visit: &mut dyn FnMut(Usage) -> bool,
    ) -> Result<(), ClientError> {
        let request = proto::StatsRequest { node: node.unwrap_or_default().to_owned() };
        let mut stream = self.call(async |server| server.stats(request).await)?;
        let mut reader = UsageReader::default();
        while let Some(reply) = self.next(&mut stream)? {
            if !reader.read(reply).all(&mut *visit) {
                break;
            }
        }
        Ok(())
    }
}
