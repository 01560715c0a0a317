//! Settings in force: the node's file and the option set of the server, put together.
//!
//! ```text
//!   client.toml --> table --+--> settings of the option set that win are put into the table
//!   option-set.json --------+        --> ClientConfig, with which everything works
//! ```
//!
//! The node keeps the option set that it received last, so that its settings hold while the server
//! is away. A value that this program does not understand is left out: an option set never makes a
//! node unable to work.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use model::spelling;
use policy::settings::{Kind, Offers, Rank, SETTINGS, SetOption, Setting, Sway, Value, find};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::error::{ClientError, ErrorKind};

/// File with the option set that the node received last.
const RECEIVED_FILE: &str = "option-set.json";
/// Section of `client.toml` that takes every setting by its name.
const SECTION: &str = "options";

/// Option set as the node received it, without its statements.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReceivedSet {
    /// Name; empty if the node has no option set.
    pub name: String,
    /// Number of the version; 0 from a server without versions.
    pub version: u64,
    /// Administrator who made the version.
    pub author: String,
    /// Time at which the version was made, in microseconds since 1970; 0 if it is unknown.
    pub changed: i64,
    pub options: Vec<SetOption>,
}

impl ReceivedSet {
    /// Reads the option set from the node's folder. A node that never received one has none.
    pub(crate) fn load(folder: &Path) -> Self {
        let text = std::fs::read(folder.join(RECEIVED_FILE)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Keeps the option set in the node's folder.
    pub(crate) fn keep(&self, folder: &Path) -> io::Result<()> {
        if *self == Self::load(folder) {
            return Ok(());
        }
        let text = serde_json::to_vec(self).expect("an option set can be written as JSON");
        sys::durable::write(&folder.join(RECEIVED_FILE), &text, 0o600).inspect_err(
            |error| tracing::warn!(%error, "cannot store the option set of the server"),
        )
    }

    /// Name and version, for people.
    pub fn shown(&self) -> String {
        match self.version {
            0 => format!("option set {}", self.name),
            version => format!("option set {} version {version}", self.name),
        }
    }
}

/// Values of all sources for each setting, and the decision between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    received: ReceivedSet,
    /// The node's file.
    file: PathBuf,
    offers: BTreeMap<&'static str, Offers>,
    /// Line of each setting in the node's file.
    lines: BTreeMap<&'static str, usize>,
    /// True if the node lets the server ask for commands before and after a backup.
    runs_around: bool,
    /// Options of the set that this program leaves out, with the reasons.
    unheard: Vec<String>,
    /// Warnings about values of the node's file that are out of their bounds.
    out_of_bounds: Vec<String>,
    /// True if a schedule of the server has started this command.
    pub(crate) is_scheduled: bool,
}

/// A setting, its value in force, and what each source says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingReport {
    pub setting: &'static Setting,
    pub rank: Rank,
    /// Value in force, as people write it.
    pub value: String,
    /// Source of the value, for people.
    pub source: String,
    /// Values of the other sources, in the order of precedence, each with its source and the
    /// reason why it does not count.
    pub others: Vec<OtherOffer>,
    /// Reason why the value may not be what counts.
    pub remark: Option<String>,
}

/// Value of a source that does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherOffer {
    pub source: String,
    pub value: String,
    /// Reason beside the order of precedence.
    pub reason: Option<&'static str>,
}

impl Standing {
    /// Puts the text of the node's file and the received option set together. Returns the decision
    /// and the table in which the settings in force stand.
    pub(crate) fn resolve(
        text: &str,
        file: &Path,
        received: ReceivedSet,
    ) -> Result<(Self, Table, Table), ClientError> {
        let mut own = own_table(text, file)?;
        let mut standing = Self {
            received,
            file: file.to_owned(),
            offers: BTreeMap::new(),
            lines: BTreeMap::new(),
            runs_around: true,
            unheard: Vec::new(),
            out_of_bounds: Vec::new(),
            is_scheduled: false,
        };
        for name in BOUNDED {
            let outside = bring_into_bounds(find(name).expect("a setting"), &mut own, file);
            standing.out_of_bounds.extend(outside);
        }
        let mut table = own.clone();
        let places = places(text);
        for setting in &SETTINGS {
            if let Some(value) = at(&table, setting.key) {
                if CHECKED.contains(&setting.name) {
                    check(setting, value, file)?;
                }
                standing.offers.entry(setting.name).or_default().node =
                    Some(shown(setting.kind, value));
                let section = format!("{SECTION}.{}", setting.name);
                let line = places.get(setting.key).or_else(|| places.get(&section)).copied();
                standing.lines.extend(line.map(|line| (setting.name, line)));
            }
        }
        let values = standing.take_received();
        let value = |name: &str| standing.winner(find(name).expect("a setting")).1;
        let allows_all = value("agent-commands").is_none_or(|commands| commands == "all");
        standing.runs_around = allows_all && value("agent-commands-around") != Some("no");
        for (setting, value) in values {
            if standing.is_of_set(setting.name) {
                put(&mut table, setting.key, to_toml(value));
            }
        }
        Ok((standing, table, own))
    }

    /// Takes the options of the set as offers. Returns their values.
    fn take_received(&mut self) -> Vec<(&'static Setting, Value)> {
        let mut values = Vec::new();
        for option in self.received.options.clone() {
            let parsed = SetOption::parse(&option.name, &option.value, option.is_forced);
            let value = find(&option.name)
                .zip(parsed.ok())
                .and_then(|(setting, _)| Some((setting, setting.kind.parse(&option.value).ok()?)));
            let Some((setting, value)) = value else {
                self.unheard.push(format!(
                    "this program does not understand {} = {}",
                    model::printable(&option.name),
                    model::printable(&option.value)
                ));
                continue;
            };
            let offers = self.offers.entry(setting.name).or_default();
            let shown = Some(shown(setting.kind, &to_toml(value.clone())));
            match option.is_forced {
                true => offers.forced = shown,
                false => offers.if_not_set = shown,
            }
            values.push((setting, value));
        }
        values
    }

    /// Forgets the values of the option set, because they make no sense to this program together.
    pub(crate) fn without_set(mut self) -> Self {
        for offers in self.offers.values_mut() {
            (offers.forced, offers.if_not_set) = (None, None);
        }
        self
    }

    fn winner(&self, setting: &Setting) -> (Rank, Option<&str>) {
        static NOTHING: Offers = Offers {
            schedule: None,
            forced: None,
            command_line: None,
            node: None,
            if_not_set: None,
        };
        let offers = self.offers.get(setting.name).unwrap_or(&NOTHING);
        offers.winner(setting, self.runs_around)
    }

    pub fn received(&self) -> &ReceivedSet {
        &self.received
    }

    /// Options of the set that this program leaves out, with the reasons.
    pub fn unheard(&self) -> &[String] {
        &self.unheard
    }

    /// Warnings about values of the node's file that are out of their bounds.
    pub fn out_of_bounds(&self) -> &[String] {
        &self.out_of_bounds
    }

    /// Returns the value in force of the setting `name` without the command line; `None` for the
    /// default.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.winner(find(name).expect("a setting of the table")).1
    }

    /// Returns true if the option set decides about the setting `name`.
    pub(crate) fn is_of_set(&self, name: &str) -> bool {
        let (rank, _) = self.winner(find(name).expect("a setting of the table"));
        matches!(rank, Rank::Forced | Rank::IfNotSet)
    }

    /// Returns the value that an option set forces on the setting `name`, whatever the command line
    /// says; `None` if it forces none.
    pub fn forced(&self, name: &str) -> Option<&str> {
        let (rank, value) = self.winner(find(name).expect("a setting of the table"));
        value.filter(|_| rank == Rank::Forced && !self.is_scheduled)
    }

    /// Returns true if an option set forces a value on the setting `name`, whoever has started the
    /// command.
    pub(crate) fn is_forced(&self, name: &str) -> bool {
        let (rank, _) = self.winner(find(name).expect("a setting of the table"));
        rank == Rank::Forced
    }

    /// Returns the value that the command line gives for the setting `name`, unless an option set
    /// forces another one.
    pub fn heed<T>(&self, name: &str, given: Option<T>) -> Option<T> {
        given.filter(|_| self.forced(name).is_none())
    }

    /// Reports a setting.
    pub fn report(&self, setting: &'static Setting) -> SettingReport {
        let offers = self.offers.get(setting.name).cloned().unwrap_or_default();
        let (rank, value) = offers.winner(setting, self.runs_around);
        let candidates = [
            (Rank::Forced, offers.forced.clone()),
            (Rank::Node, offers.node.clone()),
            (Rank::IfNotSet, offers.if_not_set.clone()),
            (Rank::Default, Some(setting.default.to_owned())),
        ];
        let others = candidates.into_iter().filter(|(of, _)| *of != rank);
        SettingReport {
            setting,
            rank,
            value: value.unwrap_or(setting.default).to_owned(),
            source: self.source(setting, rank),
            others: others
                .filter_map(|(of, value)| {
                    let value = value?;
                    let reason = matches!(of, Rank::Forced | Rank::IfNotSet)
                        .then(|| self.reason(setting, of, rank))
                        .flatten();
                    Some(OtherOffer { source: self.source(setting, of), value, reason })
                })
                .collect(),
            remark: self.remark(setting, rank),
        }
    }

    /// Returns what counts beside the value of a setting.
    fn remark(&self, setting: &Setting, rank: Rank) -> Option<String> {
        let direction = match setting.name {
            "limit-rate-send" => "send=",
            "limit-rate-receive" => "receive=",
            _ => return None,
        };
        let is_own = matches!(rank, Rank::Node | Rank::IfNotSet);
        if !is_own || !self.is_forced("limits") {
            return None;
        }
        let limits = self.value("limits").filter(|limits| limits.contains(direction))?;
        let set = self.received.shown();
        Some(format!("{set} forces limits = {limits}: the smaller limit counts"))
    }

    /// Returns the reason why the option set does not decide, if it is not the order of precedence.
    fn reason(&self, setting: &Setting, of: Rank, winner: Rank) -> Option<&'static str> {
        match setting.sway {
            Sway::Tightening => Some("an option set can only take this right away"),
            Sway::Around if !self.runs_around => {
                Some("this node forbids commands of the server (commands, commands_around)")
            }
            Sway::Around | Sway::Open => {
                assert!(winner < of, "a value that is heard loses only to one before it");
                None
            }
            Sway::Node(_) => Some("the option is the node's own"),
        }
    }

    fn source(&self, setting: &Setting, rank: Rank) -> String {
        match rank {
            Rank::Schedule => "the schedule".to_owned(),
            Rank::CommandLine => "the command line".to_owned(),
            Rank::Forced => format!("{} (force)", self.received.shown()),
            Rank::IfNotSet => format!("{} (if not set)", self.received.shown()),
            Rank::Default => "the default".to_owned(),
            Rank::Node => match self.lines.get(setting.name) {
                Some(line) => format!("{} line {line}", self.file.display()),
                None => self.file.display().to_string(),
            },
        }
    }
}

/// Settings whose values the configuration has as text, and which are checked by their kinds.
const CHECKED: [&str; 6] =
    ["image-rate", "image-snapshot", "paths", "priority", "replace", "virtual-filespaces"];

/// Settings whose numbers in the node's file count as the nearest bound if they are out of their
/// bounds, so that the agent starts nevertheless.
const BOUNDED: [&str; 1] = ["agent-poll-minutes"];

/// Brings the number of a setting in `table` into its bounds. Returns a warning if it was outside.
fn bring_into_bounds(setting: &Setting, table: &mut Table, file: &Path) -> Option<String> {
    let Kind::Number { min, max } = setting.kind else { return None };
    let given = at(table, setting.key)?.as_integer()?;
    let counted = u64::try_from(given).unwrap_or(0).clamp(min, max);
    if u64::try_from(given) == Ok(counted) {
        return None;
    }
    put(table, setting.key, to_toml(Value::Number(counted)));
    Some(format!(
        "{}: {} = {given} counts as {counted}; it is a number from {min} to {max}",
        file.display(),
        setting.key
    ))
}

/// Returns a fault of `client.toml`, which has `text`, on one line.
pub(super) fn syntax(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let place = place_of_unknown(message);
    let (fault, meant) = match error.span() {
        Some(at) => (model::located(text, Some(at), message), place),
        // Only the whole error names the key then.
        None => {
            let meant = place.or_else(|| model::word_meant(message));
            (model::on_one_line(&error.to_string()), meant)
        }
    };
    match meant {
        Some(meant) => format!("{fault}; {meant}"),
        None => fault,
    }
}

/// Returns the place of the key that stands in another one by this message, as in `compression
/// belongs in [tuning]`. The key may be mistyped, if it is like no key of the place where it
/// stands.
fn place_of_unknown(message: &str) -> Option<String> {
    let (key, _) = message.strip_prefix("unknown field `")?.split_once('`')?;
    let in_section = |setting: &Setting| setting.key.split_once('.');
    let places: Vec<(&str, &str)> = SETTINGS.iter().filter_map(in_section).collect();
    let section_of = |key: &str| {
        let place = places.iter().find(|(_, end)| *end == key)?;
        Some(place.0)
    };
    if let Some(section) = section_of(key) {
        return Some(format!("{key} belongs in [{section}]"));
    }
    if model::word_meant(message).is_some() {
        return None;
    }
    let ends: Vec<&str> = places.iter().map(|(_, end)| *end).collect();
    let similar = spelling::similar(key, &ends)?;
    Some(format!("'{similar}' is similar, and belongs in [{}]", section_of(similar)?))
}

/// Parses the node's file. The settings of the section `[options]` go to their places.
fn own_table(text: &str, file: &Path) -> Result<Table, ClientError> {
    let invalid = |error: &dyn std::fmt::Display| {
        ClientError::new(ErrorKind::Usage, format!("{} is not valid: {error}", file.display()))
    };
    let mut table: Table = toml::from_str(text).map_err(|error| invalid(&syntax(text, &error)))?;
    let section = match table.remove(SECTION) {
        None => return Ok(table),
        Some(toml::Value::Table(section)) => section,
        Some(_) => return Err(invalid(&"options is not a section")),
    };
    for (name, value) in section {
        let setting = SETTINGS.iter().find(|setting| setting.name == name.replace('_', "-"));
        let Some(setting) = setting else {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            let question = spelling::question(&name.replace('_', "-"), &names);
            let question = question.map_or_else(String::new, |question| format!("; {question}"));
            let unknown = format!("there is no option '{name}' for [{SECTION}]{question}");
            return Err(invalid(&unknown));
        };
        if at(&table, setting.key).is_some() {
            return Err(invalid(&format_args!(
                "{} is given twice: as {} and in [{SECTION}]",
                setting.name, setting.key
            )));
        }
        let value = own_value(setting, value)
            .map_err(|error| invalid(&format_args!("[{SECTION}] {name}: {error}")))?;
        put(&mut table, setting.key, value);
    }
    Ok(table)
}

fn check(setting: &Setting, value: &toml::Value, file: &Path) -> Result<(), ClientError> {
    let parsed = setting.kind.parse(&shown(setting.kind, value));
    parsed.map(drop).map_err(|error| {
        let (file, key) = (file.display(), setting.key);
        ClientError::new(ErrorKind::Usage, format!("{file} is not valid: {key}: {error}"))
    })
}

/// Returns the value of a setting in the section `[options]` in the form of its place. A text is
/// written as on the command line.
fn own_value(
    setting: &Setting,
    value: toml::Value,
) -> Result<toml::Value, policy::settings::ValueError> {
    match (setting.kind, value) {
        // A number in the file counts as itself: it has no unit.
        (Kind::Compression, toml::Value::Integer(level)) => {
            setting.kind.parse(&level.to_string()).map(to_toml)
        }
        (_, toml::Value::String(text)) => setting.kind.parse(&text).map(to_toml),
        (_, value) => Ok(value),
    }
}

/// Returns the value at the place `key`, which may name a section first.
fn at<'a>(table: &'a Table, key: &str) -> Option<&'a toml::Value> {
    match key.split_once('.') {
        Some((section, key)) => table.get(section)?.as_table()?.get(key),
        None => table.get(key),
    }
}

fn put(table: &mut Table, key: &str, value: toml::Value) {
    let Some((section, key)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return;
    };
    let section = table.entry(section).or_insert_with(|| toml::Value::Table(Table::new()));
    if let Some(section) = section.as_table_mut() {
        section.insert(key.to_owned(), value);
    }
}

fn to_toml(value: Value) -> toml::Value {
    let windows = |keys: Vec<(&'static str, String)>| {
        let keys = keys.into_iter().map(|(key, text)| (key.to_owned(), text.into()));
        toml::Value::Table(keys.collect())
    };
    match value {
        Value::YesNo(is_on) => is_on.into(),
        Value::Number(number) => i64::try_from(number).unwrap_or(i64::MAX).into(),
        Value::Text(text) => text.into(),
        Value::List(words) => words.into(),
        Value::Windows(all) => toml::Value::Array(all.into_iter().map(windows).collect()),
    }
}

/// A value of the node's file, for people: in the form of option sets.
fn shown(kind: Kind, value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) if matches!(kind, Kind::Paths | Kind::Directories) => {
            text.replace(',', "\\x2c")
        }
        toml::Value::String(text) => text.clone(),
        toml::Value::Boolean(is_on) => if *is_on { "yes" } else { "no" }.to_owned(),
        toml::Value::Array(values) if values.iter().all(toml::Value::is_table) => {
            let windows: Vec<String> = values.iter().map(|one| shown(kind, one)).collect();
            windows.join("; ")
        }
        toml::Value::Array(values) => {
            let words: Vec<String> = values.iter().map(|one| shown(kind, one)).collect();
            words.join(", ")
        }
        toml::Value::Table(keys) => shown_window(keys),
        other => other.to_string(),
    }
}

/// A window of limits, as in `mon-fri 08:00-18:00 send=10M`.
fn shown_window(keys: &Table) -> String {
    let text = |key: &str| keys.get(key).and_then(toml::Value::as_str);
    let times = text("from").is_some() || text("to").is_some();
    let time = |key: &str| text(key).unwrap_or("00:00");
    let mut words: Vec<String> = text("days").map(str::to_owned).into_iter().collect();
    words.extend(times.then(|| format!("{}-{}", time("from"), time("to"))));
    for key in ["send", "receive"] {
        words.extend(text(key).map(|rate| format!("{key}={rate}")));
    }
    words.join(" ")
}

/// Returns the line of each key of the file, with the names of sections before it.
fn places(text: &str) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    let Ok(table) = toml::de::DeTable::parse(text) else { return places };
    let line = |at: usize| text[..at].bytes().filter(|&byte| byte == b'\n').count() + 1;
    for (key, value) in table.get_ref() {
        places.insert(key.get_ref().to_string(), line(key.span().start));
        for (inner, _) in value.get_ref().as_table().into_iter().flatten() {
            let name = inner.get_ref().replace('_', "-");
            let is_section = key.get_ref() == SECTION;
            let name = if is_section { name } else { inner.get_ref().to_string() };
            places.insert(format!("{}.{name}", key.get_ref()), line(inner.span().start));
        }
    }
    places
}

#[cfg(test)]
mod tests;
