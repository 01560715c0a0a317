//! Table of all commands and their parameters, and the translation of a command into work.
//!
//! ```text
//!   statement -> find -> Command -> read -> Request -> resolve -> plan -> Plan
//!                (the table)       (values checked)   (names of   (what is to be done)
//!                                                      objects)
//! ```
//!
//! 1. A command changes something only through command lines of `holdfast admin`, or through the
//!    same calls of the server ([`Work`]).
//! 2. Each parameter has an effect. There is none that is read and forgotten.

mod definition;
mod lookup;
mod node_commands;
mod option_commands;
mod parameter;
mod plan;
mod policy_commands;
mod queries;
mod refusals;
mod schedule_commands;
mod storage_commands;
mod table;

pub use self::definition::{Action, Command, Request};
pub use self::lookup::{find, read};
pub use self::parameter::{Choice, Effect, Noun, Parameter, ValueKind};
pub use self::plan::{Condition, Filter, Line, Plan, Program, QueryPlan, Test, Work};
pub use self::table::all;
use super::message::Message;

/// Returns what is to be done for a request whose names are resolved.
pub fn plan(request: &Request) -> Result<Plan, Message> {
    let command = request.command;
    match command.action {
        Action::Query(report) => Ok(Plan::Query(Box::new(request.show(report(request))?))),
        Action::Order(translate) => translate(request),
        Action::Program(program) => Ok(Plan::Program(program, request.words())),
        Action::Unsupported => Err(Message::unsupported(&command.name(), command.becomes)),
    }
}

#[cfg(test)]
mod tests;
