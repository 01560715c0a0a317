//! Identifiers. Each has a type of its own, so that no identifier can be used as another.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Number of a registered node. It is never used for another node.
    NodeId(u32)
);
number!(
    /// Number of a filespace. It is never used for another filespace.
    FilespaceId(u32)
);
number!(
    /// Number of a policy domain, or of a deduplication domain.
    DomainId(u32)
);
number!(
    /// Number of a management class.
    ClassId(u16)
);
number!(
    /// Number of a session of a node. It is drawn by chance: a counted one would tell the node how
    /// many sessions the others open.
    SessionId(u64)
);
number!(
    /// Number of a pack. Packs are numbered from 1 in order of creation. The number is at most
    /// 2^39 - 1, so that it fits into a [`Place`](crate::Place).
    PackNumber(u64)
);

number!(
    /// Number of a storage pool. It is never used for another pool.
    PoolId(u32)
);

number!(
    /// Number of a person who uses the service. It is never used for another person.
    PersonId(u32)
);

/// The registered name of a node: 1 to 64 letters, digits, `.`, `-` and `_`, starting with a letter
/// or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeName(String);

/// Reason why a string cannot name a node.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a node name must have 1 to 64 letters, digits, '.', '-' and '_', and must start with a letter \
     or digit"
)]
pub struct NodeNameError;

impl NodeName {
    /// Parses `name`.
    pub fn new(name: &str) -> Result<Self, NodeNameError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let starts_well = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if starts_well && name.len() <= 64 && name.bytes().all(allowed) {
            Ok(Self(name.to_owned()))
        } else {
            Err(NodeNameError)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_are_plain() {
        for good in ["a", "web-01.example.org", "9_x", &"n".repeat(64)] {
            assert_eq!(NodeName::new(good).map(|n| n.to_string()), Ok((*good).to_owned()));
        }
        for bad in ["", "-a", ".a", "a b", "a/b", "\u{e9}", &"n".repeat(65)] {
            assert_eq!(NodeName::new(bad), Err(NodeNameError));
        }
    }
}
