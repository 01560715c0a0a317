//! Drives, volumes and libraries against the emulator, files, and third-party virtual libraries.

mod answers;
mod drive;
mod istgt;
mod library;
mod operator;
mod scenario;
mod server;
mod tgt;
mod volumes;
