//! Tests with servers of others, nbdkit and qemu-nbd, and with servers that break the protocol.

mod hostile;
mod nbdkit;
mod qemu;
mod server;
