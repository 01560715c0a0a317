//! Joining: a node name with its password (PASSWORDACCESS GENERATE) becomes an enrolment.
//!
//! The password is a one-time token or an enrolment key, which the server's administrator gives. It
//! comes from `-password=`, from PASSWORD in the option files, or from a person at the terminal. A
//! password of a TSM server is no token: no Holdfast server knows it.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use client::ErrorKind;
use dsm::configuration::{Identity, identity};

use super::folders::node_in;
use super::import::Import;
use super::session::Session;
use crate::error::{CommandError, DONE};
use crate::output;

const TOKEN_HINT: &str = "the server's administrator makes a token with 'holdfast admin node add \
     NODE'; give it with -password=TOKEN, or at the terminal";

/// Makes the machine a node if it is none, and refuses a folder of another node.
pub(super) fn ensure(session: &mut Session<'_>) -> Result<(), CommandError> {
    let Identity { node: wanted, .. } = identity(session.options());
    match (node_in(&session.home), wanted) {
        (Some(node), Some(wanted)) if !node.eq_ignore_ascii_case(&wanted) => {
            Err(CommandError::new(format!(
                "{} is the folder of node {node}, and NODENAME is {wanted}",
                session.home.display()
            ))
            .with_hint("correct NODENAME, or name another folder with PASSWORDDIR"))
        }
        (Some(_), _) => Ok(()),
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
        return Ok(DONE);
    }
    join(session)?;
    Ok(DONE)
}

fn join(session: &mut Session<'_>) -> Result<(), CommandError> {
    let Identity { server, node } = identity(session.options());
    let absent = |what: &str| {
        let message = format!("this machine is not enrolled, and no option file has {what}");
        CommandError::new(message).with_hint("run 'holdfast enroll HOST --token TOKEN'")
    };
    let server = server.ok_or_else(|| absent("TCPSERVERADDRESS"))?;
    let node = node.ok_or_else(|| absent("NODENAME"))?;
    let token = token(session, &node)?;
    let enrolment = enrol(&session.home, &server, &token, &node)?;
    if !enrolment.eq_ignore_ascii_case(&node) {
        output::say(&format!(
            "The token is of node {enrolment}, and NODENAME is {node}: correct NODENAME."
        ));
    }
    session.remark(&format!("This machine is node {enrolment} of {server}."));
    let old = session.home.join("TSM.PWD");
    if old.try_exists().unwrap_or(false) {
        session.remark(&format!("{} is of TSM, and is left alone.", old.display()));
    }
    let import = Import::of(&session.site);
    import.write(&session.home)
}

/// Enrols with a one-time token, or with an enrolment key, which takes the name of the node.
fn enrol(home: &Path, server: &str, token: &str, node: &str) -> Result<String, CommandError> {
    let named = client::enrol(home, server, token, Some(&node.to_ascii_lowercase()));
    let done = match named {
        // A one-time token has the name of its node, and takes no other.
        Err(error) if error.kind == ErrorKind::Usage => client::enrol(home, server, token, None),
        done => done,
    };
    done.map(|enrolment| enrolment.node).map_err(|error| {
        let is_no_token = error.kind == ErrorKind::Usage;
        let error = CommandError::from(error);
        if !is_no_token {
            return error;
        }
        let message = format!(
            "ANS1025E the password of node {node} is no token of a Holdfast server; a password of \
             TSM is not known there ({})",
            error.message
        );
        CommandError::new(message).with_hint(TOKEN_HINT)
    })
}

/// Returns the token, from the options or from the terminal.
fn token(session: &mut Session<'_>, node: &str) -> Result<String, CommandError> {
    if let Some(token) = session.options().text("PASSWORD").filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    if !std::io::stdin().is_terminal() {
        let message = format!("ANS2050E node {node} is not enrolled, and no token is given");
        return Err(CommandError::new(message).with_hint(TOKEN_HINT));
    }
    session.context.output.line(&format!("Token or enrolment key for node {node}:"));
    session.context.output.flush();
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CommandError::new(format!("cannot read the token: {error}")))?;
    Ok(line.trim().to_owned())
}
