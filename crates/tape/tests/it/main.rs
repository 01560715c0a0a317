//! Tests of drives, volumes and libraries, with the emulator, with files, and with third-party
//! virtual libraries.

mod answers;
mod calibration;
mod drive;
mod golden;
mod istgt;
mod library;
mod line;
mod manual;
mod operator;
mod scenario;
mod server;
mod tgt;
mod volumes;
