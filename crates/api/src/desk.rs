//! State that all calls share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use server::{Guesses, Numbering, Office, Origin};
use store::Store;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::caller::Caller;
use crate::login_guesses::LoginGuesses;
use crate::oidc::{OidcError, Provider};
use crate::passwords::Passwords;
use crate::problem::{Kind, Problem};
use crate::rates::Rates;
use crate::seal::SealKey;

/// State that all calls of a running server share.
pub(crate) struct Desk {
    pub(crate) office: Office,
    pub(crate) passwords: Passwords,
    pub(crate) seals: SealKey,
    /// The provider of OpenID Connect, if there is one.
    pub(crate) oidc: Option<Provider>,
    pub(crate) rates: Rates,
    /// Failed attempts to show who calls, by network address.
    pub(crate) guesses_of_origins: Guesses<Origin>,
    /// Failed attempts by login.
    pub(crate) guesses_of_logins: LoginGuesses,
    /// Wrong codes of second factors, with the number of the person as login.
    pub(crate) guesses_of_codes: LoginGuesses,
    /// Lock for changes of objects that have tags.
    changes: Arc<Mutex<()>>,
    /// Right to work for one request. The threads that may block have other work, too.
    work: Arc<Semaphore>,
    /// Streams under way, by account.
    streams: Streams,
    /// Key of the digests of requests that are kept.
    pub(crate) answers_key: [u8; 32],
    /// Key of the numbers of callers who do not see the objects of all domains.
    numbers_key: [u8; 32],
    /// The document of all operations.
    pub(crate) document: Value,
}

/// Maximum number of requests that are worked for at once, of streams in all, and of streams of one
/// account. Each has a thread that may block, of which the process has 512.
const WORK_MAX: usize = 128;
const STREAMS_MAX: usize = 128;
const ACCOUNT_STREAMS_MAX: usize = 8;
/// Purpose of the key of digests of kept requests.
const ANSWERS: &str = "holdfast v1 kept requests of the service";
/// Purpose of the key of numbers that tell nothing of other domains.
const NUMBERS: &str = "holdfast v1 numbers of the service";
/// Purpose of the key with which the service seals.
const SEALS: &str = "holdfast v1 secrets of the service";

impl Desk {
    pub(crate) fn new(office: Office, document: Value) -> Result<Self, OidcError> {
        let (settings, folder) = (office.store().config.oidc.clone(), &office.store().folder);
        let oidc = settings.map(|settings| Provider::new(settings, folder)).transpose()?;
        let seals = SealKey::new(&office.store().secrets.derived_key(SEALS));
        let answers_key = office.store().secrets.derived_key(ANSWERS);
        let numbers_key = office.store().secrets.derived_key(NUMBERS);
        Ok(Self {
            office,
            passwords: Passwords::new(),
            seals,
            oidc,
            rates: Rates::default(),
            guesses_of_origins: Guesses::default(),
            guesses_of_logins: LoginGuesses::default(),
            guesses_of_codes: LoginGuesses::default(),
            changes: Arc::default(),
            work: Arc::new(Semaphore::new(WORK_MAX)),
            streams: Streams::default(),
            answers_key,
            numbers_key,
            document,
        })
    }

    /// Holds up other changes of objects that have tags, while the result lives.
    pub(crate) async fn hold_changes(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.changes).lock_owned().await
    }

    /// Waits until one more request may be worked for.
    pub(crate) async fn begin_work(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.work).acquire_owned().await;
        permit.expect("nobody closes the semaphore")
    }

    /// Waits until no request is being worked for, and lets none begin.
    pub(crate) async fn end_work(&self) {
        let all = u32::try_from(WORK_MAX).expect("a small number");
        let ended = self.work.acquire_many(all).await;
        ended.expect("nobody closes the semaphore").forget();
    }

    /// Gives `account` the right to one more stream.
    pub(crate) fn begin_stream(&self, account: &str) -> Result<StreamSeat, Problem> {
        let mut held = self.streams.0.lock();
        let all: usize = held.values().sum();
        let own = held.entry(account.to_owned()).or_default();
        if all >= STREAMS_MAX || *own >= ACCOUNT_STREAMS_MAX {
            let text = format!("at most {ACCOUNT_STREAMS_MAX} streams may be under way at once");
            return Err(Problem::new(Kind::TooMany, text));
        }
        *own += 1;
        Ok(StreamSeat { streams: self.streams.clone(), account: account.to_owned() })
    }

    /// Returns the way in which the caller gets and gives numbers that count over all domains.
    pub(crate) fn numbering(&self, caller: &Caller) -> Numbering {
        let key = self.numbers_key;
        if caller.is_staff() { Numbering::plain(Some(key)) } else { Numbering::covered(key) }
    }

    /// Returns the addresses by which nodes reach the servers.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let servers = self.store().servers().into_iter();
        servers.map(|server| named(&server.address, &sys::net::host_name())).collect()
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.office.store()
    }
}

/// Streams under way, by account.
#[derive(Clone, Default)]
struct Streams(Arc<sys::lock::Mutex<BTreeMap<String, usize>>>);

/// Right to a stream, which lasts as long as the stream.
pub(crate) struct StreamSeat {
    streams: Streams,
    account: String,
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        let mut held = self.streams.0.lock();
        let own = held.get_mut(&self.account).expect("the account has this seat");
        *own -= 1;
        if *own == 0 {
            held.remove(&self.account);
        }
    }
}

/// Returns the origin of an address, as limits tell origins apart.
pub(crate) fn origin(address: Option<IpAddr>) -> Option<Origin> {
    address.map(Origin::of)
}

/// Returns an address with the name of the machine in place of an address that stands for all.
fn named(address: &str, host: &str) -> String {
    match address.rsplit_once(':') {
        Some(("0.0.0.0" | "[::]" | "", port)) => format!("{host}:{port}"),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_all_is_that_of_the_machine() {
        assert_eq!(named("0.0.0.0:1500", "vault"), "vault:1500");
        assert_eq!(named("[::]:1500", "vault"), "vault:1500");
        assert_eq!(named("10.0.0.7:1500", "vault"), "10.0.0.7:1500");
    }
}
