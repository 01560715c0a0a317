//! Data for tests of the GPU.

/// Returns `bytes` bytes without any order, the same for each `seed`.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut data);
    data
}
