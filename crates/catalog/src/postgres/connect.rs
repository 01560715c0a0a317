//! Where the database is, and a connection to it.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::CatalogError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is sent and not taken in for so long is lost with its connection.
const SILENCE: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVES: u32 = 3;
/// Threads that speak with databases.
const THREADS: usize = 2;

/// Whether `url` is that of a PostgreSQL database.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Why there is no connection.
pub(super) struct NoConnection {
    pub(super) text: String,
    /// Whether another try may go.
    pub(super) is_passing: bool,
}

pub(super) struct Connector {
    config: Config,
    /// `None`: nobody is between, as on a socket of this machine.
    tls: Option<MakeRustlsConnect>,
}

/// The runtime that all connections share; it is made when the first one is.
fn runtime() -> std::io::Result<&'static Runtime> {
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

/// The options of the URL that are ours: where certificates and passwords are.
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
    pub(super) fn new(url: &str) -> Result<Self, CatalogError> {
        let unfit = |reason: String| CatalogError::Url(reason);
        let mut url = url.to_owned();
        let roots = take_option(&mut url, "sslrootcert").map(PathBuf::from);
        let passwords = take_option(&mut url, "passfile").map(PathBuf::from);
        let mut config = Config::from_str(&url).map_err(|error| unfit(model::chain(&error)))?;
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE)
            .keepalives_retries(KEEPALIVES)
            .application_name("holdfast");
        if let Some(path) = &passwords {
            let text = std::fs::read_to_string(path)
                .map_err(|error| unfit(format!("{}: {error}", path.display())))?;
            let password = password(&text, &config)
                .ok_or_else(|| unfit(format!("{} has no fitting line", path.display())))?;
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
            // What the catalogue says is nobody's who listens on the way.
            config.ssl_mode(SslMode::Require);
            Some(MakeRustlsConnect::new(tls(roots.as_deref()).map_err(unfit)?))
        };
        Ok(Self { config, tls })
    }

    /// Connects, or says why not. May be called from any thread.
    pub(super) fn connect(&self) -> Result<Client, NoConnection> {
        let lasting = |text: String| NoConnection { text, is_passing: false };
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
            NoConnection { text: model::chain(&error), is_passing }
        })
    }
}

/// Whether the database is not the one that it should be, or shows that it is in no way that is
/// taken: another try does not change that.
fn is_distrust(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    // A password is asked for and none is given: only the text says so.
    if error.to_string().starts_with("invalid configuration") {
        return true;
    }
    let mut source = error.source();
    while let Some(inner) = source {
        let refused = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if refused.is_some_and(|refused| refused.is::<rustls::Error>())
            || inner.is::<rustls::Error>()
        {
            return true;
        }
        source = inner.source();
    }
    false
}

/// Whatever the database's defaults are: a commit that was told of is durable, nothing is cut off
/// that takes its time, and a server whose machine is gone holds up nobody for more than 20
/// seconds.
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
";

fn tls(roots: Option<&Path>) -> Result<ClientConfig, String> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(path) => {
            let unusable = |error: &dyn std::error::Error| {
                format!("the certificates in {} cannot be used: {error}", path.display())
            };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                store.add(certificate).map_err(|error| unusable(&error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// The password for the place that `config` has, of lines `HOST:PORT:DATABASE:USER:PASSWORD` as
/// other programs for PostgreSQL read them.
fn password(text: &str, config: &Config) -> Option<String> {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) | None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let wanted = [host.as_str(), &port, database, user];
    text.lines().find_map(|line| {
        let mut fields = line.splitn(5, ':');
        let fits = wanted
            .iter()
            .all(|wanted| fields.next().is_some_and(|field| field == "*" || field == *wanted));
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
    fn what_crosses_a_network_is_encrypted() {
        let is_encrypted = |url: &str| Connector::new(url).unwrap().tls.is_some();
        assert!(is_encrypted("postgres://anna@db.example.org/holdfast"));
        assert!(is_encrypted("postgres://anna@db.example.org/holdfast?sslmode=disable"));
        assert!(!is_encrypted("postgres://anna@localhost/holdfast"));
        assert!(is_encrypted("postgres://anna@localhost/holdfast?sslmode=require"));
        assert!(!is_encrypted("postgres:///holdfast?host=/run/postgresql&user=anna"));
    }
}
