//! Randomness for keys, tokens and temporary names, from the kernel's generator.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes`. Waits only on a machine so young that its kernel has not gathered enough yet.
pub fn fill(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => panic!("every kernel since 3.17 has getrandom: {error}"),
        }
    }
}

/// `N` random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// A name that no other call returns: `prefix` and 16 hexadecimal digits.
pub(crate) fn name(prefix: &str) -> String {
    format!("{prefix}{:016x}", u64::from_le_bytes(bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled_and_differs_between_calls() {
        // One megabyte exceeds what one getrandom call promises to give.
        let mut long = vec![0; 1 << 20];
        fill(&mut long);
        assert!(long.rchunks(64).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
        assert_ne!(bytes::<32>(), bytes::<32>());
    }
}
