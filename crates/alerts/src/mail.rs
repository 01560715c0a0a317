//! Notices by mail.

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use catalog::NoticeRow;
use data_encoding::HEXLOWER;
use lettre::address::AddressError;
use lettre::message::header::{self, Header, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, Message, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use store::folder::{AlertSettingsError, MailEncryption, MailSettings};

use crate::audience::REPORT;
use crate::failure::{Failure, read_secret};
use crate::monthly::letter::Letter;

/// Time that the mail server has to take a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// Time that the mail server has to take a mail, from the connection to its last answer. The
/// transport itself waits for answers without a limit.
const PATIENCE: Duration = Duration::from_secs(120);
/// Length of the identifier of a mail, in bytes before they are text.
const IDENTIFIER_BYTES: usize = 16;

/// Reason why no mail can be sent.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error(transparent)]
    Settings(#[from] AlertSettingsError),
    #[error("'{address}' is not an address of mail")]
    Address { address: String, source: AddressError },
    #[error("cannot read {path}")]
    File { path: String, source: std::io::Error },
    #[error("cannot use the authority of the mail server")]
    Tls(#[source] lettre::transport::smtp::Error),
    #[error("the mail cannot be put together")]
    Message(#[from] lettre::error::Error),
    #[error("the report of the notice cannot be read")]
    Report(#[from] serde_json::Error),
    /// The mail server cannot be reached, or does not answer as it should.
    #[error("the mail server {server} does not take mail")]
    Server { server: String, source: lettre::transport::smtp::Error },
    /// The mail server does not take this mail.
    #[error("the mail server {server} has refused the mail")]
    Refused { server: String, source: lettre::transport::smtp::Error },
    #[error("the mail server {server} has not taken the mail within {} s", .patience.as_secs())]
    Silent { server: String, patience: Duration },
}

/// A way to a mail server.
pub(crate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    server: String,
    /// Maximum time for one mail.
    patience: Duration,
}

/// Says that no person has written the mail, so that nobody's absence is told to it.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl Mailer {
    /// Makes the way. Relative paths in the settings are in `folder`. Does not connect.
    pub(crate) fn new(settings: &MailSettings, folder: &Path) -> Result<Self, MailError> {
        let (host, port) = settings.host_and_port()?;
        let tls = match settings.encryption {
            MailEncryption::None => Tls::None,
            MailEncryption::StartTls => Tls::Required(tls(settings, host, folder)?),
            MailEncryption::Tls => Tls::Wrapper(tls(settings, host, folder)?),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .port(port)
            .tls(tls)
            .timeout(Some(CONNECT_PATIENCE));
        if let (Some(user), Some(file)) = (&settings.user, &settings.password_file) {
            let password = read_secret(folder, file).map_err(|source| file_error(file, source))?;
            builder = builder.credentials(Credentials::new(user.clone(), password));
        }
        let from = mailbox(&settings.from)?;
        let (transport, server) = (builder.build(), settings.server.clone());
        Ok(Self { transport, from, server, patience: PATIENCE })
    }

    /// Sends a notice.
    pub(crate) async fn send(&self, notice: &NoticeRow) -> Result<(), Failure> {
        let message = self.message(notice).map_err(|error| Failure::notice(&error))?;
        let (server, patience) = (self.server.clone(), self.patience);
        let sending = tokio::time::timeout(patience, self.transport.send(message));
        let Ok(sent) = sending.await else {
            return Err(Failure::way(&MailError::Silent { server, patience }));
        };
        match sent {
            Ok(_) => Ok(()),
            Err(source) if source.status().is_some_and(|code| !is_of_all(code.into())) => {
                Err(Failure::notice(&MailError::Refused { server, source }))
            }
            Err(source) => Err(Failure::way(&MailError::Server { server, source })),
        }
    }

    /// Puts a mail together. Its identifier is that of the notice, so that a mail that is sent
    /// again can be recognised.
    fn message(&self, notice: &NoticeRow) -> Result<Message, MailError> {
        let id = format!("<notice-{}@{}>", identifier(notice), self.from.email.domain());
        let message = Message::builder()
            .from(self.from.clone())
            .to(mailbox(&notice.address)?)
            .subject(&notice.subject)
            .message_id(Some(id))
            .date_now()
            .header(AutoSubmitted);
        if notice.channel == REPORT {
            return Ok(message.multipart(with_report(&notice.body)?)?);
        }
        Ok(message.header(header::ContentType::TEXT_PLAIN).body(notice.body.clone())?)
    }
}

/// Returns true if a mail server that answers with `code` takes no mail at all: it ends its work,
/// or refuses the user and the password. 454 is not among these codes: some servers refuse a single
/// recipient with it.
fn is_of_all(code: u16) -> bool {
    matches!(code, 421 | 530 | 534 | 535 | 538)
}

/// Returns a text that is the same whenever the notice is sent, and hardly ever that of another
/// notice. It does not come from the notice's number, which would tell the administrator of a
/// domain how many notices the others get.
fn identifier(notice: &NoticeRow) -> String {
    let mut context = Context::new(&SHA256);
    let NoticeRow { channel, address, subject, body, made, .. } = notice;
    for part in [channel, address, subject, body] {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part.as_bytes());
    }
    context.update(&made.0.to_le_bytes());
    let digest = context.finish();
    let bytes: &[u8] = digest.as_ref();
    HEXLOWER.encode(&bytes[..IDENTIFIER_BYTES])
}

/// Returns the parts of a mail with the report of a month.
fn with_report(body: &str) -> Result<MultiPart, MailError> {
    let Letter { text, name, html, csv } = serde_json::from_str(body)?;
    let csv_type = header::ContentType::parse("text/csv; charset=utf-8");
    let csv_type = csv_type.expect("it is a type of content");
    Ok(MultiPart::mixed()
        .singlepart(SinglePart::plain(text))
        .singlepart(
            Attachment::new(format!("{name}.html")).body(html, header::ContentType::TEXT_HTML),
        )
        .singlepart(Attachment::new(format!("{name}.csv")).body(csv, csv_type)))
}

/// Fails for a text that is no recipient of a mail. `Anna <anna@example.org>` is one.
pub(crate) fn check_recipient(address: &str) -> Result<(), MailError> {
    mailbox(address).map(drop)
}

/// Returns true for the bare address of a mailbox, as in anna@example.org.
pub fn is_address(text: &str) -> bool {
    text.parse::<Address>().is_ok()
}

fn mailbox(address: &str) -> Result<Mailbox, MailError> {
    let parsed = address.parse();
    parsed.map_err(|source| MailError::Address { address: address.to_owned(), source })
}

fn file_error(path: &Path, source: std::io::Error) -> MailError {
    MailError::File { path: path.display().to_string(), source }
}

fn tls(settings: &MailSettings, host: &str, folder: &Path) -> Result<TlsParameters, MailError> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(file) = &settings.authority {
        let pem = std::fs::read(folder.join(file)).map_err(|source| file_error(file, source))?;
        let certificate = Certificate::from_pem(&pem).map_err(MailError::Tls)?;
        builder = builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    builder.build().map_err(MailError::Tls)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use model::ServerTime;

    use super::*;

    const ADDRESS: &str = "anna@example.org";

    fn settings() -> MailSettings {
        MailSettings {
            server: "localhost:25".to_owned(),
            encryption: MailEncryption::None,
            from: "Holdfast <holdfast@example.org>".to_owned(),
            to: Vec::new(),
            user: None,
            password_file: None,
            authority: None,
        }
    }

    fn notice(address: &str) -> NoticeRow {
        NoticeRow {
            number: 7,
            channel: "mail".to_owned(),
            address: address.to_owned(),
            subject: "1 node has no backup".to_owned(),
            body: "text of the h\u{f6}chst\n".to_owned(),
            made: ServerTime(5),
            due: ServerTime(5),
            attempts: 0,
            error: String::new(),
            sent: None,
        }
    }

    #[test]
    fn a_mail_has_the_identifier_of_its_notice() {
        let mailer = Mailer::new(&settings(), Path::new("/")).expect("a way");
        let mail = mailer.message(&notice(ADDRESS)).expect("a mail").formatted();
        let text = String::from_utf8(mail).expect("is text");
        for line in [
            "From: Holdfast <holdfast@example.org>\r\n",
            "To: anna@example.org\r\n",
            "Subject: 1 node has no backup\r\n",
            &format!("Message-ID: <notice-{}@example.org>\r\n", identifier(&notice(ADDRESS))),
            "Auto-Submitted: auto-generated\r\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn an_identifier_tells_notices_apart_and_not_how_many_there_are() {
        let first = identifier(&notice(ADDRESS));
        assert_eq!(first.len(), 2 * IDENTIFIER_BYTES);
        let counted = NoticeRow { number: 8, attempts: 3, ..notice(ADDRESS) };
        assert_eq!(identifier(&counted), first);
        let others = [
            notice("bert@example.org"),
            NoticeRow { subject: "2 nodes have no backup".to_owned(), ..notice(ADDRESS) },
            NoticeRow { body: String::new(), ..notice(ADDRESS) },
            NoticeRow { made: ServerTime(6), ..notice(ADDRESS) },
        ];
        assert!(others.iter().all(|other| identifier(other) != first));
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        let mailer = Mailer::new(&settings(), Path::new("/")).expect("a way");
        for bad in ["", "anna", "anna@example.org\r\nBcc: bert@example.org"] {
            assert!(matches!(mailer.message(&notice(bad)), Err(MailError::Address { .. })));
        }
    }

    /// Regression: a mail server that took the connection and said nothing held up every notice.
    #[tokio::test]
    async fn a_mail_server_that_says_nothing_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = silent.local_addr().expect("has an address").to_string();
        let with = MailSettings { server: server.clone(), ..settings() };
        let mailer = Mailer::new(&with, Path::new("/")).expect("a way");
        let mailer = Mailer { patience: Duration::from_millis(50), ..mailer };
        let failure = mailer.send(&notice(ADDRESS)).await.expect_err("nobody answers");
        let text = format!("the mail server {server} has not taken the mail within 0 s");
        assert_eq!(failure, Failure::Way(text));
    }

    /// A mail server that answers the next caller with `answers`, one for each line.
    fn server_with(answers: &'static [&'static str]) -> String {
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("has an address").to_string();
        std::thread::spawn(move || {
            let (mut caller, _) = server.accept().expect("a caller");
            let mut lines = BufReader::new(caller.try_clone().expect("a second handle")).lines();
            for answer in answers {
                caller.write_all(answer.as_bytes()).expect("is sent");
                lines.next();
            }
        });
        address
    }

    #[tokio::test]
    async fn a_refused_user_is_a_failure_of_the_way_and_a_refused_recipient_is_not() {
        const READY: &str = "220 ready\r\n";
        const HELLO: &str = "250-here\r\n250 AUTH PLAIN LOGIN\r\n";
        const YES: &str = "250 yes\r\n";
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("password"), "wrong").expect("is written");
        let cases: [(&'static [&'static str], bool); 3] = [
            (&[READY, HELLO, "535 wrong password\r\n"], true),
            (&[READY, HELLO, "235 yes\r\n", YES, "550 nobody\r\n"], false),
            (&[READY, HELLO, "235 yes\r\n", YES, "454 4.7.1 Relay access denied\r\n"], false),
        ];
        for (answers, is_way) in cases {
            let with = MailSettings {
                server: server_with(answers),
                user: Some("holdfast".to_owned()),
                password_file: Some("password".into()),
                ..settings()
            };
            let mailer = Mailer::new(&with, folder.path()).expect("a way");
            let failure = mailer.send(&notice(ADDRESS)).await.expect_err("is refused");
            assert_eq!(matches!(failure, Failure::Way(_)), is_way, "{failure:?}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let with = MailSettings {
            encryption: MailEncryption::Tls,
            authority: Some("mail-ca.pem".into()),
            ..settings()
        };
        let error = Mailer::new(&with, Path::new("/nowhere")).err().expect("is refused");
        assert_eq!(error.to_string(), "cannot read mail-ca.pem");
    }
}
