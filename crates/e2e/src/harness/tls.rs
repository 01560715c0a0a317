//! TLS in front of an object store that has none, with a certificate from a private authority.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};

/// A port with TLS. It listens until the test's process ends.
pub struct Tls {
    folder: PathBuf,
    port: u16,
}

impl Tls {
    /// Starts TLS in front of the port `to` of this machine; certificates go into the new folder
    /// `folder`.
    pub fn start(to: u16, folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let config = configure(folder).expect("certificates are made");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("the listener has a port").port();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let config = Arc::clone(&config);
                std::thread::spawn(move || {
                    // An error is normal: a client ends the connection if it does not trust the
                    // certificate, or if it has finished.
                    drop(carry(client, to, config));
                });
            }
        });
        Self { folder: folder.to_owned(), port }
    }

    /// The certificate of the authority.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The certificate of another authority, which has signed nothing.
    pub fn other_ca(&self) -> PathBuf {
        self.folder.join("other.pem")
    }

    /// The URL of the port with TLS.
    pub fn endpoint(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn configure(folder: &Path) -> Result<Arc<ServerConfig>, Box<dyn std::error::Error>> {
    let own = authority()?;
    std::fs::write(folder.join("ca.pem"), own.pem())?;
    std::fs::write(folder.join("other.pem"), authority()?.pem())?;
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &own)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )?;
    Ok(Arc::new(config))
}

fn carry(mut client: TcpStream, to: u16, config: Arc<ServerConfig>) -> io::Result<()> {
    let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut store = TcpStream::connect(("127.0.0.1", to))?;
    store.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let mut buffer = [0; 16 << 10];
    loop {
        while session.wants_write() {
            session.write_tls(&mut client)?;
        }
        let mut ends = [PollFd::new(&client, PollFlags::IN), PollFd::new(&store, PollFlags::IN)];
        poll(&mut ends, None)?;
        let [asks, answers] = ends.map(|end| !end.revents().is_empty());
        if asks {
            if session.read_tls(&mut client)? == 0 {
                return Ok(());
            }
            session.process_new_packets().map_err(io::Error::other)?;
            while let Ok(count @ 1..) = session.reader().read(&mut buffer) {
                store.write_all(&buffer[..count])?;
            }
        }
        if answers {
            let count = store.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            session.writer().write_all(&buffer[..count])?;
        }
    }
}
