//! `holdfast enroll`: makes this machine a node of a server.

use std::io::Read as _;

use serde::Serialize;

use crate::address;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::{self, JsonPath};

/// Maximum number of bytes of a token that are read.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Make this machine a node of a server, with a token from the server's administrator
///
/// The key is made here and does not leave this machine. The token holds the fingerprint of the
/// server's certificate authority, so that no other server can take the place of this one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast enroll backup.example.org:1500 --token TOKEN
  holdfast enroll backup.example.org --token - < token")]
pub(crate) struct Args {
    /// The server, or several servers of one catalogue separated by commas [default port: 1500]
    #[arg(value_name = "HOST[:PORT]")]
    server: String,
    /// One-time token of 'holdfast admin node add'; - reads it from standard input
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    token: String,
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
    let enrolment = client::enrol(&home, &address::with_ports(&args.server), token.trim())?;
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

fn token_from_stdin() -> Result<String, CommandError> {
    let mut token = String::new();
    let read = std::io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_string(&mut token);
    read.map_err(|error| {
        CommandError::new(format!("cannot read the token from standard input: {error}"))
    })?;
    Ok(token)
}
