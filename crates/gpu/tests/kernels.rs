//! The compiled kernels belong to their source.

#[test]
fn kernels_are_current() {
    let digest = blake3::hash(sys::gpu::KERNELS_SOURCE.as_bytes()).to_hex();
    let expected = format!("// Compiled from kernels.cu with the BLAKE3 digest {digest}");
    let first = sys::gpu::KERNELS.lines().next();
    assert_eq!(first, Some(expected.as_str()), "compile the kernels again, see kernels.cu");
}
