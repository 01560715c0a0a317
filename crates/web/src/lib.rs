//! The page for browsers: its built files, and the answers by which browsers get them.
//!
//! ```text
//!   /assets/NAME-HASH.js  -> the file, kept for ever: a changed file has another name
//!   /favicon.svg          -> the file
//!   /v1/..., /assets/...  -> nothing: these are no addresses of the page
//!   /nodes/web-1          -> index.html, whose program shows the screen of the address
//! ```
//!
//! The sources are in `page/`, and `build.rs` builds them. Invariants:
//!
//! 1. Each answer has the policy that lets a browser load scripts, styles and data from this server
//!    only, and no script or style that stands in a document.
//! 2. The page asks the REST API and nothing else: it has no operations of its own.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header};

/// A built file.
struct File {
    /// Path without its first slash.
    path: &'static str,
    bytes: &'static [u8],
    /// The file as compressed by Brotli, if that is smaller.
    brotli: Option<&'static [u8]>,
}

/// All files, by path.
const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
/// First document of the page.
const INDEX: &str = "index.html";
/// Folder of the files whose names have a hash of their content.
const HASHED: &str = "assets/";
/// First parts of paths that are never addresses of the page.
const NOT_OF_THE_PAGE: [&str; 2] = ["assets", "v1"];
/// Time for which a browser keeps a file with a hash: a year, the most that has a meaning.
const KEPT: &str = "public, max-age=31536000, immutable";
const ASKED_AGAIN: &str = "no-cache";

/// The content security policy. Styles that a program sets are allowed by it; styles and scripts
/// in the text of a document are not.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types svelte-trusted-html";

/// Returns the answer to a request for a file or an address of the page; `None` for another
/// request.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let path = path.strip_prefix('/')?;
    let first = path.split('/').next().unwrap_or_default();
    // A program that puts `/v1` after an address with a slash at its end asks for `//v1`.
    let is_doubled = path.starts_with('/');
    let file = match find(path) {
        Some(file) => file,
        None if is_doubled || NOT_OF_THE_PAGE.contains(&first) => return None,
        None => find(INDEX).expect("the build makes sure that there is an index"),
    };
    Some(response(file, accepts_brotli(headers)))
}

fn find(path: &str) -> Option<&'static File> {
    let found = FILES.binary_search_by(|file| file.path.cmp(path)).ok();
    found.map(|index| &FILES[index])
}

fn response(file: &'static File, accepts_brotli: bool) -> Response<Bytes> {
    let brotli = file.brotli.filter(|_| accepts_brotli);
    let mut response = Response::new(Bytes::from_static(brotli.unwrap_or(file.bytes)));
    let kept = if file.path.starts_with(HASHED) { KEPT } else { ASKED_AGAIN };
    let fixed = [
        (header::CONTENT_TYPE, media(file.path)),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, kept),
        (header::VARY, "accept-encoding"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let isolation = header::HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(isolation, HeaderValue::from_static("same-origin"));
    if brotli.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
    }
    response
}

fn accepts_brotli(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut words = lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(','));
    words.any(|word| word.trim() == "br")
}

fn media(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, accepted: &'static str) -> Option<Response<Bytes>> {
        let accepted = HeaderValue::from_static(accepted);
        answer(&Method::GET, path, &HeaderMap::from_iter([(header::ACCEPT_ENCODING, accepted)]))
    }

    #[track_caller]
    fn header_of(response: &Response<Bytes>, name: header::HeaderName) -> &str {
        response
            .headers()
            .get(name)
            .map_or("", |value| value.to_str().expect("is text"))
    }

    #[test]
    fn addresses_of_the_page_get_its_first_document() {
        for path in ["/", "/nodes", "/nodes/web-1/restore", "/index.html", "/a.b"] {
            let response = get(path, "gzip").expect("is of the page");
            assert_eq!(header_of(&response, header::CONTENT_TYPE), "text/html; charset=utf-8");
            assert_eq!(header_of(&response, header::CACHE_CONTROL), ASKED_AGAIN);
            assert!(response.body().starts_with(b"<!doctype html>"), "{path}");
        }
    }

    #[test]
    fn other_requests_are_not_answered() {
        let paths =
            ["/v1/nothing", "/v1", "//v1/nodes", "/assets/none.js", "/assets/../index.html"];
        for path in paths {
            assert!(get(path, "").is_none(), "{path}");
        }
        assert!(answer(&Method::POST, "/", &HeaderMap::new()).is_none());
    }

    #[test]
    fn files_with_a_hash_are_kept_and_each_is_compressed() {
        let hashed: Vec<_> = FILES.iter().filter(|file| file.path.starts_with(HASHED)).collect();
        assert!(hashed.iter().any(|file| file.path.ends_with(".js")));
        for file in hashed {
            let path = format!("/{}", file.path);
            let plain = get(&path, "gzip, brr").expect("is a file");
            assert_eq!(header_of(&plain, header::CACHE_CONTROL), KEPT);
            assert_eq!(&plain.body()[..], file.bytes);
            let small = get(&path, "gzip, br").expect("is a file");
            assert_eq!(header_of(&small, header::CONTENT_ENCODING), "br", "{path}");
            assert!(small.body().len() < file.bytes.len());
        }
    }

    #[test]
    fn no_document_has_scripts_or_styles_in_its_text() {
        let response = get("/", "").expect("is of the page");
        let policy = header_of(&response, header::CONTENT_SECURITY_POLICY);
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
        let text = std::str::from_utf8(response.body()).expect("is text");
        assert!(!text.contains("<style") && !text.contains("style="), "{text}");
        assert_eq!(text.matches("<script").count(), text.matches(" src=\"/assets/").count());
    }
}
