//! `holdfast explain`: how a backup would treat an object, and by which rule; and which source of a
//! setting decides.

mod settings;

use std::path::PathBuf;

use client::{Decision, PreviewOptions, RuleSummary};
use model::{Kind, escaped, printable};
use policy::BackupCopyGroup;
use serde::Serialize;

pub(super) use self::settings::option_question;
use super::{backup, list};
use crate::context::Context;
use crate::error::{CommandError, DONE, WARNED};
use crate::path::{self, JsonPath};
use crate::waiter::LinkArgs;

/// Show how a backup would treat a path, and by which rule; or which source of an option decides
///
/// The path need not exist. A path that ends with a slash stands for a directory.
///
/// An option has the first value of: the option set of the server with force, the command line,
/// client.toml, the option set without force, and the default.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast explain /home/ann/.cache/index
  holdfast explain /home/ann/a.o --exclude '*.o'
  holdfast explain --option compression
  holdfast explain --option")]
pub(crate) struct Args {
    /// Files or directories
    #[arg(value_name = "PATH", required_unless_present = "options")]
    paths: Vec<PathBuf>,
    /// Show the value of this standing option, and its source; without a name, of all options. May
    /// be given several times
    #[arg(long = "option", visible_alias = "options", value_name = "NAME")]
    #[arg(num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["paths", "exclude", "inclexcl"])]
    options: Vec<String>,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    link: LinkArgs,
}

/// Rules in addition to the rules of the node and the server
#[derive(clap::Args, Debug)]
pub(super) struct RulesArgs {
    /// Leave out the files and directories that match, as in a backup; may be given several times
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<std::ffi::OsString>,
    /// Use the include and exclude statements in this file instead of the node's own
    #[arg(long, value_name = "FILE")]
    inclexcl: Option<PathBuf>,
}

impl RulesArgs {
    pub(super) fn options(self, paths: &[PathBuf]) -> Result<PreviewOptions, CommandError> {
        let absolute = |path: &PathBuf| {
            let slash = path::bytes(path).ends_with(b"/");
            let mut path = path::absolute(path)?;
            // If a path does not exist, only the slash says that it stands for a directory.
            if slash && !path.ends_with(b"/") {
                path.push(b'/');
            }
            Ok(path)
        };
        Ok(PreviewOptions {
            paths: paths.iter().map(absolute).collect::<Result<_, CommandError>>()?,
            excludes: backup::excludes(&self.exclude)?,
            inclexcl: self.inclexcl,
            ..PreviewOptions::default()
        })
    }
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    if !args.options.is_empty() {
        return settings::run(&args.options, context);
    }
    let options = args.rules.options(&args.paths)?;
    let (ruled, warnings) = context.waiter(&args.link)?.client()?.explain(&options)?;
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

/// `explain --json` and `preview --json`, one document per line.
#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the document")]
pub(super) struct RuledDocument<'a> {
    path: JsonPath<'a>,
    kind: Option<&'static str>,
    bytes: u64,
    included: bool,
    mgmt_class: Option<&'a str>,
    rule: Option<RuleDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_filespace: Option<JsonPath<'a>>,
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
    pub(super) fn new(ruled: &'a Decision) -> Self {
        let rule = |rule: &'a RuleSummary| RuleDocument {
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
            virtual_filespace: ruled.virtual_filespace.as_deref().map(JsonPath),
            compression: ruled.treatment.compresses,
            deduplication: ruled.treatment.deduplicates,
            encryption: ruled.treatment.encrypts,
        }
    }
}

fn text(ruled: &Decision) -> String {
    let path = escaped(&ruled.path);
    let state = match ruled.kind {
        None => "does not exist; it would be",
        Some(Kind::Directory) => "is a directory that is",
        Some(_) => "is",
    };
    let verdict = match (&ruled.rule, ruled.included) {
        (None, _) => "included: no statement matches".to_owned(),
        (Some(rule), true) => {
            format!("included by '{}', {}", printable(&rule.text), printable(&rule.source))
        }
        (Some(rule), false) => {
            let about = rule
                .about
                .as_ref()
                .map(|about| format!(", which leaves out {}", escaped(about)));
            let about = about.unwrap_or_default();
            format!("left out by '{}', {}{about}", printable(&rule.text), printable(&rule.source))
        }
    };
    let filespace = ruled.virtual_filespace.as_ref();
    let filespace =
        filespace.map(|path| format!("  It belongs to the virtual filespace {}.\n", escaped(path)));
    let filespace = filespace.unwrap_or_default();
    let retention = if ruled.included { retention(ruled) } else { String::new() };
    format!("{path} {state} {verdict}.\n{filespace}{retention}")
}

/// Returns the lines about the management class of an included object.
fn retention(ruled: &Decision) -> String {
    let class = printable(&ruled.class);
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
        text.push_str("  It is sent even if the server has its data already.\n");
    }
    text
}
