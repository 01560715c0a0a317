//! The line to the server: it is opened again whenever it is lost.

use std::path::PathBuf;
use std::time::Duration;

use client::{AgentCall, AgentMode, AgentSettings, ClientError, ErrorKind, EventReport, Order};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// First and longest pause before the line is opened again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Time after which a line is opened again, so that the node's certificate is renewed and the lead
/// of the server's clock is measured again.
const LINE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Time that a polling agent stays connected after the last order.
const POLL_STAY: Duration = Duration::from_secs(5);
/// Pause after the server has refused the node.
const REFUSED_PAUSE: Duration = Duration::from_secs(600);

/// News from the line.
#[derive(Debug)]
pub(crate) enum News {
    /// The line is open. The server's clock leads by so many microseconds.
    Connected {
        clock_lead_micros: i64,
    },
    Order(Order),
    Lost,
}

/// A report on its way to the server.
#[derive(Debug)]
pub(crate) struct NumberedReport {
    pub(crate) number: u64,
    pub(crate) report: EventReport,
}

/// The line's end in the agent.
pub(crate) struct Line {
    pub(crate) news: mpsc::Receiver<News>,
    pub(crate) reports: mpsc::Sender<NumberedReport>,
    /// Digest of the plan that the agent has.
    pub(crate) digest: tokio::sync::watch::Sender<Vec<u8>>,
    /// Sent to make a polling agent connect now.
    pub(crate) wake: mpsc::Sender<()>,
}

/// The line's end at the network.
struct Cable {
    home: PathBuf,
    settings: AgentSettings,
    news: mpsc::Sender<News>,
    reports: mpsc::Receiver<NumberedReport>,
    digest: tokio::sync::watch::Receiver<Vec<u8>>,
    wake: mpsc::Receiver<()>,
}

/// Opens the line, and again whenever it is lost.
pub(crate) fn open(home: PathBuf, settings: AgentSettings, digest: Vec<u8>) -> Line {
    let (news_in, news) = mpsc::channel(16);
    let (reports, reports_out) = mpsc::channel(16);
    let (digest, digest_out) = tokio::sync::watch::channel(digest);
    let (wake, wake_out) = mpsc::channel(1);
    let cable = Cable {
        home,
        settings,
        news: news_in,
        reports: reports_out,
        digest: digest_out,
        wake: wake_out,
    };
    tokio::spawn(cable.run());
    Line { news, reports, digest, wake }
}

impl Cable {
    async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let began = sys::clock::monotonic();
            let ended = self.connect().await;
            if self.news.send(News::Lost).await.is_err() {
                return;
            }
            // A line that held for a while was good.
            if began.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            let wait = match ended {
                Ok(()) if self.settings.mode == AgentMode::Polling => {
                    Duration::from_secs(60) * self.settings.poll_minutes.max(1)
                }
                Ok(()) => PAUSE_MIN,
                Err(error) => {
                    tracing::warn!(error = error.message, "no line to the server; trying again");
                    match error.kind {
                        ErrorKind::Retry => pause,
                        _ => REFUSED_PAUSE.min(pause * 10),
                    }
                }
            };
            pause = (pause * 2).min(PAUSE_MAX);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                woken = self.wake.recv() => {
                    if woken.is_none() {
                        return;
                    }
                }
            }
            // Reports that nobody took are made again after the next connection.
            while self.reports.try_recv().is_ok() {}
        }
    }

    /// Opens the line, and serves it until it ends.
    async fn connect(&mut self) -> Result<(), ClientError> {
        let digest = self.digest.borrow().clone();
        let mut call = AgentCall::open(&self.home, &digest).await?;
        let clock_lead_micros = call.clock_lead_micros;
        if self.news.send(News::Connected { clock_lead_micros }).await.is_err() {
            return Ok(());
        }
        let stay = match self.settings.mode {
            AgentMode::Prompted => LINE_MAX,
            AgentMode::Polling => POLL_STAY,
        };
        let end = tokio::time::sleep(LINE_MAX);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                order = timeout(stay, call.order()) => match order {
                    Ok(order) => {
                        if self.news.send(News::Order(order?)).await.is_err() {
                            return Ok(());
                        }
                    }
                    Err(_) => return Ok(()),
                },
                report = self.reports.recv() => match report {
                    Some(NumberedReport { number, report }) => call.report(number, &report).await?,
                    None => return Ok(()),
                },
                _ = self.wake.recv() => {}
            }
        }
    }
}
