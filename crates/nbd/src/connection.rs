//! Bytes to and from a server, before a deadline.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::error::NbdError;
use crate::uri::{Endpoint, Uri};

/// Rate of data to which a deadline gives time, in bytes per second.
const BYTES_PER_SEC_MIN: u64 = 64 << 10;
/// Step in which memory for data of unknown amount grows: only data that have come cost memory.
const STEP_BYTES: usize = 64 << 10;

/// Two directions of bytes between this client and a server.
pub trait Stream: Read + Write + Send + fmt::Debug {
    /// Sets the time after which a read or write without progress fails with `WouldBlock` or
    /// `TimedOut`. The time is not zero.
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

/// Maximum times to wait for a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Time for the connection and the handshake together. The search for the address of a host by
    /// its name has its own limit, in the C library.
    pub connect: Duration,
    /// Time for the reply to a request. Data get a second more for each 64 KiB.
    pub reply: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), reply: Duration::from_secs(120) }
    }
}

/// Connection to a server, with the deadline of what is under way.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    deadline: Instant,
}

impl Connection {
    /// Connects to the server of `uri`. The deadline of the handshake runs from the beginning.
    pub(crate) fn open(uri: &Uri, patience: Patience) -> Result<Self, NbdError> {
        let deadline = sys::clock::monotonic() + patience.connect;
        let stream = match &uri.endpoint {
            Endpoint::Tcp { host, port } => open_tcp(host, *port, deadline),
            Endpoint::Unix(path) => sys::net::connect_unix_within(path, patience.connect)
                .map(|stream| Box::new(stream) as Box<dyn Stream>),
        };
        let stream =
            stream.map_err(|source| NbdError::Unreachable { address: uri.to_string(), source })?;
        Ok(Self { stream, deadline })
    }

    pub(crate) fn over(stream: Box<dyn Stream>, patience: Patience) -> Self {
        Self { stream, deadline: sys::clock::monotonic() + patience.connect }
    }

    /// Sets the deadline of a request with `bytes` of data.
    pub(crate) fn allow(&mut self, patience: Duration, bytes: u64) {
        let transfer = Duration::from_secs(bytes / BYTES_PER_SEC_MIN);
        self.deadline = sys::clock::monotonic() + patience + transfer;
    }

    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<(), NbdError> {
        while !bytes.is_empty() {
            self.limit()?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(NbdError::lost(io::ErrorKind::WriteZero)),
                Ok(count) => bytes = &bytes[count..],
                Err(error) => retry(error)?,
            }
        }
        Ok(())
    }

    /// Fills the whole `buffer`.
    pub(crate) fn receive(&mut self, mut buffer: &mut [u8]) -> Result<(), NbdError> {
        while !buffer.is_empty() {
            self.limit()?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(NbdError::lost(io::ErrorKind::UnexpectedEof)),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) => retry(error)?,
            }
        }
        Ok(())
    }

    pub(crate) fn receive_array<const N: usize>(&mut self) -> Result<[u8; N], NbdError> {
        let mut array = [0; N];
        self.receive(&mut array)?;
        Ok(array)
    }

    /// Returns `bytes` bytes. The caller has compared the number with a limit.
    pub(crate) fn receive_vec(&mut self, bytes: usize) -> Result<Vec<u8>, NbdError> {
        let mut received = Vec::new();
        while received.len() < bytes {
            let start = received.len();
            received.resize(bytes.min(start + STEP_BYTES), 0);
            self.receive(&mut received[start..])?;
        }
        Ok(received)
    }

    /// Gives the next read or write the time up to the deadline.
    fn limit(&mut self) -> Result<(), NbdError> {
        let left = self.deadline.saturating_duration_since(sys::clock::monotonic());
        if left.is_zero() {
            return Err(NbdError::lost(io::ErrorKind::TimedOut));
        }
        // The kernel takes a time of less than a microsecond for no limit.
        let left = left.max(Duration::from_millis(1));
        self.stream.set_timeout(left).map_err(NbdError::lost)
    }
}

fn open_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<Box<dyn Stream>> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(sys::clock::monotonic());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Box::new(stream));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Returns to the caller only if the operation is to be repeated.
fn retry(error: io::Error) -> Result<(), NbdError> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => Err(NbdError::lost(io::ErrorKind::TimedOut)),
        _ => Err(NbdError::lost(error)),
    }
}
