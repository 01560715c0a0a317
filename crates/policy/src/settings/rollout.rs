//! The nodes that get a new version of an option set first.

use std::fmt;
use std::str::FromStr;

/// Hundredths of a per cent that make the whole.
const WHOLE: u32 = 10_000;

/// Share of the nodes, in hundredths of a per cent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share(u32);

/// Error for a text that is no share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a share must be more than 0 % and less than 100 %, as in 5%")]
pub struct ShareError;

impl Share {
    /// Returns the share of this number of hundredths of a per cent.
    pub fn of_hundredths(hundredths: u32) -> Result<Self, ShareError> {
        if (1..WHOLE).contains(&hundredths) { Ok(Self(hundredths)) } else { Err(ShareError) }
    }

    pub fn hundredths(self) -> u32 {
        self.0
    }

    /// Returns the number of nodes out of `nodes`, rounded up, so at least one of some.
    fn count(self, nodes: usize) -> usize {
        let count = (nodes as u128 * u128::from(self.0)).div_ceil(u128::from(WHOLE));
        usize::try_from(count).expect("a part of the nodes is not more than all")
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let number = text.trim().strip_suffix('%').unwrap_or(text.trim()).trim_end();
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_plain(whole) || part.len() > 2 || !is_plain(part) {
            return Err(ShareError);
        }
        let whole: u32 = whole.parse().map_err(|_| ShareError)?;
        let part: u32 = format!("{part:0<2}").parse().map_err(|_| ShareError)?;
        Self::of_hundredths(whole.checked_mul(100).ok_or(ShareError)? + part)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole} %"),
            (whole, part) => write!(f, "{whole}.{part:02} %"),
        }
    }
}

/// Returns the names, out of `nodes`, of the nodes that get `version` of the option set `set`
/// first. The same nodes, set and version give the same choice; another version gives another.
pub fn chosen_first<'a>(
    nodes: impl IntoIterator<Item = &'a str>,
    set: &str,
    version: u64,
    share: Share,
) -> Vec<&'a str> {
    let salt = [set.to_ascii_lowercase().as_bytes(), &version.to_le_bytes()].concat();
    let mut ranked: Vec<(u64, &str)> =
        nodes.into_iter().map(|node| (hash(&salt, node.as_bytes()), node)).collect();
    ranked.sort_unstable();
    let count = share.count(ranked.len());
    ranked.into_iter().take(count).map(|(_, node)| node).collect()
}

/// The hash FNV-1a of 64 bits, with the last steps of `MurmurHash3`, which spread each bit over
/// all.
fn hash(salt: &[u8], name: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in salt.iter().chain(name) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(text: &str) -> Share {
        text.parse().expect("a share")
    }

    #[test]
    fn shares_are_written_as_they_are_read() {
        for (text, shown) in
            [("5%", "5 %"), ("5", "5 %"), ("0.5 %", "0.50 %"), ("99.99", "99.99 %")]
        {
            assert_eq!(share(text).to_string(), shown);
            assert_eq!(share(shown), share(text));
        }
        for text in ["", "0", "0%", "100%", "1e1", "-5", "5.123", ".5", "five", "99999999999"] {
            assert_eq!(text.parse::<Share>(), Err(ShareError), "{text}");
        }
    }

    #[test]
    fn five_per_cent_of_ten_nodes_is_one_node() {
        let names: Vec<String> = (0..10).map(|number| format!("node-{number}")).collect();
        let choose =
            |version| chosen_first(names.iter().map(String::as_str), "LINUX", version, share("5%"));
        assert_eq!(choose(2).len(), 1);
        assert_eq!(choose(2), choose(2));
        let different: std::collections::BTreeSet<_> = (2..40).flat_map(choose).collect();
        assert!(different.len() > 5, "always the same nodes: {different:?}");
        assert_eq!(chosen_first([], "LINUX", 2, share("5%")), [""; 0]);
    }

    proptest! {
        #[test]
        fn the_share_is_rounded_up(nodes in 1_usize..400, hundredths in 1_u32..10_000) {
            let names: Vec<String> = (0..nodes).map(|number| format!("n{number}")).collect();
            let share = Share::of_hundredths(hundredths).expect("a share");
            let chosen = chosen_first(names.iter().map(String::as_str), "S", 3, share);
            let exact = nodes as f64 * f64::from(hundredths) / 10_000.0;
            prop_assert!(chosen.len() as f64 >= exact - 1e-9);
            prop_assert!((chosen.len() as f64) < exact + 1.0);
            let mut unique = chosen.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), chosen.len());
        }
    }
}
