//! Directory digests: a directory with the same digest has not changed.

use model::{DirPath, DirectoryDigest, Stat};

/// Maker of the directory digests of one run. Its key depends on the node and on the selection
/// rules.
pub(super) struct Digester {
    key: [u8; 32],
}

impl Digester {
    /// Makes a digester. `rules` is the canonical form of everything that decides which objects of
    /// a directory are examined.
    pub(super) fn new(digest_key: &[u8; 32], rules: &[u8]) -> Self {
        Self { key: *blake3::keyed_hash(digest_key, rules).as_bytes() }
    }

    /// Returns a key that stands for `filespace` under the rules of this digester.
    pub(super) fn key_of(&self, filespace: &[u8]) -> [u8; 16] {
        let hash = blake3::derive_key(
            "holdfast v1 anchors of the journal",
            &[&self.key[..], filespace].concat(),
        );
        let mut key = [0; 16];
        key.copy_from_slice(&hash[..16]);
        key
    }

    /// Digests the objects `entries` of `directory`, which are sorted by name. The path is part of
    /// the digest, so that a collision of path hashes shows as a difference.
    pub(super) fn digest<'a>(
        &self,
        directory: &DirPath,
        entries: impl Iterator<Item = (&'a [u8], &'a Stat)>,
        buffer: &mut Vec<u8>,
    ) -> DirectoryDigest {
        buffer.clear();
        buffer.extend_from_slice(directory.as_bytes());
        buffer.push(0);
        for (name, stat) in entries {
            push(buffer, name, stat);
        }
        let hash = blake3::keyed_hash(&self.key, buffer);
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.as_bytes()[..16]);
        // In messages a digest of zeros stands for no digest.
        digest[0] |= u8::from(digest == [0; 16]);
        DirectoryDigest(digest)
    }
}

fn push(buffer: &mut Vec<u8>, name: &[u8], stat: &Stat) {
    let Stat { kind, mode, uid, gid, size, mtime, ctime, inode, linked, device } = stat;
    buffer.extend_from_slice(name);
    // Names hold no NUL, so the fields that follow cannot be mistaken for more of the name.
    buffer.extend_from_slice(&[0, kind.code(), u8::from(*linked)]);
    buffer.extend_from_slice(&mode.to_le_bytes());
    buffer.extend_from_slice(&uid.to_le_bytes());
    buffer.extend_from_slice(&gid.to_le_bytes());
    buffer.extend_from_slice(&size.to_le_bytes());
    for time in [mtime, ctime] {
        buffer.extend_from_slice(&time.secs.to_le_bytes());
        buffer.extend_from_slice(&time.nanos.to_le_bytes());
    }
    buffer.extend_from_slice(&inode.to_le_bytes());
    buffer.extend_from_slice(&device.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;
    use crate::backup::fixtures::stat;

    fn digest(rules: &[u8], path: &[u8], name: &[u8], stat: &Stat) -> DirectoryDigest {
        let path = DirPath::new(path).expect("a directory");
        let entries = std::iter::once((name, stat));
        Digester::new(&[1; 32], rules).digest(&path, entries, &mut Vec::new())
    }

    #[test]
    fn whatever_is_compared_changes_the_digest() {
        let base = stat();
        let changes: [fn(&mut Stat); 11] = [
            |s| s.kind = Kind::Fifo,
            |s| s.mode = 0o600,
            |s| s.uid = 9,
            |s| s.gid = 9,
            |s| s.size = 9,
            |s| s.mtime.nanos = 9,
            |s| s.mtime.secs = 9,
            |s| s.ctime.nanos = 9,
            |s| s.inode = 9,
            |s| s.linked = true,
            |s| s.device = 9,
        ];
        let unchanged = digest(b"r", b"/d/", b"n", &base);
        for change in changes {
            let mut changed = base;
            change(&mut changed);
            assert_ne!(digest(b"r", b"/d/", b"n", &changed), unchanged);
        }
        assert_ne!(digest(b"s", b"/d/", b"n", &base), unchanged);
        assert_ne!(digest(b"r", b"/e/", b"n", &base), unchanged);
        assert_ne!(digest(b"r", b"/d/", b"m", &base), unchanged);
        assert_eq!(digest(b"r", b"/d/", b"n", &base), unchanged);
    }
}
