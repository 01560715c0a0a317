//! The service manager that has started the keeper, usually systemd. The environment variables that
//! it sets show that it exists. `sd_notify` also takes
//! over the descriptors that systemd keeps, by their names.

use std::io;
use std::os::fd::AsFd as _;

use ::hsm::Supervisor;
use sd_notify::NotifyState;
use sys::fanotify::{Group, QuestionKinds};

use super::run::ready_line;
use crate::output;

/// Names by which the service manager knows a group of questions, one for each kind of questions.
const NAMES: [(QuestionKinds, &str); 2] = [
    (QuestionKinds::Ranges, "questions-of-ranges"),
    (QuestionKinds::Opening, "questions-of-opening"),
];

/// systemd, as the supervisor of the keeper.
pub(super) struct Systemd(());

impl Systemd {
    /// Returns `None` if no service manager listens.
    pub(super) fn of_environment() -> Option<Self> {
        std::env::var_os("NOTIFY_SOCKET").map(|_| Self(()))
    }
}

fn name_of(asks: QuestionKinds) -> &'static str {
    let known = NAMES.iter().find(|(known, _)| *known == asks);
    known.map(|(_, name)| *name).expect("every kind of questions has a name")
}

fn asks_of(name: &str) -> Option<QuestionKinds> {
    NAMES.iter().find(|(_, known)| *known == name).map(|(asks, _)| *asks)
}

fn warn_unless(told: io::Result<()>) {
    if let Err(error) = told {
        output::say(&format!("cannot notify the service manager: {error}"));
    }
}

impl Supervisor for Systemd {
    fn held_group(&self) -> io::Result<Option<Group>> {
        let held = sd_notify::listen_fds_with_names()?
            .find_map(|(number, name)| Some((number, asks_of(&name)?)));
        held.map(|(number, asks)| Ok(Group::inherited(sys::process::inherited(number)?, asks)))
            .transpose()
    }

    fn hold(&self, group: &Group) {
        let store = [NotifyState::FdStore, NotifyState::FdName(name_of(group.asks()))];
        warn_unless(sd_notify::notify_with_fds(&store, &[group.as_fd()]));
    }

    fn ready(&self, watched: &[Vec<u8>]) {
        let status = ready_line(watched);
        warn_unless(sd_notify::notify(&[NotifyState::Status(&status)]));
        warn_unless(sd_notify::notify(&[NotifyState::Ready]));
    }

    fn forget(&self) {
        for (_, name) in NAMES {
            let remove = [NotifyState::FdStoreRemove, NotifyState::FdName(name)];
            warn_unless(sd_notify::notify(&remove));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_known_by_its_name_again() {
        for asks in [QuestionKinds::Ranges, QuestionKinds::Opening] {
            assert_eq!(asks_of(name_of(asks)), Some(asks));
        }
        assert_eq!(asks_of("stored"), None);
    }
}
