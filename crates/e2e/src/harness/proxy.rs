//! A proxy in front of an object store or a server: slow, failing or absent, as a test needs it.
//!
//! The proxy knows little of HTTP: a request begins when a client sends after an answer, and an
//! empty line ends the head of a request.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::clock;

/// Faults of the connection. All of them can be changed at any time.
#[derive(Default)]
pub struct Weather {
    /// Delay of each request, in milliseconds.
    delay_millis: AtomicU64,
    /// Maximum number of bytes of requests per second, for each client; 0 for no limit.
    asked_per_sec: AtomicU64,
    /// Distance, in requests, between two requests that are answered with 500 and not passed on; 0
    /// for none.
    fails_each: AtomicU32,
    /// Distance, in requests, between two requests that are cut off in the middle; 0 for none.
    cuts_each: AtomicU32,
    /// True while the proxy passes nothing on, and closes connections without an answer.
    is_down: AtomicBool,
    /// Number of bytes of answers after which the proxy goes down; 0 for never.
    goes_down_behind: AtomicU64,
    answered_bytes: AtomicU64,
    /// True while the proxy passes requests on, but holds answers back.
    is_silent: AtomicBool,
    asked_bytes: AtomicU64,
    requests: AtomicU32,
    connections: AtomicU32,
    /// Address that the proxy connects from, as a number; 0 for any.
    source: AtomicU32,
    heads: Mutex<Vec<String>>,
    /// Clients that are connected, by number.
    clients: Mutex<HashMap<u64, TcpStream>>,
}

impl Weather {
    pub fn delay(&self, delay: Duration) {
        self.delay_millis.store(u64::try_from(delay.as_millis()).unwrap_or(0), SeqCst);
    }

    /// Limits the requests of each client to `bytes_per_sec`.
    pub fn carry(&self, bytes_per_sec: u64) {
        self.asked_per_sec.store(bytes_per_sec, SeqCst);
    }

    /// Returns the time that `bytes` of requests take with the limit of [`Self::carry`].
    fn carrying(&self, bytes: usize) -> Duration {
        match self.asked_per_sec.load(SeqCst) {
            0 => Duration::ZERO,
            rate => Duration::from_micros(bytes as u64 * 1_000_000 / rate),
        }
    }

    pub fn fail_each(&self, count: u32) {
        self.fails_each.store(count, SeqCst);
    }

    pub fn cut_each(&self, count: u32) {
        self.cuts_each.store(count, SeqCst);
    }

    /// Makes the proxy connect from `address`, which is one of this machine.
    pub fn come_from(&self, address: Ipv4Addr) {
        self.source.store(address.to_bits(), SeqCst);
    }

    pub fn be_down(&self, is_down: bool) {
        self.is_down.store(is_down, SeqCst);
    }

    pub fn is_down(&self) -> bool {
        self.is_down.load(SeqCst)
    }

    /// Holds answers back, or passes them on again. Held answers are lost if the proxy goes down
    /// first.
    pub fn be_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, SeqCst);
    }

    fn await_voice(&self) {
        while self.is_silent.load(SeqCst) {
            clock::pause(Duration::from_millis(10));
        }
    }

    /// Makes the proxy go down after `bytes` more bytes of answers; `bytes` must be at least 1.
    pub fn go_down_behind(&self, bytes: u64) {
        self.answered_bytes.store(0, SeqCst);
        self.goes_down_behind.store(bytes, SeqCst);
    }

    /// Number of bytes of answers since the last call of [`Self::go_down_behind`], or since the
    /// start.
    pub fn answered_bytes(&self) -> u64 {
        self.answered_bytes.load(SeqCst)
    }

    /// Number of bytes of requests that were passed on.
    pub fn asked_bytes(&self) -> u64 {
        self.asked_bytes.load(SeqCst)
    }

    /// Returns the number of bytes, of the next `count` bytes of an answer, that may be passed on.
    /// The proxy goes down if this is less than `count`.
    fn let_through(&self, count: usize) -> usize {
        let before = self.answered_bytes.fetch_add(count as u64, SeqCst);
        let end = match self.goes_down_behind.load(SeqCst) {
            0 => u64::MAX,
            end => end,
        };
        if before + count as u64 > end {
            self.be_down(true);
        }
        usize::try_from(end.saturating_sub(before)).unwrap_or(usize::MAX).min(count)
    }

    /// Cuts off all connected clients; returns their number.
    pub fn cut(&self) -> usize {
        let clients = self.clients();
        // A client that has closed its connection by itself is counted too.
        clients.values().for_each(|client| drop(client.shutdown(Shutdown::Both)));
        clients.len()
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections that clients have opened so far.
    pub fn connections(&self) -> u32 {
        self.connections.load(SeqCst)
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u32 {
        self.requests.load(SeqCst)
    }

    fn note(&self, request: &[u8]) {
        let text = String::from_utf8_lossy(request);
        let head = text.split("\r\n\r\n").next().unwrap_or_default().to_owned();
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    }

    /// The head of each request: its lines up to the first empty line.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A proxy. It listens until the test's process ends.
pub struct Proxy {
    port: u16,
    weather: Arc<Weather>,
}

impl Proxy {
    /// Starts a proxy in front of the port `to` of this machine.
    pub fn start(to: u16) -> Self {
        Self::before(SocketAddr::from(([127, 0, 0, 1], to)))
    }

    /// Starts a proxy on this machine in front of the server at `to`.
    pub fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("the listener has a port").port();
        let weather = Arc::new(Weather::default());
        let shared = Arc::clone(&weather);
        std::thread::spawn(move || {
            for (number, client) in (0..).zip(listener.incoming().map_while(Result::ok)) {
                let weather = Arc::clone(&shared);
                let Ok(known) = client.try_clone() else { continue };
                weather.connections.fetch_add(1, SeqCst);
                weather.clients().insert(number, known);
                std::thread::spawn(move || {
                    // The error cannot be sent to a client that is cut off.
                    drop(carry(&client, to, &weather));
                    weather.clients().remove(&number);
                });
            }
        });
        Self { port, weather }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn weather(&self) -> &Weather {
        &self.weather
    }
}

/// Connects to `to` from the address `source`, or from any address if it is unspecified.
fn connect(source: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    if source.is_unspecified() {
        return TcpStream::connect(to);
    }
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrV4::new(source, 0))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

fn carry(client: &TcpStream, to: SocketAddr, weather: &Arc<Weather>) -> std::io::Result<()> {
    if weather.is_down.load(SeqCst) {
        return client.shutdown(Shutdown::Both);
    }
    client.set_nodelay(true)?;
    let server = connect(Ipv4Addr::from_bits(weather.source.load(SeqCst)), to)?;
    server.set_nodelay(true)?;
    let was_answered = Arc::new(AtomicBool::new(true));
    let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
    let (answered, above) = (Arc::clone(&was_answered), Arc::clone(weather));
    let answering = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count) = answers.read(&mut buffer)
            && count > 0
        {
            above.await_voice();
            if above.is_down() {
                break;
            }
            answered.store(true, SeqCst);
            let end = above.let_through(count);
            if back.write_all(&buffer[..end]).is_err() || end < count {
                break;
            }
        }
        drop(back.shutdown(Shutdown::Both));
        drop(answers.shutdown(Shutdown::Both));
    });
    let asked = ask(client, &server, (weather, &was_answered));
    drop(server.shutdown(Shutdown::Both));
    drop(answering.join());
    asked
}

fn ask(
    mut client: &TcpStream,
    mut server: &TcpStream,
    (weather, was_answered): (&Weather, &AtomicBool),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = client.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut end = count;
        if was_answered.swap(false, SeqCst) {
            let number = weather.requests.fetch_add(1, SeqCst) + 1;
            weather.note(&buffer[..count]);
            let is_hit = |each: &AtomicU32| {
                let each = each.load(SeqCst);
                each > 0 && number.is_multiple_of(each)
            };
            clock::pause(Duration::from_millis(weather.delay_millis.load(SeqCst)));
            if is_hit(&weather.fails_each) {
                let answer = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\
                               Connection: close\r\n\r\n";
                client.write_all(answer)?;
                return client.shutdown(Shutdown::Write);
            }
            if is_hit(&weather.cuts_each) {
                end /= 2;
            }
        }
        if weather.is_down.load(SeqCst) {
            return client.shutdown(Shutdown::Both);
        }
        clock::pause(weather.carrying(end));
        server.write_all(&buffer[..end])?;
        weather.asked_bytes.fetch_add(end as u64, SeqCst);
        if end < count {
            return client.shutdown(Shutdown::Both);
        }
    }
}
