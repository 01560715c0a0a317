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
        let mut content = Vec::new();
        let mut keep = |part: &[u8]| content.extend_from_slice(part);
        let RestAnswer { status, body } = self.rest_to(method, path, body, &mut keep)?;
        Ok(RestAnswer { status, body: [body, content].concat() })
    }

    /// Sends a request as [`Self::rest`] does. Content that is no JSON goes to `take`, part by part
    /// as it comes, and is not in the answer.
    pub fn rest_to(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<RestAnswer, ClientError> {
        let request = self.request(method, path, body)?;
        let channel = self.channel.clone();
        let lost = |error: &dyn std::fmt::Display| {
            let text = format!("the server ended the connection: {error}");
            ClientError::new(ErrorKind::Retry, text)
        };
        self.runtime.block_on(async {
            let response = channel.oneshot(request).await.map_err(|error| lost(&error))?;
            let (status, is_json) = (response.status(), is_json(response.headers()));
            let (mut coming, mut body) = (response.into_body(), Vec::new());
            while let Some(frame) = coming.frame().await {
                let Ok(part) = frame.map_err(|error| lost(&error))?.into_data() else { continue };
                if is_json || !status.is_success() {
                    body.extend_from_slice(&part);
                } else {
                    take(&part);
                }
            }
            Ok(RestAnswer { status: status.as_u16(), body })
        })
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<http::Request<Body>, ClientError> {
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
        request.body(body).map_err(|error| wrong(&error))
    }
}

/// Returns true for an answer whose body is JSON, such as a document or a problem.
fn is_json(headers: &http::HeaderMap) -> bool {
    let media = headers.get(http::header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    media == "application/json" || media.ends_with("+json")
}
