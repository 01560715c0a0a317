//! Actors of events in the audit trail that are neither nodes nor persons of the service.

/// The server, for what it does by itself.
pub const SERVER: &str = "server";
/// An administrator of the server's machine.
pub const ADMINISTRATOR: &str = "administrator";
