//! Settings of a node as the server knows them: what its option set and its schedules give.
//!
//! The node's own file is at the node. So a document says which value the server gives, and whether
//! the node may say otherwise.

use std::collections::BTreeMap;

use catalog::Node;
use policy::Treatment;
use policy::schedule::{Definition, option_name};
use policy::settings::{SETTINGS, SetOption, Setting, Sway, all_of_flag, find};
use policy::statement::{self, Rule};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Store, option_sets, schedules};

use super::found_node::find_node;
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::fields::Empty;
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// The settings of a node.
#[derive(Serialize, JsonSchema)]
struct SettingsDocument {
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    option_set: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    option_set_version: Option<u64>,
    items: Vec<SettingDocument>,
    /// Statements of the option set about what is backed up and how, as lines of text.
    statements: Vec<String>,
}

/// A setting of a node.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
struct SettingDocument {
    name: &'static str,
    /// Place in the node's own file, `client.toml`.
    key: &'static str,
    /// The value that holds as far as the server knows.
    value: String,
    source: Source,
    /// True if the node's own file, or an option on a command line, may say otherwise.
    node_may_differ: bool,
    /// Values that schedules of the node give to their own commands.
    schedules: Vec<ScheduleValue>,
    commands: &'static str,
    meaning: &'static str,
}

/// How a node sends its data, as far as the server knows.
pub(super) struct SendSettings {
    pub(super) compression: String,
    pub(super) deduplication: String,
    /// True if the option set names files that the node encrypts.
    pub(super) encryption: bool,
}

/// Source of a value, as far as the server knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// The option set, before everything that the node says.
    Forced,
    /// The option set, if the node says nothing.
    OptionSet,
    Default,
}

/// A value that a schedule gives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
struct ScheduleValue {
    schedule: String,
    value: String,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Shows the settings of a node with the sources of their values";
    let path = "/v1/nodes/{node}/settings";
    routes.add(Operation::read("nodes.settings", path, Area::Nodes, summary), settings);
}

fn settings(call: &mut Call<NodePath, Empty, Empty>) -> Answer<SettingsDocument> {
    let rights = (Area::Nodes, Right::Read);
    let node = find_node(&call.desk, &call.caller, &call.path.node, rights)?.node;
    let store = call.desk.store();
    let set = option_sets::of_node(store, &node)?;
    let options = set.as_ref().map(|(_, version)| version.options.clone()).unwrap_or_default();
    let text = set.as_ref().map(|(_, version)| version.text.clone()).unwrap_or_default();
    let mut of_schedules = BTreeMap::new();
    for schedule in schedules::plan_of(store, &node)?.schedules {
        let Ok(definition) = serde_json::from_str::<Definition>(&schedule.body) else { continue };
        collect(&schedule.name, &definition, &mut of_schedules);
    }
    let describe = |setting: &'static Setting| {
        let of_schedules = of_schedules.remove(setting.name).unwrap_or_default();
        describe(setting, &options, of_schedules)
    };
    let items = SETTINGS.iter().map(describe).collect();
    let (option_set, option_set_version) =
        set.map(|(name, version)| (name, version.number)).unzip();
    let statements = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
    Ok(SettingsDocument {
        node: node.name.to_string(),
        option_set,
        option_set_version,
        items,
        statements,
    })
}

/// Returns how a node sends its data, by its option set.
pub(super) fn sending(store: &Store, node: &Node) -> Answer<SendSettings> {
    let set = option_sets::of_node(store, node)?.map(|(_, version)| version);
    let (options, text) = set.map(|set| (set.options, set.text)).unwrap_or_default();
    let value = |name: &str| {
        let setting = find(name).expect("it is in the table of settings");
        describe(setting, &options, Vec::new()).value
    };
    Ok(SendSettings {
        compression: value("compression"),
        deduplication: value("deduplication"),
        encryption: encrypts(&text),
    })
}

/// Returns true if a statement of an option set names files to encrypt. A set was checked when it
/// was defined, so it has no line that cannot be parsed.
fn encrypts(text: &[u8]) -> bool {
    let source = |line| policy::Source::OptionSet { name: String::new(), line };
    let statements = statement::parse_list(text, source).unwrap_or_default();
    statements.iter().any(|statement| {
        let Rule::Treat { treatment, is_on, .. } = &statement.rule else { return false };
        *treatment == Treatment::Encryption && *is_on
    })
}

/// Collects the options of a schedule that override settings, by the names of the settings.
fn collect(
    schedule: &str,
    definition: &Definition,
    values: &mut BTreeMap<&'static str, Vec<ScheduleValue>>,
) {
    let command = policy::schedule::command_of(definition.action.work);
    let options = &definition.action.options;
    let is_given = |name: &str| options.iter().any(|option| flag_of(option) == name);
    for option in options {
        let flag = flag_of(option);
        // A switch such as --no-journal says that something is not done.
        let of_switch = if flag.starts_with("no-") { "no" } else { "yes" };
        let value = option.split_once('=').map_or(of_switch, |(_, value)| value);
        for setting in all_of_flag(flag, command, is_given) {
            let value = ScheduleValue { schedule: schedule.to_owned(), value: value.to_owned() };
            values.entry(setting.name).or_default().push(value);
        }
    }
}

/// Returns the name of an option of an action without its dashes.
fn flag_of(option: &str) -> &str {
    option_name(option).trim_start_matches('-')
}

fn describe(
    setting: &'static Setting,
    options: &[SetOption],
    schedules: Vec<ScheduleValue>,
) -> SettingDocument {
    let given = options.iter().rfind(|option| option.name == setting.name);
    let given = given.filter(|_| !matches!(setting.sway, Sway::Node(_)));
    let (value, source) = match given {
        Some(SetOption { value, is_forced: true, .. }) => (value.as_str(), Source::Forced),
        Some(SetOption { value, .. }) => (value.as_str(), Source::OptionSet),
        None => (setting.default, Source::Default),
    };
    let is_final = source == Source::Forced && setting.sway == Sway::Open;
    SettingDocument {
        name: setting.name,
        key: setting.key,
        value: value.to_owned(),
        source,
        node_may_differ: !is_final,
        schedules,
        commands: setting.commands,
        meaning: setting.meaning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str, is_forced: bool) -> SetOption {
        SetOption { name: name.to_owned(), value: value.to_owned(), is_forced }
    }

    #[test]
    fn a_setting_names_the_source_of_its_value() {
        let options = [option("compression", "9", true), option("agent-mode", "polling", false)];
        let of = |name: &str| describe(find(name).expect("a setting"), &options, Vec::new());
        let shown = |name: &str| {
            let setting = of(name);
            (setting.value, setting.source, setting.node_may_differ)
        };
        assert_eq!(shown("compression"), ("9".to_owned(), Source::Forced, false));
        assert_eq!(shown("agent-mode"), ("polling".to_owned(), Source::OptionSet, true));
        assert_eq!(shown("agent-poll-minutes"), ("240".to_owned(), Source::Default, true));
    }

    #[test]
    fn statements_name_what_is_encrypted() {
        assert!(encrypts(b"exclude /tmp/.../*\n  INCLUDE.ENCRYPT /srv/.../*\n"));
        assert!(!encrypts(b"exclude.encrypt /srv/.../*\ninclude /srv/.../*\n"));
    }

    #[test]
    fn options_of_schedules_stand_beside_their_settings() {
        let text = r#"{"action":{"work":"incremental","options":["--compression=none",
                "--no-journal","--limit-rate=10M","--limit-rate-receive=20M"]},
            "timing":{"starts":{"calendar":{"times":"22:00"}},"window_minutes":60,
                "spread_percent":25},
            "zone":"UTC","priority":5,"retries":2,"retry_pause_minutes":20}"#;
        let definition: Definition = serde_json::from_str(text).expect("a definition");
        let mut values = BTreeMap::new();
        collect("nightly", &definition, &mut values);
        let expected = |value: &str| {
            vec![ScheduleValue { schedule: "nightly".to_owned(), value: value.to_owned() }]
        };
        let expected = [
            ("compression", expected("none")),
            ("journal", expected("no")),
            // The option of one direction comes before that of both.
            ("limit-rate-receive", expected("20M")),
            ("limit-rate-send", expected("10M")),
        ];
        assert_eq!(values, BTreeMap::from(expected));
    }
}
