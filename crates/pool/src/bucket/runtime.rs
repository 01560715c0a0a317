//! Waiting for object stores: the runtime that all buckets share, and their errors.

use std::io;
use std::sync::OnceLock;

use tokio::runtime::Runtime;

/// Number of threads that communicate with stores.
const THREADS: usize = 2;
/// Words in stores' messages about an exhausted quota. Ceph and Garage answer that such a request
/// is forbidden.
const QUOTA_WORDS: [&str; 2] = ["QuotaExceeded", "quota is reached"];
/// Words in stores' messages about a lack of space.
const FULL_WORDS: [&str; 3] = ["QuotaExceeded", "XMinioStorageFull", "507 Insufficient Storage"];
/// Address at which machines of a cloud get their keys. It is used only if there are no other keys.
const CLOUD_KEYS: &str = "169.254.169.254";

/// Returns the runtime; the first caller creates it.
pub(super) fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("bucket")
        .enable_all()
        .build()?;
    Ok(RUNTIME.get_or_init(|| made))
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(runtime()?.block_on(future))
}

/// Turns an error of a store into the error that a disk would return for the same reason.
pub(super) fn io_error(error: object_store::Error) -> io::Error {
    use object_store::Error;
    let text = model::chain(&error);
    if text.contains(CLOUD_KEYS) {
        let help = "no keys for the object store were found: name a file with ?credentials=FILE, \
                    or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        return io::Error::new(io::ErrorKind::PermissionDenied, help);
    }
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => io::ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } if has(&QUOTA_WORDS) => {
            io::ErrorKind::StorageFull
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ if has(&FULL_WORDS) => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, text)
}
