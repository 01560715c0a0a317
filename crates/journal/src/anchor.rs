//! Anchors: the point from which an incremental by journal goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text::{HexText, PathText};

/// Key of an anchor: it stands for one filespace, server, node and set of rules. Only the backup
/// knows how it is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AnchorKey(#[serde(with = "HexText")] pub [u8; 16]);

/// Fingerprint of the server's pages of a filespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fingerprint(#[serde(with = "HexText")] pub [u8; 16]);

/// Point from which an incremental goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Anchor {
    /// Path of the filespace, for people.
    pub filespace: PathText,
    /// Fingerprint at the end of the backup.
    pub fingerprint: Fingerprint,
    /// Directories to look at in any case.
    pub again: Vec<PathText>,
    /// Directories to walk with everything below them in any case.
    pub again_below: Vec<PathText>,
    /// Time of the last walk of everything, since the start of the machine.
    pub walked: Duration,
}

/// State in which a backup that has failed leaves the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Continuation {
    pub fingerprint: Fingerprint,
}

impl Anchor {
    pub(crate) fn continue_with(&mut self, continuation: Continuation) {
        self.fingerprint = continuation.fingerprint;
    }
}
