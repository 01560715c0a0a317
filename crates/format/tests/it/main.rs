//! Tests of the formats: pages are the same after encoding and decoding, damaged pages are refused,
//! and golden files still decode.

mod golden;
mod pages;
