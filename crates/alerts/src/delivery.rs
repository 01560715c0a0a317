//! Delivery: notices that are due go to their recipients, over mail and HTTP.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Delivery, NoticeRow};
use futures_util::future::join_all;
use store::folder::AlertSettings;
use store::{Store, StoreError};

use crate::audience::{Audience, MAIL, REPORT, WEBHOOK, audiences};
use crate::failure::Failure;
use crate::mail::{Mailer, check_recipient};
use crate::notices::{Notice, subject};
use crate::outbox;
use crate::webhook::{Webhook, WebhookError};

/// Maximum number of notices of a way that are read at once.
const DUE_MAX: usize = 64;
/// Interval between two looks for notices that are due.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Interval between two calls of a mail server that takes no mail, and between two rounds if the
/// catalogue cannot note what was sent.
pub(crate) const AWAY_PAUSE: Duration = Duration::from_secs(30);

/// An attempt to reach a recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// `mail` or `webhook`.
    pub channel: String,
    /// Address of the mail, or name of the webhook.
    pub address: String,
    /// Reason of the failure; `None` if the recipient's server has taken the notice.
    pub error: Option<String>,
}

/// The ways of notices, as the settings have them at present.
struct Ways<'a> {
    settings: &'a AlertSettings,
    folder: &'a Path,
    mailer: Option<Result<Mailer, String>>,
    webhooks: BTreeMap<String, Result<Webhook<'a>, String>>,
}

impl<'a> Ways<'a> {
    fn new(settings: &'a AlertSettings, folder: &'a Path) -> Self {
        Self { settings, folder, mailer: None, webhooks: BTreeMap::new() }
    }

    async fn send(&mut self, notice: &NoticeRow) -> Result<(), Failure> {
        match notice.channel.as_str() {
            MAIL | REPORT => self.mailer()?.send(notice).await,
            _ => {
                let seconds = sys::clock::now().0.div_euclid(1_000_000);
                self.webhook(&notice.address)?.send(notice, seconds).await
            }
        }
    }

    fn mailer(&mut self) -> Result<&Mailer, Failure> {
        let (settings, folder) = (self.settings, self.folder);
        let mailer = self.mailer.get_or_insert_with(|| match &settings.mail {
            Some(mail) => Mailer::new(mail, folder).map_err(|error| model::chain(&error)),
            None => Err("server.toml has no section [alerts.mail] any more".to_owned()),
        });
        mailer.as_ref().map_err(|error| Failure::Way(error.clone()))
    }

    fn webhook(&mut self, name: &str) -> Result<&Webhook<'a>, Failure> {
        let (settings, folder) = (self.settings, self.folder);
        let made = self.webhooks.entry(name.to_owned()).or_insert_with(|| {
            let found = settings.webhooks.iter().find(|webhook| webhook.name == name);
            let found = found.ok_or_else(|| WebhookError::Unknown(name.to_owned()));
            found
                .and_then(|webhook| Webhook::new(webhook, folder))
                .map_err(|error| model::chain(&error))
        });
        made.as_ref().map_err(|error| Failure::Way(error.clone()))
    }
}

/// Returns what is wrong with the ways of the settings. It connects to nobody.
pub(crate) fn problems(settings: &AlertSettings, folder: &Path) -> Vec<String> {
    let mut ways = Ways::new(settings, folder);
    let mut found = Vec::new();
    if let Some(mail) = &settings.mail {
        found.extend(ways.mailer().err());
        let wrong = mail.to.iter().filter_map(|to| check_recipient(to).err());
        found.extend(wrong.map(|error| Failure::notice(&error)));
        if mail.to.is_empty() && !settings.tenants {
            found.push(Failure::Way("the list 'to' in [alerts.mail] is empty".to_owned()));
        }
    }
    for webhook in &settings.webhooks {
        found.extend(ways.webhook(&webhook.name).err());
    }
    found.iter().map(|failure| failure.text().to_owned()).collect()
}

/// Means by which notices are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Means {
    Mail,
    Webhooks,
}

impl Means {
    fn of(notice: &NoticeRow) -> Self {
        if notice.channel == WEBHOOK { Self::Webhooks } else { Self::Mail }
    }

    /// Returns the pause before the next look for notices that are due. Otherwise each notice that
    /// waits would make a call of its own to a mail server that is away, or refuses the password.
    pub(crate) fn pause(self, has_failed: bool) -> Duration {
        match (self, has_failed) {
            (Self::Mail, true) => AWAY_PAUSE,
            _ => LOOK_PAUSE,
        }
    }
}

/// Sends the notices of these means that are due. A way that fails keeps its other notices for the
/// next round. Returns true if there was such a way.
pub(crate) async fn deliver_due(store: &Arc<Store>, means: Means) -> Result<bool, StoreError> {
    let now = sys::clock::now();
    let due = blocking(store, move |store| Ok(store.catalog.due_notices(now, DUE_MAX)?)).await?;
    // All mails go one way, and each webhook has its own.
    let mut by_way: BTreeMap<Option<String>, Vec<NoticeRow>> = BTreeMap::new();
    for notice in due.into_iter().filter(|notice| Means::of(notice) == means) {
        let webhook = (notice.channel == WEBHOOK).then(|| notice.address.clone());
        by_way.entry(webhook).or_default().push(notice);
    }
    let rounds = by_way.into_values().map(|notices| deliver(store, notices));
    let rounds = join_all(rounds).await.into_iter();
    rounds.collect::<Result<Vec<bool>, _>>().map(|failed| failed.contains(&true))
}

/// Sends the notices of one way, one after the other. Returns true if the way has failed.
async fn deliver(store: &Arc<Store>, notices: Vec<NoticeRow>) -> Result<bool, StoreError> {
    let (settings, folder) = (store.config.alerts.clone(), store.folder.clone());
    let mut ways = Ways::new(&settings, &folder);
    for notice in notices {
        let sent = ways.send(&notice).await;
        let is_way = matches!(sent, Err(Failure::Way(_)));
        let now = sys::clock::now();
        let delivery = match sent {
            Ok(()) => Delivery::Sent,
            Err(failure) => {
                let (number, channel) = (notice.number, &notice.channel);
                let error = failure.text().to_owned();
                tracing::warn!(notice = number, channel, error, "a notice was not delivered");
                let due = outbox::next_attempt(now, notice.attempts);
                Delivery::Failed { error, due }
            }
        };
        let note =
            move |store: &Store| Ok(store.catalog.note_delivery(notice.number, &delivery, now)?);
        blocking(store, note).await?;
        if is_way {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs `work` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let store = Arc::clone(store);
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.unwrap_or_else(|error| Err(StoreError::away(format!("the work was ended: {error}"))))
}

/// Sends a test to each recipient of those who run the service, or to those of one channel, and
/// returns what came of it. Nothing is kept, and nothing is tried again.
pub async fn try_channels(
    store: &Arc<Store>,
    channel: Option<&str>,
) -> Result<Vec<Attempt>, StoreError> {
    let settings = store.config.alerts.clone();
    let known = settings.clone();
    let all = blocking(store, move |store| audiences(&*store.catalog, &known)).await?;
    let staff = all.into_iter().find(|audience| audience.domain.is_none());
    let mut notices: Vec<NoticeRow> = staff.iter().flat_map(test_rows).collect();
    notices.retain(|notice| channel.is_none_or(|channel| channel == notice.channel));
    Ok(try_each(&mut Ways::new(&settings, &store.folder), notices).await)
}

/// Sends each notice once. A mail server that fails for more than one notice is not asked again: to
/// wait for its silence could take minutes for each recipient.
async fn try_each(ways: &mut Ways<'_>, notices: Vec<NoticeRow>) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    let mut mail_failure: Option<Failure> = None;
    for notice in notices {
        let known = mail_failure.clone().filter(|_| notice.channel == MAIL);
        let failure = match known {
            Some(failure) => Some(failure),
            None => ways.send(&notice).await.err(),
        };
        let error = failure.as_ref().map(|failure| failure.text().to_owned());
        if notice.channel == MAIL {
            mail_failure = failure.filter(|failure| matches!(failure, Failure::Way(_)));
        }
        attempts.push(Attempt { channel: notice.channel, address: notice.address, error });
    }
    attempts
}

fn test_rows(audience: &Audience) -> Vec<NoticeRow> {
    let host = sys::net::host_name();
    let subject = subject(&host, "a test of the notices");
    let text = "Somebody who runs this server has asked for this test. Nothing is wrong.\n";
    let document = serde_json::json!({
        "kind": "test", "server": host, "subject": subject, "text": text,
    });
    let notice = Notice { subject, text: text.to_owned(), document: document.to_string() };
    outbox::rows(&notice, &audience.addresses, sys::clock::now())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use store::folder::{MailEncryption, MailSettings, WebhookSettings};

    use super::*;

    fn settings(server: String) -> AlertSettings {
        let mail = MailSettings {
            server,
            encryption: MailEncryption::None,
            from: "holdfast@example.org".to_owned(),
            to: Vec::new(),
            user: None,
            password_file: None,
            authority: None,
        };
        AlertSettings { mail: Some(mail), ..AlertSettings::default() }
    }

    #[test]
    fn ways_that_cannot_be_used_are_found_before_they_are_needed() {
        let found = |settings: &AlertSettings| problems(settings, Path::new("/nowhere"));
        assert!(found(&AlertSettings::default()).is_empty());
        let mut settings = settings("localhost:25".to_owned());
        assert_eq!(found(&settings), ["the list 'to' in [alerts.mail] is empty"]);
        let mail = settings.mail.as_mut().expect("has mail");
        mail.to = ["Anna <anna@example.org>", "bert"].map(str::to_owned).to_vec();
        mail.from = "nobody".to_owned();
        let webhook = |name: &str, url: &str, file: Option<&str>| WebhookSettings {
            name: name.to_owned(),
            url: url.to_owned(),
            secret_file: file.map(Into::into),
            authority: None,
        };
        settings.webhooks = vec![
            webhook("good", "https://chat.example.org/hook", None),
            webhook("bare", "https:", None),
            webhook("secret", "https://chat.example.org/hook", Some("chat.secret")),
        ];
        let starts = [
            "'nobody' is not an address of mail",
            "'bert' is not an address of mail",
            "the address of the webhook bare is not a URL",
            "cannot read chat.secret",
        ];
        let found = found(&settings);
        assert_eq!(found.len(), starts.len(), "{found:?}");
        let begins = |(text, start): (&String, &str)| text.starts_with(start);
        assert!(found.iter().zip(starts).all(begins), "{found:?}");
    }

    #[tokio::test]
    async fn a_test_asks_a_mail_server_once_that_serves_nobody() {
        let broken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let settings = settings(broken.local_addr().expect("has an address").to_string());
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        std::thread::spawn(move || {
            for call in broken.incoming() {
                counter.fetch_add(1, Relaxed);
                drop(call);
            }
        });
        let addresses = ["anna", "bert"].map(|name| (MAIL, format!("{name}@example.org")));
        let audience = Audience { domain: None, addresses: addresses.to_vec() };
        let mut ways = Ways::new(&settings, Path::new("/"));
        let attempts = try_each(&mut ways, test_rows(&audience)).await;
        let errors: Vec<_> = attempts.into_iter().map(|attempt| attempt.error).collect();
        let [Some(first), second] = &errors[..] else { panic!("two attempts: {errors:?}") };
        assert!(first.contains("does not take mail"), "{first}");
        assert_eq!(second.as_ref(), Some(first));
        assert_eq!(calls.load(Relaxed), 1);
    }
}
