//! The database's URL, and connections to the database.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Time limit for one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a connection ends if the database has not acknowledged sent data.
const SILENCE: Duration = Duration::from_secs(30);
/// Idle time before a keepalive, and between two keepalives.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Number of lost keepalives that end a connection.
const KEEPALIVES: u32 = 3;
/// Number of threads that drive all connections.
const THREADS: usize = 2;

/// Returns true if `url` names a PostgreSQL database.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The reason why a URL names no usable database. The administrator has to change the URL or the
/// file.
#[derive(Debug, thiserror::Error)]
pub(super) enum UrlError {
    #[error("this is not a URL of PostgreSQL")]
    Syntax(#[source] tokio_postgres::Error),
    #[error("the password file {} cannot be read", path.display())]
    PasswordFile { path: PathBuf, source: io::Error },
    #[error("the password file {} has no line for this database and user", path.display())]
    Password { path: PathBuf },
    #[error("the certificate file {} cannot be read", path.display())]
    CertificateFile { path: PathBuf, source: pem::Error },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// A failure to connect.
pub(super) struct ConnectError {
    pub(super) text: String,
    /// True if another attempt may succeed.
    pub(super) is_passing: bool,
}

/// A database to which connections can be opened.
pub(super) struct Connector {
    config: Config,
    /// TLS for the connections; `None` for a database on this machine.
    tls: Option<MakeRustlsConnect>,
}

/// Returns the runtime of all connections. The first connection creates it.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("postgres")
        .enable_all()
        .build()?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// Removes the option `name` from the URL and returns its value. The options `sslrootcert` and
/// `passfile` are for this program; the client library does not know them.
fn take_option(url: &mut String, name: &str) -> Option<String> {
    let (place, options) = url.split_once('?')?;
    let prefix = format!("{name}=");
    let found = options.split('&').find_map(|option| option.strip_prefix(&prefix))?.to_owned();
    let rest: Vec<&str> =
        options.split('&').filter(|option| !option.starts_with(&prefix)).collect();
    *url = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
    Some(found)
}

impl Connector {
    pub(super) fn new(url: &str) -> Result<Self, UrlError> {
        let mut url = url.to_owned();
        let roots = take_option(&mut url, "sslrootcert").map(PathBuf::from);
        let passwords = take_option(&mut url, "passfile").map(PathBuf::from);
        let mut config = Config::from_str(&url).map_err(UrlError::Syntax)?;
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE)
            .keepalives_retries(KEEPALIVES)
            .application_name("holdfast");
        if let Some(path) = passwords {
            let text = std::fs::read_to_string(&path)
                .map_err(|source| UrlError::PasswordFile { path: path.clone(), source })?;
            let password = password(&text, &config).ok_or(UrlError::Password { path })?;
            config.password(password);
        }
        let is_local = config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
        });
        let tls = if is_local && config.get_ssl_mode() != SslMode::Require {
            config.ssl_mode(SslMode::Disable);
            None
        } else {
            // A connection over a network is encrypted, so that nobody can read the catalogue
            // there.
            config.ssl_mode(SslMode::Require);
            Some(MakeRustlsConnect::new(tls(roots.as_deref())?))
        };
        Ok(Self { config, tls })
    }

    /// Opens a connection. May be called from any thread.
    pub(super) fn connect(&self) -> Result<Client, ConnectError> {
        let lasting = |text: String| ConnectError { text, is_passing: false };
        let runtime = runtime().map_err(|error| lasting(error.to_string()))?;
        let (sender, answer) = mpsc::channel();
        let (config, tls) = (self.config.clone(), self.tls.clone());
        runtime.spawn(async move {
            let connected = match tls {
                Some(tls) => config.connect(tls).await.map(|(client, connection)| {
                    tokio::spawn(async move { drop(connection.await) });
                    client
                }),
                None => config.connect(NoTls).await.map(|(client, connection)| {
                    tokio::spawn(async move { drop(connection.await) });
                    client
                }),
            };
            let prepared = match connected {
                Ok(client) => client.batch_execute(SETTINGS).await.map(|()| client),
                Err(error) => Err(error),
            };
            drop(sender.send(prepared));
        });
        let answered = answer.recv().map_err(|error| lasting(error.to_string()))?;
        answered.map_err(|error| {
            let state = error.code();
            let starting = [
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::TOO_MANY_CONNECTIONS,
            ];
            let is_passing = match state {
                Some(state) => starting.contains(state),
                None => !is_distrust(&error),
            };
            ConnectError { text: model::chain(&error), is_passing }
        })
    }
}

/// Returns true if the two ends cannot prove their identity to each other. Another attempt does not
/// change that.
fn is_distrust(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    // The error for a missing password has no code, only this text.
    if error.to_string().starts_with("invalid configuration") {
        return true;
    }
    let mut source = error.source();
    while let Some(inner) = source {
        let refused = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if refused.is_some_and(|refused| refused.is::<rustls::Error>())
            || inner.is::<rustls::Error>()
        {
            return true;
        }
        source = inner.source();
    }
    false
}

/// Settings of each connection, whatever the database's defaults are: an acknowledged commit is
/// durable, no statement is ended because it is slow, and a server whose machine has failed blocks
/// nobody for more than 20 seconds.
const SETTINGS: &str = "
    SET tcp_keepalives_idle = 5;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = 20000;
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');
    SET statement_timeout = 0;
    SET idle_in_transaction_session_timeout = 0;
    SET default_transaction_isolation = 'read committed';
    SET holdfast.keeps_sums = 'yes';
";

/// Returns a configuration of TLS that trusts the certificates in the file `roots`, or the
/// certificates of the system if `roots` is not given.
fn tls(roots: Option<&Path>) -> Result<ClientConfig, UrlError> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(path) => {
            let unreadable = |source| UrlError::CertificateFile { path: path.to_owned(), source };
            for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                store.add(certificate.map_err(unreadable)?)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// Finds the password for the database and user in `config`. `text` has lines
/// `HOST:PORT:DATABASE:USER:PASSWORD`, as other programs for PostgreSQL read them.
fn password(text: &str, config: &Config) -> Option<String> {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) | None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let key = [host.as_str(), &port, database, user];
    text.lines().find_map(|line| {
        let mut fields = line.splitn(5, ':');
        let fits = key
            .iter()
            .all(|part| fields.next().is_some_and(|field| field == "*" || field == *part));
        fields.next().filter(|_| fits).map(ToOwned::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_options_are_taken_off_a_url() {
        let mut url = "postgres://a@b/c?sslrootcert=/x&sslmode=require&passfile=/y".to_owned();
        assert_eq!(take_option(&mut url, "sslrootcert").as_deref(), Some("/x"));
        assert_eq!(take_option(&mut url, "passfile").as_deref(), Some("/y"));
        assert_eq!(url, "postgres://a@b/c?sslmode=require");
        assert_eq!(take_option(&mut url, "sslrootcert"), None);
    }

    #[test]
    fn passwords_are_found_by_place() {
        let config = Config::from_str("postgres://anna@db.example.org:5433/holdfast").unwrap();
        let text = "# passwords\nother:*:*:*:no\n*:5432:*:*:no\n\
                    db.example.org:5433:holdfast:anna:a:b\n";
        assert_eq!(password(text, &config).as_deref(), Some("a:b"));
        assert_eq!(password("x:*:*:*:no", &config), None);
    }

    #[test]
    fn connections_over_a_network_are_encrypted() {
        let is_encrypted = |url: &str| Connector::new(url).unwrap().tls.is_some();
        assert!(is_encrypted("postgres://anna@db.example.org/holdfast"));
        assert!(is_encrypted("postgres://anna@db.example.org/holdfast?sslmode=disable"));
        assert!(!is_encrypted("postgres://anna@localhost/holdfast"));
        assert!(is_encrypted("postgres://anna@localhost/holdfast?sslmode=require"));
        assert!(!is_encrypted("postgres:///holdfast?host=/run/postgresql&user=anna"));
    }
}
