//! `holdfast enroll`: makes this machine a node of a server.

use std::io::Read as _;

use client::{ClientError, ErrorKind};
use serde::Serialize;

use crate::address;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::{self, JsonPath};

/// Maximum number of bytes of a token that are read.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Next thing to do after the refusal of a key.
const KEY_HINT: &str = "the administrator makes a new key with 'holdfast admin enrolment-key add', \
     or a token for this machine alone with 'holdfast admin node add NAME'";
/// Next thing to do after the refusal of a token.
const TOKEN_HINT: &str = "if this machine has used it, 'holdfast status' shows its server; \
     otherwise the administrator makes a new token with 'holdfast admin node add NAME --again'";

/// Make this machine a node of a server, with a token or a key from the server's administrator
///
/// A token is for one node, which the administrator has named. An enrolment key is for many
/// machines, each of which gets the name that it gives.
///
/// The key is made here and does not leave this machine. The token holds the fingerprint of the
/// server's certificate authority, so that no other server can take the place of this one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast enroll backup.example.org:1500 --token TOKEN
  holdfast enroll backup.example.org --token - < token
  holdfast enroll backup.example.org --token KEY --name web-17")]
pub(crate) struct Args {
    /// The server, or several servers of one catalogue separated by commas [default port: 1500]
    #[arg(value_name = "HOST[:PORT]")]
    server: String,
    /// One-time token of 'holdfast admin node add', or key of 'holdfast admin enrolment-key add'; -
    /// reads it from standard input
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    token: String,
    /// With an enrolment key: the name of the node [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Serialize)]
struct EnrolmentDocument<'a> {
    node: &'a str,
    server: &'a str,
    home: JsonPath<'a>,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let token = if args.token == "-" { token_from_stdin()? } else { args.token };
    let server = address::with_ports(&args.server);
    let enrolment = client::enrol(&home, &server, token.trim(), args.name.as_deref())
        .map_err(|error| with_next_step(error, client::is_enrolment_key(&token)))?;
    if context.output.is_json() {
        let home = path::bytes(&home);
        context.output.json(&EnrolmentDocument {
            node: &enrolment.node,
            server: &enrolment.server,
            home: JsonPath(&home),
        });
    } else if !context.global.quiet {
        let text = format!(
            "This machine is node {} of the server {}; its keys are in {}.",
            enrolment.node,
            enrolment.server,
            home.display()
        );
        context.output.line(&text);
    }
    Ok(DONE)
}

/// Says where a new token or key comes from, if the server has refused this one.
fn with_next_step(error: ClientError, is_key: bool) -> CommandError {
    let is_refused = error.kind == ErrorKind::Refused;
    let error = CommandError::from(error);
    let hint = if is_key { KEY_HINT } else { TOKEN_HINT };
    if is_refused { error.with_hint(hint) } else { error }
}

fn token_from_stdin() -> Result<String, CommandError> {
    let mut token = String::new();
    let read = std::io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_string(&mut token);
    read.map_err(|error| {
        CommandError::new(format!("cannot read the token from standard input: {error}"))
    })?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_token_or_key_leads_to_a_new_one() {
        let hint = |kind, is_key| with_next_step(ClientError::new(kind, "used"), is_key).hint;
        assert!(hint(ErrorKind::Refused, false).is_some_and(|hint| hint.contains("--again")));
        assert!(
            hint(ErrorKind::Refused, true).is_some_and(|hint| hint.contains("enrolment-key add"))
        );
        assert_eq!(hint(ErrorKind::Usage, true), None);
    }
}
