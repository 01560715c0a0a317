//! Options that the server may give to the work of a node. None of them runs a command or names a
//! file whose content decides what is sent, except for the options that run a command around the
//! work. A node may forbid these.

use super::action::{Place, Work};

const BACKUP: [&str; 10] = [
    "--exclude",
    "--cross-filesystems",
    "--confirm-expire",
    "--snapshot",
    "--compression",
    "--resourceutilization",
    "--deduplication",
    "--txnbytelimit",
    "--txngroupmax",
    "--no-journal",
];
const ARCHIVE: [&str; 8] = [
    "--description",
    "--class",
    "--exclude",
    "--compression",
    "--resourceutilization",
    "--deduplication",
    "--txnbytelimit",
    "--txngroupmax",
];
const RESTORE: [&str; 5] = ["--to", "--at", "--inactive", "--replace", "--stubs-from"];
const VERIFY: [&str; 1] = ["--data"];
const DRILL: [&str; 1] = ["--seed"];
const IMAGE: [&str; 8] = [
    "--name",
    "--snapshot",
    "--keep-snapshot",
    "--all-blocks",
    "--format",
    "--skip-errors",
    "--rate",
    "--compression",
];
/// Options of the connection, which all work of nodes takes except commands.
const LINK: [&str; 4] = ["--limit-rate", "--limit-rate-send", "--limit-rate-receive", "--wait"];
/// Option that names the library of volumes.
pub const LIBRARY: &str = "--library";
/// Options that run a command around a backup, an archive or an image.
const AROUND: [&str; 4] = ["--pre-command", "--post-command", "--freeze", "--thaw"];
/// Options without a value. All others have one.
const SWITCHES: [&str; 8] = [
    "--cross-filesystems",
    "--confirm-expire",
    "--no-journal",
    "--inactive",
    "--data",
    "--keep-snapshot",
    "--all-blocks",
    "--skip-errors",
];

/// Returns the name of an option, without its value.
pub fn option_name(option: &str) -> &str {
    option.split_once('=').map_or(option, |(name, _)| name)
}

/// Returns true if the option, without its value, needs a value.
pub fn takes_value(work: Work, name: &str) -> bool {
    (work.takes(name) || work.runs_around(name)) && !SWITCHES.contains(&name)
}

impl Work {
    /// Returns true if the work takes the option of this name, which runs no command around it.
    pub fn takes(self, name: &str) -> bool {
        self.options().any(|option| option == name)
    }

    /// Returns the options of the work, without those that run a command around it.
    fn options(self) -> impl Iterator<Item = &'static str> {
        let is_linked = self.place() == Place::Node && self != Self::Command;
        let link: &[&str] = if is_linked { &LINK } else { &[] };
        self.own_options().iter().chain(link).copied()
    }

    fn own_options(self) -> &'static [&'static str] {
        match self {
            Self::Incremental | Self::Selective | Self::Full => &BACKUP,
            Self::Archive => &ARCHIVE,
            Self::Restore => &RESTORE,
            Self::Verify => &VERIFY,
            Self::Drill => &DRILL,
            Self::Image => &IMAGE,
            Self::Command
            | Self::Expire
            | Self::Reclaim
            | Self::Audit
            | Self::Scrub
            | Self::CopyCatalog
            | Self::Drain
            | Self::CopyPools
            | Self::Repair
            | Self::ReclaimVolumes => &[],
            Self::MoveVolumes | Self::AuditVolumes => &[LIBRARY],
        }
    }

    /// Returns true if the option of this name runs a command around the work.
    pub fn runs_around(self, name: &str) -> bool {
        let is_around = matches!(
            self,
            Self::Incremental | Self::Selective | Self::Full | Self::Archive | Self::Image
        );
        is_around && AROUND.contains(&name)
    }
}

/// Fails with the reason if the work does not take the option.
pub(super) fn check(work: Work, option: &str) -> Result<(), String> {
    let name = option_name(option);
    if !work.takes(name) && !work.runs_around(name) {
        let known = work.options().collect::<Vec<_>>().join(", ");
        return Err(match known.is_empty() {
            true => format!("{} takes no options, and '{option}' is given", work.name()),
            false => format!("{} does not take the option '{option}': give {known}", work.name()),
        });
    }
    match (takes_value(work, name), option.contains('=')) {
        (true, false) => Err(format!("the option {name} needs a value: give {name}=VALUE")),
        (false, true) => Err(format!("the option {name} takes no value")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_node_would_do_is_refused() {
        let refusal = |work, option| check(work, option).expect_err("is refused");
        for option in ["--bogus", "--stdin-command=id", "--home=/tmp", "-v", "x", "--to=/tmp"] {
            assert!(refusal(Work::Incremental, option).contains("does not take the option"));
        }
        let expected = "the option --exclude needs a value: give --exclude=VALUE";
        assert_eq!(refusal(Work::Full, "--exclude"), expected);
        assert_eq!(refusal(Work::Verify, "--data=1"), "the option --data takes no value");
        assert!(refusal(Work::Scrub, "--rate=1").starts_with("scrub takes no options"));
        assert!(refusal(Work::Restore, "--pre-command=id").contains("does not take"));
        for (work, option) in [
            (Work::Restore, "--to=/tmp"),
            (Work::Image, "--freeze=sync"),
            (Work::Selective, "--exclude=*.o"),
            (Work::Incremental, "--no-journal"),
            (Work::Incremental, "--limit-rate=5M"),
            (Work::Restore, "--limit-rate-receive=5M"),
            (Work::Drill, "--wait=10m"),
        ] {
            assert_eq!(check(work, option), Ok(()));
        }
    }
}
