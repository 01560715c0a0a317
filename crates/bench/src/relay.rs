//! An emulated slow link: a relay that passes on every byte with a delay and at a limited rate.
//!
//! ```text
//!            reader                                    writer
//!   peer --> read a segment --> (due, bytes), queue --> wait until due --> write --> other peer
//!            room in the buffer?                        free the buffer
//! ```
//!
//! 1. Each direction is one line that all connections share. A segment waits until the line is
//!    free, and occupies it for the time that its bytes take. It arrives after a further delay of
//!    half a round trip.
//! 2. Each direction of a connection has a buffer of twice the bandwidth-delay product of a round
//!    trip, so the delay alone never slows a stream. While the buffer is full nothing is read, and
//!    TCP makes the sender wait.
//! 3. A round trip of a connection begins with bytes up after bytes down, or with its first bytes.
//!    Requests that are sent before their answers come are one round trip.
//! 4. The first bytes of a connection leave one round trip after the connection was accepted. On a
//!    real link the handshake would take that long.
//!
//! Deliberately absent: loss of packets, and jitter.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e2e::clock;
use sys::lock::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::trouble::{Context as _, Trouble};

const SEGMENT_BYTES_MIN: u64 = 1500;
const SEGMENT_BYTES_MAX: u64 = 64 << 10;

/// Minimum size of a buffer. On a slow or short link, twice the bandwidth-delay product may be
/// close to nothing.
const BUFFER_BYTES_MIN: u64 = 256 << 10;
const BUFFER_BYTES_MAX: u64 = 256 << 20;

/// Approximate maximum time that a segment occupies the line, in microseconds. Segments of other
/// connections may have to wait that long.
const SEGMENT_MICROS: u64 = 500;

/// The link that is emulated, in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) round_trip: Duration,
    /// Rate in bits per second; `None` for no limit.
    pub(crate) bits_per_sec: Option<u64>,
}

impl Link {
    /// A link without delay and limit, which only counts the traffic.
    pub(crate) const BARE: Self = Self { round_trip: Duration::ZERO, bits_per_sec: None };

    fn segment_bytes(self) -> u64 {
        let bits = self.bits_per_sec.unwrap_or(u64::MAX);
        (bits / 8 / 1_000_000 * SEGMENT_MICROS).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }

    fn buffer_bytes(self) -> u64 {
        let micros = u64::try_from(self.round_trip.as_micros()).unwrap_or(u64::MAX);
        let bits_per_sec = self.bits_per_sec.unwrap_or(u64::MAX);
        let product = u128::from(bits_per_sec) * u128::from(micros) / 8_000_000;
        let bytes = u64::try_from(product * 2).unwrap_or(u64::MAX);
        bytes.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
    }

    /// Returns the time for which `bytes` occupy the line.
    fn holding(self, bytes: u64) -> Duration {
        let Some(bits_per_sec) = self.bits_per_sec else { return Duration::ZERO };
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(bits_per_sec.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Traffic of all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) connections: u64,
    pub(crate) up_bytes: u64,
    pub(crate) down_bytes: u64,
    /// Number of changes of direction between one read and the next. One side has waited for the
    /// other at most that often.
    pub(crate) turns: u64,
    /// Number of round trips of all connections.
    pub(crate) round_trips: u64,
}

impl Traffic {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            up_bytes: self.up_bytes - before.up_bytes,
            down_bytes: self.down_bytes - before.down_bytes,
            turns: self.turns - before.turns,
            round_trips: self.round_trips - before.round_trips,
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        self.up_bytes + self.down_bytes
    }
}

/// A relay that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    counts: Arc<Counts>,
    runtime: Option<Runtime>,
}

impl Relay {
    /// Listens on a free port, and passes on all connections to `target`, which is `HOST:PORT`.
    pub(crate) fn start(target: &str, link: Link) -> Result<Self, Trouble> {
        let what = || "start the relay".to_owned();
        let target: SocketAddr = target.parse().while_doing(what)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .while_doing(what)?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).while_doing(what)?;
        let address = listener.local_addr().while_doing(what)?;
        let counts = Arc::new(Counts::default());
        runtime.spawn(accept(listener, target, link, Arc::clone(&counts)));
        Ok(Self { address, counts, runtime: Some(runtime) })
    }

    /// Returns the address at which clients reach the relay, as `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            connections: count(&self.counts.connections),
            up_bytes: count(&self.counts.up_bytes),
            down_bytes: count(&self.counts.down_bytes),
            turns: count(&self.counts.turns),
            round_trips: count(&self.counts.round_trips),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    up_bytes: AtomicU64,
    down_bytes: AtomicU64,
    turns: AtomicU64,
    round_trips: AtomicU64,
    /// Direction of the last segment of any connection.
    last: AtomicU8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Way {
    Up = 1,
    Down = 2,
}

impl Counts {
    /// Counts a segment. `last` is the direction of the last segment of the same connection.
    fn count(&self, way: Way, bytes: u64, last: &AtomicU8) {
        if last.swap(way as u8, Ordering::Relaxed) != Way::Up as u8 && way == Way::Up {
            self.round_trips.fetch_add(1, Ordering::Relaxed);
        }
        let counter = if way == Way::Up { &self.up_bytes } else { &self.down_bytes };
        counter.fetch_add(bytes, Ordering::Relaxed);
        if self.last.swap(way as u8, Ordering::Relaxed) != way as u8 {
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One direction of the link.
#[derive(Debug)]
struct Direction {
    way: Way,
    link: Link,
    /// Time from which on the line is free.
    free: Mutex<Instant>,
    counts: Arc<Counts>,
}

impl Direction {
    fn new(way: Way, link: Link, counts: &Arc<Counts>) -> Arc<Self> {
        Arc::new(Self { way, link, free: Mutex::new(clock::now()), counts: Arc::clone(counts) })
    }

    /// Puts `bytes` on the line, at `earliest` or later. Returns the time at which they arrive.
    fn carry(&self, bytes: u64, earliest: Instant) -> Instant {
        let mut free = self.free.lock();
        let left = (*free).max(clock::now()).max(earliest) + self.link.holding(bytes);
        *free = left;
        left + self.link.round_trip / 2
    }
}

struct Segment {
    due: Instant,
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

async fn accept(listener: TcpListener, target: SocketAddr, link: Link, counts: Arc<Counts>) {
    let up = Direction::new(Way::Up, link, &counts);
    let down = Direction::new(Way::Down, link, &counts);
    while let Ok((client, _)) = listener.accept().await {
        let opened = clock::now() + link.round_trip;
        let Ok(server) = TcpStream::connect(target).await else { continue };
        // The calls fail only if the connection is lost, and then the next read fails as well.
        drop((client.set_nodelay(true), server.set_nodelay(true)));
        counts.connections.fetch_add(1, Ordering::Relaxed);
        let (client_read, client_write) = client.into_split();
        let (server_read, server_write) = server.into_split();
        let last = Arc::new(AtomicU8::default());
        let from = |from| Source { from, last: Arc::clone(&last), opened };
        carry_all(from(client_read), server_write, &up);
        carry_all(from(server_read), client_write, &down);
    }
}

/// One direction of a connection.
struct Source {
    from: OwnedReadHalf,
    /// Direction of the last segment of the connection; both of its sources share it.
    last: Arc<AtomicU8>,
    /// Time at which the first bytes leave.
    opened: Instant,
}

fn carry_all(source: Source, to: OwnedWriteHalf, way: &Arc<Direction>) {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(read(source, Arc::clone(way), sender));
    tokio::spawn(write(receiver, to));
}

/// Reads segments into the queue. The queue has no limit of its own, because each of its segments
/// takes room in the buffer.
async fn read(
    Source { mut from, last, opened }: Source,
    way: Arc<Direction>,
    queue: UnboundedSender<Segment>,
) {
    let buffer_bytes = usize::try_from(way.link.buffer_bytes()).unwrap_or(usize::MAX);
    let buffer = Arc::new(Semaphore::new(buffer_bytes));
    let segment_bytes = usize::try_from(way.link.segment_bytes()).unwrap_or(usize::MAX);
    let mut segment = vec![0; segment_bytes];
    // An error ends a direction as the end of its data does: the peer sees that the connection is
    // closed.
    while let Ok(length @ 1..) = from.read(&mut segment).await {
        let Ok(permits) = u32::try_from(length) else { return };
        let room = Arc::clone(&buffer).acquire_many_owned(permits).await;
        let Ok(room) = room else { return };
        let bytes = u64::from(permits);
        way.counts.count(way.way, bytes, &last);
        let due = way.carry(bytes, opened);
        let sent = Segment { due, bytes: segment[..length].to_vec(), _room: room };
        if queue.send(sent).is_err() {
            return;
        }
    }
}

async fn write(mut queue: UnboundedReceiver<Segment>, mut to: OwnedWriteHalf) {
    while let Some(segment) = queue.recv().await {
        tokio::time::sleep_until(segment.due.into()).await;
        if to.write_all(&segment.bytes).await.is_err() {
            return;
        }
    }
    // The call fails only if the connection is lost.
    drop(to.shutdown().await);
}

#[cfg(test)]
mod tests;
