//! Measurement of the network between this node and its server, through the server's port.
//!
//! ```text
//!   round trips           calls that the server answers at once, one after the other
//!   transfers over TLS    random bytes in calls, as data of a backup or a restore
//!   plain transfers       the same bytes on TCP connections without TLS, HTTP/2 and calls
//! ```
//!
//! The receiver of the bytes counts them. The beginning of a transfer does not count, because a
//! connection is slow at its start.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::network::{self, Count, MEASURE_MAX, MEASURED_STREAMS_MAX};
use wire::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

use crate::error::{ClientError, ErrorKind};
use crate::link::network::{Order, Probe};
use crate::node::home::Home;
use crate::progress::{Phase, Progress};

/// Limits of a plan. A shorter transfer has ended before the connection is fast.
const EACH_MIN: Duration = Duration::from_millis(100);
const ROUND_TRIPS_MAX: u32 = 10_000;
const TRANSFERS_MAX: usize = 8;
/// Maximum time at the start of a transfer in which the bytes do not count.
const LEAD_MAX: Duration = Duration::from_secs(2);

/// Parts of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkPlan {
    /// Number of round trips, from 1 to 10,000. Fewer are measured if they take 10 seconds.
    pub round_trips: u32,
    /// Numbers of streams, each from 1 to 8. Each number is measured in both directions.
    pub streams: Vec<u32>,
    /// Time for each direction and number of streams, from 100 milliseconds to 10 seconds.
    pub each: Duration,
    /// True to repeat the transfers without TLS.
    pub plain: bool,
}

/// Result of a measurement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NetworkMeasurement {
    pub round_trip_median: Duration,
    pub round_trip_p99: Duration,
    /// Number of round trips that were measured.
    pub round_trips: u32,
    /// Name of the cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
    pub transfers: Vec<Transfer>,
    /// Reason why plain transfers are missing, if they were planned.
    pub plain_refused: Option<String>,
    pub buffers: Buffers,
}

/// Layers below a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Calls over HTTP/2 and TLS, as all other work.
    Tls,
    /// TCP alone.
    Plain,
}

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Direction of a backup.
    ToServer,
    /// Direction of a restore.
    FromServer,
}

/// Measured transfer of random bytes.
///
/// `bytes` and `elapsed` leave out the start of the transfer: its first quarter, or its first two
/// seconds if they are shorter. TCP finds the speed of the network in this time. If nothing
/// arrived after it, `bytes` and `elapsed` are those of the whole transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transfer {
    pub transport: Transport,
    pub direction: Direction,
    /// Number of connections. Each of them has one stream.
    pub streams: u32,
    /// Number of bytes that all streams brought.
    pub bytes: u64,
    /// Longest time of a stream.
    pub elapsed: Duration,
}

/// Buffers between this node and its server. The server's kernel may have smaller ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Buffers {
    /// Buffers of the first connection in this machine's kernel, after the transfers. About half
    /// of such a buffer holds data; the rest is for data of the kernel's own.
    pub send_bytes: u64,
    pub receive_bytes: u64,
    /// Sizes to which the kernel lets these buffers grow.
    pub send_bytes_max: u64,
    pub receive_bytes_max: u64,
    /// Maximum number of unacknowledged bytes on a stream of HTTP/2, and on its connection.
    pub stream_window_bytes: u64,
    pub connection_window_bytes: u64,
}

impl Transfer {
    fn new(transport: Transport, direction: Direction, counts: &[Count]) -> Self {
        let bytes = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(count.bytes));
        let micros = counts.iter().map(|count| count.micros).max().unwrap_or(0);
        let streams = u32::try_from(counts.len()).expect("a plan has few streams");
        Self { transport, direction, streams, bytes, elapsed: Duration::from_micros(micros) }
    }

    /// Returns the rate of all streams together, without the start of the transfer; 0 if less than
    /// two pieces arrived.
    pub fn bytes_per_sec(&self) -> u64 {
        per_sec(self.bytes, self.elapsed)
    }
}

fn per_sec(bytes: u64, elapsed: Duration) -> u64 {
    let rate = u128::from(bytes).saturating_mul(1_000_000).checked_div(elapsed.as_micros());
    u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX)
}

impl Buffers {
    /// Returns the number of bytes that the smallest buffer lets a connection have under way.
    pub fn in_flight_bytes_max(&self) -> u64 {
        let kernel = self.send_bytes_max.min(self.receive_bytes_max) / 2;
        kernel.min(self.stream_window_bytes).min(self.connection_window_bytes)
    }
}

impl NetworkMeasurement {
    /// Returns the bandwidth-delay product: the best rate of all transfers times the median round
    /// trip. A connection needs so many bytes under way to use the network fully.
    pub fn bandwidth_delay_bytes(&self) -> u64 {
        let rate = self.transfers.iter().map(Transfer::bytes_per_sec).max().unwrap_or(0);
        let micros = self.round_trip_median.as_micros();
        let bytes = u128::from(rate).saturating_mul(micros) / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns true if the buffers let one connection have the bandwidth-delay product under way.
    pub fn buffers_hold_bandwidth_delay(&self) -> bool {
        self.bandwidth_delay_bytes() <= self.buffers.in_flight_bytes_max()
    }
}

impl NetworkPlan {
    /// Fails if a number of the plan is out of its range.
    fn check(&self) -> Result<(), ClientError> {
        let streams_max = u32::try_from(MEASURED_STREAMS_MAX).expect("a small number");
        let ranges = [
            ((1..=ROUND_TRIPS_MAX).contains(&self.round_trips), "1 to 10,000 round trips"),
            (self.streams.len() <= TRANSFERS_MAX, "at most 8 numbers of streams"),
            (
                self.streams.iter().all(|streams| (1..=streams_max).contains(streams)),
                "1 to 8 streams",
            ),
            ((EACH_MIN..=MEASURE_MAX).contains(&self.each), "0.1 to 10 seconds for each transfer"),
        ];
        match ranges.iter().find(|(is_right, _)| !is_right) {
            None => Ok(()),
            Some((_, range)) => {
                let message = format!("a measurement of the network must have {range}");
                Err(ClientError::new(ErrorKind::Usage, message))
            }
        }
    }

    fn order(&self, direction: Direction, streams: u32) -> Order {
        let direction = match direction {
            Direction::ToServer => network::Direction::ToServer,
            Direction::FromServer => network::Direction::FromServer,
        };
        let lead = (self.each / 4).min(LEAD_MAX);
        Order { direction, streams: streams as usize, each: self.each, lead }
    }

    /// Calls `transfer` with each planned transfer.
    fn each_transfer(
        &self,
        mut transfer: impl FnMut(Direction, Order) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        for streams in &self.streams {
            for direction in [Direction::ToServer, Direction::FromServer] {
                transfer(direction, self.order(direction, *streams))?;
            }
        }
        Ok(())
    }
}

/// Measures the network as `plan` says.
pub(crate) fn measure(
    home: &Home,
    plan: &NetworkPlan,
    progress: &Progress,
) -> Result<NetworkMeasurement, ClientError> {
    plan.check()?;
    progress.enter(Phase::Running);
    let streams_max = plan.streams.iter().max().copied().unwrap_or(1);
    let probe = Probe::open(home, streams_max as usize, progress)?;
    let mut trips = probe.round_trips(plan.round_trips)?;
    trips.sort_unstable();
    let mut transfers = Vec::new();
    plan.each_transfer(|direction, order| {
        let counts = probe.transfer(order)?;
        transfers.push(Transfer::new(Transport::Tls, direction, &counts));
        Ok(())
    })?;
    let mut plain_refused = None;
    if plan.plain {
        let done = plan.each_transfer(|direction, order| {
            let counts = probe.plain_transfer(order)?;
            transfers.push(Transfer::new(Transport::Plain, direction, &counts));
            Ok(())
        });
        plain_refused = refusal(done)?;
    }
    Ok(NetworkMeasurement {
        round_trip_median: quantile(&trips, 50),
        round_trip_p99: quantile(&trips, 99),
        round_trips: u32::try_from(trips.len()).expect("a plan has few round trips"),
        cipher: probe.cipher().to_owned(),
        transfers,
        plain_refused,
        buffers: buffers(&probe)?,
    })
}

/// Returns the reason why plain transfers failed. A measurement goes on without them, unless it was
/// stopped.
fn refusal(done: Result<(), ClientError>) -> Result<Option<String>, ClientError> {
    match done {
        Ok(()) => Ok(None),
        Err(error) if error.kind == ErrorKind::Interrupted => Err(error),
        Err(error) => Ok(Some(error.message)),
    }
}

fn buffers(probe: &Probe<'_>) -> Result<Buffers, ClientError> {
    let (now, max) = (probe.buffers()?, probe.buffers_max()?);
    Ok(Buffers {
        send_bytes: now.send,
        receive_bytes: now.receive,
        send_bytes_max: max.send,
        receive_bytes_max: max.receive,
        stream_window_bytes: STREAM_WINDOW_BYTES.into(),
        connection_window_bytes: CONNECTION_WINDOW_BYTES.into(),
    })
}

/// Returns the smallest of the `sorted` times below which are `percent` percent of them.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn transfer(bytes: u64, elapsed: Duration) -> Transfer {
        let (transport, direction) = (Transport::Tls, Direction::ToServer);
        Transfer { transport, direction, streams: 1, bytes, elapsed }
    }

    fn measurement(transfers: Vec<Transfer>, round_trip_median: Duration) -> NetworkMeasurement {
        NetworkMeasurement {
            round_trip_median,
            round_trip_p99: round_trip_median,
            round_trips: 1,
            cipher: "TLS13_AES_256_GCM_SHA384".to_owned(),
            transfers,
            plain_refused: None,
            buffers: Buffers {
                send_bytes: 1,
                receive_bytes: 1,
                send_bytes_max: 4 << 20,
                receive_bytes_max: 6 << 20,
                stream_window_bytes: 8 << 20,
                connection_window_bytes: 16 << 20,
            },
        }
    }

    #[test]
    fn a_rate_is_bytes_by_time() {
        assert_eq!(transfer(1_000, millis(500)).bytes_per_sec(), 2_000);
        assert_eq!(transfer(1_000, Duration::ZERO).bytes_per_sec(), 0);
        assert_eq!(transfer(u64::MAX, Duration::from_micros(1)).bytes_per_sec(), u64::MAX);
    }

    #[test]
    fn streams_are_counted_together() {
        let counts = [Count { bytes: 7, micros: 20 }, Count { bytes: 5, micros: 30 }];
        let sum = Transfer::new(Transport::Plain, Direction::FromServer, &counts);
        assert_eq!((sum.streams, sum.bytes, sum.elapsed), (2, 12, Duration::from_micros(30)));
        // The numbers come from a server.
        let counts = [Count { bytes: u64::MAX, micros: u64::MAX }; 2];
        let sum = Transfer::new(Transport::Tls, Direction::ToServer, &counts);
        assert_eq!((sum.bytes, sum.elapsed.as_micros()), (u64::MAX, u64::MAX.into()));
    }

    /// Checks whether the buffers hold the product of a rate and a round trip. The smallest of the
    /// buffers holds 2 MiB.
    #[track_caller]
    fn check(bytes_per_sec: u64, round_trip: Duration, product: u64, is_held: bool) {
        let slower = transfer(bytes_per_sec / 2, millis(1000));
        let best = transfer(bytes_per_sec, millis(1000));
        let measured = measurement(vec![slower, best, slower], round_trip);
        assert_eq!(measured.bandwidth_delay_bytes(), product);
        assert_eq!(measured.buffers_hold_bandwidth_delay(), is_held);
    }

    #[test]
    fn buffers_are_compared_with_the_bandwidth_delay_product() {
        check(100_000_000, millis(20), 2_000_000, true);
        check(100_000_000, millis(21), 2_100_000, false);
        check(u64::MAX, Duration::MAX, u64::MAX, false);
        assert_eq!(measurement(Vec::new(), millis(20)).bandwidth_delay_bytes(), 0);
    }

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=200).map(millis).collect();
        assert_eq!((quantile(&times, 50), quantile(&times, 99)), (millis(100), millis(198)));
        assert_eq!(quantile(&times[..1], 99), millis(1));
        assert_eq!(quantile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn a_plan_has_limits() {
        let good =
            NetworkPlan { round_trips: 1, streams: vec![1, 8], each: millis(100), plain: true };
        assert!(good.check().is_ok());
        let bad = [
            NetworkPlan { round_trips: 0, ..good.clone() },
            NetworkPlan { streams: vec![1, 0], ..good.clone() },
            NetworkPlan { streams: vec![9], ..good.clone() },
            NetworkPlan { streams: vec![1; 9], ..good.clone() },
            NetworkPlan { each: millis(99), ..good.clone() },
            NetworkPlan { each: millis(10_001), ..good },
        ];
        for plan in bad {
            let error = plan.check().expect_err("out of range");
            assert_eq!(error.kind, ErrorKind::Usage, "{plan:?}");
        }
    }

    #[test]
    fn a_measurement_survives_text() {
        let measured = measurement(vec![transfer(5, millis(7))], millis(3));
        let text = serde_json::to_string(&measured).expect("is written");
        assert!(text.contains("\"direction\":\"to_server\""), "{text}");
        let read: NetworkMeasurement = serde_json::from_str(&text).expect("is read");
        assert_eq!(read, measured);
    }

    #[test]
    fn only_a_stop_ends_a_measurement_without_plain_transfers() {
        let refused = ClientError::new(ErrorKind::Busy, "too many");
        assert_eq!(refusal(Err(refused)).expect("it goes on").as_deref(), Some("too many"));
        assert!(refusal(Err(ClientError::interrupted())).is_err());
        assert_eq!(refusal(Ok(())).expect("nothing failed"), None);
    }
}
