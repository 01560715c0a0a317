//! Drives, volumes and libraries against the emulator, files, and third-party virtual libraries.

mod answers;
mod calibration;
mod drive;
mod golden;
mod istgt;
mod library;
mod manual;
mod operator;
mod scenario;
mod server;
mod tgt;
mod volumes;
