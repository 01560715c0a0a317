//! `holdfast admin api`: any operation of the REST API, over the administration socket.

use client::admin::{Admin, RestAnswer};
use serde_json::Value;

use crate::context::Context;
use crate::error::{CommandError, DONE};

/// Status of an answer about an object that does not exist.
const NOT_FOUND: u16 = 404;

/// Send a request to the REST API of the server, as its administrator
///
/// The operations are those of docs/reference/openapi.json. The answer is JSON; files, archives and
/// other content are written to standard output as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin api GET /v1/nodes
  holdfast admin api POST /v1/domains --data '{\"name\": \"LAB\"}'
  holdfast admin api GET '/v1/nodes/web-1/content?filespace=/&path=/etc/fstab' > fstab")]
pub(crate) struct Args {
    /// The method: GET, POST, PUT, PATCH or DELETE
    #[arg(value_name = "METHOD", value_parser = ["GET", "POST", "PUT", "PATCH", "DELETE"])]
    #[arg(ignore_case = true)]
    method: String,
    /// The path with its parameters, as in '/v1/nodes?limit=5'
    #[arg(value_name = "PATH")]
    path: String,
    /// The body, as JSON
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    if !args.path.starts_with('/') {
        let message = format!("the path '{}' does not begin with a slash", args.path);
        return Err(CommandError::usage(&message, "holdfast admin api"));
    }
    let mut write = |part: &[u8]| context.output.content(part);
    let answer = admin.rest_to(&args.method, &args.path, args.data.clone(), &mut write)?;
    let value = success(answer)?;
    match (value, context.output.is_json()) {
        (Value::Null, _) => {}
        (value, true) => context.output.json(&value),
        (value, false) => context.output.pretty_json(&value),
    }
    Ok(DONE)
}

/// Sends a request and returns its answer.
pub(crate) fn ask(
    admin: &mut Admin,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, CommandError> {
    success(admin.rest(method, path, body.map(Value::to_string))?)
}

/// Asks for an object; `None` if there is no such object.
pub(crate) fn look_up(admin: &mut Admin, path: &str) -> Result<Option<Value>, CommandError> {
    let answer = admin.rest("GET", path, None)?;
    if answer.status == NOT_FOUND {
        return Ok(None);
    }
    success(answer).map(Some)
}

/// Reads all pages of a list.
pub(crate) fn pages(admin: &mut Admin, path: &str) -> Result<Vec<Value>, CommandError> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let between = if path.contains('?') { '&' } else { '?' };
        let page = match &cursor {
            None => ask(admin, "GET", path, None)?,
            Some(cursor) => ask(admin, "GET", &format!("{path}{between}cursor={cursor}"), None)?,
        };
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(items),
        }
    }
}

/// Returns the document of a successful answer. Text that is not JSON is a string.
fn success(answer: RestAnswer) -> Result<Value, CommandError> {
    if answer.body.is_empty() && answer.is_success() {
        return Ok(Value::Null);
    }
    let value = value(&answer);
    if answer.is_success() && value["code"] != "approval-needed" {
        return Ok(value);
    }
    Err(failure(&answer))
}

fn value(answer: &RestAnswer) -> Value {
    let text = || String::from_utf8_lossy(&answer.body).into_owned();
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| Value::String(text()))
}

/// Returns the error for an answer that is a problem.
pub(super) fn failure(answer: &RestAnswer) -> CommandError {
    let text = || String::from_utf8_lossy(&answer.body).into_owned();
    let detail = value(answer)["detail"].as_str().map_or_else(text, str::to_owned);
    CommandError::new(detail)
}
