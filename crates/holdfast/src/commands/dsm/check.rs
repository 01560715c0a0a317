//! `holdfast dsm check`: the fate of each line of TSM's option files, before anything runs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use dsm::configuration::made_virtual;
use dsm::forms::Forms;
use dsm::options::{Entry, Fate, Fault, Place, Stanza, Verdict, find_exactly};
use dsm::selection::Statement;
use serde::Serialize;

use super::files::{self, FileArgs, Site};
use super::logs::ErrorLog;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::table::{self, Align};

/// Show what becomes of each option and statement in TSM's option files
///
/// Each is carried out, as a whole or in part, or accepted although nothing needs to be done, or
/// refused with the thing to do. All stanzas of dsm.sys are checked, unless --stanza names one.
/// Nothing is changed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast dsm check
  holdfast dsm check /etc/adsm/dsm.sys /etc/adsm/dsm.opt --stanza TSM1

Without files, DSM_DIR and DSM_CONFIG name them, otherwise they are in TSM's own folder.
Exit codes: 0 all can stay as it is; 4 some lines must be changed.")]
pub(super) struct Args {
    #[command(flatten)]
    files: FileArgs,
}

/// `dsm check --json`, one document per line.
#[derive(Serialize)]
struct LineDocument {
    place: String,
    option: String,
    value: String,
    fate: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let sites = files::load_each_for(&args.files)?;
    let site = &sites[0];
    if site.files.is_empty() {
        let message = "there is no dsm.sys and no dsm.opt here";
        return Err(CommandError::new(message).with_hint("name them: 'holdfast dsm check FILE'"));
    }
    let lines = all_lines(&sites);
    let refused = lines.iter().filter(|line| line.fate == "refused").count();
    if context.output.is_json() {
        lines.iter().for_each(|line| context.output.json(line));
    } else {
        context.output.text(&text(&lines));
        let counted = |fate: &str| lines.iter().filter(|line| line.fate == fate).count();
        context.output.text(&format!(
            "\nCarried out: {}. In part: {}. Needless: {}. Refused: {refused}.\n",
            counted("carried out"),
            counted("carried out in part"),
            counted("needless"),
        ));
    }
    for site in &sites {
        let log = ErrorLog::find(&site.options, Forms::of(&site.options));
        if let Some(fault) = log.fault() {
            context.output.note(&fault);
        }
    }
    Ok(if refused > 0 { FAILED } else { DONE })
}

/// Returns the lines of all stanzas. What they have in common is there once.
fn all_lines(sites: &[Site]) -> Vec<LineDocument> {
    let mut seen = BTreeSet::new();
    let mut all: Vec<LineDocument> = sites.iter().flat_map(lines).collect();
    all.retain(|line| {
        let LineDocument { place, option, value, reason, .. } = line;
        seen.insert((place.clone(), option.clone(), value.clone(), reason.clone()))
    });
    all
}

fn lines(site: &Site) -> Vec<LineDocument> {
    let stanzas = site.system.stanzas.iter().filter(|stanza| {
        // The stanza in force, or all if none is.
        site.stanza.as_ref().is_none_or(|chosen| chosen.place == stanza.place)
    });
    let system = site.system.globals.iter().chain(stanzas.flat_map(|stanza| &stanza.entries));
    let system = system.map(|entry| (entry, true));
    let user = site.user.iter().map(|entry| (entry, false));
    let is_option =
        |(entry, _): &(&Entry, bool)| entry.definition.kind != dsm::options::Kind::Statement;
    let options = system.chain(user).filter(is_option);
    let options = options.map(|(entry, in_system)| {
        let line = || option_line(entry, &entry.verdict(in_system));
        match (fault_of(site, entry), entry_in_force(site, entry)) {
            (Some(fault), _) => {
                LineDocument { fate: "refused", reason: fault.reason.clone(), ..line() }
            }
            (None, Some(other)) => replaced_line(entry, other),
            (None, None) => line(),
        }
    });
    let statements = site.translation.statements.iter().map(statement_line);
    let is_told = |fault: &Fault| {
        site.options.entries().iter().any(|entry| fault_of(site, entry) == Some(fault))
    };
    let faults = site.faults.iter().filter(|fault| !is_told(fault)).map(fault_line);
    let stanza = site.stanza.iter().map(stanza_line);
    stanza.chain(options).chain(statements).chain(faults).collect()
}

/// Returns the line that begins the stanza in force.
fn stanza_line(stanza: &Stanza) -> LineDocument {
    let definition = find_exactly("SERVERNAME").expect("the table has it");
    LineDocument {
        place: stanza.place.to_string(),
        option: definition.name(),
        value: stanza.name.clone(),
        fate: definition.fate.word(),
        reason: definition.fate.to_string(),
        remark: None,
    }
}

/// Returns the fault of a line with DOMAIN. Its value is read after those of all options.
fn fault_of<'s>(site: &'s Site, entry: &Entry) -> Option<&'s Fault> {
    let is_domain = entry.definition.name() == "DOMAIN";
    site.faults.iter().find(|fault| is_domain && fault.place == entry.place)
}

/// Returns the entry of a file that is in force in place of `entry`, if it is another one.
fn entry_in_force<'s>(site: &'s Site, entry: &Entry) -> Option<&'s Entry> {
    let options = &site.options;
    // Of several default servers, the place decides, and not the order.
    if entry.definition.name() == "DEFAULTSERVER" {
        return None;
    }
    // A stanza that is not chosen has no entries among the options.
    let is_replaced = options.entries().contains(entry) && !options.is_in_force(entry);
    let other = options.get(&entry.definition.name()).filter(|_| is_replaced)?;
    (other.place != Place::CommandLine).then_some(other)
}

fn replaced_line(entry: &Entry, other: &Entry) -> LineDocument {
    LineDocument {
        place: entry.place.to_string(),
        option: entry.definition.name(),
        value: shown_value(entry),
        fate: "needless",
        reason: format!("{} has the option, too, and is in force", other.place),
        remark: None,
    }
}

fn option_line(entry: &Entry, verdict: &Verdict) -> LineDocument {
    let line = LineDocument {
        place: entry.place.to_string(),
        option: entry.definition.name(),
        value: shown_value(entry),
        fate: verdict.fate.word(),
        reason: verdict.fate.to_string(),
        remark: verdict.remark.or_else(|| missing_folder(entry)).map(str::to_owned),
    };
    match made_virtual(entry).and_then(|path| client::obstacle(&path)) {
        Some(reason) => LineDocument { fate: "refused", reason, ..line },
        None => line,
    }
}

/// Returns the remark about a folder of the cache that is not there.
fn missing_folder(entry: &Entry) -> Option<&'static str> {
    let folder = Path::new(OsStr::from_bytes(&entry.value));
    let is_missing = entry.definition.name() == "DEDUPCACHEPATH" && !folder.is_dir();
    is_missing.then_some("the folder is not there; make it, as the cache is lost without it")
}

/// Returns the value of an option. A password is not shown.
fn shown_value(entry: &Entry) -> String {
    match entry.definition.spelling {
        "PAssword" | "VMCPw" => "...".to_owned(),
        _ => model::escaped(&entry.value),
    }
}

fn statement_line(statement: &Statement) -> LineDocument {
    let class = statement.class.as_ref().map(|class| format!(" {class}")).unwrap_or_default();
    let rules = statement.rules.iter().map(|rule| model::escaped(&rule.written()));
    let rules = rules.collect::<Vec<_>>().join("; ");
    LineDocument {
        place: statement.place.to_string(),
        option: statement.keyword.to_ascii_uppercase(),
        value: format!("{}{class}", model::escaped(&statement.pattern)),
        fate: statement.fate.word(),
        reason: match statement.fate {
            Fate::Done(_) if !rules.is_empty() => rules,
            fate => fate.to_string(),
        },
        remark: statement.remark.map(str::to_owned),
    }
}

fn fault_line(fault: &Fault) -> LineDocument {
    LineDocument {
        place: fault.place.to_string(),
        option: String::new(),
        value: String::new(),
        fate: "refused",
        reason: fault.reason.clone(),
        remark: None,
    }
}

fn text(lines: &[LineDocument]) -> String {
    const VALUE_MAX: usize = 40;
    let short = |text: &str| match text.char_indices().nth(VALUE_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    };
    let columns = [
        ("Place", Align::Left),
        ("Option", Align::Left),
        ("Value", Align::Left),
        ("Fate", Align::Left),
        ("By or because", Align::Left),
    ];
    let row = |line: &LineDocument| {
        let remark = line.remark.as_ref().map(|remark| format!(" ({remark})")).unwrap_or_default();
        [
            line.place.clone(),
            line.option.clone(),
            short(&line.value),
            line.fate.to_owned(),
            format!("{}{remark}", line.reason),
        ]
    };
    table::render(columns, &lines.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cache was in memory, and each backup began without it.
    #[test]
    fn a_folder_of_the_cache_that_is_not_there_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let remark = |path: &Path| {
            let text = format!("dedupcachepath {}", path.display());
            let (entries, _) = dsm::options::parse("dsm.opt", text.as_bytes());
            option_line(&entries[0], &entries[0].verdict(false)).remark
        };
        assert_eq!(remark(folder.path()), None);
        let absent = remark(&folder.path().join("absent")).expect("a remark");
        assert!(absent.starts_with("the folder is not there"), "{absent}");
    }

    /// A line that was told to be refused kept no command from running.
    #[test]
    fn a_line_that_another_one_replaces_has_no_effect() {
        let folder = tempfile::tempdir().expect("a folder");
        let [system, user] = ["dsm.sys", "dsm.opt"].map(|name| folder.path().join(name));
        let text = "se one\nfollowsymbolic yes\ndomain /a\ndomain /b\nquiet\n";
        std::fs::write(&system, text).expect("written");
        std::fs::write(&user, "se one\nfollowsymbolic no\n").expect("written");
        let places = files::Places { system: Some(system), user: Some(user.clone()) };
        let site = files::load(&places, &[]).expect("a site");
        let lines = lines(&site);
        let of = |option: &str| -> Vec<_> {
            let named = lines.iter().filter(|line| line.option == option);
            named.map(|line| (line.fate, line.reason.as_str())).collect()
        };
        let reason = format!("{} line 2 has the option, too, and is in force", user.display());
        let [replaced, in_force] = of("FOLLOWSYMBOLIC")[..] else { panic!("two lines") };
        assert_eq!(replaced, ("needless", reason.as_str()));
        assert_ne!(in_force.1, reason);
        assert!(of("DOMAIN").iter().chain(&of("QUIET")).all(|(fate, _)| *fate == "carried out"));
        assert_eq!(of("DOMAIN").len(), 2);
    }

    /// The line counted as carried out, and as refused.
    #[test]
    fn a_wrong_domain_is_refused_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let user = folder.path().join("dsm.opt");
        std::fs::write(&user, "domain \"unclosed\nquiet\n").expect("written");
        let places = files::Places { system: None, user: Some(user) };
        let site = files::load(&places, &[]).expect("a site");
        assert_eq!(site.faults.len(), 1, "a command is refused for it");
        let lines = lines(&site);
        let shown: Vec<_> = lines.iter().map(|line| (line.option.as_str(), line.fate)).collect();
        assert_eq!(shown, [("DOMAIN", "refused"), ("QUIET", "carried out")]);
        assert_eq!(lines[0].reason, site.faults[0].reason);
    }

    /// A class of an image would be lost without a word, and a missing key be found in the night.
    #[test]
    fn remarks_say_what_is_needed_beside_a_statement() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dsm.opt");
        let text = "include.image /dev/sdb IMAGES imagetype=static\ninclude.image /dev/sdc \
                    imagetype=static\ninclude /dev/sdd IMAGES\ninclude.encrypt /srv/.../*\n";
        std::fs::write(&file, text).expect("written");
        let places = files::Places { system: None, user: Some(file) };
        let site = files::load(&places, &[]).expect("a site");
        let lines = lines(&site);
        let remarks: Vec<_> = lines.iter().map(|line| line.remark.as_deref()).collect();
        let [with_class, without, plain, encrypted] = remarks[..] else { panic!("{remarks:?}") };
        assert!(with_class.is_some_and(|remark| remark.contains("'include DEVICE CLASS'")));
        assert_eq!((without, plain), (None, None));
        assert!(encrypted.is_some_and(|remark| remark.contains("'holdfast key create'")));
    }
}
