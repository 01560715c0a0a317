//! Ports of this machine for the servers of tests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// First port of the range. The range ends below the ports that the kernel gives to clients, so
/// that a restarted server finds its port free.
const PORT_FIRST: u16 = 10_000;
const PORTS: u16 = 20_000;

/// Returns a port that nobody listens on and that no other test of this process gets.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % u32::from(PORTS)).expect("a remainder fits");
    for _ in 0..PORTS {
        // The step is a prime, so that processes with neighbouring ids try different ports.
        let step = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(31);
        let port = PORT_FIRST + process.wrapping_mul(37).wrapping_add(step) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {PORT_FIRST} on is free");
}
