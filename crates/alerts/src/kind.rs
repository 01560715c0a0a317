//! The kinds of alerts, and their words.

use crate::words;

/// A kind of alert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A quantum or another part of a pack is damaged.
    DamagedData,
    PoolAway,
    PoolFull,
    /// The server removes nothing that its catalogue does not name: it was recovered, or its
    /// catalogue lacks what a copy of it knows.
    ServerHeld,
    /// A backup found far more objects deleted than the node's backups before.
    MassDeletion,
    /// A domain is near a limit on what it may have, or at it.
    DomainFull,
    NoBackup,
    /// A filespace is backed up no longer, though others of its node are.
    OldFilespace,
    EventFailed,
    EventMissed,
    DrillFailed,
    DrillOld,
    /// The certificate of a node ends.
    NodeCertificate,
    /// A certificate of the server ends.
    ServerCertificate,
    PoolFills,
    DiskErrors,
    TapeErrors,
    CopyOld,
    TaskFailed,
}

/// Condition that ends an alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The rule finds it no longer.
    Gone,
    /// A later event of the schedule at the node was completed, or there is no such schedule or
    /// node any more.
    Good,
    /// So many days have passed, or a person has acknowledged the alert.
    Days(i64),
}

impl Kind {
    /// All kinds, the most urgent first.
    pub const ALL: [Self; 19] = [
        Self::DamagedData,
        Self::PoolAway,
        Self::PoolFull,
        Self::ServerHeld,
        Self::MassDeletion,
        Self::DomainFull,
        Self::NoBackup,
        Self::OldFilespace,
        Self::EventFailed,
        Self::EventMissed,
        Self::DrillFailed,
        Self::DrillOld,
        Self::NodeCertificate,
        Self::ServerCertificate,
        Self::PoolFills,
        Self::DiskErrors,
        Self::TapeErrors,
        Self::CopyOld,
        Self::TaskFailed,
    ];

    /// The name of the kind, as programs see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::DamagedData => "damaged-data",
            Self::PoolAway => "pool-away",
            Self::PoolFull => "pool-full",
            Self::ServerHeld => "server-held",
            Self::MassDeletion => "mass-deletion",
            Self::DomainFull => "domain-full",
            Self::NoBackup => "no-backup",
            Self::OldFilespace => "old-filespace",
            Self::EventFailed => "event-failed",
            Self::EventMissed => "event-missed",
            Self::DrillFailed => "drill-failed",
            Self::DrillOld => "drill-old",
            Self::NodeCertificate => "node-certificate",
            Self::ServerCertificate => "server-certificate",
            Self::PoolFills => "pool-fills",
            Self::DiskErrors => "disk-errors",
            Self::TapeErrors => "tape-errors",
            Self::CopyOld => "copy-old",
            Self::TaskFailed => "task-failed",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns true if neither quiet hours nor the wait for more alerts hold up the notice.
    pub fn is_urgent(self) -> bool {
        matches!(
            self,
            Self::DamagedData
                | Self::PoolAway
                | Self::PoolFull
                | Self::ServerHeld
                | Self::MassDeletion
        )
    }

    pub(crate) fn ending(self) -> Ending {
        match self {
            Self::EventFailed | Self::EventMissed => Ending::Good,
            Self::MassDeletion => Ending::Days(7),
            _ => Ending::Gone,
        }
    }

    /// Returns the words for `count` alerts of the kind, as in "2 nodes have no good backup".
    pub(crate) fn heading(self, count: usize) -> String {
        let (one, many) = self.words();
        match count {
            1 => one.to_owned(),
            _ => format!("{} {many}", words::count(count as u64)),
        }
    }

    /// The words for one alert, and those for several, without their number.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::DamagedData => ("damaged data was found", "findings of damaged data"),
            Self::PoolAway => ("a pool is not available", "pools are not available"),
            Self::PoolFull => ("a pool is nearly full", "pools are nearly full"),
            Self::ServerHeld => ("the server is held", "servers are held"),
            Self::MassDeletion => {
                ("a backup found far more deleted than usual", "backups found far more deleted")
            }
            Self::DomainFull => ("a domain is near a limit", "domains are near a limit"),
            Self::NoBackup => ("a node has no good backup", "nodes have no good backup"),
            Self::OldFilespace => {
                ("a filespace is backed up no longer", "filespaces are backed up no longer")
            }
            Self::EventFailed => ("an event failed", "events failed"),
            Self::EventMissed => ("an event was missed", "events were missed"),
            Self::DrillFailed => ("a restore drill failed", "restore drills failed"),
            Self::DrillOld => ("a restore drill is due", "restore drills are due"),
            Self::NodeCertificate => {
                ("the certificate of a node ends soon", "certificates of nodes end soon")
            }
            Self::ServerCertificate => {
                ("a certificate of the server ends soon", "certificates of the server end soon")
            }
            Self::PoolFills => ("a pool will be full soon", "pools will be full soon"),
            Self::DiskErrors => ("the disk of a pool has errors", "disks of pools have errors"),
            Self::TapeErrors => ("a volume has errors", "volumes have errors"),
            Self::CopyOld => {
                ("the copy of the catalogue is old", "copies of the catalogue are old")
            }
            Self::TaskFailed => ("a task of the server failed", "tasks of the server failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_differ() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_name(kind.name()), Some(kind));
            let others = Kind::ALL.iter().filter(|other| other.words() == kind.words());
            assert_eq!(others.count(), 1);
        }
        assert_eq!(Kind::of_name("rain"), None);
    }

    #[test]
    fn a_heading_has_its_number() {
        assert_eq!(Kind::NoBackup.heading(1), "a node has no good backup");
        assert_eq!(Kind::NoBackup.heading(1_000), "1,000 nodes have no good backup");
    }
}
