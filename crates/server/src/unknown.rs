//! Calls and messages of a client that is newer than this server.
//!
//! The answer is `UNIMPLEMENTED` and names this server's version. The client adds its own version.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

/// Status of a message that this version does not know.
pub(crate) fn message() -> Status {
    Status::unimplemented(text("message"))
}

fn text(subject: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("server {version} does not know a {subject} of this client; upgrade the server")
}

/// Service that names this server's version in the answer to an unknown call.
#[derive(Clone)]
pub(crate) struct VersionNotice<S>(pub(crate) S);

impl<S: NamedService> NamedService for VersionNotice<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for VersionNotice<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move { answer.await.map(explain) })
    }
}

/// Adds the text to an answer that has only the code `UNIMPLEMENTED`.
fn explain(mut answer: Response<Body>) -> Response<Body> {
    let headers = answer.headers_mut();
    let is_unknown = headers.get(Status::GRPC_STATUS).is_some_and(|status| status == "12");
    if is_unknown && !headers.contains_key(Status::GRPC_MESSAGE) {
        let text = HeaderValue::from_str(&text("call")).expect("the text is ASCII");
        headers.insert(Status::GRPC_MESSAGE, text);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut answer = Response::new(Body::empty());
        for (name, value) in headers {
            answer.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        let explained = explain(answer);
        let text = explained.headers().get("grpc-message")?;
        Some(text.to_str().expect("it is ASCII").to_owned())
    }

    #[test]
    fn a_call_that_nobody_knows_is_explained() {
        let text = answer(&[("grpc-status", "12")]).expect("there is a text");
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        assert!(text.ends_with("upgrade the server"), "{text}");
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        assert_eq!(answer(&[]), None);
        assert_eq!(answer(&[("grpc-status", "5")]), None);
        let own = [("grpc-status", "12"), ("grpc-message", "its own")];
        assert_eq!(answer(&own).as_deref(), Some("its own"));
    }
}
