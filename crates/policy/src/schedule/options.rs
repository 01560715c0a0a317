//! Options that the server may give to the work of a node. None of them runs a command or names a
//! file whose content decides what is sent, except for the options that run a command around the
//! work. A node may forbid these.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::spelling;

use super::action::{Place, Work};
use crate::moment;
use crate::pattern::Pattern;
use crate::settings::{self, Kind};

const BACKUP: [&str; 10] = [
    "--exclude",
    "--cross-filesystems",
    "--confirm",
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
/// Options that run a command around a backup or an archive.
const AROUND: [&str; 2] = ["--pre-command", "--post-command"];
/// Options that run a command around the reading of a disk.
const AROUND_IMAGE: [&str; 2] = ["--freeze", "--thaw"];
/// Options without a value. All others have one.
const SWITCHES: [&str; 8] = [
    "--cross-filesystems",
    "--confirm",
    "--no-journal",
    "--inactive",
    "--data",
    "--keep-snapshot",
    "--all-blocks",
    "--skip-errors",
];

/// Returns the name of an option, without its value. A former name, which older schedules have,
/// counts as the name of today.
pub fn option_name(option: &str) -> &str {
    match option.split_once('=').map_or(option, |(name, _)| name) {
        "--confirm-expire" => "--confirm",
        name => name,
    }
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
            | Self::Repair => &[],
            Self::ReclaimVolumes | Self::MoveVolumes | Self::AuditVolumes => &[LIBRARY],
        }
    }

    /// Returns true if the option of this name runs a command around the work.
    pub fn runs_around(self, name: &str) -> bool {
        match self {
            Self::Incremental | Self::Selective | Self::Full | Self::Archive => {
                AROUND.contains(&name)
            }
            Self::Image => AROUND_IMAGE.contains(&name),
            _ => false,
        }
    }
}

/// Options that a restore of stubs does not take.
const NOT_OF_STUBS: [&str; 4] = ["--to", "--at", "--inactive", "--replace"];

/// Fails with the reason if the program at a node would refuse these options of an action with
/// `object_count` objects.
pub(super) fn check_all(work: Work, options: &[String], object_count: usize) -> Result<(), String> {
    options.iter().try_for_each(|option| check(work, option))?;
    let names: Vec<&str> = options.iter().map(|option| option_name(option)).collect();
    let has = |name: &str| names.contains(&name);
    for (index, name) in names.iter().enumerate() {
        if *name != "--exclude" && names[..index].contains(name) {
            return Err(format!("the option {name} is given more than once"));
        }
    }
    let other = NOT_OF_STUBS.into_iter().find(|name| has("--stubs-from") && has(name));
    if let Some(name) = other {
        return Err(format!("the options --stubs-from and {name} exclude each other"));
    }
    let is_without =
        |option: &String| ["--snapshot=off", "--snapshot=reflink"].contains(&&**option);
    if has("--keep-snapshot") && options.iter().any(is_without) {
        return Err("the option --keep-snapshot needs a snapshot of LVM".to_owned());
    }
    let of_one = ["--name", "--freeze", "--thaw"];
    let of_one = of_one.into_iter().find(|name| has(name) && object_count > 1);
    of_one.map_or(Ok(()), |name| Err(format!("the option {name} is for one disk")))
}

/// Fails with the reason if the work does not take the option.
fn check(work: Work, option: &str) -> Result<(), String> {
    let name = option_name(option);
    if !work.takes(name) && !work.runs_around(name) {
        let known: Vec<&str> = work.options().collect();
        if known.is_empty() {
            return Err(format!("{} takes no options, and '{option}' is given", work.name()));
        }
        let refused = format!("{} does not take the option '{option}'", work.name());
        let known_ones = format!("give {}", known.join(", "));
        return Err(match spelling::question(name, &known) {
            Some(question) => format!("{refused}: {question} {known_ones}"),
            None => format!("{refused}: {known_ones}"),
        });
    }
    match (takes_value(work, name), option.split_once('=')) {
        (true, None) => Err(format!("the option {name} needs a value: give {name}=VALUE")),
        (false, Some(_)) => Err(format!("the option {name} takes no value")),
        (true, Some((_, value))) => check_value(work, name, value),
        (false, None) => Ok(()),
    }
}

/// Fails with the reason if the program at a node would refuse the value of the option.
fn check_value(work: Work, name: &str, value: &str) -> Result<(), String> {
    let refused = |error: String| format!("the option {name}={value}: {error}");
    match name {
        "--exclude" => {
            Pattern::parse(value.as_bytes()).map_err(|error| refused(error.to_string()))?;
        }
        "--at" => {
            // The clock of each node decides which moment it is. All nodes take the same forms.
            let now = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
            moment::parse(value, &now).map_err(|error| refused(error.to_string()))?;
        }
        "--class" if !crate::is_name(value) => {
            return Err(refused("the value must be the name of a management class".to_owned()));
        }
        _ => {}
    }
    if let Some(kind) = kind_of(work, name) {
        kind.parse(value).map_err(|error| refused(error.to_string()))?;
        // The command line knows these words in lower case only.
        if name == "--replace" && value.contains(|letter: char| letter.is_ascii_uppercase()) {
            return Err(refused(format!("the value must be {}", kind.expected())));
        }
    }
    Ok(())
}

/// Returns the kind of the values of an option; `None` if only the node knows which it takes.
fn kind_of(work: Work, name: &str) -> Option<Kind> {
    match name {
        // A node would look for another path from the folder in which its agent happens to be.
        "--to" => Some(Kind::Path),
        "--seed" => Some(Kind::Number { min: 0, max: u64::MAX }),
        "--stubs-from" => Some(Kind::Size { unit: 1, min: 0, max: u64::MAX, most: u64::MAX }),
        // It limits both directions.
        "--limit-rate" => Some(Kind::Rate),
        // The command line takes no `true` and `false`, as a file of settings does.
        "--deduplication" => Some(Kind::Word(&["yes", "no"])),
        // A shell takes any text.
        _ if work.runs_around(name) => None,
        _ => {
            let setting = settings::of_flag(name.trim_start_matches('-'), command_of(work))?;
            Some(setting.kind)
        }
    }
}

/// Returns the command of a node that does the work; empty for work that none does.
pub fn command_of(work: Work) -> &'static str {
    match work {
        Work::Incremental | Work::Selective | Work::Full => "backup",
        Work::Archive => "archive",
        Work::Restore => "restore",
        Work::Verify | Work::Drill => "verify",
        Work::Image => "image backup",
        _ => "",
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
        let meant = "option '--exlude=*.o': did you mean '--exclude'? give --exclude, ";
        assert!(refusal(Work::Incremental, "--exlude=*.o").contains(meant));
        let expected = "the option --exclude needs a value: give --exclude=VALUE";
        assert_eq!(refusal(Work::Full, "--exclude"), expected);
        assert_eq!(refusal(Work::Verify, "--data=1"), "the option --data takes no value");
        assert!(refusal(Work::Archive, "--confirm-expire").contains("does not take the option"));
        assert!(refusal(Work::Scrub, "--rate=1").starts_with("scrub takes no options"));
        for (work, option) in [
            (Work::Restore, "--pre-command=id"),
            (Work::Image, "--pre-command=id"),
            (Work::Incremental, "--freeze=id"),
            (Work::Archive, "--thaw=id"),
        ] {
            assert!(refusal(work, option).contains("does not take the option"), "{option}");
        }
        for (work, option) in [
            (Work::Restore, "--to=/tmp"),
            (Work::Image, "--freeze=sync"),
            (Work::Selective, "--exclude=*.o"),
            (Work::Incremental, "--no-journal"),
            (Work::Incremental, "--confirm"),
            (Work::Full, "--confirm-expire"),
            (Work::Incremental, "--limit-rate=5M"),
            (Work::Restore, "--limit-rate-receive=5M"),
            (Work::Drill, "--wait=10m"),
        ] {
            assert_eq!(check(work, option), Ok(()));
        }
    }

    /// Each option was right, and all nodes refused them together.
    #[test]
    fn options_that_exclude_each_other_are_refused() {
        let check_all = |work, options: &[&str], object_count| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            check_all(work, &options, object_count)
        };
        for (work, options, reason) in [
            (Work::Restore, ["--to=/a", "--to=/b"], "--to is given more than once"),
            (Work::Restore, ["--inactive", "--inactive"], "--inactive is given more than once"),
            (Work::Full, ["--confirm", "--confirm-expire"], "--confirm is given more than once"),
            (Work::Restore, ["--to=/a", "--stubs-from=1M"], "exclude each other"),
            (Work::Image, ["--thaw=true", "--skip-errors"], "--thaw is for one disk"),
            (Work::Image, ["--keep-snapshot", "--snapshot=off"], "needs a snapshot of LVM"),
            (Work::Image, ["--name=a", "--skip-errors"], "--name is for one disk"),
            (Work::Image, ["--freeze=a", "--thaw=b"], "--freeze is for one disk"),
        ] {
            let refusal = check_all(work, &options, 2).expect_err("is refused");
            assert!(refusal.contains(reason), "{refusal}");
        }
        for (work, options) in [
            (Work::Full, ["--exclude=*.o", "--exclude=*.a"]),
            (Work::Image, ["--thaw=a", "--freeze=b"]),
            (Work::Image, ["--thaw=a", "--skip-errors"]),
            (Work::Image, ["--name=a", "--skip-errors"]),
            (Work::Restore, ["--to=/a", "--at=2w"]),
        ] {
            assert_eq!(check_all(work, &options, 1), Ok(()), "{options:?}");
        }
        assert!(check_all(Work::Full, &["--bogus"], 1).is_err());
    }

    /// All nodes of a schedule failed in the night because of one typing error.
    #[test]
    fn a_value_that_no_node_would_take_is_refused() {
        for (work, option, reason) in [
            (Work::Restore, "--replace=yes", "no, if-newer, all"),
            (Work::Restore, "--replace=ALL", "no, if-newer, all"),
            (Work::Full, "--deduplication=true", "yes, no"),
            (Work::Incremental, "--compression=999", "a level from -7 to 19"),
            (Work::Incremental, "--snapshot=zfs", "off, auto, btrfs, lvm, reflink"),
            (Work::Image, "--snapshot=btrfs", "auto, off, lvm, reflink"),
            (Work::Image, "--rate=fast", "a size"),
            (Work::Archive, "--resourceutilization=0", "a number from 1 to 100"),
            (Work::Full, "--txnbytelimit=1", "a size from"),
            (Work::Full, "--exclude=home/x", "must start with '/'"),
            (Work::Restore, "--to=tmp", "a path from the root"),
            (Work::Drill, "--seed=x", "a number from 0"),
            (Work::Verify, "--limit-rate=1K", "128K"),
            (Work::Verify, "--limit-rate-receive=much", "128K"),
            (Work::Drill, "--wait=long", "a length of time"),
            (Work::Restore, "--at=nonsense", "a time must be"),
            (Work::Restore, "--at=2026-02-30", "a time must be"),
            (Work::Restore, "--at=yesterday 25:00", "a time must be"),
            (Work::Restore, "--at=", "a time must be"),
            (Work::Restore, "--stubs-from=large", "a size"),
            (Work::Archive, "--class=", "the name of a management class"),
            (Work::Archive, "--class=a/b", "the name of a management class"),
        ] {
            let refusal = check(work, option).expect_err("is refused");
            assert!(refusal.starts_with(&format!("the option {option}: ")), "{refusal}");
            assert!(refusal.contains(reason), "{refusal}");
        }
        for (work, option) in [
            (Work::Restore, "--replace=if-newer"),
            (Work::Restore, "--at=yesterday 18:00"),
            (Work::Restore, "--at=2w"),
            (Work::Restore, "--at=2026-11-20T18:00:00+01:00"),
            (Work::Restore, "--stubs-from=1M"),
            (Work::Archive, "--class=TEN_YEARS"),
            (Work::Full, "--txnbytelimit=10G"),
            (Work::Full, "--deduplication=no"),
            (Work::Archive, "--description="),
            (Work::Image, "--compression=-7"),
            (Work::Incremental, "--pre-command="),
            (Work::Drill, "--wait=0"),
        ] {
            assert_eq!(check(work, option), Ok(()), "{option}");
        }
    }
}
