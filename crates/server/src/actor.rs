//! Authors of administrators' calls, for the audit trail.

use store::domains::ADMINISTRATOR;
use tonic::Request;
use tonic::transport::server::UdsConnectInfo;

/// Name of the caller of an administrator's call, as the service above notes it in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor(pub String);

/// Returns the administrator who sends a request, for the audit trail.
pub(crate) fn actor<T>(request: &Request<T>) -> String {
    if let Some(Actor(name)) = request.extensions().get() {
        return name.clone();
    }
    let connection = request.extensions().get::<UdsConnectInfo>();
    match connection.and_then(|connection| connection.peer_cred) {
        Some(user) => format!("{ADMINISTRATOR} (uid {})", user.uid()),
        None => ADMINISTRATOR.to_owned(),
    }
}
