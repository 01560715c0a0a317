//! The option files and commands of Tivoli Storage Manager (TSM), translated into those of
//! Holdfast.
//!
//! ```text
//!   dsm.sys, dsm.opt, lists ----> options -> settings and statements of a node
//!   dsmc, dsmmigrate, ... ------> client, space --+
//!                                                 +--> command lines of holdfast, forms of output
//!   dsmadmc --------------------> admin ----------+
//! ```
//!
//! 1. Nothing here does what `holdfast` cannot do by a command of its own.
//! 2. Each option and command is carried out, accepted with the reason why nothing needs to be
//!    done, or refused with the reason and what to do. None is ignored without a word.
//!
//! Deliberately absent: I/O. The program reads the files, runs the command lines, and writes the
//! output.

pub mod admin;
pub mod client;
pub mod configuration;
pub mod forms;
pub mod lines;
pub mod log;
pub mod options;
pub mod selection;
pub mod space;
pub mod words;
