//! Enrolment: a node gives its token and gets a certificate.
//!
//! The secret of a node's token stands for one node that an administrator has registered. The
//! secret of an enrolment key registers a new node, under the name that the machine gives.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use catalog::{CatalogError, EventRow, KeyError, KeyRedemption, TokenError};
use model::{NodeName, matches_wildcards};
use store::StoreError;
use store::nodes::token_hash;
use tonic::{Code, Request, Response, Status};
use wire::proto;
use wire::proto::enrolment_server::Enrolment;

use crate::connection::Peer;
use crate::edge::Edge;
use crate::issued;
use crate::origin::Origin;
use crate::refusal;

/// Maximum size in bytes of a request: a token and a signing request have some hundred.
pub(crate) const ENROL_BYTES_MAX: usize = 16 << 10;

/// The service for clients without a certificate.
pub(crate) struct EnrolmentApi {
    pub(crate) edge: Arc<Edge>,
}

#[tonic::async_trait]
impl Enrolment for EnrolmentApi {
    async fn enrol(
        &self,
        request: Request<proto::EnrolRequest>,
    ) -> Result<Response<proto::Certificate>, Status> {
        let peer = request.extensions().get::<Peer>();
        let Peer { origin, address, .. } = *peer.expect("each connection has a peer");
        let request = request.into_inner();
        let (hash, now) = (token_hash(&request.secret), sys::clock::monotonic());
        // An answer that is given again shows no new token: it ends no pause, and waits for none.
        if let Some(certificate) = self.edge.issued.find(&issued::digest(&request), now) {
            return Ok(Response::new(certificate));
        }
        let attempt = self.edge.attempts.admit(origin, hash, now);
        let attempt = attempt.map_err(|pause| too_many(origin, pause))?;
        let edge = Arc::clone(&self.edge);
        let enrolling = move || answer(&edge, &request, address);
        let enrolled = tokio::task::spawn_blocking(enrolling).await;
        let enrolled = enrolled.map_err(|_| refusal::panicked())?;
        match &enrolled {
            Ok(_) => self.edge.attempts.succeeded(&attempt),
            Err(status) if status.code() == Code::PermissionDenied => {
                self.edge.attempts.failed(&attempt, sys::clock::monotonic());
            }
            Err(_) => {}
        }
        enrolled.map(Response::new)
    }
}

/// Status of an attempt that comes in the pause after failed enrolments.
fn too_many(origin: Origin, pause: Duration) -> Status {
    tracing::warn!(%origin, "an enrolment was refused, because too many of this address failed");
    let secs = pause.as_secs() + 1;
    let unit = if secs == 1 { "second" } else { "seconds" };
    Status::aborted(format!(
        "too many enrolments from {origin} failed; wait {secs} {unit}, then try again with a new \
         token"
    ))
}

/// Gives a certificate, or again the certificate that the same request has got before.
fn answer(
    edge: &Edge,
    request: &proto::EnrolRequest,
    address: IpAddr,
) -> Result<proto::Certificate, Status> {
    let digest = issued::digest(request);
    if let Some(certificate) = edge.issued.find(&digest, sys::clock::monotonic()) {
        return Ok(certificate);
    }
    let enrolled = match request.node.is_empty() {
        true => enrol(edge, request, address),
        false => enrol_by_key(edge, request, address),
    };
    match enrolled {
        Ok(certificate) => {
            edge.issued.keep(digest, certificate.clone(), sys::clock::monotonic());
            Ok(certificate)
        }
        // The same request may have been under way, and has used up the token.
        Err(status) => edge.issued.find(&digest, sys::clock::monotonic()).ok_or(status),
    }
}

fn enrol(
    edge: &Edge,
    request: &proto::EnrolRequest,
    address: IpAddr,
) -> Result<proto::Certificate, Status> {
    let now = sys::clock::now();
    let hash = token_hash(&request.secret);
    let catalog = &edge.store.catalog;
    // The certificate is made before the token is used up. So a bad request costs no token.
    let node = catalog.token_node(&hash, now).map_err(refused)?;
    let issued = edge
        .authority
        .issue(&node.name, &request.signing_request, sys::clock::system())
        .map_err(|error| refusal::status(StoreError::malformed(model::chain(&error))))?;
    let event = EventRow {
        time: now,
        actor: format!("node {}", node.name),
        what: "node enrolled".to_owned(),
        details: format!("{} by token from {address}", node.name),
    };
    let node = catalog
        .redeem_token(&hash, &issued.serial, issued.expires, now, &event)
        .map_err(refused)?;
    // The other certificates of the node have ended. An agent that came with one of them would keep
    // the place of the node's agent. At another server of the catalogue it does.
    edge.identities.cut(node.id);
    tracing::info!(node = %node.name, %address, "enrolled by a token");
    Ok(proto::Certificate { node: node.name.to_string(), chain_pem: issued.chain_pem })
}

/// Registers a new node with an enrolment key, and gives it a certificate.
fn enrol_by_key(
    edge: &Edge,
    request: &proto::EnrolRequest,
    address: IpAddr,
) -> Result<proto::Certificate, Status> {
    let now = sys::clock::now();
    let hash = token_hash(&request.secret);
    let catalog = &edge.store.catalog;
    // A machine without a valid key learns nothing about names.
    let key = catalog.valid_key(&hash, now).map_err(|error| key_refused(error, ""))?;
    let name = NodeName::new(&request.node)
        .map_err(|error| refusal::status(StoreError::usage(error.to_string())))?;
    if !key.names.is_empty() && !matches_wildcards(&key.names, name.as_str()) {
        return Err(refusal::status(StoreError::usage(format!(
            "the enrolment key is for nodes whose names match '{}', and {name} does not; give \
             another name with --name",
            key.names
        ))));
    }
    // A machine that is registered already would begin anew, without its backups.
    if catalog.node_in_any_case(&name).is_ok() {
        let taken = CatalogError::Exists { what: "a node of this name" };
        return Err(key_refused(KeyError::Catalog(taken), name.as_str()));
    }
    let issued = edge
        .authority
        .issue(&name, &request.signing_request, sys::clock::system())
        .map_err(|error| refusal::status(StoreError::malformed(model::chain(&error))))?;
    let event = EventRow {
        time: now,
        actor: format!("node {name}"),
        what: "node enrolled by key".to_owned(),
        details: format!("{name} by key {} from {address}", key.name),
    };
    let redemption =
        KeyRedemption { hash, name, serial: issued.serial, expires: issued.expires, now, event };
    let node = catalog
        .redeem_key(&redemption)
        .map_err(|error| key_refused(error, redemption.name.as_str()))?;
    tracing::info!(node = %node.name, key = key.name, %address, "enrolled by a key");
    Ok(proto::Certificate { node: node.name.to_string(), chain_pem: issued.chain_pem })
}

/// Maps an error as [`refused`] does. A name that another node has is a conflict.
fn key_refused(error: KeyError, name: &str) -> Status {
    match error {
        KeyError::Invalid(reason) => Status::permission_denied(reason.to_string()),
        KeyError::Catalog(CatalogError::Exists { .. }) => {
            refusal::status(StoreError::conflict(format!(
                "node {name} exists already, and an enrolment key makes only new nodes; choose \
                 another name with --name, or ask the administrator for a token of this node \
                 ('holdfast admin node add {name} --again')"
            )))
        }
        KeyError::Catalog(error) => refusal::status(error.into()),
    }
}

/// Maps an error: an invalid token is a refusal of access, and every other error is mapped as an
/// error of the store.
fn refused(error: TokenError) -> Status {
    match error {
        TokenError::Invalid(reason) => Status::permission_denied(reason.to_string()),
        TokenError::Catalog(error) => refusal::status(error.into()),
    }
}
