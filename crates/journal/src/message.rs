//! Messages between a backup and the watcher: one JSON document on each line. After the reply
//! `directories` follows one line for each directory.

use std::io::{self, BufRead, Read as _, Write};

use data_encoding::HEXLOWER;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sys::identity::DirectoryHandle;

use crate::anchor::{AnchorKey, Continuation, Fingerprint};
use crate::record::{ChangedDirectory, DIRECTORIES_MAX};
use crate::status::WatcherState;
use crate::text::PathText;

/// Version of the messages. A watcher of another release refuses others.
pub(crate) const VERSION: u32 = 1;
/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Request of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Begins a backup. The connection stands for it from here on.
    Begin {
        version: u32,
        /// Root of the filespace.
        root: PathText,
        key: AnchorKey,
    },
    /// Returns the directories that have changed since the backup began.
    Changes,
    Complete(Completion),
    Renew(Continuation),
    /// Removes the anchor, because a walk has found changes that the record has missed.
    Distrust {
        objects: u64,
        first: PathText,
    },
    Status,
}

/// End of a complete backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Completion {
    pub(crate) filespace: PathText,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) again: Vec<PathText>,
    pub(crate) again_below: Vec<PathText>,
    /// True if the backup has walked everything.
    pub(crate) is_walk: bool,
}

/// Reply of the watcher.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub(crate) enum Reply {
    Begun {
        /// Identity of the root directory, as the watcher sees it.
        device_id: u64,
        inode: u64,
        anchor: Option<AnchorMessage>,
        /// Reason why there is no anchor.
        reason: String,
    },
    /// The directories follow, one on each line.
    Directories {
        count: u64,
    },
    Status(WatcherState),
    Done,
    Refused {
        reason: String,
    },
}

/// Anchor in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AnchorMessage {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) again: Vec<PathText>,
    pub(crate) again_below: Vec<PathText>,
    pub(crate) walked_secs_ago: u64,
}

/// Writes a message and its line end.
pub(crate) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::from)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads a message; `None` at the end of the connection.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let Some(line) = read_line(from)? else { return Ok(None) };
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(invalid("a message is incomplete or too long")),
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Writes directories, with the reply that announces them.
pub(crate) fn write_directories(
    to: &mut impl Write,
    directories: &[ChangedDirectory],
) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    write(&mut to, &Reply::Directories { count: directories.len() as u64 })?;
    for ChangedDirectory { directory, is_own, is_moved } in directories {
        let bytes = HEXLOWER.encode(directory.bytes());
        let (own, moved) = (u8::from(*is_own), u8::from(*is_moved));
        writeln!(to, "{} {bytes} {own}{moved}", directory.kind())?;
    }
    to.flush()
}

/// Reads the directories after the reply that announces them.
pub(crate) fn read_directories(
    from: &mut impl BufRead,
    count: u64,
) -> io::Result<Vec<ChangedDirectory>> {
    if count > DIRECTORIES_MAX as u64 {
        return Err(invalid("more directories than a record has"));
    }
    let mut directories = Vec::new();
    for _ in 0..count {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let directory = parse_directory(&line).ok_or_else(|| invalid("not a directory"))?;
        directories.push(directory);
    }
    Ok(directories)
}

fn parse_directory(line: &[u8]) -> Option<ChangedDirectory> {
    let mut fields = line.split(|&byte| byte == b' ');
    let kind = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let bytes = HEXLOWER.decode(fields.next()?).ok()?;
    let flag = |byte: u8| match byte {
        b'0' => Some(false),
        b'1' => Some(true),
        _ => None,
    };
    let [own, moved] = fields.next()? else { return None };
    Some(ChangedDirectory {
        directory: DirectoryHandle::new(kind, &bytes)?,
        is_own: flag(*own)?,
        is_moved: flag(*moved)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changed() -> impl Strategy<Value = ChangedDirectory> {
        let bytes = prop::collection::vec(any::<u8>(), 1..=DirectoryHandle::BYTES_MAX);
        (any::<i32>(), bytes, any::<bool>(), any::<bool>()).prop_map(
            |(kind, bytes, is_own, is_moved)| {
                let directory = DirectoryHandle::new(kind, &bytes).expect("a handle");
                ChangedDirectory { directory, is_own, is_moved }
            },
        )
    }

    proptest! {
        #[test]
        fn directories_survive(directories in prop::collection::vec(changed(), 0..20)) {
            let mut bytes = Vec::new();
            write_directories(&mut bytes, &directories).expect("written");
            let mut from = &bytes[..];
            let reply: Option<Reply> = read(&mut from).expect("read");
            let count = directories.len() as u64;
            prop_assert_eq!(reply, Some(Reply::Directories { count }));
            prop_assert_eq!(read_directories(&mut from, count).expect("read"), directories);
            prop_assert_eq!(read::<Reply>(&mut from).expect("the end"), None);
        }

        #[test]
        fn damaged_lines_are_refused_or_read(line in prop::collection::vec(any::<u8>(), 0..40)) {
            let _no_panic = parse_directory(&line);
        }
    }

    #[test]
    fn a_message_has_an_end_and_a_bounded_length() {
        let part = &b"{\"tell\":\"done\"}"[..];
        read::<Reply>(&mut { part }).expect_err("the line has no end");
        let whole = [part, b"\n"].concat();
        assert_eq!(read::<Reply>(&mut &whole[..]).expect("read"), Some(Reply::Done));
        let count = DIRECTORIES_MAX as u64 + 1;
        read_directories(&mut &b""[..], count).expect_err("more than a record has");
        read_directories(&mut &b""[..], 1).expect_err("the directory is missing");
    }

    /// A backup may speak with a watcher of another release, so the words must not change.
    #[test]
    fn messages_keep_their_words() {
        let begin = Request::Begin {
            version: 1,
            root: PathText(b"/da\xffta".to_vec()),
            key: AnchorKey([0xab; 16]),
        };
        let key = "ab".repeat(16);
        let text = format!(r#"{{"do":"begin","version":1,"root":"/da%ffta","key":"{key}"}}"#);
        assert_eq!(serde_json::to_string(&begin).expect("a document"), text);
        let refused = Reply::Refused { reason: "no".to_owned() };
        let text = r#"{"tell":"refused","reason":"no"}"#;
        assert_eq!(serde_json::to_string(&refused).expect("a document"), text);
    }
}
