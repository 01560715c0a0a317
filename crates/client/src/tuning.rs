//! Settings that users may tune. Other settings tune themselves or are constants.

use std::str::FromStr;

use chunk::Compression;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::sizes;

/// Strength of compression, or the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CompressionChoice {
    /// One strength, on the threads of this machine.
    Fixed(Compression),
    /// The GPU of this machine. Threads do what it cannot do.
    Gpu,
    /// Strength that follows the bottleneck of the running backup: it rises while the network is
    /// the bottleneck, and falls while the processors are. A GPU counts as one more strength.
    Auto,
}

impl Default for CompressionChoice {
    fn default() -> Self {
        Self::Fixed(Compression::Standard)
    }
}

/// Error for a word that is not one of the choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the value must be {choices}")]
pub struct UnknownChoice {
    choices: &'static str,
}

impl FromStr for CompressionChoice {
    type Err = UnknownChoice;

    fn from_str(how: &str) -> Result<Self, Self::Err> {
        Ok(Self::Fixed(match how {
            "auto" => return Ok(Self::Auto),
            "gpu" => return Ok(Self::Gpu),
            "standard" | "threads" => Compression::Standard,
            "none" | "0" => Compression::Stored,
            level => match level.parse() {
                Ok(level @ -7..=19) => Compression::Level(level),
                _ => {
                    let choices = "standard, auto, gpu, threads, none, or a level from -7 to 19";
                    return Err(UnknownChoice { choices });
                }
            },
        }))
    }
}

impl TryFrom<String> for CompressionChoice {
    type Error = UnknownChoice;

    fn try_from(how: String) -> Result<Self, Self::Error> {
        how.parse()
    }
}

impl From<CompressionChoice> for String {
    fn from(choice: CompressionChoice) -> Self {
        match choice {
            CompressionChoice::Auto => "auto".to_owned(),
            CompressionChoice::Gpu => "gpu".to_owned(),
            CompressionChoice::Fixed(compression) => compression.to_string(),
        }
    }
}

/// Means by which a backup holds files still while it reads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stillness {
    /// No means: files may change while they are read.
    #[default]
    Off,
    /// The best means that the file system has.
    Auto,
    /// Snapshot of the btrfs subvolume.
    Btrfs,
    /// Snapshot of the logical volume.
    Lvm,
    /// Reflink of each file, which is made before the file is read, on XFS and btrfs.
    Reflink,
}

impl FromStr for Stillness {
    type Err = UnknownChoice;

    fn from_str(how: &str) -> Result<Self, Self::Err> {
        match how.to_ascii_lowercase().as_str() {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "btrfs" => Ok(Self::Btrfs),
            "lvm" => Ok(Self::Lvm),
            "reflink" => Ok(Self::Reflink),
            _ => Err(UnknownChoice { choices: "off, auto, btrfs, lvm or reflink" }),
        }
    }
}

/// Use of the journal, by which a backup looks only where something has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JournalChoice {
    /// The journal is used if a watcher is running.
    #[default]
    Auto,
    /// Like `auto`, and a backup warns if no watcher is running.
    Yes,
    No,
}

/// Section `[tuning]` of `client.toml`. The options of a command override it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tuning {
    /// Number of walking threads, and of reading threads, from 1 to 100.
    #[serde(deserialize_with = "threads")]
    #[schemars(extend("x-unit" = "threads", "x-default" = "chosen while a backup runs"))]
    pub resource_utilization: Option<u8>,
    /// Strength of compression: `none`, a level of zstd from -7 to 19, `standard` or `threads`,
    /// which are the same, `gpu` for an NVIDIA GPU, or `auto`, which follows the bottleneck of the
    /// running backup.
    #[schemars(with = "Option<String>")]
    #[schemars(extend("default" = CompressionChoice::default()))]
    pub compression: Option<CompressionChoice>,
    /// True to send grants in place of chunks that the server already has.
    #[schemars(extend("default" = DEDUPLICATION))]
    pub deduplication: Option<bool>,
    /// Number of sent bytes after which a transaction ends, or a size such as `"64M"`.
    #[serde(deserialize_with = "transaction_size")]
    #[schemars(extend("default" = TRANSACTION_BYTES))]
    pub transaction_bytes: Option<u64>,
    /// Number of objects after which a transaction ends.
    #[schemars(extend("default" = TRANSACTION_OBJECTS))]
    pub transaction_objects: Option<u32>,
    /// Size of the connection's buffers in the kernel, for each direction, as in `"4M"`; at least
    /// 65536.
    #[serde(deserialize_with = "socket_buffer")]
    #[schemars(extend("x-default" = "chosen by the kernel"))]
    pub socket_buffer_bytes: Option<u32>,
}

/// Minimum size of the buffers, in bytes. Smaller buffers do not hold a message of the protocol,
/// and each message waits for the network many times: a backup took forty times as long with a
/// quarter of this size.
const SOCKET_BUFFER_BYTES_MIN: u32 = 64 << 10;

/// Maximum number of walking threads, and of reading threads, that a user may set.
const THREADS_MAX: u8 = 100;

fn threads<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let threads = Option::<u8>::deserialize(from)?;
    match threads {
        // Without a thread nothing would be examined, and nothing would fail.
        Some(threads) if !(1..=THREADS_MAX).contains(&threads) => Err(serde::de::Error::custom(
            format!("resource_utilization must be from 1 to {THREADS_MAX}"),
        )),
        threads => Ok(threads),
    }
}

fn transaction_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    sizes::of_setting("txnbytelimit", from).map(Some)
}

fn socket_buffer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let bytes = sizes::of_setting("socket-buffer-bytes", from)?;
    let taken = u32::try_from(bytes).ok().filter(|bytes| *bytes >= SOCKET_BUFFER_BYTES_MIN);
    taken.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "socket_buffer_bytes must be from {SOCKET_BUFFER_BYTES_MIN} to {}",
            u32::MAX
        ))
    })
}

/// Default number of bytes after which a transaction ends. Smaller transactions wait for the
/// server's disk more often; larger transactions lose more work if they are interrupted.
const TRANSACTION_BYTES: u64 = 32 << 20;
const TRANSACTION_OBJECTS: u32 = 1 << 16;
const DEDUPLICATION: bool = true;

impl Tuning {
    /// Returns these settings. Settings that are not set are taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            resource_utilization: self.resource_utilization.or(other.resource_utilization),
            compression: self.compression.or(other.compression),
            deduplication: self.deduplication.or(other.deduplication),
            transaction_bytes: self.transaction_bytes.or(other.transaction_bytes),
            transaction_objects: self.transaction_objects.or(other.transaction_objects),
            socket_buffer_bytes: self.socket_buffer_bytes.or(other.socket_buffer_bytes),
        }
    }

    pub(crate) fn deduplicates(&self) -> bool {
        self.deduplication.unwrap_or(DEDUPLICATION)
    }

    pub(crate) fn transaction_bytes(&self) -> u64 {
        self.transaction_bytes.unwrap_or(TRANSACTION_BYTES)
    }

    pub(crate) fn transaction_objects(&self) -> u64 {
        u64::from(self.transaction_objects.unwrap_or(TRANSACTION_OBJECTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_written_as_they_are_read() {
        for how in ["standard", "auto", "gpu", "none", "-7", "1", "19"] {
            let choice: CompressionChoice = how.parse().expect("a choice");
            assert_eq!(String::from(choice), how);
        }
        let threads: CompressionChoice = "threads".parse().expect("a choice");
        assert_eq!(threads, CompressionChoice::default());
        for how in ["", "20", "-8", "fast"] {
            assert!(how.parse::<CompressionChoice>().is_err());
        }
    }

    #[test]
    fn what_comes_first_decides() {
        let file: Tuning = toml::from_str("compression = \"auto\"\ntransaction_objects = 9")
            .expect("a valid section");
        let command = Tuning { transaction_objects: Some(7), ..Tuning::default() };
        let both = command.or(file);
        assert_eq!(both.compression, Some(CompressionChoice::Auto));
        assert_eq!(both.transaction_objects(), 7);
        assert!(toml::from_str::<Tuning>("compresion = \"auto\"").is_err());
        assert!(toml::from_str::<Tuning>("socket_buffer_bytes = 65536").is_ok());
        assert!(toml::from_str::<Tuning>("socket_buffer_bytes = 65535").is_err());
    }

    #[test]
    fn sizes_may_have_units() {
        let read = |line: &str| toml::from_str::<Tuning>(line);
        for (size, bytes) in [
            ("1", 1),
            ("33554432", 32 << 20),
            ("\"33554432\"", 32 << 20),
            ("\"64M\"", 64 << 20),
            ("\"1GiB\"", 1 << 30),
            ("\"10G\"", 1 << 30),
        ] {
            let tuning = read(&format!("transaction_bytes = {size}")).expect("a size");
            assert_eq!(tuning.transaction_bytes, Some(bytes), "{size}");
        }
        for (size, bytes) in [("65536", 64 << 10), ("\"64K\"", 64 << 10), ("\"4M\"", 4 << 20)] {
            let tuning = read(&format!("socket_buffer_bytes = {size}")).expect("a size");
            assert_eq!(tuning.socket_buffer_bytes, Some(bytes), "{size}");
        }
        for wrong in [
            "transaction_bytes = -1",
            "transaction_bytes = true",
            "transaction_bytes = \"many\"",
            "transaction_bytes = \"64K\"",
            "transaction_bytes = \"2000.5\"",
            "transaction_bytes = \"33G\"",
            "socket_buffer_bytes = \"63K\"",
            "socket_buffer_bytes = \"4G\"",
            "socket_buffer_bytes = 4294967296",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    /// Regression: a backup without a thread examined nothing and reported success.
    #[test]
    fn a_backup_has_at_least_one_thread() {
        for (threads, is_valid) in [(0, false), (1, true), (100, true), (101, false)] {
            let read = toml::from_str::<Tuning>(&format!("resource_utilization = {threads}"));
            assert_eq!(read.is_ok(), is_valid, "{threads}");
        }
    }
}
