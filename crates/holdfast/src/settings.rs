//! Settings of the node in a command: those that hold before it connects, and options of its
//! command line that an option set overrides.

use client::{Rate, Standing};
use policy::settings::{BOTH_RATES, Kind, RATES, Setting, all_of_flag, find};

use crate::context::Context;
use crate::error::CommandError;
use crate::flag::Flag;
use crate::options::Global;
use crate::{home, output};

/// Returns the settings that the node received last; `None` where no node is enrolled.
pub(crate) fn last_received(global: &Global) -> Option<Standing> {
    let folder = home::folder(global.home.as_ref()).ok()?;
    client::standing(&folder, home::is_scheduled()).ok()
}

/// Says which options of the command line do not count, because an option set forces other values.
pub(crate) fn say_unheeded(context: &Context, flags: &[Flag]) {
    let command = context.command_name();
    let of_settings: Vec<(&Flag, &'static Setting)> = flags
        .iter()
        .flat_map(|flag| {
            let is_given = |name: &str| flags.iter().any(|other| other.name == name);
            let settings = all_of_flag(&flag.name, command, is_given);
            settings.into_iter().map(move |setting| (flag, setting))
        })
        .collect();
    if of_settings.is_empty() {
        return;
    }
    let Some(standing) = last_received(&context.global) else { return };
    let set = standing.received().shown();
    for (flag, setting) in of_settings {
        let forced = match standing.forced(setting.name) {
            Some(value) => format!("{} = {value}", setting.name),
            None => match smaller_limits(flag, setting, &standing, &context.global) {
                Some(limits) => format!("limits = {limits}, and the limit of this time is smaller"),
                None => continue,
            },
        };
        let part = match (flag.name == BOTH_RATES, setting.name == RATES[0]) {
            (false, _) => "",
            (true, true) => " for what is sent",
            (true, false) => " for what is received",
        };
        let set = model::printable(&set);
        context
            .output
            .note(&format!("--{} did not count{part}: {set} forces {forced}", flag.name));
    }
}

/// Returns the limits by time of day that an option set forces, if `flag` limits less than they do
/// at this time.
fn smaller_limits<'a>(
    flag: &Flag,
    setting: &Setting,
    standing: &'a Standing,
    global: &Global,
) -> Option<&'a str> {
    let limits = standing.forced("limits").filter(|_| RATES.contains(&setting.name))?;
    let given: Rate = flag.value.as_ref()?.parse().ok()?;
    let now = client::timed_limits(&home::folder(global.home.as_ref()).ok()?).ok()?;
    let limit = if setting.name == RATES[0] { now.send } else { now.receive };
    limit.filter(|limit| *limit < given).map(|_| limits)
}

/// Returns the value in force of a setting that a command takes as text. `given` is the value of
/// the command line.
pub(crate) fn text<T>(
    standing: &Standing,
    name: &str,
    given: Option<T>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, CommandError> {
    if let Some(given) = standing.heed(name, given) {
        return Ok(Some(given));
    }
    let Some(value) = standing.value(name) else { return Ok(None) };
    let parsed = parse(value);
    let unknown = || CommandError::new(format!("the setting {name} has the odd value '{value}'"));
    parsed.map(Some).ok_or_else(unknown)
}

/// Parses `yes` or `no`.
pub(crate) fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Returns the value of a setting of this kind as JSON: numbers are numbers.
pub(crate) fn typed(kind: Kind, value: &str) -> serde_json::Value {
    let typed: Option<serde_json::Value> = match (kind, value) {
        (Kind::YesNo, "yes") => Some(true.into()),
        (Kind::YesNo, "no") => Some(false.into()),
        (Kind::Number { .. }, _) => value.parse::<u64>().ok().map(Into::into),
        (Kind::Megabytes { .. }, _) => match kind.parse(value) {
            Ok(policy::settings::Value::Number(megabytes)) => Some(megabytes.into()),
            _ => None,
        },
        (Kind::Size { .. } | Kind::Rate, _) => model::parse_bytes(value, 1).ok().map(Into::into),
        // A level of zstd may be negative.
        (Kind::Compression, _) => value.parse::<i64>().ok().map(Into::into),
        _ => None,
    };
    typed.unwrap_or_else(|| value.into())
}

/// Says which file systems and paths a backup without paths takes, and which not, with the reasons.
pub(crate) fn say_machine(machine: &client::MachinePaths, standing: &Standing) {
    use policy::local::{Reason, Standing as MountDecision};
    let Some(mounts) = &machine.mounts else {
        let setting = find("paths").expect("a setting");
        let source = standing.report(setting).source;
        let paths: Vec<String> = machine.paths.iter().map(|path| model::escaped(path)).collect();
        output::say(&format!("backing up {}, by {source}", paths.join(", ")));
        return;
    };
    let mut silent = 0;
    for mount in mounts {
        let point = model::escaped(&mount.point);
        match &mount.standing {
            MountDecision::Local => output::say(&format!("backing up {point} ({})", mount.kind)),
            MountDecision::LeftOut(Reason::Kernel | Reason::Memory) => silent += 1,
            MountDecision::LeftOut(reason) => {
                output::say(&format!("leaving out {point} ({}): {reason}", mount.kind));
            }
        }
    }
    if silent > 0 {
        let count = crate::quantity::counted(silent, "file system");
        output::say(&format!("leaving out {count} of the kernel and in memory"));
    }
    for point in &machine.unknown {
        let point = model::escaped(point);
        output::say(&format!(
            "the setting paths leaves out {point}, where no local disk is mounted"
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_numbers() {
        let check = |name: &str, value: &str, expected: serde_json::Value| {
            let kind = find(name).expect("a setting").kind;
            assert_eq!(typed(kind, value), expected, "{name}");
        };
        check("resourceutilization", "8", 8.into());
        check("resourceutilization", "chosen during the run", "chosen during the run".into());
        check("deduplication", "no", false.into());
        check("compression", "19", 19.into());
        check("compression", "-3", json!(-3));
        check("compression", "auto", "auto".into());
        check("txnbytelimit", "32M", 33_554_432.into());
        check("txnbytelimit", "26214400", 26_214_400.into());
        check("dedup-cache-megabytes", "256", 256.into());
        check("dedup-cache-megabytes", "1G", 1024.into());
        check("limit-rate-send", "10M", 10_485_760.into());
        check("limit-rate-send", "limits", "limits".into());
        check("wait", "2h", "2h".into());
    }
}
