//! The stage of the story: a server, its people, and the objects in place of those of the examples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use e2e::harness::Keeper;
use e2e::harness::api::{Answer, Caller};
use e2e::schema::Schemas;
use serde_json::Value;

use super::request::{Operation, Request, media};
use crate::api::Provider;

/// A server with the examples that have been run.
pub(super) struct Stage {
    pub(super) service: Provider,
    /// The person anna of the examples, with a key.
    pub(super) anna: Caller,
    document: Value,
    operations: Vec<Operation>,
    /// Texts in place of those of the examples.
    texts: BTreeMap<String, String>,
    /// Values of parameters in place of those of the examples.
    numbers: BTreeMap<String, Value>,
    /// The examples that have been run, by operation and name.
    done: BTreeSet<(String, String)>,
    /// Program that takes notices as long as the stage lasts.
    _webhook: Keeper,
}

impl Stage {
    /// Makes a server. Returns `None` if the machine lacks a program.
    pub(super) fn new() -> Option<Self> {
        let service = Provider::new();
        let webhook = Keeper::webhook(&service.scratch.join("webhook"), &[])?;
        let folder = service.server.dir();
        fs::write(folder.join("webhook.secret"), "a secret of the webhook\n").unwrap();
        let config = fs::read_to_string(folder.join("server.toml")).unwrap();
        let stage = config.lines().find(|line| line.starts_with("stage_bytes")).unwrap();
        let config = config.replace(stage, "stage_bytes = 0") + &super::alerts(&webhook);
        fs::write(folder.join("server.toml"), config).unwrap();
        let mut service = service;
        service.server.restart();
        let document = service.stranger.get("/v1/openapi.json").expect(200).json();
        Some(Self {
            anna: service.stranger.clone(),
            operations: Operation::all(&document),
            document,
            texts: BTreeMap::new(),
            numbers: BTreeMap::new(),
            done: BTreeSet::new(),
            _webhook: webhook,
            service,
        })
    }

    pub(super) fn root(&self) -> Caller {
        self.service.root.clone()
    }

    pub(super) fn stranger(&self) -> Caller {
        self.service.stranger.clone()
    }

    /// Puts a text in place of one of the examples.
    pub(super) fn replace(&mut self, example: &str, actual: &str) {
        self.texts.insert(example.to_owned(), actual.to_owned());
    }

    /// Gives the parameter of this name a number in place of that of the examples.
    pub(super) fn number(&mut self, parameter: &str, actual: &Value) {
        assert!(actual.is_u64(), "{parameter}: {actual}");
        self.numbers.insert(parameter.to_owned(), actual.clone());
    }

    /// Replaces a line of the configuration, and restarts the server.
    pub(super) fn configure(&mut self, line: &str, by: &str) {
        let file = self.service.server.dir().join("server.toml");
        let config = fs::read_to_string(&file).unwrap();
        assert!(config.contains(line), "{config}");
        fs::write(&file, config.replace(line, by)).unwrap();
        self.service.server.restart();
    }

    /// Adds a section to the configuration, and restarts the server.
    pub(super) fn add_configuration(&mut self, section: &str) {
        let file = self.service.server.dir().join("server.toml");
        let config = fs::read_to_string(&file).unwrap();
        fs::write(&file, config + section).unwrap();
        self.service.server.restart();
    }

    #[track_caller]
    fn operation(&self, id: &str) -> Operation {
        let found = self.operations.iter().find(|one| one.id == id);
        found.unwrap_or_else(|| panic!("there is no operation {id}")).clone()
    }

    /// Runs all examples of an operation. Returns the last answer.
    #[track_caller]
    pub(super) fn run(&mut self, id: &str, caller: &Caller) -> Answer {
        let names = self.operation(id).examples();
        let mut last = None;
        for name in names {
            last = Some(self.run_example(id, &name, caller));
        }
        last.unwrap_or_else(|| panic!("{id} has no example"))
    }

    /// Runs one example of an operation. Returns its answer.
    #[track_caller]
    pub(super) fn run_one(&mut self, id: &str, example: &str, caller: &Caller) -> Value {
        self.run_example(id, example, caller).json()
    }

    #[track_caller]
    fn run_example(&mut self, id: &str, example: &str, caller: &Caller) -> Answer {
        let operation = self.operation(id);
        if let Some(schema) = operation.body_schema() {
            for Request { body, .. } in operation.requests(example, |_, value| value.clone()) {
                let checked = Schemas::new(&self.document).check(&schema, &body.unwrap());
                assert_eq!(checked, Ok(()), "{id} {example}");
            }
        }
        let value = |name: &str, value: &Value| match self.numbers.get(name) {
            Some(number) => number.clone(),
            None => self.actual(value),
        };
        let mut last = None;
        for Request { path, body } in operation.requests(example, value) {
            let body = body.map(|body| self.actual(&body));
            let answer = caller.send(&operation.method, &path, body.as_ref());
            let shown = format!("{id} {example}: {} {path} {body:?}", operation.method);
            self.check(&operation, &answer, &shown);
            last = Some(answer);
        }
        assert!(self.done.insert((id.to_owned(), example.to_owned())), "{id} {example} was run");
        last.expect("an example is at least one request")
    }

    /// Returns a value with actual texts in place of those of the examples.
    fn actual(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.texts.get(text).unwrap_or(text).clone().into(),
            Value::Array(items) => items.iter().map(|item| self.actual(item)).collect(),
            Value::Object(fields) => {
                let actual = |(name, field): (&String, &Value)| (name.clone(), self.actual(field));
                Value::Object(fields.iter().map(actual).collect())
            }
            other => other.clone(),
        }
    }

    /// Fails unless the answer is what the document promises.
    #[track_caller]
    fn check(&self, operation: &Operation, answer: &Answer, shown: &str) {
        let (status, promised) = operation.success();
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{shown}: {text}");
        let Some(content) = promised.get("content") else {
            return assert!(answer.body.is_empty(), "{shown}: {text}");
        };
        let kind = answer.header("content-type").unwrap_or_default();
        let expected = content.as_object().unwrap().keys().next().unwrap();
        assert!(expected == "*/*" || kind == expected, "{shown}: {kind}");
        if kind != "application/json" {
            return;
        }
        let checked = Schemas::new(&self.document).check(&media(content)["schema"], &answer.json());
        assert_eq!(checked, Ok(()), "{shown}: {text}");
        if let Some(example) = media(content).get("example") {
            let (is, promised) = (answer.json(), self.actual(example));
            assert_eq!(without_times(&is), without_times(&promised), "{shown}");
        }
    }

    /// Notes an example that this machine cannot run.
    pub(super) fn leave_out(&mut self, id: &str, example: Option<&str>) {
        let names = match example {
            Some(name) => vec![name.to_owned()],
            None => self.operation(id).examples(),
        };
        self.done.extend(names.into_iter().map(|name| (id.to_owned(), name)));
    }

    #[track_caller]
    pub(super) fn check_that_all_were_run(&self) {
        let examples = self.operations.iter().flat_map(|operation| {
            let of_operation = move |name| (operation.id.clone(), name);
            operation.examples().into_iter().map(of_operation)
        });
        let all: BTreeSet<(String, String)> = examples.collect();
        let left: Vec<_> = all.difference(&self.done).collect();
        assert!(left.is_empty(), "no test runs these examples: {left:?}");
        for operation in &self.operations {
            assert!(!operation.examples().is_empty(), "{} has no example", operation.id);
        }
    }
}

/// Returns a value in which each time is the same text.
fn without_times(value: &Value) -> Value {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => "a time".into(),
        Value::Array(items) => items.iter().map(without_times).collect(),
        Value::Object(fields) => {
            let bare = |(name, field): (&String, &Value)| (name.clone(), without_times(field));
            Value::Object(fields.iter().map(bare).collect())
        }
        other => other.clone(),
    }
}
