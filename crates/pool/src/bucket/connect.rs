//! Connections to a store. A request fails at once if the store's certificate is not trusted,
//! because repeating the request does not help.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

/// Beginning of the TLS library's message for a certificate that is not trusted.
const UNTRUSTED: &str = "invalid peer certificate";

/// Makes connections on which requests to an untrusted store are not repeated.
#[derive(Debug, Default)]
pub(super) struct Connector(ReqwestConnector);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(CertificateGuard(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct CertificateGuard(HttpClient);

#[async_trait]
impl HttpService for CertificateGuard {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.execute(request).await.map_err(|error| match is_untrusted(&error) {
            // Errors of this kind are not tried again.
            true => HttpError::new(HttpErrorKind::Unknown, error),
            false => error,
        })
    }
}

/// Returns true if the error says that the store's certificate is not trusted.
pub(super) fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    model::chain(error).contains(UNTRUSTED)
}
