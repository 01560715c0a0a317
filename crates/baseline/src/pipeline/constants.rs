//! Constants of the prediction: what cannot be measured without a backup.
//!
//! The times are processor seconds on the machine on which they were measured, two cores of an AMD
//! EPYC (Zen 5). Another host's times are in proportion to the rates of its digests and its
//! decompression (`Facts::own`). They come from the profile in
//! `docs/performance/README.md`, "Where the time goes", and were fitted with
//! `bench prediction`. The sizes come from "Results" and "Bytes of a first backup" there.

/// Part of the time of the stages that are not the slowest that does not overlap with it.
pub(super) const NOT_OVERLAPPED: f64 = 0.1;

/// Time from the start of the program to the first directory, and from the last one to the end.
pub(super) const START_SECS: f64 = 0.01;
/// Time of a commit that nothing overlaps: the syncs of packs and catalogue.
pub(super) const COMMIT_SECS: f64 = 0.03;
/// Commits of an image that wait for each other: the data, the parts that have changed, the head.
pub(super) const IMAGE_COMMITS: f64 = 3.0;
/// Number of round trips that nothing overlaps.
pub(super) const ROUND_TRIPS: f64 = 12.0;

/// Sorting, digesting and comparing an object.
pub(super) const COMPARE_SECS_OBJECT: f64 = 0.9e-6;
/// Encoding a new or changed object at the node, and queues.
pub(super) const NODE_SECS_OBJECT: f64 = 4e-6;
/// Keeping a new or changed object at the server.
pub(super) const SERVER_SECS_OBJECT: f64 = 3e-6;
/// Receiving and writing a byte of a pack.
pub(super) const SERVER_SECS_PACKED_BYTE: f64 = 1.2e-9;
/// Copying a byte.
pub(super) const COPY_SECS_BYTE: f64 = 0.1e-9;

/// Processor time of a restore for each object beside making it, and for each byte beside
/// decompressing and digesting it.
pub(super) const RESTORE_SECS_OBJECT: f64 = 8e-6;
pub(super) const RESTORE_SECS_BYTE: f64 = 0.3e-9;
pub(super) const RESTORE_SERVER_SECS_OBJECT: f64 = 2e-6;

pub(super) const SENT_BYTES_OBJECT: f64 = 40.0;
pub(super) const DIGEST_BYTES_DIRECTORY: f64 = 25.0;
pub(super) const CATALOG_BYTES_OBJECT: f64 = 38.0;
pub(super) const INDEX_BYTES_CHUNK: f64 = 25.0;
pub(super) const FOOTER_BYTES_CHUNK: f64 = 32.0;
#[expect(clippy::cast_precision_loss, reason = "a small number")]
pub(super) const CHUNK_BYTES: f64 = model::CHUNK_BYTES_MEAN as f64;

pub(super) const MEMORY_BASE_BYTES: f64 = 25e6;
/// Buffers of the threads that read and compress.
pub(super) const MEMORY_DATA_BYTES: f64 = 90e6;
pub(super) const MEMORY_BYTES_DIRECTORY: f64 = 45.0;
pub(super) const MEMORY_BYTES_GRANT: f64 = 64.0;
/// Number of grants that the cache of a node holds by default.
pub(super) const GRANTS_MAX: f64 = 4e6;

/// Relative deviations of predictions from what came, before any backup of the host itself.
pub(super) const DEVIATION_TIME: f64 = 0.15;
/// The times of restores differ more, because making files takes several times as long at some
/// moments as at others.
pub(super) const DEVIATION_RESTORE: f64 = 0.7;
pub(super) const DEVIATION_SIZE: f64 = 0.03;
pub(super) const DEVIATION_MEMORY: f64 = 0.25;
/// Deviation of each time in seconds, however short it is: starting a process and syncing.
pub(super) const DEVIATION_SECS: f64 = 0.02;
/// Least relative deviation after earlier runs.
pub(super) const DEVIATION_FITTED: f64 = 0.08;
