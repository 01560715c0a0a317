//! `dsmc set access`, `query access` and `delete access`: the nodes that may read what this node
//! has stored.

use client::ReadRule;
use dsm::client::{Last, Spec};
use model::ServerTime;
use serde::Serialize;

use super::joining;
use super::links;
use super::questions;
use super::session::Session;
use super::stored::{self, Filter};
use crate::error::{CommandError, DONE, WARNED};
use crate::moment;
use crate::path::JsonPath;

/// A rule of a query with -json, one document per line.
#[derive(Serialize)]
struct RuleDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    node: &'a str,
    path: JsonPath<'a>,
    archives: bool,
    since: String,
}

impl<'a> RuleDocument<'a> {
    fn new(number: Option<usize>, rule: &'a ReadRule) -> Self {
        Self {
            number,
            node: &rule.reader,
            path: JsonPath(&rule.path),
            archives: rule.is_archive,
            since: moment::rfc3339(rule.since),
        }
    }
}

/// `dsmc set access TYPE FILES NODE`.
pub(super) fn set(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let (kind, files, node) = match &session.command.operands[..] {
        [kind, files, node] => (kind.clone(), files.clone(), node.clone()),
        [_, _, _, user] => {
            return Err(CommandError::new(format!(
                "ANS1107E '{}': all users of a node read what it may read; leave the user out",
                model::escaped(user)
            )));
        }
        _ => {
            let message = "ANS1089E give 'backup' or 'archive', the files, and the node";
            return Err(CommandError::new(message));
        }
    };
    let (spec, is_archive) = (top(&files, &stored::working_directory()?)?, is_archive(&kind)?);
    let client = joining::connect(session)?;
    let spec = links::follow(session, &client, spec, &Filter::default())?;
    let rule = ReadRule {
        reader: String::from_utf8_lossy(&node).into_owned(),
        path: spec.path(),
        is_archive,
        since: ServerTime(0),
    };
    let rule = client.allow_reading(&rule)?;
    session.say(&format!(
        "ANS1148I Node {} may read the {} at {}",
        rule.reader.to_uppercase(),
        kind_name(&rule).to_ascii_lowercase(),
        model::escaped(&rule.path)
    ));
    session.document(&RuleDocument::new(None, &rule));
    if !names_files_of_one_directory(&files) {
        return Ok(DONE);
    }
    session.complain(&format!(
        "ANS1148W '{}' is wider here than in TSM: the node may read what is in the directories \
         below, too",
        model::escaped(&files)
    ));
    Ok(WARNED)
}

/// Returns true if `files` means the files directly in a directory, as `/dir/*` does in TSM. There
/// is no such rule here.
fn names_files_of_one_directory(files: &[u8]) -> bool {
    files.strip_suffix(b"/*").is_some_and(|folder| !folder.ends_with(b"/*"))
}

fn is_archive(word: &[u8]) -> Result<bool, CommandError> {
    let lower = word.to_ascii_lowercase();
    let begins = |whole: &[u8]| !lower.is_empty() && whole.starts_with(&lower);
    match (begins(b"backup"), begins(b"archive")) {
        (true, _) => Ok(false),
        (_, true) => Ok(true),
        _ => {
            let word = model::escaped(word);
            Err(CommandError::new(format!("ANS1107E '{word}' is neither 'backup' nor 'archive'")))
        }
    }
}

/// Returns what a rule is about. TSM writes a directory with everything in it as `/dir/*` or
/// `/dir/*/*`.
fn top(files: &[u8], working: &[u8]) -> Result<Spec, CommandError> {
    let mut top = files;
    while let Some(rest) = top.strip_suffix(b"/*") {
        top = rest;
    }
    let operand = match top {
        b"" | b"*" => b"/".to_vec(),
        _ if top.len() < files.len() => [top, b"/"].concat(),
        _ => files.to_vec(),
    };
    let wrong = |reason: String| CommandError::new(format!("ANS1081E {reason}"));
    let spec = Spec::parse(&operand, working).map_err(wrong)?;
    match spec.last {
        Last::Matching(_) => Err(wrong(format!(
            "'{}': a rule is about a file, or about a directory with everything in it",
            model::escaped(files)
        ))),
        _ => Ok(spec),
    }
}

fn kind_name(rule: &ReadRule) -> &'static str {
    if rule.is_archive { "Archives" } else { "Backups" }
}

/// `dsmc query access`: the rules, with the numbers by which they are deleted.
pub(super) fn query(session: &mut Session<'_>) -> Result<u8, CommandError> {
    let rules = joining::connect_at_once(session)?.read_rules()?;
    if session.is_json() {
        for (index, rule) in rules.iter().enumerate() {
            session.document(&RuleDocument::new(Some(index + 1), rule));
        }
        return Ok(DONE);
    }
    if rules.is_empty() {
        session.say("No other node may read what this node has stored.");
        return Ok(DONE);
    }
    session.say_all(lines(&rules));
    Ok(DONE)
}

fn lines(rules: &[ReadRule]) -> Vec<String> {
    let heading = [
        "     #  Type      Node              User  Path",
        "   ---  --------  ----------------  ----  ----",
    ];
    let row = |(index, rule): (usize, &ReadRule)| {
        format!(
            "{:>6}  {:<8}  {:<16}  *     {}",
            index + 1,
            kind_name(rule),
            rule.reader.to_uppercase(),
            model::escaped(&rule.path)
        )
    };
    heading
        .map(str::to_owned)
        .into_iter()
        .chain(rules.iter().enumerate().map(row))
        .collect()
}

/// `dsmc delete access`: takes back the rules whose numbers are given, or are picked by a person.
pub(super) fn delete(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let client = joining::connect(session)?;
    let rules = client.read_rules()?;
    if rules.is_empty() {
        session.complain("ANS1092W No other node may read what this node has stored");
        return Ok(WARNED);
    }
    let operands = &session.command.operands;
    let given: Vec<String> = operands.iter().map(|word| model::escaped(word)).collect();
    let answer = match given.is_empty() {
        false => given.join(" "),
        true => {
            lines(&rules).iter().for_each(|line| session.show(line));
            questions::ask(session, "Numbers of the rules, as in 1 3 5-7; A for all; Q for none:")?
        }
    };
    let picked = questions::picked(&answer, rules.len())?;
    if picked.is_empty() {
        return Err(CommandError::new("ANS1107E no rule is picked, and nothing is done"));
    }
    for index in picked {
        let rule = client.forbid_reading(&rules[index])?;
        session.say(&format!(
            "Node {} may not read the {} at {} any more",
            rule.reader.to_uppercase(),
            kind_name(&rule).to_ascii_lowercase(),
            model::escaped(&rule.path)
        ));
        session.document(&RuleDocument::new(Some(index + 1), &rule));
    }
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_the_top_of_a_tree() {
        for (files, expected) in [
            ("/home/ann/*", "/home/ann"),
            ("/home/ann/*/*", "/home/ann"),
            ("/home/ann/", "/home/ann"),
            ("/home/ann/file", "/home/ann/file"),
            ("/*", "/"),
            ("*", "/"),
            ("{/home}/ann/*", "/home/ann"),
        ] {
            let found = top(files.as_bytes(), b"/work").expect("a name");
            assert_eq!(String::from_utf8_lossy(&found.path()), expected, "{files}");
        }
        for wrong in ["/home/*.c", "/home/*/a"] {
            assert!(top(wrong.as_bytes(), b"/").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rule_for_the_files_of_one_directory_is_wider() {
        let is_wider = |files: &str| names_files_of_one_directory(files.as_bytes());
        assert!(is_wider("/home/ann/*") && is_wider("/*"));
        for as_meant in ["/home/ann/*/*", "/home/ann/", "/home/ann/file", "*"] {
            assert!(!is_wider(as_meant), "{as_meant}");
        }
    }

    #[test]
    fn kinds_are_abbreviated() {
        assert_eq!(is_archive(b"b").ok(), Some(false));
        assert_eq!(is_archive(b"Archive").ok(), Some(true));
        assert!(is_archive(b"x").is_err() && is_archive(b"").is_err());
    }
}
