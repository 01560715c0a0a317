//! The one error of every decoder.

/// Bytes that are not what they should be. The caller treats what they held as lost: it reads a
/// copy, or reports which objects are affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged {what}: {why}")]
pub struct Damaged {
    /// The format that was expected: `page`, `quantum`, `pack footer`.
    pub what: &'static str,
    /// What does not hold.
    pub why: &'static str,
}

impl Damaged {
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
