//! The owner of a pool: a file beside its mark that says which server writes to the pool.
//!
//! The mark identifies the pool, and is the same for all copies of a server. The owner
//! distinguishes the copies of a server: two copies would give the same numbers to different packs.

use std::io;

use data_encoding::HEXLOWER;

/// Name of the owner's file in a folder, and of its object in a bucket.
pub(crate) const OWNER_FILE: &str = "holdfast-owner";

/// Identity of a server that writes to pools: random bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner(pub [u8; 16]);

impl Owner {
    pub(crate) fn text(self) -> String {
        let text = HEXLOWER.encode(&self.0) + "\n";
        assert_eq!(Self::parse(text.as_bytes()), Some(self), "a reader finds the same owner");
        text
    }

    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let owner = HEXLOWER.decode(text.strip_suffix(b"\n")?).ok()?;
        owner.try_into().ok().map(Self)
    }
}

/// Parses the file of the owner. Fails with `InvalidData` if it is damaged.
pub(crate) fn parse_file(text: &[u8]) -> io::Result<Owner> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file of the owner is damaged");
    Owner::parse(text).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_owners_are_read() {
        let owner = Owner(*b"sixteen bytes...");
        let text = owner.text();
        assert_eq!(Owner::parse(text.as_bytes()), Some(owner));
        for part in 0..text.len() {
            assert_eq!(Owner::parse(&text.as_bytes()[..part]), None, "{part} bytes");
        }
        assert_eq!(Owner::parse(format!("{text}\n").as_bytes()), None);
    }
}
