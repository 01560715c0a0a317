//! Document of a kept baseline, as it travels and lies at the server: one frame of zstd. The server
//! does not look into it.

use std::borrow::Cow;

/// Maximum length of a baseline at the server, in bytes.
pub const BASELINE_BYTES_MAX: usize = 1 << 20;

/// Maximum length of the document of a baseline before compression, in bytes.
pub const BASELINE_DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// First bytes of a frame of zstd.
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
const COMPRESSION_LEVEL: i32 = 9;

/// Encodes the document of a baseline. Returns `None` if the document is empty, or is too long
/// before or after compression.
pub fn encode_baseline(document: &[u8]) -> Option<Vec<u8>> {
    if document.is_empty() || document.len() > BASELINE_DOCUMENT_BYTES_MAX {
        return None;
    }
    let encoded = zstd::bulk::compress(document, COMPRESSION_LEVEL).ok()?;
    (encoded.len() <= BASELINE_BYTES_MAX).then_some(encoded)
}

/// Decodes the document of a baseline. Bytes that are no frame of zstd are a document as they are.
/// Returns `None` if the frame is damaged, or the document is too long.
pub fn decode_baseline(encoded: &[u8]) -> Option<Cow<'_, [u8]>> {
    if encoded.len() > BASELINE_BYTES_MAX {
        return None;
    }
    if !encoded.starts_with(&MAGIC) {
        return Some(Cow::Borrowed(encoded));
    }
    zstd::bulk::decompress(encoded, BASELINE_DOCUMENT_BYTES_MAX)
        .ok()
        .map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_survive() {
        for document in [&b"{}"[..], b"\0", &[b'x'; BASELINE_DOCUMENT_BYTES_MAX]] {
            let encoded = encode_baseline(document).expect("it is short enough");
            assert!(encoded.starts_with(&MAGIC), "a reader knows the frame by its first bytes");
            assert!(decode_baseline(&encoded).is_some_and(|decoded| *decoded == *document));
        }
        assert_eq!(decode_baseline(b"{\"a\": 1}").as_deref(), Some(&b"{\"a\": 1}"[..]));
    }

    #[test]
    fn a_document_that_is_too_long_is_refused_on_both_sides() {
        assert_eq!(encode_baseline(b""), None);
        assert_eq!(encode_baseline(&[b'x'; BASELINE_DOCUMENT_BYTES_MAX + 1]), None);
        // Data that compression does not make shorter.
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        });
        let noise: Vec<u8> = noise.take(BASELINE_BYTES_MAX + 1).collect();
        assert_eq!(encode_baseline(&noise), None);
        assert_eq!(decode_baseline(&noise), None);
        let bomb = vec![b'x'; 16 * BASELINE_DOCUMENT_BYTES_MAX];
        let bomb = zstd::bulk::compress(&bomb, COMPRESSION_LEVEL).expect("is compressed");
        assert!(bomb.len() < BASELINE_BYTES_MAX);
        assert_eq!(decode_baseline(&bomb), None);
    }

    #[test]
    fn a_damaged_frame_is_refused() {
        let encoded = encode_baseline(&b"a document ".repeat(99)).expect("it is short enough");
        for length in MAGIC.len()..encoded.len() {
            assert_eq!(decode_baseline(&encoded[..length]), None, "{length} bytes");
        }
    }
}
