//! Tests with servers that break the protocol, or that do not answer.

mod hostile;
