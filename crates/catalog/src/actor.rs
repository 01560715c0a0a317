//! Actors of events in the audit trail that are neither nodes nor persons of the service.

/// The server, for what it does by itself.
pub const SERVER: &str = "server";
/// An administrator of the server's machine.
pub const ADMINISTRATOR: &str = "administrator";

/// Returns the administrator with this user number; `None` if the system does not tell it.
pub fn administrator(uid: Option<u32>) -> String {
    match uid {
        Some(uid) => format!("{ADMINISTRATOR} (uid {uid})"),
        None => ADMINISTRATOR.to_owned(),
    }
}
