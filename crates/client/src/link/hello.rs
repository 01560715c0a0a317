//! Greeting: the answer of the server, which describes the server and the node's policy.

use std::collections::BTreeMap;

use model::{ClassId, ServerTime};
use policy::settings::{SET_OPTIONS_MAX, SetOption, VALUE_BYTES_MAX};
use policy::{ArchiveCopyGroup, BackupCopyGroup};
use wire::proto;

use super::version::unknown_from;
use crate::error::{ClientError, ErrorKind};
use crate::node::standing::ReceivedSet;

/// Answer of the server to the greeting.
#[derive(Clone, Debug)]
pub struct Hello {
    pub node: String,
    pub server_version: String,
    /// Time of the server's clock.
    pub now: ServerTime,
    /// Classes to which objects may be bound.
    pub classes: BTreeMap<ClassId, Class>,
    pub default_class: ClassId,
    /// Class of directories.
    pub directory_class: ClassId,
    /// Statements of the server, which come after the node's own statements.
    pub option_set: Option<OptionSet>,
    /// Libraries and drives of the server that do not answer now.
    pub outages: Vec<LibraryOutage>,
}

/// A library or a drive of the server that does not answer. Files on its volumes have to wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryOutage {
    pub library: String,
    /// Element address of the drive; `None` if nothing in the library can be used.
    pub drive: Option<u32>,
    pub since: ServerTime,
}

/// Management class, as far as a client needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    pub name: String,
    /// Backup copy group; without this group, objects of the class are not backed up.
    pub backup: Option<BackupCopyGroup>,
    /// Archive copy group; without this group, objects of the class are not archived.
    pub archive: Option<ArchiveCopyGroup>,
}

impl Class {
    /// Parses a class. Returns `None` if the class has words that this version does not know.
    pub(crate) fn parse(message: &proto::ManagementClass) -> Option<(ClassId, Self)> {
        fn word<T: std::str::FromStr>(text: Option<&String>) -> Option<T> {
            text?.parse().ok()
        }
        let days = |days: Option<u32>| u16::try_from(days?).ok();
        let backup = |group: &proto::BackupCopyGroup| {
            Some(BackupCopyGroup {
                versions_existing_max: word(group.versions_existing.as_ref())?,
                versions_deleted_max: word(group.versions_deleted.as_ref())?,
                extra_days: word(group.extra_days.as_ref())?,
                only_days: word(group.only_days.as_ref())?,
                mode: word(group.mode.as_ref())?,
                frequency_days: days(group.frequency_days)?,
                serialization: word(group.serialization.as_ref())?,
            })
        };
        let archive = |group: &proto::ArchiveCopyGroup| {
            Some(ArchiveCopyGroup {
                keep_days: word(group.keep_days.as_ref())?,
                starts: word(group.starts.as_ref())?,
                minimum_days: days(group.minimum_days)?,
            })
        };
        let class = Self {
            name: message.name.clone(),
            backup: match &message.backup {
                Some(group) => Some(backup(group)?),
                None => None,
            },
            archive: match &message.archive {
                Some(group) => Some(archive(group)?),
                None => None,
            },
        };
        Some((ClassId(u16::try_from(message.number).ok()?), class))
    }
}

impl From<proto::LibraryOutage> for LibraryOutage {
    fn from(message: proto::LibraryOutage) -> Self {
        let proto::LibraryOutage { library, drive, since } = message;
        Self { library, drive, since: ServerTime(since) }
    }
}

impl Hello {
    /// Returns the option set of the node without its statements; one without a name if it has
    /// none.
    pub(crate) fn received(&self) -> ReceivedSet {
        self.option_set.as_ref().map(|set| set.received.clone()).unwrap_or_default()
    }

    /// Returns the name of the class `id`; empty for a class that is gone.
    pub fn class_name(&self, id: ClassId) -> &str {
        self.classes.get(&id).map_or("", |class| &class.name)
    }
}

/// Option set of the server: a list of statements with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSet {
    pub name: String,
    pub text: Vec<u8>,
    /// Options of the set, with its version.
    pub received: ReceivedSet,
}

impl OptionSet {
    /// Parses the option set; `None` if the node has none.
    fn parse(message: proto::OptionSet) -> Option<Self> {
        let received = received_set(&message);
        let proto::OptionSet { name, text, .. } = message;
        (!name.is_empty()).then(|| Self { name, text: text.to_vec(), received })
    }
}

/// Maximum length of the name of an option, in bytes.
const OPTION_NAME_BYTES_MAX: usize = 64;

/// The options of a message. A server may send more and longer ones than an option set has; these
/// are left out.
pub(crate) fn received_set(message: &proto::OptionSet) -> ReceivedSet {
    let option = |option: &proto::SetOption| SetOption {
        name: option.name.clone(),
        value: option.value.clone(),
        is_forced: option.forced,
    };
    ReceivedSet {
        name: message.name.clone(),
        version: message.version,
        author: message.author.clone(),
        changed: message.changed,
        options: message
            .options
            .iter()
            .filter(|option| {
                option.name.len() <= OPTION_NAME_BYTES_MAX && option.value.len() <= VALUE_BYTES_MAX
            })
            .take(SET_OPTIONS_MAX)
            .map(option)
            .collect(),
    }
}

/// Answer of the server to the greeting, with the keys for the node.
pub(super) struct Greeting {
    pub(super) hello: Hello,
    pub(super) domain_key: [u8; 32],
    pub(super) digest_key: [u8; 32],
}

impl Greeting {
    pub(super) fn parse(reply: proto::HelloReply) -> Result<Self, ClientError> {
        let short = |_| ClientError::new(ErrorKind::Bug, "the server sent keys of a wrong length");
        let domain_key = <[u8; 32]>::try_from(&reply.domain_key[..]).map_err(short)?;
        let digest_key = <[u8; 32]>::try_from(&reply.digest_key[..]).map_err(short)?;
        let server = reply.server_version.clone();
        let unknown = || unknown_from(&server, "words of its policy");
        let class = |number: u32| u16::try_from(number).map(ClassId).map_err(|_| unknown());
        let classes: Option<_> = reply.classes.iter().map(Class::parse).collect();
        let hello = Hello {
            node: reply.node,
            server_version: reply.server_version,
            now: ServerTime(reply.now),
            classes: classes.ok_or_else(unknown)?,
            default_class: class(reply.default_class)?,
            directory_class: class(reply.directory_class)?,
            option_set: reply.option_set.and_then(OptionSet::parse),
            outages: reply.outages.into_iter().map(LibraryOutage::from).collect(),
        };
        Ok(Self { hello, domain_key, digest_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> proto::HelloReply {
        proto::HelloReply {
            node: "alpha".to_owned(),
            domain_key: vec![1; 32].into(),
            digest_key: vec![2; 32].into(),
            classes: vec![proto::ManagementClass {
                number: 3,
                name: "standard".to_owned(),
                ..Default::default()
            }],
            default_class: 3,
            directory_class: 3,
            ..Default::default()
        }
    }

    #[test]
    fn a_greeting_is_parsed() {
        let greeting = Greeting::parse(reply()).expect("valid");
        assert_eq!((greeting.domain_key, greeting.digest_key), ([1; 32], [2; 32]));
        assert_eq!(greeting.hello.class_name(ClassId(3)), "standard");
        assert_eq!(greeting.hello.class_name(ClassId(4)), "");
        assert_eq!(greeting.hello.option_set, None);
    }

    #[test]
    fn options_that_no_server_should_send_are_left_out() {
        let option = |name: &str, value: &str| proto::SetOption {
            name: name.to_owned(),
            value: value.to_owned(),
            forced: true,
        };
        let mut options = vec![option("wait", "2h"), option(&"n".repeat(65), "1")];
        options.push(option("dirmc", &"v".repeat(VALUE_BYTES_MAX + 1)));
        options.extend((0..SET_OPTIONS_MAX).map(|_| option("wait", "1h")));
        let message = proto::OptionSet { name: "LINUX".to_owned(), options, ..Default::default() };
        let received = received_set(&message);
        assert_eq!(received.options.len(), SET_OPTIONS_MAX);
        assert!(received.options.iter().all(|option| option.name == "wait"));
        let of_old_server = proto::OptionSet { name: "OLD".to_owned(), ..Default::default() };
        assert_eq!(received_set(&of_old_server).version, 0);
    }

    #[test]
    fn a_greeting_that_makes_no_sense_is_refused() {
        type Change = fn(&mut proto::HelloReply);
        let changes: [(Change, ErrorKind); 5] = [
            (|reply| reply.domain_key = vec![1; 31].into(), ErrorKind::Bug),
            (|reply| reply.digest_key = vec![].into(), ErrorKind::Bug),
            (|reply| reply.default_class = 1 << 16, ErrorKind::Usage),
            (|reply| reply.classes[0].number = 1 << 16, ErrorKind::Usage),
            (
                |reply| {
                    let versions_existing = Some("some".to_owned());
                    let group = proto::BackupCopyGroup { versions_existing, ..Default::default() };
                    reply.classes[0].backup = Some(group);
                },
                ErrorKind::Usage,
            ),
        ];
        for (change, kind) in changes {
            let mut reply = reply();
            change(&mut reply);
            assert_eq!(Greeting::parse(reply).err().map(|error| error.kind), Some(kind));
        }
    }
}
