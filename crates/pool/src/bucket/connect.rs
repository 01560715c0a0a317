//! Connections to a store: as they are, but that one whose certificate nobody vouches for is not
//! tried again. Waiting does not mend it.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

/// How TLS begins to say that it does not trust the other end.
const UNTRUSTED: &str = "invalid peer certificate";

#[derive(Debug, Default)]
pub(super) struct Connector(ReqwestConnector);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Trusting(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct Trusting(HttpClient);

#[async_trait]
impl HttpService for Trusting {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.execute(request).await.map_err(|error| match is_untrusted(&error) {
            // Not of the kinds that are tried again.
            true => HttpError::new(HttpErrorKind::Unknown, error),
            false => error,
        })
    }
}

/// Whether the store's certificate is not good enough.
pub(super) fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    model::chain(error).contains(UNTRUSTED)
}
