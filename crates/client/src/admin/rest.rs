//! Requests to the REST operations of a server, over its administration socket.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tower::ServiceExt as _;

use super::Admin;
use crate::{ClientError, ErrorKind};

/// An answer of a REST operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestAnswer {
    /// Status of HTTP.
    pub status: u16,
    pub body: Vec<u8>,
}

impl RestAnswer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Admin {
    /// Sends a request with a JSON body, if there is one. `path` begins with a slash.
    pub fn rest(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<RestAnswer, ClientError> {
        let wrong = |error: &dyn std::fmt::Display| {
            ClientError::new(ErrorKind::Usage, format!("the request is wrong: {error}"))
        };
        let method = method.to_ascii_uppercase();
        let uri = format!("http://admin.holdfast.internal{path}");
        let mut request = http::Request::builder().method(method.as_str()).uri(uri);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key.0 {
            request = request.header(http::header::AUTHORIZATION, key.as_bytes());
        }
        let body = Body::new(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.body(body).map_err(|error| wrong(&error))?;
        let channel = self.channel.clone();
        let lost = |error: &dyn std::fmt::Display| {
            let text = format!("the server ended the connection: {error}");
            ClientError::new(ErrorKind::Retry, text)
        };
        self.runtime.block_on(async {
            let response = channel.oneshot(request).await.map_err(|error| lost(&error))?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(|error| lost(&error))?;
            Ok(RestAnswer { status, body: body.to_bytes().to_vec() })
        })
    }
}
