//! Enrolment: a token against a certificate.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use wire::proto;
use wire::proto::enrolment_server::Enrolment;

use crate::core::Core;
use crate::refusal;

/// Serves clients that have no certificate yet.
pub(crate) struct EnrolmentApi {
    pub(crate) core: Arc<Core>,
}

/// What the catalogue keeps of a token's secret.
pub(crate) fn token_hash(secret: &[u8]) -> [u8; 32] {
    *blake3::hash(secret).as_bytes()
}

#[tonic::async_trait]
impl Enrolment for EnrolmentApi {
    async fn enrol(
        &self,
        request: Request<proto::EnrolRequest>,
    ) -> Result<Response<proto::Certificate>, Status> {
        let core = Arc::clone(&self.core);
        let request = request.into_inner();
        let enrolled = tokio::task::spawn_blocking(move || enrol(&core, &request)).await;
        enrolled.map_err(|_| refusal::panicked())?.map(Response::new)
    }
}

fn enrol(core: &Core, request: &proto::EnrolRequest) -> Result<proto::Certificate, Status> {
    let now = sys::clock::now();
    let hash = token_hash(&request.secret);
    let failed = |error| refusal::catalog(&error);
    // The certificate is made before the token is used up: a bad request costs no token.
    let node = core.catalog.token_node(&hash, now).map_err(failed)?;
    let issued = core
        .authority
        .issue(&node.name, &request.signing_request, sys::clock::system())
        .map_err(|error| refusal::malformed(&model::chain(&error)))?;
    let node = core
        .catalog
        .redeem_token(&hash, &issued.serial, issued.expires, now)
        .map_err(failed)?;
    tracing::info!(node = %node.name, "enrolled");
    Ok(proto::Certificate { node: node.name.to_string(), chain_pem: issued.chain_pem })
}
