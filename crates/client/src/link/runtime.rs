//! Runtime of the network edge, the only asynchronous part of the client.

use tokio::runtime::{Builder, Runtime};

use crate::error::{ClientError, ErrorKind};

/// Number of threads that drive the network.
const NETWORK_THREADS: usize = 2;

/// Starts the threads of the network edge.
pub(crate) fn runtime() -> Result<Runtime, ClientError> {
    with_threads(NETWORK_THREADS)
}

/// Starts `threads` threads of the network edge.
pub(super) fn with_threads(threads: usize) -> Result<Runtime, ClientError> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("network")
        .enable_all()
        .build()
        .map_err(|error| {
            ClientError::new(ErrorKind::Bug, format!("cannot start network threads: {error}"))
        })
}
