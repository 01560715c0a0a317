//! Enrolment: exchanges a token for the node's certificate.

use std::path::Path;
use std::time::Duration;

use wire::{TokenKind, proto};

use super::agent::AgentSettings;
use super::home::{
    CONFIG_FILE, ClientConfig, IDENTITY_FILE, Request, SERVERS_FILE, default_cache_megabytes,
    default_full_walk_days, write_identity,
};
use crate::error::{ClientError, ErrorKind};
use crate::link::runtime::runtime;
use crate::link::tls::{self, Manner, Trust};
use crate::tuning::{JournalChoice, Stillness, Tuning};

/// File that keeps the identity that an enrolment replaces.
const REPLACED_FILE: &str = "node.pem.replaced";

/// Maximum number of times that a request is sent whose answers are lost.
const ASKS_MAX: u32 = 5;
/// Pause before a request is sent again.
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// Result of an enrolment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enrolment {
    pub node: String,
    pub server: String,
}

/// Returns true if `token` is an enrolment key, which is for many machines.
pub fn is_enrolment_key(token: &str) -> bool {
    wire::Token::parse(token).is_ok_and(|token| token.kind == TokenKind::Key)
}

/// Returns true if `text` is a token or an enrolment key.
pub fn is_token(text: &str) -> bool {
    wire::Token::parse(text).is_ok()
}

/// Enrols this machine at the server `address` with `token`, into the folder `home`. If the token
/// is an enrolment key, the new node is called `name`, or as the machine is.
///
/// The server must prove that it has the CA that the token names. Nothing is sent before that
/// proof. The configuration is written last, because without it the machine is not enrolled.
pub fn enrol(
    home: &Path,
    address: &str,
    token: &str,
    name: Option<&str>,
) -> Result<Enrolment, ClientError> {
    let token = wire::Token::parse(token)
        .map_err(|error| ClientError::new(ErrorKind::Usage, error.to_string()))?;
    let node = name_to_give(token.kind, name)?;
    std::fs::create_dir_all(home).map_err(|error| ClientError::file("make", home, &error))?;
    let request = Request::make()?;
    let runtime = runtime()?;
    let enrol = proto::EnrolRequest {
        secret: token.secret.to_vec().into(),
        signing_request: request.signing_request.clone().into(),
        node,
    };
    let certificate = runtime.block_on(ask(address, &token, &enrol))?;
    keep_replaced(home)?;
    write_identity(home, &request, &certificate.chain_pem)?;
    let config = ClientConfig {
        server: address.to_owned(),
        node: certificate.node.clone(),
        dedup_cache_megabytes: default_cache_megabytes(),
        dedup_cache_folder: None,
        inclexcl: None,
        encryption_keys: None,
        nvcomp: None,
        dirmc: None,
        pre_command: None,
        post_command: None,
        snapshot: Stillness::default(),
        agent: AgentSettings::default(),
        journal: JournalChoice::default(),
        journal_full_walk_days: default_full_walk_days(),
        paths: None,
        cross_filesystems: None,
        virtual_filespaces: None,
        limit_rate_send: None,
        limit_rate_receive: None,
        priority: None,
        replace: None,
        freeze: None,
        thaw: None,
        all_blocks: None,
        skip_errors: None,
        image_rate: None,
        image_snapshot: None,
        keep_snapshot: None,
        wait: None,
        tuning: Tuning::default(),
        limits: Vec::new(),
    };
    // The list of servers may come from an earlier enrolment at another server.
    match std::fs::remove_file(home.join(SERVERS_FILE)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(ClientError::file("remove", &home.join(SERVERS_FILE), &error));
        }
        _ => {}
    }
    let text = toml::to_string(&config)
        .map_err(|error| ClientError::new(ErrorKind::Bug, error.to_string()))?;
    let path = home.join(CONFIG_FILE);
    sys::durable::write(&path, text.as_bytes(), 0o600)
        .map_err(|error| ClientError::file("write", &path, &error))?;
    Ok(Enrolment { node: certificate.node, server: address.to_owned() })
}

/// Asks the server for a certificate. A request whose answer is lost is sent again: the server may
/// have made the certificate, and gives it to the same request once more.
async fn ask(
    address: &str,
    token: &wire::Token,
    request: &proto::EnrolRequest,
) -> Result<proto::Certificate, ClientError> {
    let mut is_sent = false;
    for _ in 1..ASKS_MAX {
        match ask_once(address, token, request, &mut is_sent).await {
            Err(error) if error.kind == ErrorKind::Retry && is_sent => {
                tokio::time::sleep(ASK_PAUSE).await;
            }
            asked => return asked,
        }
    }
    ask_once(address, token, request, &mut is_sent).await
}

/// Asks once. Sets `is_sent` before the request is sent.
async fn ask_once(
    address: &str,
    token: &wire::Token,
    request: &proto::EnrolRequest,
    is_sent: &mut bool,
) -> Result<proto::Certificate, ClientError> {
    let trust = Trust::Fingerprint(token.ca_fingerprint);
    let connected = tls::connect(address, trust, &Manner::default()).await?;
    let mut client = proto::enrolment_client::EnrolmentClient::new(connected.channel);
    *is_sent = true;
    Ok(client.enrol(request.clone()).await?.into_inner())
}

/// Returns the name that the request gives: with an enrolment key the name of the new node, and
/// nothing with the token of a node that is registered.
fn name_to_give(kind: TokenKind, name: Option<&str>) -> Result<String, ClientError> {
    match (kind, name) {
        (TokenKind::Key, name) => Ok(name.map_or_else(sys::net::host_name, str::to_owned)),
        (TokenKind::Node, None) => Ok(String::new()),
        (TokenKind::Node, Some(_)) => {
            let message = "this is the token of a node that is registered under its name; --name \
                           is for enrolment keys";
            Err(ClientError::new(ErrorKind::Usage, message))
        }
    }
}

/// Keeps the identity that will be replaced, because it may be the only access to a node's backups.
fn keep_replaced(home: &Path) -> Result<(), ClientError> {
    let path = home.join(REPLACED_FILE);
    match std::fs::read(home.join(IDENTITY_FILE)) {
        Ok(identity) => sys::durable::write(&path, &identity, 0o600)
            .map_err(|error| ClientError::file("write", &path, &error)),
        Err(_) => Ok(()),
    }
}
