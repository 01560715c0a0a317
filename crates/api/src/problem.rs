//! Problems: refused or failed operations, in the form of RFC 9457.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use store::StoreError;

/// A refused or failed operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    /// Account of what happened to which object, for people.
    pub(crate) detail: String,
    /// Time after which another try may succeed.
    pub(crate) retry_after: Option<Duration>,
}

/// Kinds of problems, by what the caller does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The caller has to show who it is, or did so wrongly.
    Unauthenticated,
    /// The second factor is missing or wrong.
    SecondFactor,
    Forbidden,
    NotFound,
    /// The request is wrong.
    Invalid,
    /// The object is in a state that does not allow the operation.
    Conflict,
    /// The request would destroy so much that it has to be confirmed.
    Unconfirmed,
    /// The object has changed since the caller read it.
    Changed,
    /// Another person has to approve. The request was kept.
    ApprovalNeeded,
    TooLarge,
    TooMany,
    UnsupportedMedia,
    MethodNotAllowed,
    NoSpace,
    /// Stored data is damaged.
    Damaged,
    /// A part of the server does not answer, or is busy.
    Unavailable,
    /// The program is wrong.
    Bug,
}

impl Kind {
    pub(crate) const ALL: [Self; 17] = [
        Self::Unauthenticated,
        Self::SecondFactor,
        Self::Forbidden,
        Self::NotFound,
        Self::Invalid,
        Self::Conflict,
        Self::Unconfirmed,
        Self::Changed,
        Self::ApprovalNeeded,
        Self::TooLarge,
        Self::TooMany,
        Self::UnsupportedMedia,
        Self::MethodNotAllowed,
        Self::NoSpace,
        Self::Damaged,
        Self::Unavailable,
        Self::Bug,
    ];

    /// The stable code of the kind, which programs compare.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::SecondFactor => "second-factor-needed",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Unconfirmed => "confirmation-needed",
            Self::Changed => "changed",
            Self::ApprovalNeeded => "approval-needed",
            Self::TooLarge => "too-large",
            Self::TooMany => "too-many-requests",
            Self::UnsupportedMedia => "unsupported-media-type",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::NoSpace => "no-space",
            Self::Damaged => "damaged",
            Self::Unavailable => "unavailable",
            Self::Bug => "bug",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Unauthenticated | Self::SecondFactor => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Conflict | Self::Unconfirmed => StatusCode::CONFLICT,
            Self::Changed => StatusCode::PRECONDITION_FAILED,
            Self::ApprovalNeeded => StatusCode::ACCEPTED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            Self::Damaged | Self::Bug => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Unauthenticated => "Sign in first",
            Self::SecondFactor => "The second factor is needed",
            Self::Forbidden => "You may not do this",
            Self::NotFound => "There is no such object",
            Self::Invalid => "The request is wrong",
            Self::Conflict => "The present state does not allow this",
            Self::Unconfirmed => "This destroys much, and has to be confirmed",
            Self::Changed => "The object has changed meanwhile",
            Self::ApprovalNeeded => "Another person has to approve this",
            Self::TooLarge => "The request is too large",
            Self::TooMany => "Too many requests",
            Self::UnsupportedMedia => "The body must be JSON",
            Self::MethodNotAllowed => "The object does not have this operation",
            Self::NoSpace => "There is no space left",
            Self::Damaged => "Stored data is damaged",
            Self::Unavailable => "The server cannot do this at present",
            Self::Bug => "The server has a bug",
        }
    }
}

/// The form of a problem in answers.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// Stable name of the kind of problem: a relative reference.
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    /// Stable code of the kind of problem.
    code: &'static str,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, detail)
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        Self::new(Kind::NotFound, format!("there is no {what} '{}'", name.escape_debug()))
    }

    pub(crate) fn forbidden() -> Self {
        Self::new(Kind::Forbidden, "your roles do not allow this operation")
    }

    pub(crate) fn too_many(pause: Duration) -> Self {
        let secs = pause.as_secs() + 1;
        let retry_after = Some(Duration::from_secs(secs));
        let unit = if secs == 1 { "second" } else { "seconds" };
        let detail = format!("wait {secs} {unit}, then try again");
        Self { kind: Kind::TooMany, detail, retry_after }
    }

    /// Returns the document of the problem.
    pub(crate) fn document(&self) -> Document {
        let code = self.kind.code();
        Document {
            r#type: format!("/problems/{code}"),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: self.detail.clone(),
            code,
        }
    }

    /// Returns the answer of HTTP.
    pub(crate) fn response(&self) -> Response<Body> {
        let body = serde_json::to_string(&self.document()).expect("the document is text");
        let mut response = Response::new(Body::from(model::plain_json(body)));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if self.kind == Kind::Unauthenticated || self.kind == Kind::SecondFactor {
            let basic = HeaderValue::from_static("Basic realm=\"Holdfast\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, basic);
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Token"));
        }
        if let Some(pause) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(pause.as_secs()));
        }
        response
    }
}

/// Converts each error of the store to a problem.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Unconfirmed(text) => {
                let detail = format!("{text}; if you want this, send it with \"confirm\": true");
                return Self::new(Kind::Unconfirmed, detail);
            }
            StoreError::Usage(_) => Kind::Invalid,
            StoreError::Conflict(_) => Kind::Conflict,
            StoreError::NotFound(_) => Kind::NotFound,
            StoreError::NoSpace(_) => Kind::NoSpace,
            StoreError::Damaged(_) => Kind::Damaged,
            StoreError::Busy(_) | StoreError::Away(_) | StoreError::Cancelled(_) => {
                Kind::Unavailable
            }
        };
        Self::new(kind, error.to_string())
    }
}

impl From<catalog::CatalogError> for Problem {
    fn from(error: catalog::CatalogError) -> Self {
        StoreError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_titles_differ() {
        let mut codes = Kind::ALL.map(Kind::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Kind::ALL.len());
    }

    #[test]
    fn a_problem_says_when_to_try_again() {
        let response = Problem::too_many(Duration::from_millis(1_500)).response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        let kind = &response.headers()[header::CONTENT_TYPE];
        assert_eq!(kind, "application/problem+json");
    }
}
