//! Plans: what is to be done for a command.

use crate::admin::calendar::Period;
use crate::admin::grammar;
use crate::admin::message::Message;
use crate::admin::report::{Report, plain};
use crate::admin::view::{Table, Value};

/// Things to be done for a command.
#[derive(Debug)]
pub enum Plan {
    Query(Box<QueryPlan>),
    /// Command lines of `holdfast`, in their order.
    Lines(Vec<Line>),
    Work(Work),
    /// Nothing, with the reason.
    Nothing(Message),
    Program(Program, Vec<String>),
}

/// Work by calls of the server for which there is no command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    CopySchedule {
        from: String,
        to: String,
    },
    CopyDomain {
        from: String,
        to: String,
    },
    CopyClass {
        domain: String,
        from: String,
        to: String,
    },
    CopyOptionSet {
        from: String,
        to: String,
    },
    /// Makes the draft of a domain its active set. `set` is the name that the command gives it.
    ActivateSet {
        domain: String,
        set: String,
    },
    /// Adds statements of Holdfast to those of an option set.
    AddStatements {
        set: String,
        /// Statements, one on each line.
        statements: Vec<u8>,
    },
    /// Cancels the event with this number, at a node.
    CancelSession {
        number: u64,
    },
    /// Cancels all events that run at nodes.
    CancelSessions,
    /// Cancels the event with this number, at the server.
    CancelProcess {
        number: u64,
    },
    /// Cancels all requests for packs on volumes.
    CancelRequests,
    /// Removes filespaces of a node with their backups.
    RemoveFilespaces {
        node: String,
        /// Names, or `*` for all.
        names: Vec<String>,
        /// True if the names are numbers of filespaces.
        are_numbers: bool,
    },
    Reclaim {
        pool: String,
        dead_percent: Option<u32>,
    },
    Halt,
}

/// An answer to a query: its rows, and their form.
#[derive(Debug)]
pub struct QueryPlan {
    pub report: &'static Report,
    pub is_detailed: bool,
    pub filters: Vec<Filter>,
    /// Time of the rows, for views that have one.
    pub period: Option<Period>,
    /// Message if no row is left.
    pub without_rows: Message,
    /// Maximum number of rows.
    pub rows_max: Option<u64>,
}

/// A condition on the rows of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    pub column: &'static str,
    pub test: Test,
}

/// Test of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// One of these patterns.
    Patterns(Vec<String>),
    /// Has a word, between blanks, of one of these patterns.
    AnyWord(Vec<String>),
    /// Contains this text, in upper or lower case.
    Contains(String),
}

impl Filter {
    fn accepts(&self, value: &Value) -> bool {
        let text = plain(value);
        match &self.test {
            // A schedule of Holdfast may belong to no domain, and then it belongs to any.
            Test::Patterns(_) if text.is_empty() && self.column == "DOMAIN_NAME" => true,
            Test::Patterns(patterns) => grammar::matches_any(patterns, &text),
            Test::AnyWord(patterns) => {
                text.split(' ').any(|word| grammar::matches_any(patterns, word))
            }
            Test::Contains(part) => text.to_lowercase().contains(&part.to_lowercase()),
        }
    }
}

impl QueryPlan {
    /// Keeps the rows that meet the conditions.
    pub fn keep(&self, table: &mut Table) {
        for filter in &self.filters {
            let index = table.view.index(filter.column);
            table.rows.retain(|row| filter.accepts(&row[index]));
        }
    }

    /// Returns the only text that a column may have, if the conditions say it.
    pub fn only(&self, column: &str) -> Option<&str> {
        let filter = self.filters.iter().find(|filter| filter.column == column)?;
        match &filter.test {
            Test::Patterns(patterns) => match &patterns[..] {
                [only] if !only.contains(['*', '?']) => Some(only),
                _ => None,
            },
            Test::AnyWord(_) | Test::Contains(_) => None,
        }
    }
}

/// A command of the administrative command line itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    Select,
    Macro,
    Help,
    Quit,
    /// Ends a transaction. Each command is one by itself.
    Commit,
}

/// A condition on the draft of a policy domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// It has no class of this name.
    NewClass { domain: String, class: String },
    /// It can be activated.
    Activatable { domain: String },
}

/// A command line of `holdfast`, and the message after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Words after the name of the program.
    pub words: Vec<String>,
    pub done: Message,
    /// True if people read the output of the line; otherwise it runs quietly.
    pub is_report: bool,
    /// True if its output is for programs, and is not shown.
    pub is_silent: bool,
    /// Condition that must hold before the line runs.
    pub condition: Option<Condition>,
}

impl Line {
    /// Begins a line of `holdfast admin`.
    pub(super) fn admin<const N: usize>(words: [&str; N], done: Message) -> Self {
        let words = std::iter::once("admin").chain(words).map(str::to_owned).collect();
        Self { words, done, is_report: false, is_silent: false, condition: None }
    }

    /// Makes the line of a reclamation: of a pool on volumes, or of all other pools.
    pub fn reclaim(pool: Option<&str>, dead_percent: Option<u32>, done: Message) -> Self {
        let line = match pool {
            Some(pool) => Self::admin(["volume", "reclaim", pool], done),
            None => Self::admin(["reclaim"], done),
        };
        line.option("--dead-percent", dead_percent.map(|percent| percent.to_string()))
    }

    /// Makes the line that makes the draft of a domain its active set.
    pub fn activate(domain: &str, done: Message) -> Self {
        Self::admin(["policy", "activate"], done).option("--domain", Some(domain))
    }

    /// Makes the line that removes a filespace with its backups.
    pub fn remove_filespace(node: &str, filespace: &str, done: Message) -> Self {
        Self::admin(["filespace", "remove", node, filespace, "--confirm"], done)
    }

    /// Marks the line as one whose output people read.
    pub(super) fn report(self) -> Self {
        Self { is_report: true, ..self }
    }

    /// Marks the line as one whose output is not shown.
    pub(super) fn silent(self) -> Self {
        Self { is_silent: true, ..self }
    }

    /// Adds what must hold before the line runs.
    pub(super) fn provided(self, condition: Condition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Adds an option with its value, if there is one. A value that begins with a hyphen stays one.
    pub(super) fn option(mut self, name: &str, value: Option<impl Into<String>>) -> Self {
        if let Some(value) = value {
            self.words.push(format!("{name}={}", value.into()));
        }
        self
    }

    /// Adds an option without a value.
    pub(super) fn switch(mut self, name: &str, is_set: bool) -> Self {
        if is_set {
            self.words.push(name.to_owned());
        }
        self
    }

    /// Returns the only line of a plan.
    pub(super) fn plan(self) -> Plan {
        Plan::Lines(vec![self])
    }
}
