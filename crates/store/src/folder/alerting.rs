//! Settings of alerts: the section `[alerts]` of the server's configuration.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of alerts: which states are worth one, and who gets its notice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlertSettings {
    /// Name of the time zone of the times in this section and in notices, as in `Europe/Berlin`.
    #[schemars(with = "String")]
    pub zone: Zone,
    /// Time of the digest of the day, as in `07:30`. Without this key, there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub digest_at: Option<DayTime>,
    /// Hours in which only urgent notices are sent, as in `22:00-06:00`. The others wait for their
    /// end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub quiet: Option<QuietHours>,
    /// Seconds between two looks at the state of the server.
    #[schemars(extend("x-unit" = "seconds"))]
    pub look_secs: NonZeroU32,
    /// Minutes for which a notice waits for more alerts after the first one.
    pub group_minutes: u32,
    /// Minimum number of minutes between two notices to the same people. Urgent ones wait for this
    /// time, too.
    pub pause_minutes: u32,
    /// True if the administrators of each domain get the notices about it by mail, and the owners
    /// of nodes those about their nodes.
    pub tenants: bool,
    /// True if the report of each month is sent by mail on the first day of the next.
    pub monthly_report: bool,
    /// Age of the last good backup of a node from which it is an alert. With 0, no age is.
    pub backup_hours: u32,
    /// Age of the last good backup of a filespace from which it is an alert, for nodes that have
    /// newer backups of other filespaces. With 0, no age is.
    pub filespace_days: u32,
    /// True if an event of a schedule is an alert that was missed, or that failed.
    pub events: bool,
    /// Number of objects that a backup has to find deleted for an alert. With 0, no number is.
    pub deleted_objects: u64,
    /// Number of times that it has to be more than in each of the node's last backups.
    #[schemars(extend("x-unit" = "number"))]
    pub deleted_factor: u64,
    /// Days before the end of a certificate from which it is an alert. With 0, no end is.
    pub certificate_days: u32,
    /// Fill of a pool from which it is an alert. With 0, no fill is.
    pub pool_percent: u8,
    /// Days before the day on which a pool will be full, if it grows as it did, from which it is an
    /// alert. With 0, no day is.
    pub pool_days: u32,
    /// Age of the newest copy of the catalogue from which it is an alert. With 0, no age is.
    pub copy_hours: u32,
    /// Age of the last good restore drill from which it is an alert, for nodes that have had one.
    /// With 0, no age is.
    pub drill_days: u32,
    /// Mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MailSettings")]
    pub mail: Option<MailSettings>,
    /// Addresses that get each notice by HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub webhooks: Vec<WebhookSettings>,
}

/// How mail is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MailSettings {
    /// Host and port of the mail server, as in `mail.example.org:587`.
    pub server: String,
    /// Encryption of the connection: `starttls`, `tls` from the first byte, or `none`, which only
    /// a mail server on this machine may have.
    #[serde(default)]
    #[schemars(with = "String")]
    pub encryption: MailEncryption,
    /// Address of the sender.
    pub from: String,
    /// Addresses of those who run the service.
    pub to: Vec<String>,
    /// Name with which the server signs in to the mail server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub user: Option<String>,
    /// File with the password of `user`. A relative path is in the server's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub password_file: Option<PathBuf>,
    /// File with the certificate of the authority of the mail server, in PEM. A relative path is in
    /// the server's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the authorities that this machine trusts"))]
    pub authority: Option<PathBuf>,
}

/// Encryption of the connection to a mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailEncryption {
    #[default]
    StartTls,
    Tls,
    None,
}

/// A program that gets notices by HTTP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Name of the webhook, for people.
    pub name: String,
    /// Address: `https:`, or `http:` on this machine.
    pub url: String,
    /// File with the secret by which notices are signed. A relative path is in the server's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none"))]
    pub secret_file: Option<PathBuf>,
    /// File with the certificate of the authority of the address, in PEM. A relative path is in the
    /// server's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the authorities that this machine trusts"))]
    pub authority: Option<PathBuf>,
}

/// Seconds between two looks.
const LOOK_SECS: NonZeroU32 = NonZeroU32::new(60).expect("it is not zero");

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            zone: Zone::default(),
            digest_at: None,
            quiet: None,
            look_secs: LOOK_SECS,
            group_minutes: 5,
            pause_minutes: 15,
            tenants: false,
            monthly_report: false,
            backup_hours: 26,
            filespace_days: 8,
            events: true,
            deleted_objects: 1_000,
            deleted_factor: 10,
            certificate_days: 14,
            pool_percent: 90,
            pool_days: 14,
            copy_hours: 48,
            drill_days: 35,
            mail: None,
            webhooks: Vec::new(),
        }
    }
}

/// Reason why the section is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AlertSettingsError {
    #[error("'{0}' is not a time zone; give a name such as Europe/Berlin or UTC")]
    Zone(String),
    #[error("'{0}' is not a time of the day; give one such as 07:30")]
    DayTime(String),
    #[error("'{0}' are not hours; give two times, as in 22:00-06:00")]
    QuietHours(String),
    #[error("the mail server '{0}' has no port; give HOST:PORT, as in mail.example.org:587")]
    MailPort(String),
    #[error(
        "the mail server {0} is not on this machine, so the connection must be encrypted; set \
         encryption to starttls or tls"
    )]
    PlainMail(String),
    #[error("mail needs both user and password_file, or none of them")]
    HalfPassword,
    #[error("the webhook {0} is not on this machine, so its address must begin with https:")]
    PlainWebhook(String),
    #[error("two webhooks have the name {0}")]
    TwoWebhooks(String),
}

/// A time zone, by its name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

impl Zone {
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    /// Returns the time of the day and the date in this zone.
    pub fn wall(&self, time: ServerTime) -> jiff::civil::DateTime {
        let moment = jiff::Timestamp::from_microsecond(time.0).unwrap_or(jiff::Timestamp::MAX);
        self.0.to_datetime(moment)
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl TryFrom<String> for Zone {
    type Error = AlertSettingsError;

    fn try_from(name: String) -> Result<Self, AlertSettingsError> {
        TimeZone::get(&name).map(Self).map_err(|_| AlertSettingsError::Zone(name))
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.0.iana_name().unwrap_or("UTC").to_owned()
    }
}

/// A time of the day, to the minute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DayTime(pub Time);

impl FromStr for DayTime {
    type Err = AlertSettingsError;

    fn from_str(text: &str) -> Result<Self, AlertSettingsError> {
        let parsed = Time::strptime("%H:%M", text);
        parsed.map(Self).map_err(|_| AlertSettingsError::DayTime(text.to_owned()))
    }
}

impl TryFrom<String> for DayTime {
    type Error = AlertSettingsError;

    fn try_from(text: String) -> Result<Self, AlertSettingsError> {
        text.parse()
    }
}

impl From<DayTime> for String {
    fn from(time: DayTime) -> Self {
        time.0.strftime("%H:%M").to_string()
    }
}

/// Hours of each day: from the first time to the second one, which may be of the next day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuietHours {
    from: DayTime,
    to: DayTime,
}

impl QuietHours {
    /// Returns true if `time` is within the hours.
    pub fn contain(&self, time: Time) -> bool {
        let (from, to) = (self.from.0, self.to.0);
        if from <= to { from <= time && time < to } else { from <= time || time < to }
    }
}

impl TryFrom<String> for QuietHours {
    type Error = AlertSettingsError;

    fn try_from(text: String) -> Result<Self, AlertSettingsError> {
        let parts = text.split_once('-').and_then(|(from, to)| {
            let [from, to] = [from, to].map(|time| time.trim().parse().ok());
            Some(Self { from: from?, to: to? })
        });
        parts.ok_or(AlertSettingsError::QuietHours(text))
    }
}

impl From<QuietHours> for String {
    fn from(hours: QuietHours) -> Self {
        let [from, to] = [hours.from, hours.to].map(Self::from);
        format!("{from}-{to}")
    }
}

impl AlertSettings {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Fails if the keys do not go together.
    pub(crate) fn check(&self) -> Result<(), AlertSettingsError> {
        if let Some(mail) = &self.mail {
            mail.check()?;
        }
        for (number, webhook) in self.webhooks.iter().enumerate() {
            if !webhook.url.starts_with("https:") && !is_local_url(&webhook.url) {
                return Err(AlertSettingsError::PlainWebhook(webhook.name.clone()));
            }
            if self.webhooks[..number].iter().any(|other| other.name == webhook.name) {
                return Err(AlertSettingsError::TwoWebhooks(webhook.name.clone()));
            }
        }
        Ok(())
    }
}

impl MailSettings {
    /// Returns the host and the port of the mail server.
    pub fn host_and_port(&self) -> Result<(&str, u16), AlertSettingsError> {
        let parts = self.server.rsplit_once(':');
        let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) =
            parts.ok_or_else(|| AlertSettingsError::MailPort(self.server.clone()))?;
        Ok((host.trim_matches(['[', ']']), port))
    }

    fn check(&self) -> Result<(), AlertSettingsError> {
        let (host, _) = self.host_and_port()?;
        if self.encryption == MailEncryption::None && !is_local(host) {
            return Err(AlertSettingsError::PlainMail(host.to_owned()));
        }
        if self.user.is_some() != self.password_file.is_some() {
            return Err(AlertSettingsError::HalfPassword);
        }
        Ok(())
    }
}

/// Returns true if the name is that of this machine, so that nothing is sent over a network.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

fn is_local_url(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    is_local(host.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let parsed = toml::from_str::<AlertSettings>(text);
        match parsed {
            Ok(settings) => settings.check().map_or_else(|error| error.to_string(), drop_ok),
            Err(error) => error.message().to_owned(),
        }
    }

    fn drop_ok(_: ()) -> String {
        "accepted".to_owned()
    }

    #[test]
    fn the_section_is_written_as_it_was_read() {
        let text = "zone = \"Europe/Berlin\"\ndigest_at = \"07:30\"\nquiet = \"22:00-06:00\"\n";
        let settings: AlertSettings = toml::from_str(text).expect("is read");
        let written = toml::to_string(&settings).expect("is written");
        assert!(text.lines().all(|line| written.contains(line)), "{written}");
        assert_eq!(toml::from_str::<AlertSettings>(&written).expect("is read"), settings);
    }

    #[test]
    fn quiet_hours_may_go_over_midnight() {
        let contain = |hours: &str, times: [&str; 4]| {
            let hours = QuietHours::try_from(hours.to_owned()).expect("hours");
            times.map(|time| hours.contain(time.parse::<DayTime>().expect("a time").0))
        };
        let times = ["05:59", "06:00", "21:59", "22:00"];
        assert_eq!(contain("22:00-06:00", times), [true, false, false, true]);
        assert_eq!(contain("06:00-22:00", times), [false, true, true, false]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let mail = |rest: &str| format!("[mail]\nfrom = \"a@b\"\nto = []\n{rest}");
        assert_eq!(refusal(&mail("server = \"mail.example.org:587\"")), "accepted");
        let plain = refusal(&mail("server = \"mail.example.org:25\"\nencryption = \"none\""));
        assert!(plain.contains("must be encrypted"), "{plain}");
        for server in ["localhost:25", "127.0.0.1:25", "[::1]:25"] {
            let text = mail(&format!("server = \"{server}\"\nencryption = \"none\""));
            assert_eq!(refusal(&text), "accepted");
        }
        assert!(refusal(&mail("server = \"mail\"")).contains("has no port"));
        let half = refusal(&mail("server = \"m:25\"\nuser = \"a\""));
        assert!(half.contains("both user and password_file"), "{half}");
        let webhook = |url: &str| format!("[[webhooks]]\nname = \"w\"\nurl = \"{url}\"\n");
        assert_eq!(refusal(&webhook("https://example.org/x")), "accepted");
        assert_eq!(refusal(&webhook("http://127.0.0.1:99/x")), "accepted");
        assert!(refusal(&webhook("http://example.org/x")).contains("begin with https:"));
        assert!(refusal(&webhook("http://localhost.example.org/")).contains("https:"));
        let two = format!("{0}{0}", webhook("https://example.org"));
        assert!(refusal(&two).contains("two webhooks"));
        assert!(refusal("zone = \"Mars\"").contains("is not a time zone"));
        assert!(refusal("digest_at = \"25:00\"").contains("is not a time of the day"));
        assert!(refusal("quiet = \"22:00\"").contains("two times"));
    }
}
