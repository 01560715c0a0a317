//! Challenges in answers to callers whom nobody knows.
//!
//! A browser answers the challenge `Basic` with a window of its own, in which a person without a
//! second factor would sign in past the page. Requests of scripts are marked by the browser, and
//! are challenged by `Token` only.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::middleware::Next;

/// Header by which browsers tell what a request is for; scripts cannot set it.
const DESTINATION: &str = "sec-fetch-dest";

/// Removes the challenge `Basic` from the answer to a script in a browser.
pub(crate) async fn spare_scripts(request: Request, next: Next) -> Response<Body> {
    let is_script = is_of_script(request.headers());
    let mut response = next.run(request).await;
    if is_script && response.headers().contains_key(header::WWW_AUTHENTICATE) {
        let token = HeaderValue::from_static("Token");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, token);
    }
    response
}

fn is_of_script(headers: &HeaderMap) -> bool {
    headers.get(DESTINATION).is_some_and(|destination| destination == "empty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_browsers_mark_requests_of_scripts() {
        let with = |value: &'static str| {
            HeaderMap::from_iter([(
                DESTINATION.parse().expect("a name"),
                value.parse().expect("ok"),
            )])
        };
        assert!(is_of_script(&with("empty")));
        assert!(!is_of_script(&with("document")) && !is_of_script(&HeaderMap::new()));
    }
}
