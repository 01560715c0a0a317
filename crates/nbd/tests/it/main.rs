//! Tests with nbdkit, and with servers that break the protocol.

mod hostile;
mod nbdkit;
mod server;
