//! Rows of directory digests. They take about two bytes for each object of a filespace.

use model::{DirectoryDigest, PathHash};

/// Digest of one page. `digest` is `None` if the page must be examined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestRow<'a> {
    pub hash: PathHash,
    pub digest: Option<DirectoryDigest>,
    /// First name of the page; empty for a directory's first page.
    pub first: &'a [u8],
}

const FIXED_BYTES: usize = 8 + 16 + 1;

/// Appends `row` to `bytes`.
pub fn encode_digest_row(bytes: &mut Vec<u8>, row: &DigestRow<'_>) {
    bytes.extend_from_slice(&row.hash.0);
    bytes.extend_from_slice(&row.digest.map_or([0; 16], |digest| digest.0));
    bytes.push(u8::try_from(row.first.len()).expect("a name has at most 255 bytes"));
    bytes.extend_from_slice(row.first);
}

/// Calls `visit` with each row of `bytes`. Returns false if the last row is incomplete.
pub fn decode_digest_rows<'a>(mut bytes: &'a [u8], mut visit: impl FnMut(DigestRow<'a>)) -> bool {
    while let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() {
        let Some((first, behind)) = rest.split_at_checked(usize::from(fixed[24])) else {
            return false;
        };
        let (mut hash, mut digest) = ([0; 8], [0; 16]);
        hash.copy_from_slice(&fixed[..8]);
        digest.copy_from_slice(&fixed[8..24]);
        let digest = (digest != [0; 16]).then_some(DirectoryDigest(digest));
        visit(DigestRow { hash: PathHash(hash), digest, first });
        bytes = behind;
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive() {
        let rows = [
            DigestRow { hash: PathHash([1; 8]), digest: None, first: b"" },
            DigestRow {
                hash: PathHash([2; 8]),
                digest: Some(DirectoryDigest([3; 16])),
                first: b"name\xff",
            },
        ];
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| encode_digest_row(&mut bytes, row));
        let mut found = Vec::new();
        assert!(decode_digest_rows(&bytes, |row| found.push(row)));
        assert_eq!(found, rows);
        assert!(!decode_digest_rows(&bytes[..bytes.len() - 1], |_| ()));
    }
}
