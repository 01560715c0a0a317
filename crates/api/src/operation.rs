//! Operations: what a program or a person can ask the service to do.

use axum::http::Method;

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
}

impl Operation {
    /// Makes an operation that reads.
    pub(crate) const fn read(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self { id, method: Method::GET, path, area, right: Right::Read, summary, volatile: &[] }
    }

    /// Makes an operation that changes something by POST.
    pub(crate) const fn post(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self { id, method: Method::POST, path, area, right: Right::Write, summary, volatile: &[] }
    }

    /// Makes an operation that changes fields of an object.
    pub(crate) const fn patch(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self { id, method: Method::PATCH, path, area, right: Right::Write, summary, volatile: &[] }
    }

    /// Makes an operation that replaces an object.
    pub(crate) const fn put(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self { id, method: Method::PUT, path, area, right: Right::Write, summary, volatile: &[] }
    }

    /// Makes an operation that removes an object.
    pub(crate) const fn delete(
        id: &'static str,
        path: &'static str,
        area: Area,
        summary: &'static str,
    ) -> Self {
        Self { id, method: Method::DELETE, path, area, right: Right::Write, summary, volatile: &[] }
    }

    /// Names the fields of the object's document that change by themselves. They are not part of
    /// the tag by which changes meet.
    pub(crate) fn volatile(self, fields: &'static [&'static str]) -> Self {
        Self { volatile: fields, ..self }
    }
}
