//! The line to a device behind a network, which is made again by itself after it was cut.
//!
//! ```text
//!             a command or a check finds it cut
//!   whole -----------------------------------------> away
//!     ^                                               |
//!     +-- the keeper connects, the same device answers +
//! ```
//!
//! 1. No command is sent twice here. A command during which the line is cut ends with
//!    [`TransportError::Cut`]: whether the device has executed it is unknown.
//! 2. The first command on a line that was made again without the knowledge of its sender is not
//!    sent, and ends with [`TransportError::Cut`] too: the device may have been reset meanwhile.
//! 3. Commands wait for a line that is away, until it has been away for [`Pauses::patience`]. After
//!    that they fail at once, until the line is whole again.
//! 4. A line is whole only if the device at its end is the same as before, by vendor, product and
//!    serial number.
//! 5. A check asks only for such data. This takes no unit attention away from the next command, and
//!    answers the pings of the target.
//!
//! Each line has a thread, its keeper, which ends with the [`LineTransport`].

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::ServerTime;
use sys::fault::ProcessEnd;
use sys::lock::{Condvar, Mutex, MutexGuard};

use crate::scsi::{Cdb, Inquiry};
use crate::transport::{Completion, ScsiTransport, Transfer, TransportError, status};

/// Callback that connects to the device.
pub type Connector = Box<dyn Fn() -> io::Result<Box<dyn ScsiTransport>> + Send + Sync>;

/// Time limit for the answer to a check.
const CHECK_MAX: Duration = Duration::from_secs(10);

/// Times of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauses {
    /// Time for which commands wait for a line that is away, since it was cut.
    pub patience: Duration,
    /// Pause after the first attempt to connect again. It doubles with each further attempt.
    pub attempt_min: Duration,
    /// Longest pause between two attempts.
    pub attempt_max: Duration,
    /// Time without a command after which the line is checked.
    pub check: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(120),
            attempt_min: Duration::from_secs(1),
            attempt_max: Duration::from_secs(15),
            check: Duration::from_secs(10),
        }
    }
}

/// The absence of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outage {
    pub since: ServerTime,
    /// Moment of the cut on a clock that nobody sets.
    begun: Instant,
    /// Reason of the cut, or of the last failure to connect.
    pub reason: String,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.begun.elapsed().as_secs();
        let unit = if secs == 1 { "second" } else { "seconds" };
        write!(f, "its connection has been away for {secs} {unit}: {}", self.reason)
    }
}

struct LineState {
    /// The connection; `None` while it is in use or away.
    connection: Option<Box<dyn ScsiTransport>>,
    outage: Option<Outage>,
    /// Number of times that the line was made.
    generation: u64,
    last_use: Instant,
    /// True after the last command: the keeper ends.
    is_closed: bool,
}

/// A line, as others see it. See the module.
pub struct Line {
    connect: Connector,
    pauses: Pauses,
    /// Vendor, product and serial number of the device.
    device: Vec<u8>,
    state: Mutex<LineState>,
    changed: Condvar,
}

impl Line {
    /// Connects to the device, and starts the keeper.
    pub fn open(connect: Connector, pauses: Pauses) -> io::Result<LineTransport> {
        let mut connection = connect()?;
        let device = identify(&mut *connection)?;
        let transfer_bytes_max = connection.transfer_bytes_max();
        let state = LineState {
            connection: Some(connection),
            outage: None,
            generation: 1,
            last_use: sys::clock::monotonic(),
            is_closed: false,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let line = Arc::new(Self { connect, pauses, device, state, changed });
        let keeper = Arc::clone(&line);
        let keep = move || {
            let _guard = ProcessEnd;
            keeper.keep();
        };
        std::thread::Builder::new().name("tape-line".to_owned()).spawn(keep)?;
        Ok(LineTransport { line, generation: 1, transfer_bytes_max })
    }

    /// Returns the absence of the line; `None` while it is whole.
    pub fn outage(&self) -> Option<Outage> {
        self.state.lock().outage.clone()
    }

    /// Makes all commands on the line fail from now on, while it is away: their senders are ending.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Takes the connection, with its generation. Waits for it while the line is away (rule 3).
    fn take(&self) -> Result<(Box<dyn ScsiTransport>, u64), TransportError> {
        let mut state = self.state.lock();
        loop {
            if let Some(connection) = state.connection.take() {
                return Ok((connection, state.generation));
            }
            let left = match &state.outage {
                // The keeper checks the line.
                None => CHECK_MAX,
                Some(outage) => {
                    let left = self.pauses.patience.saturating_sub(outage.begun.elapsed());
                    if left.is_zero() || state.is_closed {
                        let reason = outage.to_string();
                        let error = io::Error::new(io::ErrorKind::NotConnected, reason);
                        return Err(TransportError::Lost(error));
                    }
                    left
                }
            };
            state = self.changed.wait_timeout(state, left);
        }
    }

    fn put(&self, connection: Box<dyn ScsiTransport>) {
        let mut state = self.state.lock();
        assert!(state.connection.is_none(), "one user has the connection");
        state.connection = Some(connection);
        state.last_use = sys::clock::monotonic();
    }

    /// Notes that the line was cut. The connection has been dropped.
    fn cut(&self, reason: &io::Error) {
        let mut state = self.state.lock();
        assert!(state.connection.is_none(), "a connection that was cut is not used");
        let (since, begun) = (sys::clock::now(), sys::clock::monotonic());
        state.outage.get_or_insert(Outage { since, begun, reason: reason.to_string() });
        drop(state);
        self.changed.notify_all();
    }

    /// Connects again after cuts, and checks the line while nobody uses it.
    fn keep(&self) {
        let mut pause = self.pauses.attempt_min;
        let mut state = self.state.lock();
        while !state.is_closed {
            if state.outage.is_some() {
                drop(state);
                let is_whole = self.connect_again();
                state = self.state.lock();
                if is_whole {
                    pause = self.pauses.attempt_min;
                } else if !state.is_closed {
                    state = self.changed.wait_timeout(state, pause);
                    pause = (pause * 2).min(self.pauses.attempt_max);
                }
                continue;
            }
            let idle = state.last_use.elapsed();
            if idle < self.pauses.check || state.connection.is_none() {
                let left = self.pauses.check.saturating_sub(idle);
                state = self.changed.wait_timeout(state, left.max(self.pauses.attempt_min));
                continue;
            }
            state = self.check(state);
        }
    }

    /// Connects; returns true if the same device answers.
    fn connect_again(&self) -> bool {
        let connected = (self.connect)().and_then(|mut connection| {
            let device = identify(&mut *connection)?;
            if device == self.device { Ok(connection) } else { Err(another_device()) }
        });
        let mut state = self.state.lock();
        match connected {
            Ok(connection) => {
                (state.connection, state.outage) = (Some(connection), None);
                state.generation += 1;
                state.last_use = sys::clock::monotonic();
            }
            Err(error) => {
                if let Some(outage) = &mut state.outage {
                    outage.reason = error.to_string();
                }
            }
        }
        let is_whole = state.outage.is_none();
        drop(state);
        if is_whole {
            self.changed.notify_all();
        }
        is_whole
    }

    /// Asks the device for its name, while commands wait.
    fn check<'a>(&'a self, mut state: MutexGuard<'a, LineState>) -> MutexGuard<'a, LineState> {
        let Some(mut connection) = state.connection.take() else { return state };
        drop(state);
        match identify(&mut *connection) {
            Ok(device) if device == self.device => self.put(connection),
            Ok(_) => self.cut(&another_device()),
            // The device may be busy. A command of its user shows whether it answers again.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => self.put(connection),
            Err(error) => self.cut(&error),
        }
        self.changed.notify_all();
        self.state.lock()
    }
}

fn another_device() -> io::Error {
    io::Error::other("another device answers at its address")
}

/// Returns vendor, product and serial number of the device, as bytes that are compared.
fn identify(connection: &mut dyn ScsiTransport) -> io::Result<Vec<u8>> {
    const SERIAL: u8 = 0x80;
    let mut inquiry = [0; 96];
    ask(connection, &Cdb::inquiry(96), &mut inquiry)?;
    let parsed = Inquiry::parse(&inquiry).map_err(io::Error::other)?;
    let mut serial = [0; 252];
    // A device without a serial number refuses the question.
    if !ask(connection, &Cdb::vital_product(SERIAL, 252), &mut serial)? {
        serial.fill(0);
    }
    let mut device = format!("{}\0{}\0", parsed.vendor, parsed.product).into_bytes();
    device.extend(serial);
    Ok(device)
}

/// Sends a question; returns false if the device refuses it.
fn ask(connection: &mut dyn ScsiTransport, cdb: &Cdb, answer: &mut [u8]) -> io::Result<bool> {
    match connection.execute(cdb.bytes(), Transfer::In(answer), CHECK_MAX) {
        Ok(completion) => Ok(completion.status == status::GOOD),
        Err(TransportError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        Err(TransportError::Cut(error) | TransportError::Lost(error)) => Err(error),
    }
}

/// The transport of commands over a line.
pub struct LineTransport {
    line: Arc<Line>,
    /// Generation of the line that the sender of the commands knows.
    generation: u64,
    transfer_bytes_max: Option<u32>,
}

impl ScsiTransport for LineTransport {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError> {
        let (mut connection, generation) = self.line.take()?;
        if std::mem::replace(&mut self.generation, generation) != generation {
            self.line.put(connection);
            let error = io::Error::new(io::ErrorKind::ConnectionReset, "it was made again");
            return Err(TransportError::Cut(error));
        }
        match connection.execute(cdb, transfer, timeout) {
            Err(TransportError::Lost(error) | TransportError::Cut(error)) => {
                drop(connection);
                // The sender learns of this cut now, and not once more after the line is whole.
                self.generation += 1;
                self.line.cut(&error);
                Err(TransportError::Cut(error))
            }
            answered => {
                self.line.put(connection);
                answered
            }
        }
    }

    fn transfer_bytes_max(&self) -> Option<u32> {
        self.transfer_bytes_max
    }

    fn line(&self) -> Option<Arc<Line>> {
        Some(Arc::clone(&self.line))
    }

    fn was_cut(&self) -> bool {
        let state = self.line.state.lock();
        state.outage.is_some() || state.generation != self.generation
    }
}

impl Drop for LineTransport {
    fn drop(&mut self) {
        self.line.close();
        // The session ends with the transport, although others may still see the line.
        let connection = self.line.state.lock().connection.take();
        drop(connection);
    }
}
