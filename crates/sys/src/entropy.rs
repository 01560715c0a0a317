//! Randomness for keys, tokens and temporary names, from the kernel's generator.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes`. Waits only shortly after the start of the machine, until the kernel has gathered
/// enough randomness.
pub fn fill(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => panic!("getrandom failed, which every kernel since 3.17 has: {error}"),
        }
    }
}

/// Returns `N` random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// Returns a name that no other call returns: `prefix` and 16 hexadecimal digits.
pub(crate) fn name(prefix: &str) -> String {
    format!("{prefix}{:016x}", u64::from_le_bytes(bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled_and_differs_between_calls() {
        // One call of getrandom need not fill one megabyte.
        let mut long = vec![0; 1 << 20];
        fill(&mut long);
        assert!(long.rchunks(64).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
        assert_ne!(bytes::<32>(), bytes::<32>());
    }
}
