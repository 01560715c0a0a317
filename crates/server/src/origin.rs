//! The origin of a connection, as far as limits tell origins apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of the leading bytes of an IPv6 address that name a network. A machine has all addresses
/// of such a network, so they count as one origin.
const NETWORK_BYTES: usize = 8;

/// An IPv4 address, or a network of IPv6 addresses (/64).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    Address(Ipv4Addr),
    Network([u8; NETWORK_BYTES]),
}

impl Origin {
    pub fn of(address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(address) => return Self::Address(address),
            IpAddr::V6(address) => address,
        };
        if let Some(address) = address.to_ipv4_mapped() {
            return Self::Address(address);
        }
        let bytes = address.octets();
        let (network, _) = bytes.split_first_chunk().expect("an address has 16 bytes");
        Self::Network(*network)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Network(network) => {
                let mut bytes = [0; 16];
                bytes[..NETWORK_BYTES].copy_from_slice(network);
                write!(formatter, "{}/64", Ipv6Addr::from(bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: &str) {
        let address = address.parse().expect("an address");
        assert_eq!(Origin::of(address).to_string(), expected);
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        check("2001:db8::1", "2001:db8::/64");
        check("2001:db8::ffff:0:0:9", "2001:db8::/64");
        check("2001:db8:0:1::1", "2001:db8:0:1::/64");
    }

    #[test]
    fn an_ipv4_address_is_an_origin_in_both_spellings() {
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
    }
}
