//! The memory that the code of this program takes.

use std::ffi::CStr;
use std::io;

/// Gives back the memory of the code and of the constants that this process has used so far, in the
/// program and its libraries. The next use brings a page back from the system's cache of files.
///
/// For a process that rests for long after a busy start.
pub fn rest() -> io::Result<()> {
    let mut failure = None;
    // SAFETY: `visit` has the type that the call needs, and `failure` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut failure).cast()) };
    failure.map_or(Ok(()), Err)
}

/// Gives back the segments of one program or library.
///
/// # Safety
///
/// `info` describes a loaded object, and `failure` points to an `Option<io::Error>`.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    failure: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the caller's duty.
    let (info, failure) = unsafe { (&*info, &mut *failure.cast::<Option<io::Error>>()) };
    if is_of_the_kernel(info) || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader gives that many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|header| comes_from_its_file(header)) {
        let page = rustix::param::page_size();
        // An address fits, on any machine.
        let address = |address: u64| usize::try_from(address).unwrap_or(0);
        let begin = address(info.dlpi_addr + header.p_vaddr).next_multiple_of(page);
        let end = address(info.dlpi_addr + header.p_vaddr + header.p_filesz) / page * page;
        let Some(bytes) = end.checked_sub(begin).filter(|bytes| *bytes > 0) else { continue };
        let address = std::ptr::with_exposed_provenance_mut(begin);
        // SAFETY: the pages lie in a segment that nobody may write to, so that they are the same
        // when they come back from the file.
        if unsafe { libc::madvise(address, bytes, libc::MADV_DONTNEED) } != 0 {
            failure.get_or_insert(io::Error::last_os_error());
        }
    }
    0
}

/// Returns true for the code that the kernel gives to each process, which has no file.
fn is_of_the_kernel(info: &libc::dl_phdr_info) -> bool {
    // SAFETY: the loader gives a name that ends with NUL, or none.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    name.is_some_and(|name| name.to_bytes().starts_with(b"linux-"))
}

/// Returns true for a segment that was never written to, not even by the loader.
fn comes_from_its_file(header: &libc::Elf64_Phdr) -> bool {
    header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_goes_on_after_a_rest() {
        let resident_bytes = || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("the sizes");
            let shared = pages.split(' ').nth(2).and_then(|word| word.parse::<usize>().ok());
            shared.expect("a number") * rustix::param::page_size()
        };
        let before = resident_bytes();
        rest().expect("the memory is given back");
        let after = resident_bytes();
        assert!(after < before, "{after} bytes of files are in use, {before} before");
        let text = std::hint::black_box("constants are there again").to_uppercase();
        assert_eq!(text, "CONSTANTS ARE THERE AGAIN");
    }
}
