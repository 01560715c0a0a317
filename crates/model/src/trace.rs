//! The target of spans, by which they are told apart from messages.

/// Target of the spans of traces.
pub const TRACE: &str = "trace";
