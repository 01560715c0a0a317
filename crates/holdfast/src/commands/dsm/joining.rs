//! Joining: a node name with its password (PASSWORDACCESS GENERATE) becomes an enrolment.
//!
//! The password is that of the server's administrator for the node, a one-time token, or an
//! enrolment key. It comes from `-password=`, from PASSWORD in the option files, or from a person
//! at the terminal. It works once; from then on the node has a certificate. With a password, the
//! server's CA has to be known: by the file ca.pem, by the system's store, or by its fingerprint,
//! which a person compares.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Client, ClientError, ErrorKind, authority};
use dsm::configuration::{Identity, identity};
use serde_json::json;
use sys::terminal::HiddenInput;

use super::folders::{check_readable, check_server, node_in};
use super::import::Import;
use super::questions;
use super::session::Session;
use crate::authorities::{self, AuthorityClues};
use crate::error::{CommandError, DONE};
use crate::output;
use crate::waiter::LinkArgs;

const PASSWORD_HINT: &str = "the server's administrator gives the node a password with 'dsmadmc \
     register node NODE PASSWORD', or a token with 'holdfast admin node add NODE'; a password of a \
     TSM server is not known to a Holdfast server";
/// File with the certificate of the server's CA.
const AUTHORITY_FILE: &str = "ca.pem";

/// Makes the machine a node if it is none, connects, and writes the heading of the session.
pub(super) fn connect(session: &mut Session<'_>) -> Result<Client, CommandError> {
    let link = session.link();
    connect_by(session, &link)
}

/// Connects like [`connect`], and does not wait for a server that is away: a script that asks
/// wants an answer. In TSM, too, COMMRESTARTDURATION is for work that was interrupted.
pub(super) fn connect_at_once(session: &mut Session<'_>) -> Result<Client, CommandError> {
    let link = LinkArgs { wait: Some(Duration::ZERO), ..session.link() };
    connect_by(session, &link)
}

fn connect_by(session: &mut Session<'_>, link: &LinkArgs) -> Result<Client, CommandError> {
    ensure(session)?;
    let client = session.context.waiter(link)?.client()?;
    session.greet(client.hello(), client.server());
    Ok(client)
}

/// Makes the machine a node if it is none, and refuses a folder of another node.
fn ensure(session: &mut Session<'_>) -> Result<(), CommandError> {
    let Identity { node: wanted, server } = identity(session.options());
    match (node_in(&session.home), wanted) {
        (Some(node), Some(wanted)) if !node.eq_ignore_ascii_case(&wanted) => {
            Err(CommandError::new(format!(
                "{} is the folder of node {node}, and NODENAME is {wanted}",
                session.home.display()
            ))
            .with_hint("correct NODENAME, or name another folder with PASSWORDDIR"))
        }
        (Some(_), _) => check_server(&session.home, server.as_deref()),
        (None, _) => join(session),
    }
}

/// `dsmc set password`: enrols the machine, or says why there is nothing to set.
pub(super) fn set_password(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    if let Some(node) = node_in(&session.home) {
        session.say(&format!(
            "Node {node} has a key and a certificate, which renew themselves; there is no password \
             to set."
        ));
        session.document(&json!({"node": node, "enrolled": false}));
        return Ok(DONE);
    }
    join(session)?;
    let node = node_in(&session.home);
    session.document(&json!({"node": node, "enrolled": true}));
    Ok(DONE)
}

fn join(session: &mut Session<'_>) -> Result<(), CommandError> {
    check_readable(&session.home)?;
    let Identity { server, node: wanted } = identity(session.options());
    let server = server.ok_or_else(|| {
        let message = "this machine is not enrolled, and no option file has TCPSERVERADDRESS";
        CommandError::new(message).with_hint("run 'holdfast enroll HOST --token TOKEN'")
    })?;
    // Without NODENAME, the name of a node is that of its machine.
    let node = wanted.clone().unwrap_or_else(sys::net::host_name);
    let secret = secret(session, &node)?;
    let token = token_of(session, &server, &node, &secret)?;
    let enrolment = enrol(&session.home, &server, &token, &node)?;
    if wanted.is_some_and(|wanted| !enrolment.eq_ignore_ascii_case(&wanted)) {
        output::say(&format!(
            "The token is of node {enrolment}, and NODENAME is {node}: correct NODENAME."
        ));
    }
    session.remark(&format!("This machine is node {enrolment} of {server}."));
    let old = session.home.join("TSM.PWD");
    if old.try_exists().unwrap_or(false) {
        session.remark(&format!("{} is of TSM, and is left alone.", old.display()));
    }
    Import::of_files(&session.site).write(&session.home)
}

/// Returns the token of the secret: itself, or the one that stands for a password.
fn token_of(
    session: &mut Session<'_>,
    server: &str,
    node: &str,
    secret: &str,
) -> Result<String, CommandError> {
    if client::is_token(secret) {
        return Ok(secret.to_owned());
    }
    let known = AuthorityClues { fingerprint: None, file: authority_file(session) };
    let authority = authorities::trusted(server, &known, &mut |question| {
        questions::is_confirmed(session, question)
    });
    let authority = authority.map_err(|error| match error.is_loss {
        true => error,
        false => CommandError { message: format!("ANS1592E {}", error.message), ..error },
    })?;
    authority::password_token(node, secret, authority).map_err(|error| wrong_password(node, error))
}

/// Returns the file with the certificate of the server's CA: in the node's folder, or beside
/// dsm.sys.
fn authority_file(session: &Session<'_>) -> Option<PathBuf> {
    let beside = session.site.files.iter().filter_map(|file| file.parent());
    let folders = std::iter::once(session.home.as_path()).chain(beside);
    folders
        .map(|folder| folder.join(AUTHORITY_FILE))
        .find(|file| file.try_exists().unwrap_or(false))
}

/// Enrols with a one-time token, or with an enrolment key, which takes the name of the node.
fn enrol(home: &Path, server: &str, token: &str, node: &str) -> Result<String, CommandError> {
    let is_key = client::is_enrolment_key(token);
    let done = client::enrol(home, server, token, is_key.then_some(node));
    done.map(|enrolment| enrolment.node).map_err(|error| match error.kind {
        ErrorKind::Usage | ErrorKind::Refused => wrong_password(node, error),
        _ => error.into(),
    })
}

fn wrong_password(node: &str, error: ClientError) -> CommandError {
    let error = CommandError::from(error);
    let message = format!(
        "ANS1025E the server does not accept the password of node {node} ({})",
        error.message
    );
    CommandError::new(message).with_hint(PASSWORD_HINT)
}

/// Returns the password or the token, from the options or from the terminal.
fn secret(session: &mut Session<'_>, node: &str) -> Result<String, CommandError> {
    if let Some(token) = session.options().text("PASSWORD").filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    if !std::io::stdin().is_terminal() {
        let message = format!("ANS2050E node {node} is not enrolled, and no password is given");
        return Err(CommandError::new(message).with_hint(PASSWORD_HINT));
    }
    // The terminal must not show the password, as that of TSM's client does not.
    let _hidden = HiddenInput::begin(std::io::stdin());
    questions::ask(session, &format!("Password or token of node {node}:"))
}
