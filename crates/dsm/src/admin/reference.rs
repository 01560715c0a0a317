//! Tables of the guide that are made from the code: commands, options and views.

use std::fmt::Write as _;
use std::path::Path;

use super::command::{Action, Command, Effect, all};
use super::invocation::OPTIONS;
use super::view::VIEWS;

const PAGE: &str = "../../docs/guide/from-tsm-administration.md";
/// Environment variable that makes the test write the tables instead of comparing them.
const WRITE: &str = "HOLDFAST_WRITE_REFERENCE";

fn options() -> String {
    let mut text = "| option | effect |\n|---|---|\n".to_owned();
    for option in &OPTIONS {
        let value = if option.takes_value { "=..." } else { "" };
        writeln!(text, "| `-{}{value}` | {} |", option.name, option.effect).expect("is written");
    }
    text
}

fn commands() -> String {
    let mut text =
        "| command | becomes | changes nothing | not supported |\n|---|---|---|---|\n".to_owned();
    for command in all().filter(|command| !matches!(command.action, Action::Unsupported)) {
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            format!("{} {}", command.verb, command.noun).trim(),
            command.becomes,
            reasons(command, |effect| match effect {
                Effect::Accepted(reason) => Some(reason),
                _ => None,
            }),
            reasons(command, |effect| match effect {
                Effect::Refused(reason) => Some(reason),
                _ => None,
            }),
        )
        .expect("is written");
    }
    text
}

fn reasons(command: &Command, reason: fn(Effect) -> Option<&'static str>) -> String {
    let with_reason = command.parameters.iter().filter_map(|parameter| {
        let reason = reason(parameter.effect)?;
        Some(format!("`{}`: {reason}", parameter.name))
    });
    with_reason.collect::<Vec<_>>().join("; ")
}

fn refusals() -> String {
    let mut text = "| command | instead |\n|---|---|\n".to_owned();
    for command in all().filter(|command| matches!(command.action, Action::Unsupported)) {
        let name = format!("{} {}", command.verb, command.noun);
        writeln!(text, "| `{}` | {} |", name.trim(), command.becomes).expect("is written");
    }
    text
}

fn views() -> String {
    let mut text = "| table | columns | from |\n|---|---|---|\n".to_owned();
    for view in VIEWS {
        let columns: Vec<&str> = view.columns().map(|column| column.name).collect();
        writeln!(text, "| {} | {} | {} |", view.name, columns.join(", "), view.source)
            .expect("is written");
    }
    text
}

/// Returns `page` with the table of this name in place of the old one.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"));
    let from = page.find(&begin).map(|at| at + begin.len()).expect("the page has the mark");
    let to = page.find(&end).expect("the page has the mark");
    format!("{}\n{table}\n{}", &page[..from], &page[to..])
}

#[test]
fn the_guide_has_the_tables_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let written = std::fs::read_to_string(&path).expect("the page can be read");
    let tables = [
        ("options", options()),
        ("commands", commands()),
        ("refusals", refusals()),
        ("views", views()),
    ];
    let expected = tables
        .iter()
        .fold(written.clone(), |page, (name, table)| replaced(&page, name, table));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
        return;
    }
    assert!(written == expected, "the guide differs from the code: write it with {WRITE}=1");
}
