//! Commands, and requests: commands with the values of their parameters.

use std::collections::BTreeMap;

use jiff::civil::{DateTime, time};

use super::parameter::{Effect, Noun, Parameter, ValueKind};
use super::plan::{Filter, Plan, Program, QueryPlan, Test};
use crate::admin::calendar::{self, EndWords, Period};
use crate::admin::grammar;
use crate::admin::message::{Message, ReturnCode};
use crate::admin::report::Report;

/// A command of TSM.
#[derive(Debug)]
pub struct Command {
    /// First word, with its shortest form in capitals.
    pub verb: &'static str,
    /// Second word; empty if the command has one word.
    pub noun: &'static str,
    pub parameters: &'static [Parameter],
    pub action: Action,
    /// Counterpart in Holdfast, for people. For a command that is not supported, the reason, and
    /// what does it instead.
    pub becomes: &'static str,
    /// Question before the command is carried out; empty if it destroys nothing.
    pub question: &'static str,
}

/// Kind of a command.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Query(fn(&Request) -> &'static Report),
    Order(fn(&Request) -> Result<Plan, Message>),
    Program(Program),
    Unsupported,
}

impl Command {
    /// Returns the full name, as in `QUERY NODE`.
    pub fn name(&self) -> String {
        format!("{} {}", self.verb, self.noun).trim().to_uppercase()
    }
}

/// Makes a command that changes something and asks nothing before it.
pub(super) const fn command(
    verb: &'static str,
    noun: &'static str,
    parameters: &'static [Parameter],
    translate: fn(&Request) -> Result<Plan, Message>,
    becomes: &'static str,
) -> Command {
    Command { verb, noun, parameters, action: Action::Order(translate), becomes, question: "" }
}

/// A command with the values of its parameters.
#[derive(Debug)]
pub struct Request {
    pub command: &'static Command,
    /// The present time, by the clock of this machine.
    pub now: DateTime,
    values: BTreeMap<&'static str, Vec<String>>,
    /// Reasons why parameters change nothing.
    notes: Vec<String>,
    /// The refusal of names that were left out, because the others are known.
    left_out: Option<Message>,
}

impl Request {
    pub(super) fn new(command: &'static Command, now: DateTime) -> Self {
        Self { command, now, values: BTreeMap::new(), notes: Vec::new(), left_out: None }
    }

    pub(super) fn set(&mut self, name: &'static str, values: Vec<String>) {
        self.values.insert(name, values);
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Returns the refusal that follows when the known names are done.
    pub fn left_out(&self) -> Option<&Message> {
        self.left_out.as_ref()
    }

    /// Returns the reasons why parameters change nothing.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns the value of a parameter. The parameter must be one of the command.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let known = self.command.parameters.iter().any(|parameter| parameter.name == name);
        assert!(known, "{} has no parameter {name}", self.command.name());
        self.values.get(name)?.first().map(String::as_str)
    }

    /// Returns the value of a parameter that must be there.
    pub(super) fn required(&self, name: &str) -> String {
        self.text(name).expect("the table requires it").to_owned()
    }

    /// Returns the values of a parameter that takes several.
    pub(super) fn list(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the number that a parameter of numbers has.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn is_yes(&self, name: &str) -> bool {
        self.text(name) == Some("yes")
    }

    /// Returns all values by place, for the commands of the program itself.
    pub(super) fn words(&self) -> Vec<String> {
        let parameters = self.command.parameters.iter();
        parameters
            .filter_map(|parameter| self.text(parameter.name))
            .map(str::to_owned)
            .collect()
    }

    /// Replaces names and patterns of objects by the names that the server has. `names` returns
    /// all names of a noun.
    pub fn resolve<E: From<Message>>(
        &mut self,
        mut names: impl FnMut(Noun) -> Result<Vec<String>, E>,
    ) -> Result<(), E> {
        for parameter in self.command.parameters {
            let (ValueKind::One(noun) | ValueKind::Several(noun) | ValueKind::New(noun)) =
                self.takes(parameter)
            else {
                continue;
            };
            let Some(given) = self.values.get(parameter.name) else { continue };
            let known = names(noun)?;
            let first = || given.first().and_then(|name| one(name, &known));
            let found = match self.takes(parameter) {
                ValueKind::Several(_) => {
                    let (found, absent) = several(given, &known);
                    // Each association stands by itself.
                    let goes_on = self.command.noun == "ASSOCiation" && !found.is_empty();
                    if goes_on && !absent.is_empty() {
                        self.left_out = Some(self.not_found(noun, &absent.join(",")));
                    }
                    Some(found).filter(|found| !found.is_empty() && (goes_on || absent.is_empty()))
                }
                ValueKind::New(_) => match first() {
                    Some(name) => return Err(self.exists(noun, &name).into()),
                    None => continue,
                },
                _ => first().map(|name| vec![name]),
            };
            let found = found.ok_or_else(|| self.not_found(noun, &given.join(",")))?;
            self.values.insert(parameter.name, found);
        }
        Ok(())
    }

    /// Returns what a parameter takes. A new schedule of the server has its name in the place of
    /// the domain.
    fn takes(&self, parameter: &Parameter) -> ValueKind {
        let is_name = (self.command.verb, self.command.noun) == ("DEFine", "SCHedule")
            && parameter.name == "domain_name"
            && self.text("Type") == Some("ADMINISTRATIVE");
        if is_name { ValueKind::New(Noun::Schedule) } else { parameter.takes }
    }

    fn exists(&self, noun: Noun, name: &str) -> Message {
        let (command, name) = (self.command.name(), model::printable(name));
        let (number, text) = match noun {
            Noun::Node => ("ANR2147E", format!("{command}: Node {name} is already registered.")),
            _ => ("ANR2032E", format!("{command}: The {} {name} exists already.", subject(noun))),
        };
        Message::refusal(number, ReturnCode::Exists, text)
    }

    fn not_found(&self, noun: Noun, name: &str) -> Message {
        let (command, name) = (self.command.name(), model::printable(name));
        let (number, text) = match noun {
            Noun::Node => ("ANR2146E", format!("{command}: Node {name} is not registered.")),
            _ => {
                let reason = format!("there is no {} {name}", subject(noun));
                let text = format!("{command}: No match found using this criteria: {reason}.");
                ("ANR2034E", text)
            }
        };
        Message::refusal(number, ReturnCode::NoMatch, text)
    }

    /// Returns the answer of a query.
    pub(super) fn show(&self, report: &'static Report) -> Result<QueryPlan, Message> {
        let filters = self.command.parameters.iter().filter_map(|parameter| {
            let values = self.values.get(parameter.name)?;
            let (column, test) = match parameter.effect {
                Effect::Filter("SET_NAME") => ("SET_NAME", Test::Patterns(sets(values))),
                Effect::Filter(column) => (column, Test::Patterns(values.clone())),
                Effect::AnyWord(column) => (column, Test::AnyWord(values.clone())),
                Effect::Contains(column) => (column, Test::Contains(values.join(","))),
                Effect::Choice(column, choices) => {
                    let choice = choices.iter().find(|choice| choice.word == values[0])?;
                    (column, Test::Patterns(grammar::list(choice.patterns)))
                }
                _ => return None,
            };
            let column = match column {
                "FILESPACE_NAME" if self.names_numbers() => "FILESPACE_ID",
                column => column,
            };
            // A report over another view, as for schedules of the server, has no such column.
            let exists = report.view.columns().any(|known| known.name == column);
            exists.then_some(Filter { column, test })
        });
        let name = self.command.name();
        let without_rows = match report.without_rows.split_once(' ') {
            Some((number @ "ANR8346I", text)) => Message::done(number, text),
            Some((number, text)) => Message::refusal(number, ReturnCode::NoMatch, text),
            None => Message::no_match(&name),
        };
        let is_timed = self.command.parameters.iter().any(|each| each.name == "BEGINDate");
        Ok(QueryPlan {
            report,
            is_detailed: self.values.get("Format").is_some_and(|values| values[0] == "DETAILED"),
            filters: filters.collect(),
            period: if is_timed { Some(self.period()?) } else { None },
            without_rows,
            rows_max: self.values.get("COUnt").and_then(|values| values[0].parse().ok()),
        })
    }

    /// Returns true if the names of filespaces are their numbers.
    fn names_numbers(&self) -> bool {
        self.values.get("NAMEType").is_some_and(|values| values[0] == "FSID")
    }

    /// Returns the period that the parameters name. Without them it is the last hour for a log, and
    /// the present day for anything else.
    fn period(&self) -> Result<Period, Message> {
        let is_log = self.command.noun == "ACtlog";
        let midnight = self.now.date().at(0, 0, 0, 0);
        let hour_ago = self.now.checked_sub(jiff::Span::new().hours(1)).unwrap_or(midnight);
        let last = self.now.date().to_datetime(time(23, 59, 59, 0));
        let (from, to) = if is_log { (hour_ago, self.now) } else { (midnight, last) };
        let begin_day_only = is_log && self.has("BEGINDate") && !self.has("BEGINTime");
        let from = if begin_day_only { midnight } else { from };
        let to = if is_log && self.has("ENDDate") { last } else { to };
        let end = |day, time, default| {
            let words = EndWords { day: self.text(day), time: self.text(time) };
            calendar::end(words, default, self.now).ok_or_else(|| {
                let value = words.day.or(words.time).unwrap_or_default();
                let expected = "a day or a time, as in TODAY-7, 11/26/2026, 22:00 or NOW-01:00";
                Message::invalid_value(&self.command.name(), &day.to_uppercase(), value, expected)
            })
        };
        Ok(Period {
            from: end("BEGINDate", "BEGINTime", from)?,
            to: end("ENDDate", "ENDTime", to)?,
        })
    }
}

/// Returns the names of policy sets as rows have them. Each name but ACTIVE means the one draft of
/// a domain.
fn sets(names: &[String]) -> Vec<String> {
    let is_meant_as_it_is =
        |name: &String| name.contains(['*', '?']) || name.eq_ignore_ascii_case("ACTIVE");
    let set = |name: &String| {
        if is_meant_as_it_is(name) { name.clone() } else { "STANDARD".to_owned() }
    };
    names.iter().map(set).collect()
}

fn subject(noun: Noun) -> &'static str {
    match noun {
        Noun::Node => "node",
        Noun::Domain => "policy domain",
        Noun::Schedule => "schedule",
        Noun::OptionSet => "client option set",
        Noun::Pool => "storage pool",
        Noun::Volume => "volume",
        Noun::Library => "library",
    }
}

/// Returns the known name that is meant: exactly, or otherwise in another case.
fn one(name: &str, known: &[String]) -> Option<String> {
    let exact = known.iter().find(|known| *known == name);
    let found = exact.or_else(|| known.iter().find(|known| known.eq_ignore_ascii_case(name)));
    found.cloned()
}

/// Returns the known names that `given` names or matches, and those of `given` that find nothing.
fn several(given: &[String], known: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for pattern in given {
        let mut matching = match one(pattern, known) {
            Some(name) => vec![name],
            None => {
                let is_meant =
                    |name: &&String| grammar::matches_any(std::slice::from_ref(pattern), name);
                known.iter().filter(is_meant).cloned().collect()
            }
        };
        if matching.is_empty() {
            absent.push(pattern.clone());
        }
        matching.retain(|name| !found.contains(name));
        found.append(&mut matching);
    }
    (found, absent)
}
