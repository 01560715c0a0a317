//! TLS for both ends of a recorded session, with the certificates in the folders of a server and a
//! node.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Name in the certificate of every server.
const SERVER_NAME: &str = "server.holdfast.internal";

fn read(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path:?}: {error}"))
}

/// Returns the TLS end of a server, with a new certificate from the authority in the folder
/// `server`.
pub(super) fn acceptor(server: &Path) -> TlsAcceptor {
    let (ca_pem, ca_key) = (read(server, "ca.pem"), read(server, "ca.key"));
    let ca_key = KeyPair::from_pem(&ca_key).expect("the authority's key");
    let issuer = Issuer::from_ca_cert_pem(&ca_pem, ca_key).expect("the authority");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![SERVER_NAME.to_owned()]).expect("a DNS name");
    let leaf = params.signed_by(&key, &issuer).expect("the authority signs");
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).expect("the authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone(), ca],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .expect("key and certificate match");
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Connects to the server on `port` as the node whose folder is `home`.
pub(super) async fn connect(home: &Path, port: u16) -> TlsStream<TcpStream> {
    let connecting = try_connect(client_of(home), port);
    connecting.await.expect("the server is the one that enrolled the node")
}

/// Connects to the server on `port`. Fails if the server closes the connection.
pub(super) async fn try_connect(
    mut config: ClientConfig,
    port: u16,
) -> io::Result<TlsStream<TcpStream>> {
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from(SERVER_NAME).expect("a DNS name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Returns the TLS end of the node whose folder is `home`.
pub(super) fn client_of(home: &Path) -> ClientConfig {
    let pem = read(home, "node.pem");
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("the node's key");
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes());
    let chain: Vec<_> = chain.collect::<Result<_, _>>().expect("the node's certificates");
    let config = client(chain[1].clone()).with_client_auth_cert(chain, key);
    config.expect("key and certificate match")
}

/// Returns the TLS end of a client without a certificate, for the server whose folder is `server`.
pub(super) fn client_without_certificate(server: &Path) -> ClientConfig {
    let ca = CertificateDer::from_pem_slice(read(server, "ca.pem").as_bytes());
    client(ca.expect("the authority")).with_no_client_auth()
}

fn client(ca: CertificateDer<'static>) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(ca).expect("the authority's certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
}
