//! Published figures of LTO media and drives: sizes, speeds and times.
//!
//! Every figure names its publisher. Figures that nobody publishes are in `timing`, which says
//! whether they are calibrated or assumed.

/// A kind of cartridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Medium {
    pub name: &'static str,
    /// Capacity in bytes without compression, as published by the LTO Program.
    pub capacity_bytes: u64,
    /// Number of passes along the tape: data tracks divided by the 32 tracks that a head reads at
    /// once, as published by the LTO Program.
    pub wraps: u32,
    /// Number of strips across the tape, each with the same number of wraps, as published by the
    /// LTO Program.
    pub bands: u32,
    /// Last longitudinal position (LPOS) of the data area; one unit is about 5.7 mm. For tapes of
    /// 960 m, the value is assumed from the range that CERN's CTA uses; for other tapes, it is in
    /// proportion to their length.
    pub lpos_end: u32,
}

/// LTO-7 medium: 3584 tracks in 4 bands on 960 m of tape.
pub const MEDIUM_LTO7: Medium = Medium {
    name: "LTO-7",
    capacity_bytes: 6_000_000_000_000,
    wraps: 112,
    bands: 4,
    lpos_end: 168_400,
};

/// LTO-8 medium: 6656 tracks in 4 bands on 960 m of tape.
pub const MEDIUM_LTO8: Medium =
    Medium { name: "LTO-8", capacity_bytes: 12_000_000_000_000, wraps: 208, ..MEDIUM_LTO7 };

/// LTO-9 medium: 8960 tracks in 4 bands on 1035 m of tape.
pub const MEDIUM_LTO9: Medium = Medium {
    name: "LTO-9",
    capacity_bytes: 18_000_000_000_000,
    wraps: 280,
    bands: 4,
    lpos_end: 168_400 * 1035 / 960,
};

impl Medium {
    /// Returns the bytes of one wrap, if all wraps are equally full.
    pub fn wrap_bytes(&self) -> u64 {
        debug_assert!(self.wraps > 0, "a tape has wraps");
        self.capacity_bytes / u64::from(self.wraps)
    }
}

/// A kind of drive, with the medium that it is made for. Times are in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveModel {
    pub name: &'static str,
    pub medium: Medium,
    /// Rate of data that does not compress, in bytes a second, as published by IBM.
    pub native_bytes_per_sec: u64,
    /// Time from the cartridge's arrival to readiness, as published by IBM.
    pub load_secs: u32,
    /// Time from the command to the cartridge's release, without the rewind, as published by IBM.
    pub unload_secs: u32,
    /// Average time from the load point to a record, as published by IBM.
    pub locate_average_secs: u32,
    /// Average time from a record to the load point, as published by IBM.
    pub rewind_average_secs: u32,
    /// Seconds of the rewind within an unload, after little, some or much of the tape was moved
    /// since the load; `None` if they do not depend on that. Published by IBM for LTO-9, which
    /// winds the tape again to even out its tension.
    pub retension_secs: Option<[u32; 3]>,
    /// Speeds at which the drive can run without stopping, slowest first, in thousands of bytes a
    /// second; empty if none are published.
    pub speeds_kbytes_per_sec: &'static [u32],
}

/// Speeds of half-height LTO-8 drives with LTO-8 media, as published by Quantum.
const SPEEDS_LTO8: &[u32] = &[
    112_000, 135_000, 157_500, 180_000, 203_000, 226_000, 249_500, 273_000, 306_400, 318_000,
    341_000, 365_000,
];

pub const LTO7: DriveModel = DriveModel {
    name: "LTO-7",
    medium: MEDIUM_LTO7,
    native_bytes_per_sec: 300_000_000,
    load_secs: 15,
    unload_secs: 20,
    locate_average_secs: 56,
    rewind_average_secs: 60,
    retension_secs: None,
    speeds_kbytes_per_sec: &[],
};

pub const LTO8: DriveModel = DriveModel {
    name: "LTO-8",
    medium: MEDIUM_LTO8,
    native_bytes_per_sec: 360_000_000,
    load_secs: 15,
    unload_secs: 24,
    locate_average_secs: 59,
    rewind_average_secs: 59,
    retension_secs: None,
    speeds_kbytes_per_sec: SPEEDS_LTO8,
};

pub const LTO8_HALF_HEIGHT: DriveModel =
    DriveModel { name: "LTO-8 half height", native_bytes_per_sec: 300_000_000, ..LTO8 };

pub const LTO9: DriveModel = DriveModel {
    name: "LTO-9",
    medium: MEDIUM_LTO9,
    native_bytes_per_sec: 400_000_000,
    load_secs: 17,
    unload_secs: 30,
    locate_average_secs: 45,
    rewind_average_secs: 55,
    retension_secs: Some([55, 110, 165]),
    speeds_kbytes_per_sec: &[],
};

pub const LTO9_HALF_HEIGHT: DriveModel = DriveModel {
    name: "LTO-9 half height",
    native_bytes_per_sec: 300_000_000,
    load_secs: 16,
    unload_secs: 56,
    locate_average_secs: 65,
    rewind_average_secs: 62,
    retension_secs: Some([62, 124, 186]),
    ..LTO9
};

/// All drive models that this program knows.
pub const DRIVE_MODELS: [DriveModel; 5] = [LTO7, LTO8, LTO8_HALF_HEIGHT, LTO9, LTO9_HALF_HEIGHT];

impl DriveModel {
    /// Returns the rate of the data, in bytes a second, if the host takes `host_bytes_per_sec`.
    ///
    /// The drive runs at the fastest of its speeds that the host keeps up with. If the host is
    /// slower than the slowest speed, the drive stops and steps back repeatedly, and the host sets
    /// the pace.
    pub fn streaming_bytes_per_sec(&self, host_bytes_per_sec: u64) -> u64 {
        debug_assert!(self.speeds_kbytes_per_sec.is_sorted(), "speeds are sorted, slowest first");
        let reachable = host_bytes_per_sec.min(self.native_bytes_per_sec);
        if reachable == self.native_bytes_per_sec {
            return reachable;
        }
        let speeds = self.speeds_kbytes_per_sec.iter().map(|speed| u64::from(*speed) * 1000);
        speeds.rev().find(|speed| *speed <= reachable).unwrap_or(reachable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_divide_wraps_and_speeds_ascend() {
        for drive in DRIVE_MODELS {
            assert_eq!(drive.medium.wraps % drive.medium.bands, 0, "{}", drive.name);
            assert!(drive.speeds_kbytes_per_sec.is_sorted(), "{}", drive.name);
        }
    }

    #[test]
    fn a_wrap_of_lto8_holds_57_gigabytes() {
        assert_eq!(MEDIUM_LTO8.wrap_bytes() / 1_000_000_000, 57);
    }

    #[test]
    fn a_slow_host_gets_the_speed_below_its_own() {
        let rate = |host| LTO8.streaming_bytes_per_sec(host);
        assert_eq!(rate(1_250_000_000), 360_000_000);
        assert_eq!(rate(200_000_000), 180_000_000);
        assert_eq!(rate(112_000_000), 112_000_000);
        assert_eq!(rate(50_000_000), 50_000_000);
        assert_eq!(LTO7.streaming_bytes_per_sec(200_000_000), 200_000_000);
    }
}
