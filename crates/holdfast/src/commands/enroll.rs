//! `holdfast enroll`: makes this machine a node of a server.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use client::authority::{self, Fingerprint};
use client::{ClientError, ErrorKind};
use serde::Serialize;

use crate::authorities::{self, AuthorityClues};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::{self, JsonPath};
use crate::values::ValueError;
use crate::{address, output, secret};

/// Next thing to do after the refusal of a key.
const KEY_HINT: &str = "the administrator makes a new key with 'holdfast admin enrolment-key add', \
     or a token for this machine alone with 'holdfast admin node add NAME'";
/// Next thing to do after the refusal of a token.
const TOKEN_HINT: &str = "if this machine has used it, 'holdfast status' shows its server; \
     otherwise the administrator makes a new token with 'holdfast admin node add NAME --again'";
/// Message for the refusal of a password. The server takes a password for a token.
const PASSWORD_REFUSED: &str = "the server refuses the password: it is not that of a node with \
     this name, or it was used already, or it has expired";
/// Next thing to do after the refusal of a password.
const PASSWORD_HINT: &str = "if this machine has used it, 'holdfast status' shows its server; \
     otherwise the administrator gives the node another password with \
     'holdfast admin node add NAME --again --password -'";

/// Secret by which a machine becomes a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Credential {
    Token,
    Key,
    Password,
}

/// Make this machine a node of a server, with a token or a key from the server's administrator
///
/// A token is for one node, which the administrator has named. An enrolment key is for many
/// machines, each of which gets the name that it gives. A password is for one node, too, and works
/// once.
///
/// The key is made here and does not leave this machine. The token holds the fingerprint of the
/// server's certificate authority (CA), so that no other server can take the place of this one.
/// With a password, the CA has to be in the system's store of certificates, or be given, or a
/// person compares its fingerprint.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast enroll backup.example.org:1500 --token TOKEN
  holdfast enroll backup.example.org --token - < token
  holdfast enroll backup.example.org --token KEY --name web-17
  holdfast enroll backup.example.org --name web-17 --password - --ca-file ca.pem < password")]
pub(crate) struct Args {
    /// The server, or several servers of one catalogue separated by commas [default port: 1500]
    #[arg(value_name = "HOST[:PORT]", value_parser = addresses)]
    server: String,
    /// One-time token of 'holdfast admin node add', or key of 'holdfast admin enrolment-key add'; -
    /// reads it from standard input
    #[arg(
        long,
        value_name = "TOKEN",
        allow_hyphen_values = true,
        required_unless_present = "password"
    )]
    token: Option<String>,
    /// With an enrolment key or a password: the name of the node [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Password that the administrator has given the node, in place of a token; - reads it from
    /// standard input
    #[arg(long, value_name = "PASSWORD", allow_hyphen_values = true, conflicts_with = "token")]
    password: Option<String>,
    /// With a password: file with the certificate of the server's CA, its ca.pem
    #[arg(long, value_name = "FILE", requires = "password")]
    ca_file: Option<PathBuf>,
    /// With a password: fingerprint of the server's CA, SHA-256 in hexadecimal digits
    #[arg(
        long,
        value_name = "HEX",
        requires = "password",
        conflicts_with = "ca_file",
        value_parser = fingerprint
    )]
    ca_fingerprint: Option<Fingerprint>,
}

/// Takes the addresses of servers. A URL would be looked up as the name of a host.
fn addresses(text: &str) -> Result<String, ValueError> {
    if text.contains('/') {
        return Err(ValueError::Rule("give HOST:PORT, as in backup.example.org:1500, and no URL"));
    }
    Ok(text.to_owned())
}

fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    Fingerprint::parse(text).ok_or_else(|| "64 hexadecimal digits are expected".to_owned())
}

#[derive(Serialize)]
struct EnrolmentDocument<'a> {
    node: &'a str,
    server: &'a str,
    home: JsonPath<'a>,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let server = address::with_ports(&args.server);
    let has_password = args.password.is_some();
    let (token, name) = credentials(args, &server)?;
    let credential = match has_password {
        true => Credential::Password,
        false if client::is_enrolment_key(&token) => Credential::Key,
        false => Credential::Token,
    };
    let enrolment = client::enrol(&home, &server, &token, name.as_deref())
        .map_err(|error| with_next_step(error, credential))?;
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

/// Says where a new token, key or password comes from, if the server has refused this one.
fn with_next_step(error: ClientError, credential: Credential) -> CommandError {
    let is_refused = error.kind == ErrorKind::Refused;
    let error = CommandError::from(error);
    let secret = if credential == Credential::Key { "the enrolment key" } else { "the token" };
    match credential {
        // Files that may not be written and servers that are not trusted are refusals, too.
        _ if !is_refused || !error.message.contains(secret) => error,
        Credential::Token => error.with_hint(TOKEN_HINT),
        Credential::Key => error.with_hint(KEY_HINT),
        Credential::Password => {
            let message = PASSWORD_REFUSED.to_owned();
            CommandError { message, ..error }.with_hint(PASSWORD_HINT)
        }
    }
}

/// Returns the token, and the name that goes with an enrolment key.
fn credentials(args: Args, server: &str) -> Result<(String, Option<String>), CommandError> {
    let Some(password) = args.password else {
        let token = args.token.unwrap_or_default();
        return Ok((secret::given(&token, "token")?, args.name));
    };
    let known = AuthorityClues { fingerprint: args.ca_fingerprint, file: args.ca_file };
    let password = secret::given(&password, "password")?;
    let authority = authorities::trusted(server, &known, &mut is_agreed)?;
    let name = args.name.unwrap_or_else(sys::net::host_name);
    // The name is a part of the secret.
    Ok((authority::password_token(&name, &password, authority)?, None))
}

/// Asks a person at the terminal.
fn is_agreed(question: &str) -> Result<bool, CommandError> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    output::say_lines(&format!("{question} (yes or no)"));
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CommandError::new(format!("cannot read the answer: {error}")))?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The URL was looked up as the name of a host.
    #[test]
    fn a_url_is_no_address() {
        for address in ["backup.example.org", "one:1500,two:1600", "[::1]:1500"] {
            assert_eq!(addresses(address), Ok(address.to_owned()));
        }
        for url in ["https://backup.example.org:1500", "backup.example.org/"] {
            let refusal = addresses(url).expect_err("refused").to_string();
            assert!(refusal.starts_with("give HOST:PORT"), "{refusal}");
        }
    }

    #[test]
    fn a_refused_token_or_key_leads_to_a_new_one() {
        let hint = |kind, reason, given| with_next_step(ClientError::new(kind, reason), given).hint;
        let refused = |reason, given| hint(ErrorKind::Refused, reason, given).unwrap_or_default();
        let (token, key) = ("the token was used already", "the enrolment key has expired");
        assert!(refused(token, Credential::Token).contains("--again"));
        assert!(refused(key, Credential::Key).contains("enrolment-key add"));
        assert_eq!(hint(ErrorKind::Usage, key, Credential::Key), None);
        assert_eq!(refused("cannot make /etc/holdfast", Credential::Token), "");
    }

    /// The server speaks of a token, which the person does not have.
    #[test]
    fn a_refused_password_is_called_a_password() {
        let of = |kind| with_next_step(ClientError::new(kind, "the token"), Credential::Password);
        let refused = of(ErrorKind::Refused);
        assert_eq!(
            (refused.message.as_str(), refused.kind),
            (PASSWORD_REFUSED, Some(ErrorKind::Refused))
        );
        assert!(refused.hint.is_some_and(|hint| hint.contains("--again --password")));
        assert_eq!(of(ErrorKind::Usage).message, "the token");
        let file = ClientError::new(ErrorKind::Refused, "cannot make /etc/holdfast");
        let file = with_next_step(file, Credential::Password);
        assert_eq!((file.message.as_str(), file.hint), ("cannot make /etc/holdfast", None));
    }
}
