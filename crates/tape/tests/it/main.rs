//! Drives, volumes and libraries against the emulator, files, and third-party virtual libraries.

mod drive;
mod scenario;
mod volumes;
