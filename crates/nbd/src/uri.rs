//! Addresses of exports, by the NBD URI standard:
//!
//! ```text
//!   nbd://HOST[:PORT][/EXPORT]           over TCP; the port is 10809 if none is named
//!   nbd+unix://[/EXPORT]?socket=PATH     over a socket of this machine
//! ```
//!
//! Names of exports and paths are bytes. Bytes with a meaning in a URI are written as `%XX`.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

use crate::error::NbdError;

/// Maximum length of a name or another text, by the protocol.
pub(crate) const NAME_BYTES_MAX: usize = 4096;
const PORT: u16 = 10809;
/// Bytes that are written as `%XX`: all but those that have no meaning in a URI, and `/`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');
/// Bytes that are written as `%XX` in a host, where an IPv6 address has colons.
const ENCODED_HOST: &AsciiSet = &ENCODED.remove(b':').add(b'/');

/// Address of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uri {
    pub endpoint: Endpoint,
    /// Name of the export; empty for the server's default export.
    pub export: Vec<u8>,
}

/// Place where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    Tcp {
        /// Name or address of the server, without brackets.
        host: String,
        port: u16,
    },
    /// Path of a socket. A path that begins with NUL names an abstract socket.
    Unix(PathBuf),
}

impl Uri {
    /// Parses an address. Fails with [`NbdError::Address`].
    pub fn parse(text: &[u8]) -> Result<Self, NbdError> {
        parse(text).map_err(|reason| NbdError::Address {
            address: String::from_utf8_lossy(text).into_owned(),
            reason,
        })
    }
}

fn parse(text: &[u8]) -> Result<Uri, &'static str> {
    let (scheme, rest) = split_at(text, b"://").ok_or("it does not begin with nbd://")?;
    let is_unix = match scheme.to_ascii_lowercase().as_slice() {
        b"nbd" => false,
        b"nbd+unix" => true,
        b"nbds" | b"nbds+unix" => {
            return Err("connections with TLS (nbds) are not supported, use nbd");
        }
        _ => return Err("it begins neither with nbd:// nor with nbd+unix://"),
    };
    if rest.contains(&b'#') {
        return Err("it has a '#', write %23 in a name");
    }
    let (rest, query) = match split_at(rest, b"?") {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = split_at(rest, b"/").unwrap_or((rest, b""));
    let export = decoded(path)?;
    if export.len() > NAME_BYTES_MAX {
        return Err("the name of the export has more than 4096 bytes");
    }
    if export.contains(&0) {
        return Err("the name of the export has a NUL");
    }
    let socket = socket(query)?;
    let endpoint = match (is_unix, socket) {
        (false, None) => tcp(authority)?,
        (false, Some(_)) => return Err("a socket needs nbd+unix://"),
        (true, Some(path)) if authority.is_empty() => Endpoint::Unix(path),
        (true, Some(_)) => return Err("it names a host and a socket, write nbd+unix:///"),
        (true, None) => return Err("it names no socket, write ?socket=PATH at its end"),
    };
    Ok(Uri { endpoint, export })
}

fn tcp(authority: &[u8]) -> Result<Endpoint, &'static str> {
    if authority.contains(&b'@') {
        return Err("it names a user, which only connections with TLS have");
    }
    let (host, port) = match authority.strip_prefix(b"[") {
        Some(rest) => split_at(rest, b"]").ok_or("a bracket is not closed")?,
        None => {
            let end = authority.iter().position(|&byte| byte == b':');
            authority.split_at(end.unwrap_or(authority.len()))
        }
    };
    let host = String::from_utf8(decoded(host)?).map_err(|_| "the host is not UTF-8")?;
    if host.is_empty() || host.contains('\0') {
        return Err("it names no host");
    }
    let port = match port {
        b"" | b":" => PORT,
        _ => port
            .strip_prefix(b":")
            .and_then(port_number)
            .ok_or("the port is not a number")?,
    };
    Ok(Endpoint::Tcp { host, port })
}

fn port_number(digits: &[u8]) -> Option<u16> {
    let is_plain = digits.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_plain)?;
    digits.parse().ok().filter(|&port| port > 0)
}

/// Returns the path of the parameter `socket`, the only parameter that has a meaning here.
fn socket(query: Option<&[u8]>) -> Result<Option<PathBuf>, &'static str> {
    let mut socket = None;
    let parameters = query.unwrap_or_default().split(|&byte| byte == b'&');
    for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
        if parameter.starts_with(b"tls-") {
            return Err("connections with TLS are not supported");
        }
        let Some(path) = parameter.strip_prefix(b"socket=") else {
            return Err("it has a parameter other than socket");
        };
        let path = decoded(path)?;
        match path.iter().position(|&byte| byte == 0) {
            _ if path.is_empty() || path == [0] => return Err("the path of the socket is empty"),
            Some(1..) => return Err("the path of the socket has a NUL"),
            _ if socket.is_some() => return Err("it names two sockets"),
            _ => socket = Some(PathBuf::from(OsString::from_vec(path))),
        }
    }
    Ok(socket)
}

/// Splits `bytes` around the first `mark`.
fn split_at<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some((&bytes[..start], &bytes[start + mark.len()..]))
}

fn decoded(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let is_whole =
        |rest: &[u8]| rest.iter().take(2).filter(|byte| byte.is_ascii_hexdigit()).count() == 2;
    let mut escapes = bytes.split(|&byte| byte == b'%').skip(1);
    if escapes.all(is_whole) {
        Ok(percent_decode(bytes).collect())
    } else {
        Err("a '%' is not followed by two hexadecimal digits")
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = percent_encode(&self.export, ENCODED);
        match &self.endpoint {
            Endpoint::Tcp { host, port } => {
                let encoded = percent_encode(host.as_bytes(), ENCODED_HOST);
                if host.contains(':') {
                    write!(f, "nbd://[{encoded}]:{port}/{export}")
                } else {
                    write!(f, "nbd://{encoded}:{port}/{export}")
                }
            }
            Endpoint::Unix(path) => {
                let path = percent_encode(path.as_os_str().as_bytes(), ENCODED);
                write!(f, "nbd+unix:///{export}?socket={path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_tcp(text: &str, host: &str, port: u16, export: &[u8]) {
        let endpoint = Endpoint::Tcp { host: host.to_owned(), port };
        check(text, &Uri { endpoint, export: export.to_vec() });
    }

    #[track_caller]
    fn check_unix(text: &str, path: &str, export: &[u8]) {
        let endpoint = Endpoint::Unix(PathBuf::from(path));
        check(text, &Uri { endpoint, export: export.to_vec() });
    }

    #[track_caller]
    fn check(text: &str, expected: &Uri) {
        assert_eq!(&Uri::parse(text.as_bytes()).unwrap(), expected);
        assert_eq!(&Uri::parse(expected.to_string().as_bytes()).unwrap(), expected);
    }

    #[track_caller]
    fn refuse(text: &str, part: &str) {
        let error = Uri::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(text), "{error}");
    }

    #[test]
    fn addresses_name_a_host_and_an_export() {
        check_tcp("nbd://example.com", "example.com", 10809, b"");
        check_tcp("nbd://example.com/", "example.com", 10809, b"");
        check_tcp("nbd://example.com:", "example.com", 10809, b"");
        check_tcp("NBD://example.com:99/disk", "example.com", 99, b"disk");
        check_tcp("nbd://example.com//disk", "example.com", 10809, b"/disk");
        check_tcp("nbd://example.com/hello%20world", "example.com", 10809, b"hello world");
        check_tcp("nbd://[::1]:99/a+b", "::1", 99, b"a+b");
        check_tcp("nbd://[fe80::1%25eth0]/", "fe80::1%eth0", 10809, b"");
        check_tcp("nbd://h/%ff%2F%3f", "h", 10809, b"\xff/?");
    }

    #[test]
    fn addresses_name_a_socket() {
        check_unix("nbd+unix:///?socket=/run/nbd.sock", "/run/nbd.sock", b"");
        check_unix("nbd+unix://?socket=nbd.sock", "nbd.sock", b"");
        check_unix("nbd+unix:///disk?socket=/a%20b%26c", "/a b&c", b"disk");
        check_unix("nbd+unix:///?socket=%00/abstract", "\0/abstract", b"");
    }

    #[test]
    fn a_wrong_address_is_refused_with_a_reason() {
        refuse("", "does not begin with nbd://");
        refuse("/dev/sda", "does not begin with nbd://");
        refuse("http://h/", "neither with nbd://");
        refuse("nbds://h/", "TLS");
        refuse("nbds+unix:///?socket=/s", "TLS");
        refuse("nbd://h/?tls-type=psk", "TLS");
        refuse("nbd://anna@h/", "user");
        refuse("nbd:///x", "no host");
        refuse("nbd://[::1/x", "bracket");
        refuse("nbd://[::1]9/x", "port");
        refuse("nbd://h:99999/x", "port");
        refuse("nbd://h:0/x", "port");
        refuse("nbd://h:+1/x", "port");
        refuse("nbd://h/x#y", "%23");
        refuse("nbd://h/x%2", "hexadecimal");
        refuse("nbd://h/%00", "NUL");
        refuse("nbd://h/x?socket=/s", "nbd+unix");
        refuse("nbd+unix:///x", "no socket");
        refuse("nbd+unix:///x?socket=", "empty");
        refuse("nbd+unix:///x?socket=/a%00b", "NUL");
        refuse("nbd+unix:///x?socket=/a&socket=/b", "two sockets");
        refuse("nbd+unix:///x?sockets=/a", "parameter");
        refuse("nbd+unix://h/x?socket=/a", "host");
        refuse(&format!("nbd://h/{}", "x".repeat(4097)), "4096");
    }

    proptest! {
        #[test]
        fn an_address_survives_its_text(
            export in proptest::collection::vec(1..=255_u8, 0..20),
            path in proptest::collection::vec(1..=255_u8, 1..20),
        ) {
            let endpoint = Endpoint::Unix(PathBuf::from(OsString::from_vec(path)));
            let uri = Uri { endpoint, export };
            prop_assert_eq!(Uri::parse(uri.to_string().as_bytes()).unwrap(), uri);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = [b"nbd://", bytes.as_slice()].concat();
            if let Ok(uri) = Uri::parse(&text) {
                prop_assert_eq!(Uri::parse(uri.to_string().as_bytes()).unwrap(), uri);
            }
        }
    }
}
