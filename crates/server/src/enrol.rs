//! Enrolment: a node gives its token and gets a certificate.

use std::sync::Arc;
use std::time::Duration;

use catalog::TokenError;
use store::StoreError;
use tonic::{Code, Request, Response, Status};
use wire::proto;
use wire::proto::enrolment_server::Enrolment;

use crate::connection::Peer;
use crate::edge::Edge;
use crate::origin::Origin;
use crate::refusal;

/// Maximum size in bytes of a request: a token and a signing request have some hundred.
pub(crate) const ENROL_BYTES_MAX: usize = 16 << 10;

/// The service for clients without a certificate.
pub(crate) struct EnrolmentApi {
    pub(crate) edge: Arc<Edge>,
}

/// The hash of a token's secret, which the catalogue keeps in place of the secret.
pub(crate) fn token_hash(secret: &[u8]) -> [u8; 32] {
    *blake3::hash(secret).as_bytes()
}

#[tonic::async_trait]
impl Enrolment for EnrolmentApi {
    async fn enrol(
        &self,
        request: Request<proto::EnrolRequest>,
    ) -> Result<Response<proto::Certificate>, Status> {
        let peer = request.extensions().get::<Peer>();
        let origin = peer.expect("each connection has a peer").origin;
        let admitted = self.edge.guesses.admit(origin, sys::clock::monotonic());
        admitted.map_err(|pause| too_many(origin, pause))?;
        let edge = Arc::clone(&self.edge);
        let request = request.into_inner();
        let enrolled = tokio::task::spawn_blocking(move || enrol(&edge, &request)).await;
        let enrolled = enrolled.map_err(|_| refusal::panicked())?;
        match &enrolled {
            Ok(_) => self.edge.guesses.succeeded(origin),
            Err(status) if status.code() == Code::PermissionDenied => {
                self.edge.guesses.failed(origin, sys::clock::monotonic());
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

fn enrol(edge: &Edge, request: &proto::EnrolRequest) -> Result<proto::Certificate, Status> {
    let now = sys::clock::now();
    let hash = token_hash(&request.secret);
    let catalog = &edge.store.catalog;
    // The certificate is made before the token is used up. So a bad request costs no token.
    let node = catalog.token_node(&hash, now).map_err(refused)?;
    let issued = edge
        .authority
        .issue(&node.name, &request.signing_request, sys::clock::system())
        .map_err(|error| refusal::status(StoreError::malformed(model::chain(&error))))?;
    let node = catalog
        .redeem_token(&hash, &issued.serial, issued.expires, now)
        .map_err(refused)?;
    tracing::info!(node = %node.name, "enrolled");
    Ok(proto::Certificate { node: node.name.to_string(), chain_pem: issued.chain_pem })
}

/// Maps an error: an invalid token is a refusal of access, and every other error is mapped as an
/// error of the store.
fn refused(error: TokenError) -> Status {
    match error {
        TokenError::Invalid(reason) => Status::permission_denied(reason.to_string()),
        TokenError::Catalog(error) => refusal::status(error.into()),
    }
}
