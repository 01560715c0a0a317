//! Functions of the C library that this crate replaces in every program that links it.
//!
//! Each function makes the system call of the same name. If a disk is simulated, `watch` decides
//! first what happens to the call.

use std::ffi::{CStr, OsStr, c_char, c_int, c_long, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libc::{iovec, mode_t, off_t, size_t, ssize_t};

use crate::journal::FileKey;
use crate::watch::{self, Opening, Place, Reply};

/// Turns the result of a system call into a value, before anything else changes `errno`.
fn reply(result: c_long) -> Reply {
    if result < 0 {
        // SAFETY: the function returns the address of this thread's own variable.
        return Err(unsafe { *libc::__errno_location() });
    }
    Ok(result)
}

/// Turns the outcome into the result that a program expects.
fn result(outcome: Reply) -> c_long {
    match outcome {
        Ok(value) => value,
        Err(errno) => {
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

fn status(outcome: Reply) -> c_int {
    c_int::try_from(result(outcome)).expect("the kernel returns a small number")
}

fn size(outcome: Reply) -> ssize_t {
    ssize_t::try_from(result(outcome)).expect("the kernel counts in this type")
}

/// Returns the path at `path`.
///
/// # Safety
///
/// `path` must be a string that ends with zero and lives long enough.
unsafe fn path_at<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: the caller promises it.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Path::new(OsStr::from_bytes(bytes))
}

/// State of an open file.
struct Open {
    key: FileKey,
    length: u64,
}

/// Returns the state of an open file; `None` if there is no disk, or no such file.
fn state(fd: c_int) -> Option<Open> {
    if !watch::is_active() {
        return None;
    }
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has room for the result.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so that it has filled `stat`.
    let stat = unsafe { stat.assume_init() };
    let key = FileKey { device: stat.st_dev, inode: stat.st_ino };
    Some(Open { key, length: u64::try_from(stat.st_size).unwrap_or(0) })
}

/// Opens a file. The real function has `mode` only if the file may be made; otherwise the register
/// has any value, which the kernel ignores.
///
/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { openat64(libc::AT_FDCWD, path, flags, mode) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { openat64(libc::AT_FDCWD, path, flags, mode) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    let call = || {
        // SAFETY: the arguments are passed on.
        reply(unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) })
    };
    if folder != libc::AT_FDCWD || !watch::is_active() {
        return status(call());
    }
    // SAFETY: a program passes a path.
    let path = unsafe { path_at(path) };
    let opening =
        Opening { truncates: flags & libc::O_TRUNC != 0, creates: flags & libc::O_CREAT != 0 };
    status(watch::open(path, opening, link_unwatched, call))
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the arguments are passed on.
    let call = || reply(unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) });
    if !watch::is_active() {
        return status(call());
    }
    // SAFETY: a program passes a path.
    status(watch::make_folder(unsafe { path_at(path) }, call))
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let here = libc::AT_FDCWD;
    let call = || {
        // SAFETY: the arguments are passed on.
        reply(unsafe { libc::syscall(libc::SYS_renameat2, here, from, here, to, 0) })
    };
    if !watch::is_active() {
        return status(call());
    }
    // SAFETY: a program passes paths.
    let (from, to) = unsafe { (path_at(from), path_at(to)) };
    status(watch::rename(from, to, call))
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let call = || {
        // SAFETY: the arguments are passed on.
        reply(unsafe { libc::syscall(libc::SYS_linkat, from_folder, from, to_folder, to, flags) })
    };
    if !watch::is_active() {
        return status(call());
    }
    // SAFETY: a program passes paths.
    let (from, to) = unsafe { (path_at(from), path_at(to)) };
    status(watch::link(from, to, call))
}

/// Gives the file `from` the name `to`, which is on no disk.
pub(crate) fn link_unwatched(from: &Path, to: &Path) -> io::Result<()> {
    let text = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes());
    let (from, to) = (text(from)?, text(to)?);
    let here = libc::AT_FDCWD;
    // SAFETY: both are strings that end with zero.
    let linked =
        unsafe { libc::syscall(libc::SYS_linkat, here, from.as_ptr(), here, to.as_ptr(), 0) };
    reply(linked).map(drop).map_err(io::Error::from_raw_os_error)
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unlinkat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    let call = || {
        // SAFETY: the arguments are passed on.
        reply(unsafe { libc::syscall(libc::SYS_unlinkat, folder, path, flags) })
    };
    if !watch::is_active() {
        return status(call());
    }
    // SAFETY: a program passes a path.
    let path = unsafe { path_at(path) };
    if path.is_absolute() {
        return status(watch::remove_name(Place::Path(path), call));
    }
    match state(folder) {
        Some(open) => {
            let name = path.as_os_str().as_bytes();
            status(watch::remove_name(Place::In(open.key, name), call))
        }
        None => status(call()),
    }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let call = || reply(unsafe { libc::syscall(libc::SYS_read, fd, buffer, count) });
    let outcome = match state(fd) {
        Some(open) => watch::read(open.key, call),
        None => call(),
    };
    size(outcome)
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pread64(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let call = || reply(unsafe { libc::syscall(libc::SYS_pread64, fd, buffer, count, offset) });
    let outcome = match state(fd) {
        Some(open) => watch::read(open.key, call),
        None => call(),
    };
    size(outcome)
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pread(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the arguments are passed on.
    unsafe { pread64(fd, buffer, count, offset) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    let call = |count: usize| {
        // SAFETY: the arguments are passed on, with at most the same count.
        reply(unsafe { libc::syscall(libc::SYS_write, fd, buffer, count) })
    };
    let Some(open) = state(fd) else { return size(call(count)) };
    // SAFETY: the calls take numbers only.
    let (flags, at) =
        unsafe { (libc::fcntl(fd, libc::F_GETFL), libc::lseek(fd, 0, libc::SEEK_CUR)) };
    let at = u64::try_from(at).unwrap_or(0);
    let offset = if flags & libc::O_APPEND != 0 { open.length } else { at };
    // SAFETY: the program passes as many bytes.
    let bytes = unsafe { bytes_at(buffer, count) };
    size(watch::write(open.key, open.length, offset, bytes, call))
}

/// Returns the bytes at `buffer`.
///
/// # Safety
///
/// `buffer` must have `count` bytes that live long enough.
unsafe fn bytes_at<'a>(buffer: *const c_void, count: usize) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(buffer.cast(), count) }
}

/// Writes the first part that is not empty, as the function may do.
///
/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if state(fd).is_none() {
        // SAFETY: the arguments are passed on.
        let written = unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) };
        return size(reply(written));
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the program passes as many parts.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    match parts.iter().find(|part| part.iov_len > 0) {
        // SAFETY: the part has as many bytes.
        Some(part) => unsafe { write(fd, part.iov_base, part.iov_len) },
        None => 0,
    }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwrite64(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    let call = |count: usize| {
        // SAFETY: the arguments are passed on, with at most the same count.
        reply(unsafe { libc::syscall(libc::SYS_pwrite64, fd, buffer, count, offset) })
    };
    let (Some(open), Ok(at)) = (state(fd), u64::try_from(offset)) else {
        return size(call(count));
    };
    // SAFETY: the program passes as many bytes.
    let bytes = unsafe { bytes_at(buffer, count) };
    size(watch::write(open.key, open.length, at, bytes, call))
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwrite(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the arguments are passed on.
    unsafe { pwrite64(fd, buffer, count, offset) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    // SAFETY: the call takes numbers only.
    let call = || reply(unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) });
    match state(fd) {
        Some(open) => status(watch::resize(open.key, length, call)),
        None => status(call()),
    }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { ftruncate64(fd, length) }
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync)
}

/// # Safety
///
/// As for the function of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync)
}

fn sync(fd: c_int, number: c_long) -> c_int {
    // SAFETY: the call takes a number only.
    let call = || reply(unsafe { libc::syscall(number, fd) });
    match state(fd) {
        Some(open) => status(watch::sync(open.key, call)),
        None => status(call()),
    }
}
