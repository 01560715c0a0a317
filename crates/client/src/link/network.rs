//! Connections by which the network is measured, and transfers on them.
//!
//! Each stream is a connection of its own, as a backup has one: streams of one connection would
//! share its window. All connections are to the same server.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::net::BufferSizes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Status};
use wire::network::{
    Count, Direction, LOAD_BYTES, Load, Meter, PIECE_BYTES, Preamble, TICKET_BYTES,
};
use wire::proto;
use wire::proto::node_client::NodeClient;

use super::{Connection, meet, runtime, tls};
use crate::error::{ClientError, ErrorKind};
use crate::node::home::Home;
use crate::progress::Progress;

/// Time that a transfer has beyond the time that is measured, after which it counts as stalled.
const STALL_MAX: Duration = Duration::from_secs(20);
/// Time limit for all connections together, and for all round trips together.
const OPENING_MAX: Duration = Duration::from_secs(60);
const ROUND_TRIPS_MAX: Duration = Duration::from_secs(10);
/// Interval between two looks whether the command has been stopped.
const LOOK: Duration = Duration::from_millis(100);

type Work = Pin<Box<dyn Future<Output = Result<Count, ClientError>> + Send>>;

/// Connections for a measurement.
pub(crate) struct Probe<'a> {
    home: &'a Home,
    progress: &'a Progress,
    runtime: Runtime,
    connections: Vec<Connection>,
    load: Load,
    /// Bytes that were sent or received, and are not in the progress yet.
    moved: Arc<AtomicU64>,
}

/// Transfer that is to be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) direction: Direction,
    pub(crate) streams: usize,
    pub(crate) each: Duration,
    /// Time at the start in which arrivals do not count.
    pub(crate) lead: Duration,
}

impl Order {
    fn millis(&self) -> [u32; 2] {
        [self.each, self.lead].map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
    }
}

impl<'a> Probe<'a> {
    /// Opens `streams` connections, at least one.
    pub(crate) fn open(
        home: &'a Home,
        streams: usize,
        progress: &'a Progress,
    ) -> Result<Self, ClientError> {
        let mut random = vec![0; LOAD_BYTES];
        sys::entropy::fill(&mut random);
        let mut probe = Self {
            home,
            progress,
            runtime: runtime::with_threads(streams + 1)?,
            connections: Vec::new(),
            load: Load::new(random),
            moved: Arc::default(),
        };
        probe.connections = probe.watch(OPENING_MAX, async {
            let first = meet(home, &home.addresses()).await?;
            let server = first.line.server.to_string();
            let mut connections = vec![first];
            while connections.len() < streams {
                connections.push(meet(home, &server).await?);
            }
            Ok(connections)
        })?;
        Ok(probe)
    }

    fn first(&self) -> &Connection {
        self.connections.first().expect("a probe has at least one connection")
    }

    pub(crate) fn cipher(&self) -> &str {
        &self.first().line.cipher
    }

    /// Returns the buffers that the kernel has given to the first connection so far.
    pub(crate) fn buffers(&self) -> Result<BufferSizes, ClientError> {
        sys::net::buffers(&self.first().line.socket).map_err(|error| unknown_buffers(&error))
    }

    /// Returns the buffers that the connection may get.
    pub(crate) fn buffers_max(&self) -> Result<BufferSizes, ClientError> {
        // The kernel does not change buffers of a size that somebody has set.
        if self.home.config.tuning.socket_buffer_bytes.is_some() {
            return self.buffers();
        }
        sys::net::buffers_max().map_err(|error| unknown_buffers(&error))
    }

    /// Measures `count` round trips, one after the other, or as many as the time limit allows.
    pub(crate) fn round_trips(&self, count: u32) -> Result<Vec<Duration>, ClientError> {
        let mut client = self.first().client.clone();
        let ping = async || client.ping(proto::PingRequest {}).await;
        self.watch(ROUND_TRIPS_MAX + STALL_MAX, self.trips(count, ping))
    }

    async fn trips<R>(
        &self,
        count: u32,
        mut ping: impl AsyncFnMut() -> Result<R, Status>,
    ) -> Result<Vec<Duration>, ClientError> {
        // The first answer may be late for other reasons than the network.
        ping().await.map_err(|status| self.refusal(status))?;
        let began = sys::clock::monotonic();
        let mut trips = Vec::new();
        for _ in 0..count {
            let sent = sys::clock::monotonic();
            ping().await.map_err(|status| self.refusal(status))?;
            trips.push(sent.elapsed());
            if began.elapsed() > ROUND_TRIPS_MAX {
                break;
            }
        }
        Ok(trips)
    }

    /// Measures a transfer over TLS. Returns the count of each stream.
    pub(crate) fn transfer(&self, order: Order) -> Result<Vec<Count>, ClientError> {
        let work = |connection: &Connection| -> Work {
            let (client, moved) = (connection.client.clone(), Arc::clone(&self.moved));
            let server = connection.reply.server_version.clone();
            let load = self.load.clone();
            Box::pin(async move {
                let count = match order.direction {
                    Direction::ToServer => send(client, load, order, &moved).await,
                    Direction::FromServer => receive(client, order, &moved).await,
                };
                count.map_err(|error| error.about(&server))
            })
        };
        assert!(order.streams <= self.connections.len(), "there is a connection for each stream");
        self.run(order, self.connections.iter().take(order.streams).map(work))
    }

    /// Measures a transfer without TLS. Returns the count of each stream.
    pub(crate) fn plain_transfer(&self, order: Order) -> Result<Vec<Count>, ClientError> {
        let ticket = self.watch(STALL_MAX, self.ticket(order))?;
        let preamble = Preamble { direction: order.direction, ticket };
        let server = self.first().line.server.to_string();
        let buffers = self.home.config.tuning.socket_buffer_bytes;
        let work = |_| -> Work {
            let (server, moved, load) =
                (server.clone(), Arc::clone(&self.moved), self.load.clone());
            Box::pin(async move {
                let mut stream = tls::reach(&server, buffers).await?;
                let transfer = async {
                    stream.write_all(&preamble.encode()).await?;
                    match order.direction {
                        Direction::ToServer => send_plainly(stream, load, order, &moved).await,
                        Direction::FromServer => receive_plainly(stream, order, &moved).await,
                    }
                };
                transfer.await.map_err(|error| lost_plainly(&server, &error))
            })
        };
        self.run(order, (0..order.streams).map(work))
    }

    async fn ticket(&self, order: Order) -> Result<[u8; TICKET_BYTES], ClientError> {
        let [millis, lead_millis] = order.millis();
        let connections = u32::try_from(order.streams).unwrap_or(u32::MAX);
        let request = proto::MeasurePlainRequest { connections, millis, lead_millis };
        let asked = self.first().client.clone().measure_plain(request).await;
        let reply = asked.map_err(|status| self.refusal(status))?.into_inner();
        let bug = |_| ClientError::new(ErrorKind::Bug, "the server sent a malformed ticket");
        <[u8; TICKET_BYTES]>::try_from(&reply.ticket[..]).map_err(bug)
    }

    fn refusal(&self, status: Status) -> ClientError {
        Failure::Call(status).about(&self.first().reply.server_version)
    }

    /// Runs the streams of a transfer at once.
    fn run(
        &self,
        order: Order,
        work: impl Iterator<Item = Work>,
    ) -> Result<Vec<Count>, ClientError> {
        self.watch(order.each + STALL_MAX, async {
            // The tasks end with the set.
            let mut tasks = JoinSet::new();
            work.for_each(|stream| drop(tasks.spawn(stream)));
            let mut counts = Vec::new();
            while let Some(ended) = tasks.join_next().await {
                let bug = |_| ClientError::new(ErrorKind::Bug, "a task of the measurement failed");
                counts.push(ended.map_err(bug)??);
            }
            Ok(counts)
        })
    }

    /// Waits for `work`, unless the command is stopped, or `limit` is over.
    fn watch<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let (progress, moved) = (self.progress, &self.moved);
        let note = || progress.bytes_transferred.fetch_add(moved.swap(0, Relaxed), Relaxed);
        let began = sys::clock::monotonic();
        let done = self.runtime.block_on(async {
            let (mut work, mut looks) = (pin!(work), tokio::time::interval(LOOK));
            loop {
                tokio::select! {
                    done = &mut work => return done,
                    _ = looks.tick() => {}
                }
                note();
                if progress.is_stopped() {
                    return Err(ClientError::interrupted());
                }
                if began.elapsed() > limit {
                    let message = "the measurement stalled: the server sent no answer in time";
                    return Err(ClientError::new(ErrorKind::Retry, message));
                }
            }
        });
        note();
        done
    }
}

fn unknown_buffers(error: &io::Error) -> ClientError {
    let message = format!("the kernel does not tell the connection's buffers: {error}");
    ClientError::new(ErrorKind::Usage, message)
}

fn lost_plainly(server: &str, error: &io::Error) -> ClientError {
    let message = match error.kind() {
        io::ErrorKind::UnexpectedEof => format!(
            "the server at {server}, or a device on the way, closed the plain connection without \
             an answer"
        ),
        _ => format!("the plain connection to {server} failed: {error}"),
    };
    ClientError::new(ErrorKind::Retry, message)
}

/// Failure of a transfer over TLS.
enum Failure {
    Call(Status),
    /// The server counts more bytes than were sent.
    Miscount,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Call(status)
    }
}

impl Failure {
    /// Makes the error of a call of the server with the version `server`.
    fn about(self, server: &str) -> ClientError {
        match self {
            Self::Call(status) if status.code() == Code::Unimplemented => {
                let message = format!(
                    "server {server} is too old to measure the network; upgrade the server"
                );
                ClientError::new(ErrorKind::Usage, message)
            }
            Self::Call(status) => status.into(),
            Self::Miscount => ClientError::new(ErrorKind::Bug, MISCOUNT),
        }
    }
}

const MISCOUNT: &str = "the server counts more bytes than were sent";

async fn send(
    mut client: NodeClient<Channel>,
    mut load: Load,
    order: Order,
    moved: &Arc<AtomicU64>,
) -> Result<Count, Failure> {
    let ends = sys::clock::monotonic() + order.each;
    let [millis, lead_millis] = order.millis();
    let mut first = Some((millis, lead_millis));
    let sent = Arc::new(AtomicU64::new(0));
    let (counter, moved) = (Arc::clone(&sent), Arc::clone(moved));
    let pieces = std::iter::from_fn(move || {
        if sys::clock::monotonic() >= ends {
            return None;
        }
        let (millis, lead_millis) = first.take().unwrap_or_default();
        counter.fetch_add(PIECE_BYTES as u64, Relaxed);
        moved.fetch_add(PIECE_BYTES as u64, Relaxed);
        Some(proto::MeasureToServerRequest { data: load.piece(), millis, lead_millis })
    });
    let reply = client.measure_to_server(tokio_stream::iter(pieces)).await?.into_inner();
    if reply.bytes > sent.load(Relaxed) {
        return Err(Failure::Miscount);
    }
    Ok(Count { bytes: reply.bytes, micros: reply.micros })
}

async fn receive(
    mut client: NodeClient<Channel>,
    order: Order,
    moved: &AtomicU64,
) -> Result<Count, Failure> {
    let [millis, _] = order.millis();
    let request = proto::MeasureFromServerRequest { millis };
    let mut pieces = client.measure_from_server(request).await?.into_inner();
    let mut meter = Meter::new(order.lead);
    let mut next = pieces.message().await?;
    let mut now = sys::clock::monotonic();
    let ends = now + order.each;
    // A server that is fast enough lets no time limit come to its turn.
    while let Some(piece) = next.filter(|_| now < ends) {
        meter.arrive(now, piece.data.len());
        moved.fetch_add(piece.data.len() as u64, Relaxed);
        let Ok(more) = timeout_at(ends.into(), pieces.message()).await else { break };
        (next, now) = (more?, sys::clock::monotonic());
    }
    Ok(meter.count())
}

async fn send_plainly(
    mut stream: TcpStream,
    mut load: Load,
    order: Order,
    moved: &AtomicU64,
) -> io::Result<Count> {
    let mut sent = 0;
    let sending = async {
        loop {
            let mut piece = load.piece();
            while !piece.is_empty() {
                let bytes = stream.write_buf(&mut piece).await? as u64;
                sent += bytes;
                moved.fetch_add(bytes, Relaxed);
            }
        }
    };
    if let Ok(failed) = timeout(order.each, sending).await {
        return failed;
    }
    // The server answers when its time is over. A connection that is closed on one side would not
    // pass every device on the way.
    let mut count = [0; Count::BYTES];
    stream.read_exact(&mut count).await?;
    let count = Count::decode(&count);
    if count.bytes > sent {
        return Err(io::Error::other(MISCOUNT));
    }
    Ok(count)
}

async fn receive_plainly(
    mut stream: TcpStream,
    order: Order,
    moved: &AtomicU64,
) -> io::Result<Count> {
    let mut meter = Meter::new(order.lead);
    let mut buffer = vec![0; PIECE_BYTES];
    let mut bytes = stream.read(&mut buffer).await?;
    if bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut now = sys::clock::monotonic();
    let ends = now + order.each;
    while bytes > 0 && now < ends {
        meter.arrive(now, bytes);
        moved.fetch_add(bytes as u64, Relaxed);
        let Ok(more) = timeout_at(ends.into(), stream.read(&mut buffer)).await else { break };
        (bytes, now) = (more?, sys::clock::monotonic());
    }
    Ok(meter.count())
}
