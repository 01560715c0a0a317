//! Operations: what a program or a person can ask the service to do.

use axum::http::Method;
use serde_json::Value;

use crate::examples::{self, Example};
use crate::roles::{Area, Right};

/// An operation of the service.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Name of the operation: the noun, a dot, and the verb.
    pub(crate) id: &'static str,
    pub(crate) method: Method,
    /// Path with its parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) area: Area,
    pub(crate) right: Right,
    /// One sentence that says what it does.
    pub(crate) summary: &'static str,
    /// Fields of the object's document that change by themselves.
    pub(crate) volatile: &'static [&'static str],
    /// True for a change that may wait for a drive or look at everything that is stored. Other
    /// changes wait for it only when a request has `If-Match`.
    pub(crate) is_slow: bool,
    /// Examples of requests with a body.
    pub(crate) examples: Vec<Example>,
    /// Values of parameters in the examples of this operation only.
    values: Vec<(&'static str, Value)>,
    /// Example of an answer.
    pub(crate) answer: Option<Value>,
}

impl Operation {
    fn new(
        id: &'static str,
        (method, path): (Method, &'static str),
        (area, right): (Area, Right),
        summary: &'static str,
    ) -> Self {
        let (volatile, is_slow) = (&[], false);
        let (examples, values, answer) = (Vec::new(), Vec::new(), None);
        Self { id, method, path, area, right, summary, volatile, is_slow, examples, values, answer }
    }

    /// Makes an operation that reads.
    pub(crate) fn read(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self::new(id, (Method::GET, path), (area, Right::Read), summary)
    }

    /// Makes an operation that changes something by POST.
    pub(crate) fn post(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self::new(id, (Method::POST, path), (area, Right::Write), summary)
    }

    /// Makes an operation that changes fields of an object.
    pub(crate) fn patch(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self::new(id, (Method::PATCH, path), (area, Right::Write), summary)
    }

    /// Makes an operation that replaces an object.
    pub(crate) fn put(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self::new(id, (Method::PUT, path), (area, Right::Write), summary)
    }

    /// Makes an operation that removes an object.
    pub(crate) fn delete(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self::new(id, (Method::DELETE, path), (area, Right::Write), summary)
    }

    /// Names the fields of the object's document that change by themselves. They are not part of
    /// the tag by which changes meet.
    pub(crate) fn volatile(self, fields: &'static [&'static str]) -> Self {
        Self { volatile: fields, ..self }
    }

    /// Says that the operation may take long.
    pub(crate) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    /// Gives an example of a body.
    pub(crate) fn example(mut self, name: &'static str, body: Value) -> Self {
        self.examples.push(Example { name, body });
        self
    }

    /// Gives a parameter another value than the examples of other operations have.
    pub(crate) fn value(mut self, parameter: &'static str, value: impl Into<Value>) -> Self {
        self.values.push((parameter, value.into()));
        self
    }

    /// Gives an example of an answer.
    pub(crate) fn answer(self, answer: Value) -> Self {
        Self { answer: Some(answer), ..self }
    }

    /// Returns the value of a parameter in the examples of this operation.
    pub(crate) fn value_of(&self, parameter: &str) -> Option<Value> {
        let own = self.values.iter().find(|(name, _)| *name == parameter);
        let own = own.map(|(_, value)| value.clone());
        own.or_else(|| examples::of_parameter(parameter))
    }
}
