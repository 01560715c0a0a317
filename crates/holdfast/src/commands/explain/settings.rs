//! `holdfast explain --option`: the value of a setting, and the source that decides.

use std::fmt::Write as _;

use client::{SettingReport, Standing};
use model::{printable, spelling};
use policy::local::{MountStanding, Standing as MountDecision};
use policy::settings::{Kind, Rank, SETTINGS, Setting, find};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::report::FileSystemDocument;
use crate::settings::typed;
use crate::table::{self, Align};

const COMMAND: &str = "holdfast explain";
/// Maximum number of options that a message names for the beginning of their names.
const NAMED_MAX: usize = 4;

/// Explains the settings with these names; all of them if there is no name.
pub(super) fn run(names: &[String], context: &mut Context) -> Result<u8, CommandError> {
    let named = names
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| find(name).ok_or_else(|| CommandError::usage(&unknown(name), COMMAND)));
    let named: Vec<&Setting> = named.collect::<Result<_, _>>()?;
    let home = context.home()?;
    let unreached = context.client().err();
    let standing = client::standing(&home, false)?;
    if let Some(error) = unreached {
        let message = "the settings of the server are those that this node received last";
        context.output.note(&format!("{}; {message}", error.message));
    }
    let settings: Vec<&'static Setting> =
        if named.is_empty() { SETTINGS.iter().collect() } else { named };
    let reports: Vec<SettingReport> =
        settings.iter().map(|setting| standing.report(setting)).collect();
    if context.output.is_json() {
        for report in &reports {
            let mounts = mounts(report, &standing);
            context.output.json(&document(report, &standing, &mounts));
        }
    } else if names.iter().all(String::is_empty) {
        context.output.text(&listed(&reports));
    } else {
        for report in &reports {
            context.output.text(&text(report, &standing));
        }
    }
    let notes = standing.unheard().iter().chain(standing.out_of_bounds());
    notes.for_each(|line| context.output.note(line));
    Ok(DONE)
}

/// Returns the question for the options that the unknown name means; `None` if it is like none.
pub(in crate::commands) fn option_question(name: &str) -> Option<String> {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    // Keys of a section of client.toml are the ends of names.
    let end = format!("-{name}");
    let is_part = |known: &&str| known.starts_with(name) || known.ends_with(&end);
    let longer: Vec<&str> = names.iter().copied().filter(is_part).collect();
    let meant = match longer.len() {
        1..=NAMED_MAX => longer,
        _ => spelling::similar(name, &names).into_iter().collect(),
    };
    spelling::question_for(&meant)
}

/// Returns the message for an option that does not exist.
fn unknown(name: &str) -> String {
    let question = option_question(name).map_or_else(String::new, |question| question + " ");
    format!("there is no option '{name}'; {question}'holdfast explain --option' lists all options")
}

/// All settings in a table.
fn listed(reports: &[SettingReport]) -> String {
    let columns = [("Option", Align::Left), ("Value", Align::Left), ("From", Align::Left)];
    let row = |report: &SettingReport| {
        [report.setting.name.to_owned(), report.value.clone(), report.source.clone()]
    };
    let rows: Vec<_> = reports.iter().map(row).collect();
    table::render(columns, &rows)
}

fn text(report: &SettingReport, standing: &Standing) -> String {
    let mut text = format!(
        "{} = {}\n  from {}\n",
        report.setting.name,
        printable(&report.value),
        printable(&report.source)
    );
    for other in &report.others {
        let (source, value) = (printable(&other.source), printable(&other.value));
        let reason = other.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        writeln!(text, "  not from {source}, which says {value}{reason}").expect("a String");
    }
    if let Some(remark) = &report.remark {
        writeln!(text, "  {}", printable(remark)).expect("a String");
    }
    writeln!(text, "  for {}: {}", report.setting.commands, report.setting.meaning)
        .expect("a String");
    for mount in mounts(report, standing) {
        let point = model::escaped(&mount.point);
        match mount.standing {
            MountDecision::Local => writeln!(text, "  takes {point} ({})", mount.kind),
            MountDecision::LeftOut(reason) => {
                writeln!(text, "  leaves out {point} ({}): {reason}", mount.kind)
            }
        }
        .expect("a String");
    }
    text
}

/// The file systems of this machine, if the setting is the paths and asks for all local ones.
fn mounts(report: &SettingReport, standing: &Standing) -> Vec<MountStanding> {
    if report.setting.kind != Kind::Paths {
        return Vec::new();
    }
    let machine = client::machine_paths(standing).ok();
    machine.and_then(|machine| machine.mounts).unwrap_or_default()
}

/// `explain --option --json`, one document per line.
#[derive(Serialize)]
struct SettingDocument<'a> {
    option: &'a str,
    key: &'a str,
    value: serde_json::Value,
    source: &'a str,
    rank: &'static str,
    option_set: Option<&'a str>,
    option_set_version: Option<u64>,
    others: Vec<OtherDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
    commands: &'a str,
    meaning: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    file_systems: Vec<FileSystemDocument<'a>>,
}

#[derive(Serialize)]
struct OtherDocument<'a> {
    source: &'a str,
    value: serde_json::Value,
    reason: Option<&'static str>,
}

fn document<'a>(
    report: &'a SettingReport,
    standing: &'a Standing,
    mounts: &'a [MountStanding],
) -> SettingDocument<'a> {
    let SettingReport { setting, rank, value, source, others, remark } = report;
    let received = standing.received();
    let is_of_set = matches!(rank, Rank::Forced | Rank::IfNotSet);
    SettingDocument {
        option: setting.name,
        key: setting.key,
        value: typed(setting.kind, value),
        source,
        rank: match rank {
            Rank::Schedule => "schedule",
            Rank::Forced => "forced",
            Rank::CommandLine => "command_line",
            Rank::Node => "node",
            Rank::IfNotSet => "if_not_set",
            Rank::Default => "default",
        },
        option_set: is_of_set.then_some(received.name.as_str()),
        option_set_version: is_of_set.then_some(received.version),
        others: others
            .iter()
            .map(|other| OtherDocument {
                source: &other.source,
                value: typed(setting.kind, &other.value),
                reason: other.reason,
            })
            .collect(),
        remark: remark.as_deref(),
        commands: setting.commands,
        meaning: setting.meaning,
        file_systems: mounts.iter().map(FileSystemDocument::new).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_named_with_those_that_are_meant() {
        for (name, meant) in [
            ("compresion", "; did you mean 'compression'? '"),
            ("limit-rate", "; did you mean 'limit-rate-receive' or 'limit-rate-send'? '"),
            ("restores", "; did you mean 'agent-restores'? '"),
            ("verexists", "; 'holdfast explain --option' lists"),
        ] {
            let message = unknown(name);
            assert!(message.contains(meant), "{message}");
        }
    }
}
