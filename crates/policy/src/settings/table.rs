//! The table of all settings.

use super::value::Kind;

/// Power of an option set over a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sway {
    /// The order of precedence decides.
    Open,
    /// A shell command: it counts only if the node lets the server ask for commands before and
    /// after a backup.
    Around,
    /// A right of the server at the node: an option set can only take it away.
    Tightening,
    /// No option set has a value, for this reason.
    Node(&'static str),
}

/// A standing option of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Name in option sets and in `[options]` of `client.toml`.
    pub name: &'static str,
    /// Place in `client.toml`, with the names of sections before it.
    pub key: &'static str,
    pub kind: Kind,
    /// Option of the command line without its dashes, if there is one.
    pub flag: Option<&'static str>,
    /// Commands that it is for.
    pub commands: &'static str,
    pub sway: Sway,
    pub default: &'static str,
    pub meaning: &'static str,
}

/// Finds a setting by its name, by its place in `client.toml`, or by its option of the command
/// line. Case and the difference between `-` and `_` do not count.
pub fn find(name: &str) -> Option<&'static Setting> {
    let plain = |text: &str| text.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
    let wanted = plain(name);
    let by_name = SETTINGS.iter().find(|setting| setting.name == wanted);
    let by_place = || SETTINGS.iter().find(|setting| plain(setting.key) == wanted);
    let by_flag = || SETTINGS.iter().find(|setting| setting.flag == Some(&wanted));
    by_name.or_else(by_place).or_else(by_flag)
}

/// Returns the setting that the option `flag` of `command`, such as `image backup`, overrides.
pub fn of_flag(flag: &str, command: &str) -> Option<&'static Setting> {
    let is_for = |setting: &&Setting| {
        setting.commands == ALL || setting.commands.split(", ").any(|of| of == command)
    };
    SETTINGS.iter().filter(is_for).find(|setting| setting.flag == Some(flag))
}

/// Option of the command line that stands for those of both directions.
pub const BOTH_RATES: &str = "limit-rate";
/// Settings that limit what is sent, and what is received. Their options have the same names.
pub const RATES: [&str; 2] = ["limit-rate-send", "limit-rate-receive"];

/// Returns the settings that the option `flag` of `command` overrides. The option for both
/// directions leaves out those whose own option is given, too.
pub fn all_of_flag(
    flag: &str,
    command: &str,
    is_given: impl Fn(&str) -> bool,
) -> Vec<&'static Setting> {
    if flag != BOTH_RATES {
        return of_flag(flag, command).into_iter().collect();
    }
    RATES.into_iter().filter(|&rate| !is_given(rate)).filter_map(find).collect()
}

const ALL: &str = "all that connect to the server";
const BACKUPS: &str = "backup, archive";
const SENDERS: &str = "backup, archive, image backup";

/// Setting that an option set may have like any other.
const fn open(
    name: &'static str,
    key: &'static str,
    kind: Kind,
    commands: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { name, key, kind, flag: None, commands, sway: Sway::Open, default, meaning }
}

impl Setting {
    /// Has an option of the command line with the same name.
    const fn flagged(self) -> Self {
        Self { flag: Some(self.name), ..self }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn sway(self, sway: Sway) -> Self {
        Self { sway, ..self }
    }

    /// Returns the only value that counts from an option set, for a right of the server.
    pub(super) fn strict_value(&self) -> Option<&'static str> {
        match (self.sway, self.kind) {
            (Sway::Tightening, Kind::Commands) => Some("none"),
            (Sway::Tightening, _) => Some("no"),
            _ => None,
        }
    }
}

/// All settings, by name.
pub const SETTINGS: [Setting; 42] = [
    open(
        "agent-commands",
        "agent.commands",
        Kind::Commands,
        "agent",
        "all",
        "Shell commands that the server may start. An option set can only set `none`.",
    )
    .sway(Sway::Tightening),
    open(
        "agent-commands-around",
        "agent.commands_around",
        Kind::YesNo,
        "agent, backup, archive, image backup",
        "yes",
        "Whether the server may ask for commands before and after a backup. An option set can only \
         set `no`.",
    )
    .sway(Sway::Tightening),
    open(
        "agent-log-days",
        "agent.log_days",
        Kind::Number { min: 0, max: 65_535 },
        "agent",
        "14",
        "Days for which the records and logs of ended events are kept on the node.",
    ),
    open(
        "agent-low-priority",
        "agent.low_priority",
        Kind::YesNo,
        "agent",
        "yes",
        "Whether tasks of the agent give way to other programs.",
    ),
    open(
        "agent-mode",
        "agent.mode",
        Kind::Word(&["prompted", "polling"]),
        "agent",
        "prompted",
        "Way in which the agent hears from the server. A running agent follows a change.",
    ),
    open(
        "agent-poll-minutes",
        "agent.poll_minutes",
        Kind::Number { min: 1, max: 44_640 },
        "agent",
        "240",
        "Minutes between two connections of an agent that polls.",
    ),
    open(
        "agent-restores",
        "agent.restores",
        Kind::YesNo,
        "agent",
        "yes",
        "Whether the server may start restores. An option set can only set `no`.",
    )
    .sway(Sway::Tightening),
    open(
        "all-blocks",
        "all_blocks",
        Kind::YesNo,
        "image backup",
        "no",
        "Whether an image has the blocks that the file system does not use, too.",
    )
    .flagged(),
    open(
        "compression",
        "tuning.compression",
        Kind::Compression,
        SENDERS,
        "standard",
        "Strength of compression: none, a level of zstd, standard, gpu, or auto.",
    )
    .flagged(),
    open(
        "cross-filesystems",
        "cross_filesystems",
        Kind::YesNo,
        BACKUPS,
        "no",
        "Whether a directory stands for other file systems below it, too.",
    )
    .flagged(),
    open(
        "dedup-cache-folder",
        "dedup_cache_folder",
        Kind::Path,
        SENDERS,
        "the node's folder",
        "Folder of the deduplication cache.",
    ),
    open(
        "dedup-cache-megabytes",
        "dedup_cache_megabytes",
        Kind::Megabytes { max: 1 << 20 },
        SENDERS,
        "256",
        "Maximum size of the deduplication cache.",
    ),
    open(
        "deduplication",
        "tuning.deduplication",
        Kind::YesNo,
        BACKUPS,
        "yes",
        "Whether data that the server has is not sent again.",
    )
    .flagged(),
    open(
        "dirmc",
        "dirmc",
        Kind::Text,
        BACKUPS,
        "the class that keeps longest",
        "Management class of directories.",
    ),
    open(
        "encryption-keys",
        "encryption_keys",
        Kind::Path,
        "all that read or send data",
        "`encryption.keys` in the node's folder",
        "File with the node's encryption keys.",
    )
    .sway(Sway::Node("it decides with which keys data is encrypted")),
    open(
        "freeze",
        "freeze",
        Kind::Text,
        "image backup",
        "none",
        "Shell command that runs before a disk is read or its snapshot is made.",
    )
    .flagged()
    .sway(Sway::Around),
    open(
        "image-rate",
        "image_rate",
        Kind::Size { unit: 1, min: 1, max: u64::MAX, most: u64::MAX },
        "image backup",
        "no limit",
        "Maximum number of bytes that are read in a second from each disk.",
    )
    .flag("rate"),
    open(
        "image-snapshot",
        "image_snapshot",
        Kind::Word(&["auto", "off", "lvm", "reflink"]),
        "image backup",
        "auto",
        "Means by which a disk is read as it is at one moment.",
    )
    .flag("snapshot"),
    open(
        "inclexcl",
        "inclexcl",
        Kind::Path,
        "backup, archive, preview, explain",
        "`inclexcl` in the node's folder",
        "File with the node's include and exclude statements. An option set has statements of its \
         own.",
    )
    .flagged()
    .sway(Sway::Node("an option set has statements of its own")),
    open(
        "journal",
        "journal",
        Kind::Word(&["auto", "yes", "no"]),
        "backup",
        "auto",
        "Use of the journal.",
    )
    .flag("no-journal"),
    open(
        "journal-full-walk-days",
        "journal_full_walk_days",
        Kind::Number { min: 0, max: 36_500 },
        "backup",
        "7",
        "Days after which a backup walks everything and compares it with the journal.",
    ),
    open(
        "keep-snapshot",
        "keep_snapshot",
        Kind::YesNo,
        "image backup",
        "no",
        "Whether the snapshot of a thin volume stays, so that the next image reads only changes.",
    )
    .flagged(),
    open(
        "limit-rate-receive",
        "limit_rate_receive",
        Kind::Rate,
        ALL,
        "limits",
        "Maximum number of bytes that a command receives in a second. It comes before `limits`; if \
         an option set forces those, the smaller limit counts.",
    )
    .flagged(),
    open(
        "limit-rate-send",
        "limit_rate_send",
        Kind::Rate,
        ALL,
        "limits",
        "Maximum number of bytes that a command sends in a second. It comes before `limits`; if \
         an option set forces those, the smaller limit counts.",
    )
    .flagged(),
    open(
        "limits",
        "limits",
        Kind::Windows,
        ALL,
        "no limits",
        "Limits on what is sent and received, by time of day.",
    ),
    open("node", "node", Kind::Text, "all", "required", "Name of the node, for people.")
        .sway(Sway::Node("it names the node")),
    open(
        "nvcomp",
        "nvcomp",
        Kind::Path,
        SENDERS,
        "`libnvcomp.so.6`",
        "File of nvCOMP, by which a GPU compresses.",
    )
    .sway(Sway::Node("its file is run as code")),
    open(
        "paths",
        "paths",
        Kind::Paths,
        "backup",
        "all-local",
        "Paths that a backup without paths takes: `all-local`, paths, and `-/PATH` for mount \
         points that all-local leaves out.",
    ),
    open(
        "post-command",
        "post_command",
        Kind::Text,
        BACKUPS,
        "none",
        "Shell command that runs after each backup and archive.",
    )
    .flagged()
    .sway(Sway::Around),
    open(
        "pre-command",
        "pre_command",
        Kind::Text,
        BACKUPS,
        "none",
        "Shell command that runs before each backup and archive.",
    )
    .flagged()
    .sway(Sway::Around),
    open(
        "priority",
        "priority",
        Kind::Word(&["low", "normal"]),
        ALL,
        "normal",
        "Priority for processors and disks. A change to normal holds from the next command on.",
    )
    .flagged(),
    open(
        "replace",
        "replace",
        Kind::Word(&["no", "if-newer", "all"]),
        "restore, retrieve",
        "no",
        "Condition under which an existing object that differs is replaced.",
    )
    .flagged(),
    open(
        "resourceutilization",
        "tuning.resource_utilization",
        Kind::Number { min: 1, max: 100 },
        BACKUPS,
        "chosen during the run",
        "Number of directories, and of files, that are read at the same time.",
    )
    .flagged(),
    open("server", "server", Kind::Text, "all", "required", "Address of the server.")
        .sway(Sway::Node("it decides whom the node trusts")),
    open(
        "skip-errors",
        "skip_errors",
        Kind::YesNo,
        "image backup",
        "no",
        "Whether an image goes on after an error of the disk.",
    )
    .flagged(),
    open(
        "snapshot",
        "snapshot",
        Kind::Word(&["off", "auto", "btrfs", "lvm", "reflink"]),
        "backup",
        "off",
        "Means by which a backup holds files still while it reads them.",
    )
    .flagged(),
    open(
        "socket-buffer-bytes",
        "tuning.socket_buffer_bytes",
        Kind::Size { unit: 1, min: 64 << 10, max: u32::MAX as u64, most: u32::MAX as u64 },
        ALL,
        "chosen by the kernel",
        "Size of the connection's buffers in the kernel, for each direction.",
    ),
    open(
        "thaw",
        "thaw",
        Kind::Text,
        "image backup",
        "none",
        "Shell command that runs after a disk was read or its snapshot was made.",
    )
    .flagged()
    .sway(Sway::Around),
    open(
        "txnbytelimit",
        "tuning.transaction_bytes",
        Kind::Size { unit: 1 << 10, min: 1 << 20, max: 32 << 30, most: 1 << 30 },
        BACKUPS,
        "32M",
        "Number of sent bytes after which a transaction ends.",
    )
    .flagged(),
    open(
        "txngroupmax",
        "tuning.transaction_objects",
        Kind::Number { min: 1, max: 65_536 },
        BACKUPS,
        "65536",
        "Number of objects after which a transaction ends.",
    )
    .flagged(),
    open(
        "virtual-filespaces",
        "virtual_filespaces",
        Kind::Directories,
        "backup, archive, preview, explain",
        "none",
        "Directories that are filespaces of their own. The filespace around a directory leaves out \
         what is in it.",
    ),
    open(
        "wait",
        "wait",
        Kind::Length,
        ALL,
        "1h",
        "Time for which a command waits for a server that is away.",
    )
    .flagged(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_sorted_and_found_by_each_name() {
        let names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
        for setting in &SETTINGS {
            assert_eq!(find(setting.name), Some(setting));
            assert_eq!(find(&setting.name.to_uppercase().replace('-', "_")), Some(setting));
            assert_eq!(find(setting.key).map(|found| found.key), Some(setting.key));
        }
        assert_eq!(find("--no-journal").map(|setting| setting.name), Some("journal"));
        assert_eq!(find("tuning.compression").map(|setting| setting.name), Some("compression"));
        assert_eq!(find("dry-run"), None);
        assert_eq!(find("snapshot").map(|setting| setting.name), Some("snapshot"));
        let name = |flag, command| of_flag(flag, command).map(|setting| setting.name);
        assert_eq!(name("snapshot", "image backup"), Some("image-snapshot"));
        assert_eq!(name("snapshot", "backup"), Some("snapshot"));
        assert_eq!(name("wait", "verify"), Some("wait"));
        assert_eq!(name("rate", "verify"), None);
        let names = |flag: &str, given: &str| {
            let all = all_of_flag(flag, "backup", |option| option == given);
            all.iter().map(|setting| setting.name).collect::<Vec<_>>()
        };
        assert_eq!(names("limit-rate", ""), RATES);
        assert_eq!(names("limit-rate", RATES[1]), [RATES[0]]);
        assert_eq!(names(RATES[1], RATES[1]), [RATES[1]]);
    }

    #[test]
    fn a_default_that_is_a_value_is_valid() {
        for setting in &SETTINGS {
            if matches!(
                setting.kind,
                Kind::YesNo | Kind::Word(_) | Kind::Number { .. } | Kind::Megabytes { .. }
            ) {
                let value = setting.kind.parse(setting.default);
                let is_described = setting.default.contains(' ');
                assert!(is_described || value.is_ok(), "{}", setting.name);
            }
        }
    }
}
