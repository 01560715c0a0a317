//! Options of TSM as settings of an option set.
//!
//! An option set of Holdfast has settings with names and values of their own. A setting is taken as
//! it is, too, so that what `query cloptset` shows can be defined again.

use super::{KIB, Key, Value, keys, virtual_faults};
use crate::options::{Definition, Entry, Fate, Kind, Options, Place, System, find};

/// The fate of an option of TSM in an option set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Translation {
    Setting {
        name: String,
        value: String,
    },
    /// Nothing needs to be set, for this reason.
    Needless {
        name: String,
        reason: String,
    },
}

/// Translates an option with its value. An error is the reason and the thing to do, without a full
/// stop.
pub fn translate(name: &str, value: &str) -> Result<Translation, String> {
    let own = policy::settings::find(name);
    let as_own = |setting: &policy::settings::Setting| Translation::Setting {
        name: setting.name.to_owned(),
        value: value.to_owned(),
    };
    let Some(option) = find(name) else {
        return own.map(as_own).ok_or_else(|| {
            format!(
                "{} is an option neither of TSM nor of Holdfast; look at the name, as 'holdfast \
                 explain --option NAME' does on a node",
                model::printable(name)
            )
        });
    };
    let usual = match option.kind.usual(value.as_bytes()) {
        Ok(usual) => usual,
        Err(fault) => return own.map(as_own).ok_or_else(|| format!("{}: {fault}", option.name())),
    };
    if let Some(key) = key_of(option, &usual) {
        let name = policy::settings::find(key.name).map_or(key.name, |setting| setting.name);
        return Ok(Translation::Setting { name: name.to_owned(), value: text_of(key) });
    }
    if let Some(fault) = virtual_faults(&options_of(option, &usual)).pop() {
        return Err(fault.reason);
    }
    let shown = format!("{} {}", option.name(), model::printable(value));
    match (option.fate_of(&usual), own) {
        (Fate::Done(_), Some(setting)) if of_option(option).is_none() => Ok(as_own(setting)),
        (Fate::Needless(reason), _) => {
            Ok(Translation::Needless { name: option.name(), reason: reason.to_owned() })
        }
        (fate @ Fate::Refused { .. }, _) => Err(format!("{shown} is refused: {fate}")),
        (Fate::Done(_) | Fate::Partly(_), _) => Err(format!(
            "an option set has no setting for {shown}; give it in dsm.sys or dsm.opt of the nodes"
        )),
    }
}

/// Returns the name of the setting that an option of TSM becomes.
pub fn of_option(option: &'static Definition) -> Option<&'static str> {
    let samples: Vec<Vec<u8>> = match option.kind {
        Kind::YesNo => vec![b"yes".to_vec(), b"no".to_vec()],
        Kind::Word(words) => words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        Kind::Number { min, .. } => vec![min.to_string().into_bytes()],
        Kind::Size { min_kib, .. } => vec![min_kib.to_string().into_bytes()],
        _ => vec![b"x".to_vec(), b"/x".to_vec()],
    };
    let key = samples.iter().find_map(|sample| key_of(option, sample))?;
    policy::settings::find(key.name).map(|setting| setting.name)
}

fn key_of(option: &'static Definition, value: &[u8]) -> Option<Key> {
    keys(&options_of(option, value)).into_iter().next()
}

fn options_of(option: &'static Definition, value: &[u8]) -> Options {
    let place = Place::CommandLine;
    let entry = Entry { place, definition: option, value: value.to_vec() };
    Options::new(&System::default(), None, &[], &[entry])
}

fn text_of(key: Key) -> String {
    match key.value {
        Value::Text(text) => text,
        // Without a unit, the size of a transaction is in kibibytes.
        Value::Number(bytes) if key.name == "tuning.transaction_bytes" => (bytes / KIB).to_string(),
        Value::Number(number) => number.to_string(),
        Value::Flag(is_on) => if is_on { "yes" } else { "no" }.to_owned(),
        Value::List(words) => words.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, expected: &str) {
        let shown = match translate(name, value) {
            Ok(Translation::Setting { name, value }) => format!("{name}={value}"),
            Ok(Translation::Needless { name, reason }) => format!("{name}: {reason}"),
            Err(reason) => format!("! {reason}"),
        };
        let is_start = expected.strip_suffix("...").is_some_and(|start| shown.starts_with(start));
        assert!(is_start || shown == expected, "{name} {value}: {shown}");
    }

    #[test]
    fn values_of_tsm_become_values_of_holdfast() {
        check("COMPRESSION", "YES", "compression=standard");
        check("COMPRESSION", "no", "compression=none");
        check("TXNBYTELIMIT", "25600", "txnbytelimit=25600");
        check("txnb", "10G", "txnbytelimit=1048576");
        check("RESOURCEUTILIZATION", "10", "resourceutilization=10");
        check("COMMRESTARTDURATION", "60", "wait=60m");
        check("DEDUPLICATION", "yes", "deduplication=yes");
        check("REPLACE", "all", "replace=all");
        check("SCHEDMODE", "polling", "agent-mode=polling");
        check("QUERYSCHEDPERIOD", "12", "agent-poll-minutes=720");
        check("SNAPSHOTPROVIDERFS", "linux_lvm", "snapshot=lvm");
        check("VIRTUALMOUNTPOINT", "/srv/projects", "virtual-filespaces=/srv/projects");
    }

    #[test]
    fn commands_of_schedules_are_values_of_option_sets() {
        for (name, value, expected) in [
            ("PRESCHEDULECMD", "/sbin/stop 'a b' # c", r"eval '/sbin/stop '\''a b'\'' # c'; }"),
            ("POSTSCHEDULECMD", "/sbin/start", "eval '/sbin/start'; }"),
            ("PRENSCHEDULECMD", "/sbin/note &", "eval '/sbin/note &' >/dev/null 2>&1 & }"),
        ] {
            let Ok(Translation::Setting { name, value }) = translate(name, value) else {
                panic!("{name} is no setting");
            };
            assert!(value.ends_with(expected), "{value}");
            let setting = policy::settings::find(&name).expect("the name of a setting");
            assert!(setting.kind.parse(&value).is_ok(), "{value}");
        }
    }

    #[test]
    fn settings_of_holdfast_stay_as_they_are() {
        check("COMPRESSION", "auto", "compression=auto");
        check("WAIT", "90s", "wait=90s");
        check("TXNGROUPMAX", "4096", "txngroupmax=4096");
        check("limit-rate-send", "10M", "limit-rate-send=10M");
    }

    #[test]
    fn an_option_without_a_setting_says_why() {
        check("TCPWINDOWSIZE", "0", "TCPWINDOWSIZE: ...");
        check("FOLLOWSYMBOLIC", "yes", "! FOLLOWSYMBOLIC yes is refused: ...");
        check("REPLACE", "prompt", "! an option set has no setting for REPLACE prompt; ...");
        check("SUBDIR", "yes", "! an option set has no setting for SUBDIR yes; ...");
        check("NOSUCHTHING", "1", "! NOSUCHTHING is an option neither of TSM nor of Holdfast; ...");
        check("RESOURCEUTILIZATION", "many", "resourceutilization=many");
    }

    #[test]
    fn an_option_is_removed_under_the_name_of_its_setting() {
        let setting = |name: &str| find(name).and_then(of_option);
        assert_eq!(setting("COMMRESTARTDURATION"), Some("wait"));
        assert_eq!(setting("COMPRESSION"), Some("compression"));
        assert_eq!(setting("TXNBYTELIMIT"), Some("txnbytelimit"));
        assert_eq!(setting("SUBDIR"), None);
    }
}
