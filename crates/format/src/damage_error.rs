//! The error of every decoder.

/// Error for bytes that no encoder writes. The caller treats the content as lost: it reads a copy,
/// or reports the affected objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged {what}: {why}")]
pub struct DamageError {
    /// The format that was expected: `page`, `quantum`, `pack footer`.
    pub what: &'static str,
    /// The condition that does not hold.
    pub why: &'static str,
}

impl DamageError {
    pub(crate) const fn page(why: &'static str) -> Self {
        Self { what: "page", why }
    }

    pub(crate) const fn quantum(why: &'static str) -> Self {
        Self { what: "quantum", why }
    }

    pub(crate) const fn pack(why: &'static str) -> Self {
        Self { what: "pack", why }
    }
}
