//! SCSI commands to devices of this machine, through the kernel's generic driver (`/dev/sgN`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_uchar, c_uint, c_ulong, c_ushort, c_void};

/// Data that a command transfers, and their direction.
#[derive(Debug)]
pub enum Exchange<'a> {
    None,
    In(&'a mut [u8]),
    Out(&'a [u8]),
}

/// Answer of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u8,
    /// Empty unless the status is CHECK CONDITION (2).
    pub sense: Vec<u8>,
    /// Number of bytes that were not transferred, as the bus reports it.
    pub residual: u64,
}

/// Size of the buffer for sense bytes: the maximum of SPC-4.
const SENSE_BYTES: u8 = 252;

/// `struct sg_io_hdr` of `<scsi/sg.h>`.
#[repr(C)]
struct SgIoHeader {
    interface_id: c_int,
    direction: c_int,
    command_bytes: c_uchar,
    sense_bytes_max: c_uchar,
    iovec_count: c_ushort,
    data_bytes: c_uint,
    data: *mut c_void,
    command: *const c_uchar,
    sense: *mut c_uchar,
    timeout_millis: c_uint,
    flags: c_uint,
    pack_id: c_int,
    user: *mut c_void,
    status: c_uchar,
    masked_status: c_uchar,
    message_status: c_uchar,
    sense_bytes: c_uchar,
    host_status: c_ushort,
    driver_status: c_ushort,
    residual: c_int,
    duration: c_uint,
    info: c_uint,
}

/// Requests of `<scsi/sg.h>` and `<linux/fs.h>`.
const SG_IO: c_ulong = 0x2285;
const SG_GET_VERSION_NUM: c_ulong = 0x2282;
const BLKSECTGET: c_ulong = 0x1267;
/// Values of `direction`.
const DIRECTION_NONE: c_int = -1;
const DIRECTION_OUT: c_int = -2;
const DIRECTION_IN: c_int = -3;
/// `DID_TIME_OUT` of the kernel's `scsi_status.h`.
const HOST_TIMED_OUT: c_ushort = 0x03;
/// `DRIVER_TIMEOUT`, in the lower four bits of the driver's status.
const DRIVER_TIMED_OUT: c_ushort = 0x06;
/// First version of the driver that knows `SG_IO`.
const VERSION_MIN: c_int = 30_000;

/// A device of the generic driver.
#[derive(Debug)]
pub struct SgDevice {
    file: File,
}

impl SgDevice {
    /// Opens `/dev/sgN`. Fails with `InvalidInput` for any other file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let device = Self { file };
        match device.number(SG_GET_VERSION_NUM) {
            Ok(VERSION_MIN..) => Ok(device),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file is not a device of the generic SCSI driver",
            )),
        }
    }

    /// Returns the maximum number of bytes that a command can transfer, if the kernel reports it.
    pub fn transfer_bytes_max(&self) -> Option<u32> {
        let bytes = self.number(BLKSECTGET).ok()?;
        u32::try_from(bytes).ok().filter(|&bytes| bytes > 0)
    }

    fn number(&self, request: c_ulong) -> io::Result<c_int> {
        let mut number: c_int = 0;
        // SAFETY: both requests write one int, to memory that lives until the call returns; on any
        // other file the call fails and writes nothing.
        let status = unsafe { libc::ioctl(self.file.as_raw_fd(), request, &raw mut number) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(number) }
    }

    /// Executes a command and waits for its answer. `TimedOut` means that no answer came.
    pub fn execute(
        &mut self,
        command: &[u8],
        exchange: Exchange<'_>,
        timeout: Duration,
    ) -> io::Result<Answer> {
        let mut sense = [0; SENSE_BYTES as usize];
        let mut header = header(command, exchange, &mut sense, timeout)?;
        // SAFETY: the header is laid out as the driver needs it; command, data and sense point to
        // memory of the lengths that it states, which lives until the call returns. The data of a
        // command to the device are only read, though the field is a pointer to mutable memory.
        let status = unsafe { libc::ioctl(self.file.as_raw_fd(), SG_IO, &raw mut header) };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        answer(&header, &sense)
    }
}

fn header(
    command: &[u8],
    exchange: Exchange<'_>,
    sense: &mut [u8; SENSE_BYTES as usize],
    timeout: Duration,
) -> io::Result<SgIoHeader> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (direction, data, data_bytes) = match exchange {
        Exchange::None => (DIRECTION_NONE, ptr::null_mut(), 0),
        Exchange::In(bytes) => (DIRECTION_IN, bytes.as_mut_ptr().cast(), bytes.len()),
        Exchange::Out(bytes) => (DIRECTION_OUT, bytes.as_ptr().cast_mut().cast(), bytes.len()),
    };
    Ok(SgIoHeader {
        interface_id: c_int::from(b'S'),
        direction,
        command_bytes: c_uchar::try_from(command.len()).map_err(too_long)?,
        sense_bytes_max: SENSE_BYTES,
        iovec_count: 0,
        data_bytes: c_uint::try_from(data_bytes).map_err(too_long)?,
        data,
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_millis: c_uint::try_from(timeout.as_millis()).unwrap_or(c_uint::MAX),
        flags: 0,
        pack_id: 0,
        user: ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_bytes: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration: 0,
        info: 0,
    })
}

fn answer(header: &SgIoHeader, sense: &[u8]) -> io::Result<Answer> {
    if header.host_status == HOST_TIMED_OUT || header.driver_status & 0x0f == DRIVER_TIMED_OUT {
        return Err(io::ErrorKind::TimedOut.into());
    }
    if header.host_status != 0 {
        let message = format!("the bus adapter reports status {:#04x}", header.host_status);
        return Err(io::Error::other(message));
    }
    Ok(Answer {
        status: header.status,
        sense: sense[..usize::from(header.sense_bytes).min(sense.len())].to_vec(),
        residual: u64::try_from(header.residual).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_laid_out_as_the_kernel_wants_it() {
        use std::mem::offset_of;
        assert_eq!(size_of::<SgIoHeader>(), 88);
        assert_eq!(offset_of!(SgIoHeader, data), 16);
        assert_eq!(offset_of!(SgIoHeader, timeout_millis), 40);
        assert_eq!(offset_of!(SgIoHeader, status), 64);
        assert_eq!(offset_of!(SgIoHeader, residual), 72);
    }

    #[test]
    fn what_is_no_generic_device_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = SgDevice::open(file.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn timeouts_and_adapters_that_fail_are_no_answers() {
        let mut sense = [0; SENSE_BYTES as usize];
        let mut header =
            header(&[0; 6], Exchange::None, &mut sense, Duration::from_secs(1)).unwrap();
        header.status = 2;
        header.sense_bytes = 18;
        header.driver_status = 0x08;
        let found = answer(&header, &sense).unwrap();
        assert_eq!((found.status, found.sense.len()), (2, 18));
        header.host_status = HOST_TIMED_OUT;
        let error = answer(&header, &sense).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        header.host_status = 1;
        assert_eq!(answer(&header, &sense).unwrap_err().kind(), io::ErrorKind::Other);
    }
}
