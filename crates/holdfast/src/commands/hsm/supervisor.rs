//! The supervisor that has started the keeper, systemd as a rule: it is told when all is ready, and
//! holds the kernel's group of questions too. While somebody holds that, who asks waits; so where
//! keeper and worker are killed at once nobody reads zeros, and the next keeper goes on with it.
//!
//! Source of the words: `sd_notify(3)`, `sd_listen_fds(3)`.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sys::fanotify::{Asks, Group};

use crate::output;

/// What the supervisor knows a group by, as it asks.
const NAMES: [(Asks, &str); 2] =
    [(Asks::Ranges, "questions-of-ranges"), (Asks::Opening, "questions-of-opening")];
/// The first descriptor that a supervisor hands over.
const FIRST: RawFd = 3;

/// The supervisor, if there is one.
pub(super) struct Supervisor {
    socket: Option<UnixDatagram>,
}

impl Supervisor {
    /// The one that the environment names.
    pub(super) fn of_environment() -> Self {
        let connect = |name: OsString| {
            let address = match name.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                _ => SocketAddr::from_pathname(&name)?,
            };
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            Ok::<_, io::Error>(socket)
        };
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match connect(name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                output::say(&format!("the service manager cannot be told anything: {error}"));
                None
            }
        });
        Self { socket }
    }

    pub(super) fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// The group that it has held for a keeper that is gone.
    pub(super) fn held() -> io::Result<Option<(OwnedFd, Asks)>> {
        let held = held_number(std::process::id(), |name| std::env::var(name).ok());
        let take = |(number, asks)| Ok((sys::process::inherited(number)?, asks));
        held.map(take).transpose()
    }

    /// All that is mounted is watched. It holds the group from now on.
    pub(super) fn ready(&self, group: &Group) {
        let name = NAMES.iter().find(|(asks, _)| *asks == group.asks());
        if let Some((_, name)) = name {
            self.tell(&format!("FDSTORE=1\nFDNAME={name}"), Some(group));
        }
        self.tell("READY=1", None::<&OwnedFd>);
    }

    /// It need not hold the group any more.
    pub(super) fn forget(&self) {
        for (_, name) in NAMES {
            self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None::<&OwnedFd>);
        }
    }

    fn tell(&self, text: &str, descriptor: Option<&impl AsFd>) {
        let Some(socket) = &self.socket else { return };
        let descriptor = descriptor.map(AsFd::as_fd);
        if let Err(error) = sys::net::send_packet(socket, text.as_bytes(), descriptor, true) {
            output::say(&format!("the service manager was not told {text:?}: {error}"));
        }
    }
}

/// The number under which the group was handed to the process `pid`, whose environment this is, and
/// what it asks.
fn held_number(pid: u32, variable: impl Fn(&str) -> Option<String>) -> Option<(RawFd, Asks)> {
    if variable("LISTEN_PID")?.parse() != Ok(pid) {
        return None;
    }
    let count: RawFd = variable("LISTEN_FDS")?.parse().ok()?;
    let names = variable("LISTEN_FDNAMES")?;
    let asks_of =
        |name: &str| NAMES.iter().find(|(_, known)| *known == name).map(|(asks, _)| *asks);
    let (at, asks) =
        names.split(':').enumerate().find_map(|(at, name)| Some((at, asks_of(name)?)))?;
    let at = RawFd::try_from(at).ok().filter(|at| *at < count)?;
    Some((FIRST.checked_add(at)?, asks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_found_by_its_name() {
        let find = |pid: &str, count: &str, names: &str| {
            let variables = [("LISTEN_PID", pid), ("LISTEN_FDS", count), ("LISTEN_FDNAMES", names)];
            held_number(7, |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(find("7", "1", "questions-of-ranges"), Some((3, Asks::Ranges)));
        assert_eq!(find("7", "2", "http:questions-of-opening"), Some((4, Asks::Opening)));
        assert_eq!(find("8", "1", "questions-of-ranges"), None);
        assert_eq!(find("7", "1", "http:questions-of-ranges"), None);
        assert_eq!(find("7", "1", "stored"), None);
        assert_eq!(find("7", "many", "questions-of-ranges"), None);
        assert_eq!(held_number(7, |_| None), None);
    }
}
