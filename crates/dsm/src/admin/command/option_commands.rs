//! Commands that change option sets.

use super::definition::{Command, Request, command};
use super::parameter::{Noun, Parameter, ValueKind, may, need};
use super::plan::{Line, Plan, Work};
use crate::admin::message::{Message, ReturnCode};
use crate::configuration::settings::{self, Translation};
use crate::{options, selection};

const SET: Parameter = need("option_set_name", ValueKind::One(Noun::OptionSet));
const STATEMENTS: &str =
    "statements stand in a file: 'holdfast admin optionset update SET --statements FILE'";

pub(super) static COMMANDS: &[Command] = &[
    command(
        "DEFine",
        "CLOptset",
        &[
            need("option_set_name", ValueKind::New(Noun::OptionSet)),
            may("DESCription", ValueKind::Text),
        ],
        |request| {
            let set = request.required("option_set_name");
            let done = Message::done("ANR2048I", format!("Option set {set} defined."));
            Ok(Line::admin(["optionset", "define", &set], done)
                .option("--comment", request.text("DESCription"))
                .plan())
        },
        "`admin optionset define`",
    ),
    command(
        "UPDate",
        "CLOptset",
        &[SET, need("DESCription", ValueKind::Text)],
        |request| {
            let set = request.required("option_set_name");
            let text = format!("Nothing of option set {set} needs to be changed.");
            Ok(Plan::Nothing(Message::done("ANR2050I", text)))
        },
        "nothing: each version of an option set has a comment of its own",
    ),
    Command {
        question: "Do you want to delete the option set?",
        ..command(
            "DELete",
            "CLOptset",
            &[SET],
            |request| {
                let set = request.required("option_set_name");
                let done = Message::done("ANR2049I", format!("Option set {set} deleted."));
                Ok(Line::admin(["optionset", "remove", &set, "--confirm"], done).plan())
            },
            "`admin optionset remove --confirm`",
        )
    },
    command(
        "COPy",
        "CLOptset",
        &[SET, need("new_option_set_name", ValueKind::New(Noun::OptionSet))],
        |request| {
            let from = request.required("option_set_name");
            let to = request.required("new_option_set_name");
            Ok(Plan::Work(Work::CopyOptionSet { from, to }))
        },
        "`admin optionset define`",
    ),
    command(
        "DEFine",
        "CLIENTOpt",
        &[
            SET,
            need("option_name", ValueKind::Text),
            need("option_value", ValueKind::Text),
            may("Force", ValueKind::YesNo),
            may("SEQnumber", ValueKind::Text),
        ],
        define_option,
        "`admin optionset update --option`; TSM's values become those of Holdfast's settings; a \
         statement of INCLEXCL comes after those before it, and takes no SEQnumber; an option has \
         one value, whatever SEQnumber says",
    ),
    command(
        "DELete",
        "CLIENTOpt",
        &[
            SET,
            need("option_name", ValueKind::Text),
            may("sequence_number", ValueKind::Text).accepted("an option has one value"),
        ],
        |request| {
            let (set, name) = named(request)?;
            let text = format!("Option {name} deleted from option set {set}.");
            let done = Message::done("ANR2054I", text);
            let setting = options::find(&name).and_then(settings::of_option);
            let setting = setting.map_or_else(|| name.to_lowercase(), str::to_owned);
            Ok(Line::admin(["optionset", "update", &set], done)
                .option("--unset", Some(setting))
                .plan())
        },
        "`admin optionset update --unset`",
    ),
];

/// Returns the names of the set and of its option, which must not be a statement.
fn named(request: &Request) -> Result<(String, String), Message> {
    let name = request.required("option_name").to_uppercase();
    if matches!(name.as_str(), "INCLEXCL" | "DOMAIN") || name.starts_with("INCLUDE") {
        let text = format!("{}: {STATEMENTS}.", request.command.name());
        return Err(Message::refusal("ANR2032E", ReturnCode::Failure, text));
    }
    Ok((request.required("option_set_name"), name))
}

/// Returns the refusal of a request for this reason.
fn refused(request: &Request, reason: &str) -> Message {
    let text = format!("{}: {reason}.", request.command.name());
    Message::refusal("ANR2032E", ReturnCode::Failure, text)
}

/// Translates a statement, which comes after those that the set has.
fn define_statement(request: &Request) -> Result<Plan, Message> {
    let set = request.required("option_set_name");
    if request.has("SEQnumber") {
        let reason = "statements have the order in which they are defined; leave SEQNUMBER out, \
                      or give all of them with 'holdfast admin optionset update SET --statements \
                      FILE'";
        return Err(refused(request, reason));
    }
    let given = request.required("option_value");
    let (entries, mut faults) = selection::parse_list("the statement", given.as_bytes());
    let mut translation = selection::translate(&entries);
    faults.append(&mut translation.faults);
    if let Some(fault) = faults.first() {
        return Err(refused(request, &fault.reason));
    }
    let Some(statement) = translation.statements.first() else {
        return Err(refused(request, "the value has no statement"));
    };
    if statement.fate.is_refused() {
        return Err(refused(request, &statement.fate.to_string()));
    }
    let statements = translation.list();
    if statements.is_empty() {
        let reason = statement.fate;
        let text = format!("The statement is left out of option set {set}: {reason}.");
        return Ok(Plan::Nothing(Message::done("ANR2053I", text)));
    }
    Ok(Plan::Work(Work::AddStatements { set, statements }))
}

fn define_option(request: &Request) -> Result<Plan, Message> {
    if request.required("option_name").eq_ignore_ascii_case("INCLEXCL") {
        return define_statement(request);
    }
    let (set, name) = named(request)?;
    let given = request.required("option_value");
    let refused = |reason: String| refused(request, &reason);
    let (setting, value) = match settings::translate(&name, &given).map_err(refused)? {
        Translation::Setting { name, value } => (name, value),
        Translation::Needless { name, reason } => {
            let text = format!("Option {name} is left out of option set {set}: {reason}.");
            return Ok(Plan::Nothing(Message::done("ANR2053I", text)));
        }
    };
    let became = match name.eq_ignore_ascii_case(&setting) && value == given {
        true => String::new(),
        false => format!(" as {setting}={value}"),
    };
    let text = format!("Option {name} defined in option set {set}{became}.");
    let value = format!("{setting}={value}");
    Ok(Line::admin(["optionset", "update", &set], Message::done("ANR2053I", text))
        .option("--option", Some(value))
        .switch("--force", request.is_yes("Force"))
        .plan())
}
