//! Calls: requests of HTTP with their types, and the answers to them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::caller::Caller;
use crate::desk::Desk;
use crate::problem::Problem;

/// A request whose caller is known and whose parts have their types: parameters of the path,
/// parameters of the query, and the body.
pub(crate) struct Call<P, Q, B> {
    pub(crate) desk: Arc<Desk>,
    pub(crate) caller: Caller,
    /// Network address of the caller; `None` for the administration socket.
    pub(crate) origin: Option<IpAddr>,
    /// Hash of the sign-in by which the caller is known.
    pub(crate) sign_in: Option<[u8; 32]>,
    pub(crate) path: P,
    pub(crate) query: Q,
    pub(crate) body: B,
    /// Headers of the request.
    pub(crate) request: HeaderMap,
    /// Headers that the answer gets besides its usual ones.
    pub(crate) headers: HeaderMap,
    pub(crate) attention: Attention,
}

/// Whether the caller still waits for the answer.
#[derive(Clone, Default, Debug)]
pub(crate) struct Attention(Arc<AtomicBool>);

/// Sign that the caller waits. The caller is gone when it is dropped.
pub(crate) struct Presence(Attention);

impl Attention {
    pub(crate) fn waiting(&self) -> Presence {
        Presence(self.clone())
    }

    /// Fails if the caller is gone. Long work asks from time to time.
    pub(crate) fn check(&self) -> Result<(), store::StoreError> {
        match self.is_lost() {
            true => Err(store::StoreError::cancelled("the caller is gone")),
            false => Ok(()),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl<P, Q, B> Call<P, Q, B> {
    /// Adds a header to the answer. The value must be visible text.
    pub(crate) fn add_header(&mut self, name: HeaderName, value: &str) {
        let value = HeaderValue::from_str(value).expect("the value is visible text");
        self.headers.append(name, value);
    }
}

/// Result of an operation.
pub(crate) type Answer<T> = Result<T, Problem>;

/// An answer in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// JSON; empty for an answer without a body.
    pub(crate) body: Vec<u8>,
}
