//! Sealing of what the catalogue must not tell to who reads it: secrets of second factors, and kept
//! answers, which may have tokens in them.
//!
//! A sealed text is the nonce (12 bytes), the encrypted bytes, and the tag (16 bytes) of
//! AES-256-GCM.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};

/// A key of the server for one purpose.
pub(crate) struct SealKey(RandomizedNonceKey);

impl SealKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let key = RandomizedNonceKey::new(&AES_256_GCM, key);
        Self(key.expect("the key has the length of the algorithm"))
    }

    /// Seals `text`. Only [`Self::open`] with the same `context` opens it.
    pub(crate) fn seal(&self, context: &[u8], text: &[u8]) -> Vec<u8> {
        let mut sealed = text.to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(context), &mut sealed);
        let nonce = nonce.expect("a short text is encrypted");
        [&nonce.as_ref()[..], &sealed].concat()
    }

    /// Opens a sealed text; `None` if it was not sealed with this key and context.
    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let bytes = self.0.open_in_place(nonce, Aad::from(context), &mut text).ok()?.len();
        text.truncate(bytes);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_context_open() {
        let key = SealKey::new(&[1; 32]);
        let sealed = key.seal(b"anna", b"secret");
        assert_eq!(key.open(b"anna", &sealed).as_deref(), Some(&b"secret"[..]));
        assert_eq!(key.open(b"bert", &sealed), None);
        assert_eq!(SealKey::new(&[2; 32]).open(b"anna", &sealed), None);
        assert_eq!(key.open(b"anna", &sealed[1..]), None);
        assert_eq!(key.open(b"anna", b""), None);
        assert_ne!(key.seal(b"anna", b"secret"), sealed, "each text has a nonce of its own");
    }
}
