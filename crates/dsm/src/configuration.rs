//! Keys of `client.toml` that option files give, and the options of commands with the same effect.
//!
//! A command of TSM reads its option files each time. Options that a command of Holdfast takes are
//! passed to it ([`backup_flags`]). The others are in `client.toml`, where the import and the
//! enrolment write them ([`keys`]).

mod domain;
pub mod settings;

use std::ffi::OsString;

use policy::settings::is_plain_directory;

use crate::options::{Entry, Fault, Options};

pub(crate) use domain::braced;
pub use domain::{Domain, DomainError, domain};

/// Value of a key of `client.toml`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    List(Vec<String>),
}

/// Key of `client.toml`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Name, after the name of its section and a dot if it is in one.
    pub name: &'static str,
    pub value: Value,
    /// Name of the option that gives the value.
    pub option: &'static str,
}

const KIB: u64 = 1 << 10;
/// Bounds of a transaction, in bytes.
const TRANSACTION_BYTES_MIN: u64 = 1 << 20;
const TRANSACTION_BYTES_MAX: u64 = 1 << 30;
const HOUR_MINUTES: u64 = 60;
/// Option that names directories that are filespaces of their own.
const VIRTUAL: &str = "VIRTUALMOUNTPOINT";
/// Maximum number of minutes between two connections of an agent.
const POLL_MINUTES_MAX: u64 = 44_640;

/// Returns the keys that the options give, by name.
pub fn keys(options: &Options) -> Vec<Key> {
    let mut keys: Vec<Key> = [
        data_keys(options),
        cache_keys(options),
        choice_keys(options),
        command_keys(options),
        agent_keys(options),
        virtual_key(options).into_iter().collect(),
    ]
    .concat();
    keys.sort_by_key(|key| key.name);
    keys
}

fn key(name: &'static str, option: &'static str, value: Option<Value>) -> Option<Key> {
    value.map(|value| Key { name, value, option })
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn data_keys(options: &Options) -> Vec<Key> {
    let compression =
        options.yes("COMPRESSION").map(|is_on| if is_on { "standard" } else { "none" });
    let bytes = options.number("TXNBYTELIMIT").map(transaction_bytes);
    [
        key("tuning.compression", "COMPRESSION", compression.map(text)),
        key("tuning.deduplication", "DEDUPLICATION", options.yes("DEDUPLICATION").map(Value::Flag)),
        key("tuning.transaction_bytes", "TXNBYTELIMIT", bytes.map(Value::Number)),
        key(
            "tuning.resource_utilization",
            "RESOURCEUTILIZATION",
            options.number("RESOURCEUTILIZATION").map(Value::Number),
        ),
        key("dirmc", "DIRMC", options.text("DIRMC").map(Value::Text)),
        key("wait", "COMMRESTARTDURATION", options.number("COMMRESTARTDURATION").map(wait)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn transaction_bytes(kib: u64) -> u64 {
    (kib.saturating_mul(KIB)).clamp(TRANSACTION_BYTES_MIN, TRANSACTION_BYTES_MAX)
}

fn wait(minutes: u64) -> Value {
    Value::Text(if minutes == 0 { "0".to_owned() } else { format!("{minutes}m") })
}

fn cache_keys(options: &Options) -> Vec<Key> {
    let size = match options.yes("ENABLEDEDUPCACHE") {
        Some(false) => key("dedup_cache_megabytes", "ENABLEDEDUPCACHE", Some(Value::Number(0))),
        _ => {
            let size = options.number("DEDUPCACHESIZE").map(Value::Number);
            key("dedup_cache_megabytes", "DEDUPCACHESIZE", size)
        }
    };
    let folder = options.text("DEDUPCACHEPATH").map(Value::Text);
    size.into_iter()
        .chain(key("dedup_cache_folder", "DEDUPCACHEPATH", folder))
        .collect()
}

fn choice_keys(options: &Options) -> Vec<Key> {
    let replace = options.text("REPLACE").and_then(|replace| match replace.as_str() {
        "all" | "yes" => Some(text("all")),
        "no" => Some(text("no")),
        _ => None,
    });
    let means = |option: &str| {
        let provider = options.text(option)?;
        Some(text(if provider == "linux_lvm" { "lvm" } else { "off" }))
    };
    let gap = options
        .text("IMAGEGAPSIZE")
        .filter(|gap| gap.trim_start_matches('0').is_empty());
    [
        key("replace", "REPLACE", replace),
        key("snapshot", "SNAPSHOTPROVIDERFS", means("SNAPSHOTPROVIDERFS")),
        key("image_snapshot", "SNAPSHOTPROVIDERIMAGE", means("SNAPSHOTPROVIDERIMAGE")),
        key("all_blocks", "IMAGEGAPSIZE", gap.map(|_| Value::Flag(true))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the key of the directories that are filespaces of their own. A path that cannot be one
/// is a fault of the option files.
fn virtual_key(options: &Options) -> Option<Key> {
    // In a list, a comma that is written so is part of a path.
    let word = |path: Vec<u8>| model::escaped(&path).replace(',', "\\x2c");
    let paths = virtual_points(options).into_iter().filter(|path| is_plain_directory(path));
    let words: Vec<String> = paths.map(word).collect();
    key("virtual_filespaces", VIRTUAL, (!words.is_empty()).then_some(Value::List(words)))
}

/// Returns a fault for each line of VIRTUALMOUNTPOINT whose directory cannot be a filespace.
pub fn virtual_faults(options: &Options) -> Vec<Fault> {
    let fault = |(entry, path): (&Entry, Vec<u8>)| {
        let reason = format!(
            "{VIRTUAL}: {} is no directory below the root; name it from the root, without '.', \
             '..' and double slashes",
            model::escaped(&path)
        );
        (!is_plain_directory(&path)).then(|| Fault { place: entry.place.clone(), reason })
    };
    let entries = options.all(VIRTUAL).into_iter();
    entries.zip(virtual_points(options)).filter_map(fault).collect()
}

/// Returns the directories that VIRTUALMOUNTPOINT names, without slashes at their ends.
pub fn virtual_points(options: &Options) -> Vec<Vec<u8>> {
    options.all(VIRTUAL).into_iter().map(virtual_point).collect()
}

/// Returns the directory that a line of VIRTUALMOUNTPOINT names.
fn virtual_point(entry: &Entry) -> Vec<u8> {
    match entry.value.trim_ascii() {
        [path @ .., b'/'] if !path.is_empty() => path.to_vec(),
        path => path.to_vec(),
    }
}

/// Returns the directory that the line makes a filespace, if it is one of VIRTUALMOUNTPOINT with a
/// directory that can be one.
pub fn made_virtual(entry: &Entry) -> Option<Vec<u8>> {
    let path = (entry.definition.name() == VIRTUAL).then(|| virtual_point(entry))?;
    is_plain_directory(&path).then_some(path)
}

fn command_keys(options: &Options) -> Vec<Key> {
    let command = |name: &str| options.text(name).filter(|command| !command.trim().is_empty());
    let around = |waited: &str, other: &str| {
        scheduled(command(waited).as_deref(), command(other).as_deref()).map(Value::Text)
    };
    [
        key("pre_command", "PRESCHEDULECMD", around("PRESCHEDULECMD", "PRENSCHEDULECMD")),
        key("post_command", "POSTSCHEDULECMD", around("POSTSCHEDULECMD", "POSTNSCHEDULECMD")),
        key("freeze", "PRESNAPSHOTCMD", command("PRESNAPSHOTCMD").map(Value::Text)),
        key("thaw", "POSTSNAPSHOTCMD", command("POSTSNAPSHOTCMD").map(Value::Text)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the shell command that runs both commands, the second in the background, if a schedule
/// has started the backup. A person's backup runs neither, as in TSM. It has one line, as option
/// sets need it; each command is a text of its own, whatever it ends with.
fn scheduled(waited: Option<&str>, in_background: Option<&str>) -> Option<String> {
    let evaluated = |command: &str| format!("eval '{}'", command.replace('\'', r"'\''"));
    let parts = [
        in_background.map(|command| evaluated(command) + " >/dev/null 2>&1 & "),
        waited.map(|command| evaluated(command) + "; "),
    ];
    let commands: String = parts.into_iter().flatten().collect();
    if commands.is_empty() {
        return None;
    }
    Some(format!("test -z \"$HOLDFAST_SCHEDULE\" || {{ {commands}}}"))
}

fn agent_keys(options: &Options) -> Vec<Key> {
    let is_off = |option: &str| options.yes(option).unwrap_or(false);
    let forbidden = |name, option| key(name, option, is_off(option).then_some(Value::Flag(false)));
    let exceptions: Vec<String> =
        options.all("SCHEDCMDEXCEPTION").iter().map(|entry| entry.text()).collect();
    let commands = is_off("SCHEDCMDDISABLED").then(|| match exceptions.is_empty() {
        true => text("none"),
        false => Value::List(exceptions),
    });
    let around = ["SRVPREPOSTSCHEDDISABLED", "SRVPREPOSTSNAPDISABLED"];
    let around = around.into_iter().find(|option| is_off(option));
    let minutes = options.number("QUERYSCHEDPERIOD");
    let minutes = minutes.map(|hours| Value::Number((hours * HOUR_MINUTES).min(POLL_MINUTES_MAX)));
    [
        key("agent.mode", "SCHEDMODE", options.text("SCHEDMODE").map(Value::Text)),
        key("agent.poll_minutes", "QUERYSCHEDPERIOD", minutes),
        key("agent.commands", "SCHEDCMDDISABLED", commands),
        forbidden("agent.restores", "SCHEDRESTRETRDISABLED"),
        around.and_then(|option| key("agent.commands_around", option, Some(Value::Flag(false)))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the options of `holdfast backup` and `holdfast archive` for the options of TSM. The
/// keys that they cannot carry are in [`keys`] only.
pub fn backup_flags(options: &Options) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    for key in keys(options) {
        let flag = match key.name {
            "tuning.compression" => "--compression",
            "tuning.deduplication" => "--deduplication",
            "tuning.transaction_bytes" => "--txnbytelimit",
            "tuning.resource_utilization" => "--resourceutilization",
            "wait" => "--wait",
            _ => continue,
        };
        let value = match key.value {
            Value::Text(text) => text,
            Value::Number(bytes) if flag == "--txnbytelimit" => (bytes / KIB).to_string(),
            Value::Number(number) => number.to_string(),
            Value::Flag(is_on) => if is_on { "yes" } else { "no" }.to_owned(),
            Value::List(words) => words.join(","),
        };
        flags.push(format!("{flag}={value}").into());
    }
    flags
}

/// Returns true if commands take the value of the key from `client.toml` only.
pub fn is_kept_only(name: &str) -> bool {
    let passed = [
        "tuning.compression",
        "tuning.deduplication",
        "tuning.transaction_bytes",
        "tuning.resource_utilization",
        "wait",
        "replace",
        "snapshot",
    ];
    !passed.contains(&name)
}

/// Server and node of a stanza.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Address with its port.
    pub server: Option<String>,
    pub node: Option<String>,
}

/// Port of a TSM server, which is that of a Holdfast server, too.
const PORT: &str = "1500";

/// Returns the server and the node that the options name.
pub fn identity(options: &Options) -> Identity {
    let port = options.text("TCPPORT").unwrap_or_else(|| PORT.to_owned());
    let with_port = |address: String| match address.contains(':') && !address.starts_with('[') {
        // An address of IPv6 needs brackets before its port.
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    };
    Identity {
        server: options.text("TCPSERVERADDRESS").map(with_port),
        node: options.text("NODENAME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{System, parse};

    fn options(text: &str) -> Options {
        let (entries, faults) = parse("dsm.sys", format!("servername one\n{text}").as_bytes());
        assert_eq!(faults, []);
        let system = System::new(entries);
        Options::new(&system, system.stanzas.first(), &[], &[])
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let keys = keys(&options(text));
        let shown: Vec<_> =
            keys.iter().map(|key| format!("{} = {:?}", key.name, key.value)).collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn options_become_keys() {
        check("compression no", &["tuning.compression = Text(\"none\")"]);
        check("compression yes", &["tuning.compression = Text(\"standard\")"]);
        check("deduplication yes", &["tuning.deduplication = Flag(true)"]);
        check("txnbytelimit 10G", &["tuning.transaction_bytes = Number(1073741824)"]);
        check("txnbytelimit 300", &["tuning.transaction_bytes = Number(1048576)"]);
        check("txnbyte 25600", &["tuning.transaction_bytes = Number(26214400)"]);
        check("resource 10", &["tuning.resource_utilization = Number(10)"]);
        check("dedupcachesize 2048", &["dedup_cache_megabytes = Number(2048)"]);
        check("dedupcachesize 9\nenablededupcache no", &["dedup_cache_megabytes = Number(0)"]);
        check("dedupcachepath \"/ssd/a b\"", &["dedup_cache_folder = Text(\"/ssd/a b\")"]);
        check("dirmc DIRS", &["dirmc = Text(\"DIRS\")"]);
        check("commrestartd 60", &["wait = Text(\"60m\")"]);
        check("commrestartd 0", &["wait = Text(\"0\")"]);
        check("snapshotproviderfs LINUX_LVM", &["snapshot = Text(\"lvm\")"]);
        check("imagegapsize 0", &["all_blocks = Flag(true)"]);
        check("imagegapsize 32k", &[]);
        check(
            "virtualmountp /srv/projects/\nvirtualm \"/srv/a, b\\x\"",
            &["virtual_filespaces = List([\"/srv/projects\", \"/srv/a\\\\x2c b\\\\\\\\x\"])"],
        );
        check("memoryefficientbackup yes\nssl yes\ntcpwindowsize 0", &[]);
    }

    #[test]
    fn a_directory_that_cannot_be_a_filespace_is_a_fault() {
        let options = options("virtualm /data/a\nvirtualm home/b\nvirtualm /\nvirtualm /c/../d");
        let faults = virtual_faults(&options);
        let shown: Vec<_> = faults.iter().map(ToString::to_string).collect();
        let [relative, root, dots] = &shown[..] else { panic!("{shown:?}") };
        assert!(relative.contains("VIRTUALMOUNTPOINT: home/b is no directory"), "{relative}");
        assert!(root.contains("VIRTUALMOUNTPOINT: / is no directory"), "{root}");
        assert!(dots.contains("VIRTUALMOUNTPOINT: /c/../d is no directory"), "{dots}");
        let keys = keys(&options);
        assert_eq!(keys[0].value, Value::List(vec!["/data/a".to_owned()]));
    }

    #[test]
    fn rights_of_the_server_become_the_agents() {
        check("schedmode polling", &["agent.mode = Text(\"polling\")"]);
        check("querysch 12", &["agent.poll_minutes = Number(720)"]);
        check("schedcmddisabled yes", &["agent.commands = Text(\"none\")"]);
        check("schedcmddisabled no", &[]);
        check(
            "schedcmddisabled yes\nschedcmdexception \"/sbin/ok\"\nschedcmdexc sync",
            &["agent.commands = List([\"/sbin/ok\", \"sync\"])"],
        );
        check("srvprepostscheddisabled yes", &["agent.commands_around = Flag(false)"]);
        check("schedrestretrdisabled yes", &["agent.restores = Flag(false)"]);
    }

    #[test]
    fn commands_of_schedules_run_in_schedules_only() {
        let shown = |text: &str| keys(&options(text)).first().map(|key| key.value.clone());
        assert_eq!(
            shown("presched \"stop db\""),
            Some(Value::Text("test -z \"$HOLDFAST_SCHEDULE\" || { eval 'stop db'; }".to_owned()))
        );
        assert_eq!(
            shown("presched /a\nprensched /b"),
            Some(Value::Text(
                "test -z \"$HOLDFAST_SCHEDULE\" || { eval '/b' >/dev/null 2>&1 & eval '/a'; }"
                    .to_owned()
            ))
        );
        assert_eq!(shown("presched \"\""), None);
    }

    #[test]
    fn a_backup_gets_options_of_its_own() {
        let text = "compression no\ndeduplication no\ntxnbytelimit 10G\nresource 5\ndirmc D\n\
                    commrestartd 5";
        let flags = backup_flags(&options(text));
        let flags: Vec<_> = flags.iter().map(|flag| flag.to_str().expect("text")).collect();
        assert_eq!(
            flags,
            [
                "--compression=none",
                "--deduplication=no",
                "--resourceutilization=5",
                "--txnbytelimit=1048576",
                "--wait=5m"
            ]
        );
    }

    #[test]
    fn a_stanza_names_its_server() {
        let server = |text: &str| identity(&options(text)).server;
        assert_eq!(server("tcps tsm.example.org").as_deref(), Some("tsm.example.org:1500"));
        assert_eq!(server("tcps 10.0.0.1\ntcpp 1600").as_deref(), Some("10.0.0.1:1600"));
        assert_eq!(server("tcps fe80::1").as_deref(), Some("[fe80::1]:1500"));
        assert_eq!(server(""), None);
        assert_eq!(identity(&options("nodename ANNA")).node.as_deref(), Some("ANNA"));
    }
}
