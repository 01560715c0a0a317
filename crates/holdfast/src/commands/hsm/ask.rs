//! Requests of a command to the worker of space management.

use std::path::PathBuf;

use ::hsm::{Reply, Request};

use crate::context::Context;
use crate::error::CommandError;

/// Sends a request to the worker. Every reply except the last goes to `visit`.
pub(super) fn ask(
    context: &Context,
    request: &Request,
    visit: &mut dyn FnMut(Reply) -> bool,
) -> Result<(), CommandError> {
    let folder = socket_folder(context)?;
    ::hsm::ask(&folder, request, visit).map_err(|error| CommandError::chain(&error))
}

/// Returns the folder with the worker's socket: the public folder if the user has named no folder
/// and has no socket in the user's own folder, otherwise the node's folder. Root always uses the
/// node's folder.
pub(super) fn socket_folder(context: &Context) -> Result<PathBuf, CommandError> {
    let home = context.home()?;
    let is_named = context.global.home.is_some() || std::env::var_os("HOLDFAST_HOME").is_some();
    let is_there = home.join(::hsm::SOCKET).try_exists().unwrap_or(false);
    if is_named || is_there || sys::process::is_root() {
        return Ok(home);
    }
    Ok(PathBuf::from(::hsm::PUBLIC_FOLDER))
}
