//! The client that receives versions, and the messages to it.

use model::{DirPath, Place, ServerTime};

/// Versions of objects of one directory as a client receives them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryVersions {
    pub directory: DirPath,
    /// The objects, encoded as a page.
    pub page: Vec<u8>,
    /// For each object the time at which the version became inactive; `None` for an active version.
    pub deactivated: Vec<Option<ServerTime>>,
    /// Varints: the lengths in bytes of the chunks of each file, in order.
    pub chunk_lengths: Vec<u8>,
}

/// A message of a restore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    Entries(Vec<DirectoryVersions>),
    /// All entries of a window have been sent.
    EntriesEnd(WindowEnd),
    Quantum {
        first_place: Place,
        record: Vec<u8>,
        /// Digests of the quantum's chunks, 32 bytes each.
        digests: Vec<u8>,
    },
    /// The chunk at `place` cannot be read.
    Damaged {
        place: Place,
        reason: String,
    },
    /// All data of a window has been sent.
    DataEnd(WindowEnd),
}

/// The end of a window. `last` is true if no other window follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowEnd {
    pub window: u64,
    pub last: bool,
}

/// A client's answer to the entries of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub window: u64,
    /// One bit for each object, from the lowest bit of a byte on. A bit is set if the client lacks
    /// the file.
    pub bits: Vec<u8>,
}

/// The client that receives a restore. Only one thread calls the methods; `send` and `answer`
/// block.
pub trait Recipient {
    /// Sends a message. Returns false if the client is gone.
    fn send(&mut self, message: Message) -> bool;

    /// Waits for the client's next answer. Returns `None` if the client is gone.
    fn answer(&mut self) -> Option<Answer>;

    /// Returns false once the client is gone.
    fn is_listening(&self) -> bool;
}
