//! Option sets, their versions and their changes, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use client::admin::{OptionSet, OptionSetReview, OptionSetVersion};
use model::printable;
use policy::settings::{SetOption, Share, find};
use serde::Serialize;

use crate::context::Context;
use crate::settings::typed;
use crate::table::{self, Align};
use crate::{moment, quantity};

/// `optionset show --json` and `optionset list --json`, one document per line.
#[derive(Serialize)]
struct SetDocument<'a> {
    option_set: &'a str,
    #[serde(flatten)]
    version: VersionDocument<'a>,
    nodes: &'a [String],
    staged: Option<StageDocument<'a>>,
}

#[derive(Serialize)]
struct StageDocument<'a> {
    percent: f64,
    nodes: &'a [String],
    #[serde(flatten)]
    version: VersionDocument<'a>,
}

#[derive(Serialize)]
struct VersionDocument<'a> {
    version: u64,
    changed: Option<String>,
    changed_by: &'a str,
    comment: &'a str,
    options: Vec<OptionDocument<'a>>,
    statements: Vec<String>,
}

#[derive(Serialize)]
struct OptionDocument<'a> {
    option: &'a str,
    value: serde_json::Value,
    force: bool,
}

impl<'a> OptionDocument<'a> {
    fn new(option: &'a SetOption) -> Self {
        let value = match find(&option.name) {
            // A size without a unit is not in bytes for each option.
            Some(setting) => match setting.kind.parse(&option.value) {
                Ok(policy::settings::Value::Number(number)) => number.into(),
                _ => typed(setting.kind, &option.value),
            },
            None => option.value.as_str().into(),
        };
        Self { option: &option.name, value, force: option.is_forced }
    }
}

impl<'a> VersionDocument<'a> {
    fn new(version: &'a OptionSetVersion) -> Self {
        Self {
            version: version.number,
            changed: version.changed.map(moment::rfc3339),
            changed_by: &version.author,
            comment: &version.comment,
            options: version.options.iter().map(OptionDocument::new).collect(),
            statements: statements(version),
        }
    }
}

impl<'a> SetDocument<'a> {
    fn new(set: &'a OptionSet) -> Self {
        let staged = set.staged.as_ref().map(|version| StageDocument {
            percent: f64::from(set.share) / 100.0,
            nodes: &set.first_nodes,
            version: VersionDocument::new(version),
        });
        Self {
            option_set: &set.name,
            version: VersionDocument::new(&set.current),
            nodes: &set.nodes,
            staged,
        }
    }
}

/// `optionset show --version N --json` and `optionset history --json`, one document per line.
#[derive(Serialize)]
struct PastDocument<'a> {
    option_set: &'a str,
    state: &'static str,
    #[serde(flatten)]
    version: VersionDocument<'a>,
}

/// `optionset define --json` and the like.
#[derive(Serialize)]
struct ReviewDocument<'a> {
    option_set: &'a str,
    is_changed: bool,
    dry_run: bool,
    before: Option<u64>,
    changes: Vec<String>,
    nodes: u32,
    first_nodes: Option<&'a [String]>,
    #[serde(flatten)]
    version: VersionDocument<'a>,
}

/// `optionset remove --json`.
#[derive(Serialize)]
struct RemovalDocument<'a> {
    option_set: &'a str,
    /// Names of the nodes that used the option set.
    nodes: Vec<&'a str>,
}

pub(super) fn list(sets: &[OptionSet], context: &mut Context) {
    if context.output.is_json() {
        sets.iter().for_each(|set| context.output.json(&SetDocument::new(set)));
        return;
    }
    if sets.is_empty() {
        context.output.note("There is no option set.");
        return;
    }
    let columns = [
        ("Option set", Align::Left),
        ("Version", Align::Right),
        ("Options", Align::Right),
        ("Statements", Align::Right),
        ("Nodes", Align::Right),
        ("Staged", Align::Left),
    ];
    let row = |set: &OptionSet| {
        [
            set.name.clone(),
            set.current.number.to_string(),
            set.current.options.len().to_string(),
            statements(&set.current).len().to_string(),
            (set.nodes.len() + set.first_nodes.len()).to_string(),
            stage_line(set).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = sets.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}

pub(super) fn show(set: &OptionSet, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&SetDocument::new(set));
        return;
    }
    let mut text = format!("Option set:  {}\n", printable(&set.name));
    text.push_str(&head(&set.current, "in force"));
    let nodes = if set.nodes.is_empty() { "none".to_owned() } else { set.nodes.join(", ") };
    writeln!(text, "Nodes:       {}", printable(&nodes)).expect("a String");
    if let Some(line) = stage_line(set) {
        let nodes = set.first_nodes.join(", ");
        writeln!(text, "Staged:      {line}: {}", printable(&nodes)).expect("a String");
    }
    text.push_str(&content(&set.current));
    context.output.text(&text);
}

pub(super) fn version(set: &OptionSet, version: &OptionSetVersion, context: &mut Context) {
    let state = state(set, version);
    if context.output.is_json() {
        let version = VersionDocument::new(version);
        context.output.json(&PastDocument { option_set: &set.name, state, version });
        return;
    }
    let name = printable(&set.name);
    let text = format!("Option set:  {name}\n{}{}", head(version, state), content(version));
    context.output.text(&text);
}

pub(super) fn history(set: &OptionSet, versions: &[OptionSetVersion], context: &mut Context) {
    if context.output.is_json() {
        for version in versions {
            let state = state(set, version);
            let version = VersionDocument::new(version);
            context.output.json(&PastDocument { option_set: &set.name, state, version });
        }
        return;
    }
    let columns = [
        ("Version", Align::Right),
        ("State", Align::Left),
        ("Made", Align::Left),
        ("By", Align::Left),
        ("Comment", Align::Left),
    ];
    let row = |version: &OptionSetVersion| {
        [
            version.number.to_string(),
            state(set, version).to_owned(),
            version.changed.map_or_else(|| "unknown".to_owned(), moment::shown),
            version.author.clone(),
            version.comment.clone(),
        ]
    };
    let rows: Vec<_> = versions.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}

/// Shows a change that was made, or that would be made.
pub(super) fn review(review: &OptionSetReview, is_dry: bool, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&document(review, is_dry));
        return;
    }
    if context.output.quiet {
        return;
    }
    let (name, number) = (printable(&review.name), review.after.number);
    if !review.is_change {
        let before = review.before.as_ref().map_or(0, |before| before.number);
        let text = format!("Nothing changes: option set {name} stays at version {before}.");
        context.output.text(&text);
        return;
    }
    let mut text = changes_text(review);
    let nodes = quantity::counted(review.nodes.into(), "node");
    let would = if is_dry { "would be" } else { "is" };
    match &review.first_nodes {
        None => write!(text, "Version {number} of option set {name} {would} in force for {nodes}."),
        Some(first) => {
            let (count, list) = (first.len(), first.join(", "));
            let list = printable(&list);
            let would = if is_dry { "would be" } else { "is" };
            write!(
                text,
                "Version {number} of option set {name} {would} with {count} of {nodes} first: \
                 {list}."
            )
        }
    }
    .expect("a String");
    context.output.text(&text);
}

pub(super) fn promoted(review: &OptionSetReview, context: &mut Context) {
    ended(review, "is in force for all its nodes", context);
}

pub(super) fn withdrawn(review: &OptionSetReview, context: &mut Context) {
    ended(review, "is in force for all its nodes again", context);
}

fn ended(review: &OptionSetReview, what: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&document(review, false));
    } else if !context.output.quiet {
        let (name, number) = (printable(&review.name), review.after.number);
        let changes = changes_text(review);
        context
            .output
            .text(&format!("{changes}Version {number} of option set {name} {what}."));
    }
}

pub(super) fn stored(set: &OptionSet, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&SetDocument::new(set));
    } else if !context.output.quiet {
        let (name, number) = (printable(&set.name), set.current.number);
        context
            .output
            .text(&format!("Option set {name} is stored as version {number}."));
    }
}

pub(super) fn removed(set: &OptionSet, context: &mut Context) {
    let nodes: Vec<_> = set.nodes.iter().chain(&set.first_nodes).map(String::as_str).collect();
    if context.output.is_json() {
        context.output.json(&RemovalDocument { option_set: &set.name, nodes });
    } else if !context.output.quiet {
        let used = quantity::counted(nodes.len() as u64, "node");
        context
            .output
            .text(&format!("Option set {} is removed; {used} used it.", set.name));
    }
}

fn document(review: &OptionSetReview, dry_run: bool) -> ReviewDocument<'_> {
    ReviewDocument {
        option_set: &review.name,
        is_changed: review.is_change,
        dry_run,
        before: review.before.as_ref().map(|before| before.number),
        changes: changes(review.before.as_ref(), &review.after),
        nodes: review.nodes,
        first_nodes: review.first_nodes.as_deref(),
        version: VersionDocument::new(&review.after),
    }
}

fn changes_text(review: &OptionSetReview) -> String {
    let changes = changes(review.before.as_ref(), &review.after);
    changes.iter().map(|line| format!("  {}\n", printable(line))).collect()
}

/// Returns the differences between two versions, a line for each.
fn changes(before: Option<&OptionSetVersion>, after: &OptionSetVersion) -> Vec<String> {
    let by_name = |version: &'_ OptionSetVersion| -> BTreeMap<String, String> {
        version
            .options
            .iter()
            .map(|one| (one.name.clone(), option_value(one)))
            .collect()
    };
    let (old, new) = (before.map(by_name).unwrap_or_default(), by_name(after));
    let mut lines = Vec::new();
    for (name, value) in &old {
        match new.get(name) {
            None => lines.push(format!("- {name} = {value}")),
            Some(now) if now != value => lines.push(format!("  {name} = {value} -> {now}")),
            Some(_) => {}
        }
    }
    let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
    lines.extend(added.map(|(name, value)| format!("+ {name} = {value}")));
    let (old, new) = (before.map(statements).unwrap_or_default(), statements(after));
    lines.extend(missing(&old, &new).map(|line| format!("- {line}")));
    lines.extend(missing(&new, &old).map(|line| format!("+ {line}")));
    if lines.is_empty() && old != new {
        lines.push("  the statements have another order".to_owned());
    }
    lines
}

/// Returns the lines of `of` that `from` does not have.
fn missing<'a>(of: &'a [String], from: &'a [String]) -> impl Iterator<Item = &'a String> {
    of.iter().filter(|line| !from.contains(line))
}

fn option_value(option: &SetOption) -> String {
    let manner = if option.is_forced { "force" } else { "if not set" };
    format!("{} ({manner})", option.value)
}

fn statements(version: &OptionSetVersion) -> Vec<String> {
    let lines = version.text.split(|&byte| byte == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty()).map(model::escaped).collect()
}

/// State of a version in its option set.
fn state(set: &OptionSet, version: &OptionSetVersion) -> &'static str {
    let is_staged = set.staged.as_ref().is_some_and(|staged| staged.number == version.number);
    match (version.number == set.current.number, is_staged, version.was_in_force) {
        (true, ..) => "in force",
        (_, true, _) => "staged",
        (_, _, true) => "earlier",
        _ => "withdrawn",
    }
}

fn stage_line(set: &OptionSet) -> Option<String> {
    let staged = set.staged.as_ref()?;
    let share = Share::of_hundredths(set.share).map(|share| share.to_string());
    let share = share.unwrap_or_else(|_| "some".to_owned());
    let nodes = quantity::counted(set.first_nodes.len() as u64, "node");
    Some(format!("version {} with {nodes}, {share}", staged.number))
}

fn head(version: &OptionSetVersion, state: &str) -> String {
    let made = match version.changed {
        None => "unknown".to_owned(),
        // Administrators of a domain are not told who runs the service.
        Some(time) if version.author.is_empty() => moment::shown(time),
        Some(time) => format!("{} by {}", moment::shown(time), printable(&version.author)),
    };
    let mut text = format!("Version:     {}, {state}\nMade:        {made}\n", version.number);
    if !version.comment.is_empty() {
        writeln!(text, "Comment:     {}", printable(&version.comment)).expect("a String");
    }
    text
}

fn content(version: &OptionSetVersion) -> String {
    let mut text = String::new();
    if !version.options.is_empty() {
        let columns = [("Option", Align::Left), ("Value", Align::Left), ("Manner", Align::Left)];
        let row = |option: &SetOption| {
            let manner = if option.is_forced { "force" } else { "if not set" };
            [option.name.clone(), option.value.clone(), manner.to_owned()]
        };
        let rows: Vec<_> = version.options.iter().map(row).collect();
        write!(text, "\n{}", table::render(columns, &rows)).expect("a String");
    }
    let statements = statements(version);
    if !statements.is_empty() {
        write!(text, "\nStatements:\n{}\n", statements.join("\n")).expect("a String");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64, options: &[(&str, &str, bool)], text: &str) -> OptionSetVersion {
        let option = |(name, value, is_forced): &(&str, &str, bool)| SetOption {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            is_forced: *is_forced,
        };
        OptionSetVersion {
            number,
            options: options.iter().map(option).collect(),
            text: text.as_bytes().to_vec(),
            ..OptionSetVersion::default()
        }
    }

    #[test]
    fn a_change_is_shown_line_by_line() {
        let before = version(
            1,
            &[("compression", "3", false), ("snapshot", "auto", true), ("wait", "2h", false)],
            "exclude *.o\nexclude *.tmp\n",
        );
        let after = version(
            2,
            &[("compression", "3", true), ("priority", "low", false), ("wait", "2h", false)],
            "exclude *.tmp\nexclude *.bak\n",
        );
        let lines = changes(Some(&before), &after);
        let expected = [
            "  compression = 3 (if not set) -> 3 (force)",
            "- snapshot = auto (force)",
            "+ priority = low (if not set)",
            "- exclude *.o",
            "+ exclude *.bak",
        ];
        assert_eq!(lines, expected);
        assert_eq!(changes(Some(&after), &after), [""; 0]);
        let other = version(3, &[], "b\na\n");
        let lines = changes(Some(&version(2, &[], "a\nb\n")), &other);
        assert_eq!(lines, ["  the statements have another order"]);
    }

    #[test]
    fn versions_have_states() {
        let set = OptionSet {
            current: version(3, &[], ""),
            staged: Some(version(4, &[], "")),
            ..OptionSet::default()
        };
        let earlier = OptionSetVersion { was_in_force: true, ..version(1, &[], "") };
        assert_eq!(state(&set, &earlier), "earlier");
        assert_eq!(state(&set, &version(2, &[], "")), "withdrawn");
        assert_eq!(state(&set, &set.current), "in force");
        assert_eq!(state(&set, &version(4, &[], "")), "staged");
    }

    #[test]
    fn numbers_are_numbers_in_documents() {
        let options = [("resourceutilization", "8", true), ("wait", "2h", false)];
        let version = version(3, &options, "");
        let document = serde_json::to_value(VersionDocument::new(&version)).expect("a document");
        let values: Vec<_> = (0..2).map(|at| document["options"][at]["value"].clone()).collect();
        assert_eq!(values, [serde_json::Value::from(8), "2h".into()]);
    }
}
