//! `holdfast explain`: what a backup would do with an object, and which rule says so.

use std::path::PathBuf;

use client::{PreviewOptions, RuleShown, Ruled};
use model::{Kind, escaped};
use policy::BackupCopyGroup;
use serde::Serialize;

use super::{Context, DONE, backup, list};
use crate::error::{CommandError, WARNED};
use crate::path::{self, JsonPath};

/// Tell what a backup would do with a path, and which rule says so
///
/// The path need not be there; with a slash at its end it is a directory's.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast explain /home/ann/.cache/index
  holdfast explain /home/ann/a.o --exclude '*.o'")]
pub(crate) struct Args {
    /// Files or directories
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    rules: RulesArgs,
}

/// Beside the rules of node and server
#[derive(clap::Args, Debug)]
pub(super) struct RulesArgs {
    /// Leave out what matches, as for a backup; may be given several times
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<std::ffi::OsString>,
    /// Take the include and exclude statements in this file instead of the node's own
    #[arg(long, value_name = "FILE")]
    inclexcl: Option<PathBuf>,
}

impl RulesArgs {
    pub(super) fn options(self, paths: &[PathBuf]) -> Result<PreviewOptions, CommandError> {
        let absolute = |path: &PathBuf| {
            let slash = path::bytes(path).ends_with(b"/");
            let mut path = path::absolute(path)?;
            // What is not there is told to be a directory by the slash alone.
            if slash && !path.ends_with(b"/") {
                path.push(b'/');
            }
            Ok(path)
        };
        Ok(PreviewOptions {
            paths: paths.iter().map(absolute).collect::<Result<_, CommandError>>()?,
            excludes: backup::excludes(&self.exclude)?,
            inclexcl: self.inclexcl,
        })
    }
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let options = args.rules.options(&args.paths)?;
    let (ruled, warnings) = context.client()?.explain(&options)?;
    for object in &ruled {
        if context.output.is_json() {
            context.output.json(&RuledDocument::new(object));
        } else {
            context.output.text(&text(object));
        }
    }
    warnings.iter().for_each(|warning| context.output.note(warning));
    Ok(if warnings.is_empty() { DONE } else { WARNED })
}

/// `explain --json` and `preview --json`, one a line.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the document")]
pub(super) struct RuledDocument<'a> {
    path: JsonPath<'a>,
    kind: Option<&'static str>,
    bytes: u64,
    included: bool,
    mgmt_class: Option<&'a str>,
    rule: Option<RuleDocument<'a>>,
    compression: bool,
    deduplication: bool,
    encryption: bool,
}

#[derive(Serialize)]
struct RuleDocument<'a> {
    statement: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<JsonPath<'a>>,
}

impl<'a> RuledDocument<'a> {
    pub(super) fn new(ruled: &'a Ruled) -> Self {
        let rule = |rule: &'a RuleShown| RuleDocument {
            statement: &rule.text,
            source: &rule.source,
            about: rule.about.as_deref().map(JsonPath),
        };
        Self {
            path: JsonPath(&ruled.path),
            kind: ruled.kind.map(list::kind_name),
            bytes: ruled.bytes,
            included: ruled.included,
            mgmt_class: ruled.included.then_some(&ruled.class),
            rule: ruled.rule.as_ref().map(rule),
            compression: ruled.treatment.compresses,
            deduplication: ruled.treatment.deduplicates,
            encryption: ruled.treatment.encrypts,
        }
    }
}

fn text(ruled: &Ruled) -> String {
    let path = escaped(&ruled.path);
    let what = match ruled.kind {
        None => "is not there; it would be",
        Some(Kind::Directory) => "is a directory that is",
        Some(_) => "is",
    };
    let verdict = match (&ruled.rule, ruled.included) {
        (None, _) => "included: no statement matches".to_owned(),
        (Some(rule), true) => format!("included by '{}', {}", rule.text, rule.source),
        (Some(rule), false) => {
            let about = rule
                .about
                .as_ref()
                .map(|about| format!(", which leaves out {}", escaped(about)));
            let about = about.unwrap_or_default();
            format!("left out by '{}', {}{about}", rule.text, rule.source)
        }
    };
    let kept = if ruled.included { kept(ruled) } else { String::new() };
    format!("{path} {what} {verdict}.\n{kept}")
}

fn kept(ruled: &Ruled) -> String {
    let class = &ruled.class;
    let Some(group) = &ruled.keeps else {
        return format!("  Its class {class} has no backup copy group: it is not backed up.\n");
    };
    let limits: Vec<String> =
        group.limits().iter().map(|(name, limit)| format!("{name} {limit}")).collect();
    let BackupCopyGroup { mode, frequency_days, serialization, .. } = group;
    let mut text = format!(
        "  It is bound to class {class}: {}, MODE {mode}, FREQUENCY {frequency_days}, \
         SERIALIZATION {serialization}.\n",
        limits.join(", ")
    );
    if !ruled.treatment.compresses {
        text.push_str("  It is not compressed.\n");
    }
    if ruled.treatment.encrypts {
        text.push_str("  It is encrypted with this node's key.\n");
    }
    if !ruled.treatment.deduplicates {
        text.push_str("  It is sent whether the server has it or not.\n");
    }
    text
}
