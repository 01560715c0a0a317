//! Data that an earlier release compressed or encrypted.

mod golden;
