//! The allocator of the program, mimalloc.

use std::ffi::{c_int, c_long};
use std::time::Duration;

// The library with the function below.
use libmimalloc_sys as _;

/// The option `mi_option_purge_delay`. Source: mimalloc 3, `mimalloc.h`.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Makes memory that is free go back to the kernel after `delay`. Otherwise the allocator keeps it
/// for a second, in case that it is needed again.
pub fn give_back_after(delay: Duration) {
    let millis = c_long::try_from(delay.as_millis()).unwrap_or(c_long::MAX);
    // SAFETY: the option exists and takes any number. It is one word, which other threads read as
    // it was before or as it is now.
    unsafe { mi_option_set_default(PURGE_DELAY, millis) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_allocator_is_told() {
        // SAFETY: the option exists.
        let delay = || unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "the default of mimalloc 3");
        give_back_after(Duration::from_millis(7));
        assert_eq!(delay(), 7);
    }
}
