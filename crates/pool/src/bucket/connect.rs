//! Connections to a store. A request fails at once if the store's certificate is not trusted:
//! waiting does not help.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

/// Beginning of TLS's message for a certificate that it does not trust.
const UNTRUSTED: &str = "invalid peer certificate";

/// Makes connections that do not repeat requests to a store that is not trusted.
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

/// True if TLS does not trust the store's certificate.
pub(super) fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    model::chain(error).contains(UNTRUSTED)
}
