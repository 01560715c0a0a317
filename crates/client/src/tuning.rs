//! What users may tune. What they leave alone tunes itself or has a default.

use std::str::FromStr;

use chunk::Compression;
use serde::{Deserialize, Deserializer, Serialize};

/// How hard to compress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CompressionChoice {
    Fixed(Compression),
    /// As the bottleneck says while the backup runs: more while the network is it, less while the
    /// processors are.
    Auto,
}

impl Default for CompressionChoice {
    fn default() -> Self {
        Self::Fixed(Compression::Standard)
    }
}

impl FromStr for CompressionChoice {
    type Err = String;

    fn from_str(how: &str) -> Result<Self, Self::Err> {
        Ok(Self::Fixed(match how {
            "auto" => return Ok(Self::Auto),
            "standard" => Compression::Standard,
            "none" | "0" => Compression::Stored,
            level => match level.parse() {
                Ok(level @ -7..=19) => Compression::Level(level),
                _ => return Err("it is standard, auto, none, or a level from -7 to 19".to_owned()),
            },
        }))
    }
}

impl TryFrom<String> for CompressionChoice {
    type Error = String;

    fn try_from(how: String) -> Result<Self, Self::Error> {
        how.parse()
    }
}

impl From<CompressionChoice> for String {
    fn from(choice: CompressionChoice) -> Self {
        match choice {
            CompressionChoice::Auto => "auto".to_owned(),
            CompressionChoice::Fixed(compression) => compression.to_string(),
        }
    }
}

/// Whether files are read as they were at one moment, and by what means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stillness {
    /// As they are when it is their turn.
    #[default]
    Off,
    /// By the best means that a file system has.
    Auto,
    /// From a snapshot of the btrfs subvolume.
    Btrfs,
    /// From a snapshot of the logical volume.
    Lvm,
    /// Each file from a reflink that is made when it is its turn: on XFS and btrfs.
    Reflink,
}

impl FromStr for Stillness {
    type Err = String;

    fn from_str(how: &str) -> Result<Self, Self::Err> {
        match how.to_ascii_lowercase().as_str() {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "btrfs" => Ok(Self::Btrfs),
            "lvm" => Ok(Self::Lvm),
            "reflink" => Ok(Self::Reflink),
            _ => Err("it is off, auto, btrfs, lvm or reflink".to_owned()),
        }
    }
}

/// The section `[tuning]` of `client.toml`; a command's own options come before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tuning {
    /// Threads that walk, and as many that read; they find out how many are good unless this says.
    pub resource_utilization: Option<u8>,
    pub compression: Option<CompressionChoice>,
    /// Whether what the server has already is told by grants instead of sent.
    pub deduplication: Option<bool>,
    /// Bytes sent after which a transaction closes.
    pub transaction_bytes: Option<u64>,
    /// Objects after which a transaction closes.
    pub transaction_objects: Option<u32>,
    /// Bytes of the connection's buffers in the kernel, for each direction.
    #[serde(deserialize_with = "socket_buffer")]
    pub socket_buffer_bytes: Option<u32>,
}

/// With smaller buffers a message of the protocol does not fit, and each waits for the network many
/// times: a backup took forty times as long with a quarter of this.
const SOCKET_BUFFER_BYTES_MIN: u32 = 64 << 10;

fn socket_buffer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let bytes = Option::<u32>::deserialize(from)?;
    match bytes {
        Some(bytes) if bytes < SOCKET_BUFFER_BYTES_MIN => Err(serde::de::Error::custom(format!(
            "socket_buffer_bytes is at least {SOCKET_BUFFER_BYTES_MIN}"
        ))),
        bytes => Ok(bytes),
    }
}

/// Bytes after which a transaction closes: smaller ones wait for the server's disk more often,
/// larger ones lose more when they are cut off.
const TRANSACTION_BYTES: u64 = 32 << 20;
const TRANSACTION_OBJECTS: u32 = 1 << 16;

impl Tuning {
    /// What this says, and where it says nothing what `other` says.
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
        for how in ["standard", "auto", "none", "-7", "1", "19"] {
            let choice: CompressionChoice = how.parse().expect("a choice");
            assert_eq!(String::from(choice), how);
        }
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
}
