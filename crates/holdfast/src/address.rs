//! Addresses as people write them. An address without a port has the default port.

/// Adds the default port to each address without a port. The addresses are separated by commas.
pub(crate) fn with_ports(addresses: &str) -> String {
    let each: Vec<String> = addresses.split(',').map(|one| with_port(one.trim())).collect();
    each.join(",")
}

/// Adds the default port of nodes to an address without a port.
pub(crate) fn with_port(address: &str) -> String {
    with_default(address, client::PORT)
}

/// Adds `port` to an address without a port.
///
/// A bare IPv6 address gets brackets, which a socket address needs.
pub(crate) fn with_default(address: &str, port: u16) -> String {
    let bare_ipv6 = address.parse::<std::net::Ipv6Addr>().is_ok();
    let has_port = match address.rsplit_once(':') {
        Some((host, _)) if host.starts_with('[') => host.ends_with(']'),
        Some(_) => true,
        None => false,
    };
    match (bare_ipv6, has_port) {
        (true, _) => format!("[{address}]:{port}"),
        (false, true) => address.to_owned(),
        (false, false) => format!("{address}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_port_is_the_default_one() {
        for (address, expected) in [
            ("backup.example.org", "backup.example.org:1500"),
            ("backup.example.org:1600", "backup.example.org:1600"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("::1", "[::1]:1500"),
            ("[::1]", "[::1]:1500"),
            ("[::1]:1600", "[::1]:1600"),
            ("fe80::1:1600", "[fe80::1:1600]:1500"),
        ] {
            assert_eq!(with_port(address), expected);
        }
        assert_eq!(with_ports("one, two:1600"), "one:1500,two:1600");
    }
}
