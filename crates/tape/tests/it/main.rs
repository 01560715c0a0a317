//! Drives, volumes and libraries against the emulator, files, and third-party virtual libraries.

mod drive;
mod library;
mod scenario;
mod volumes;
