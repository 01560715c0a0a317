//! The line to the server: it is opened again whenever it is lost.

use std::path::PathBuf;
use std::time::Duration;

use client::{
    AgentCall, AgentIdentity, AgentMessages, AgentMode, AgentOrders, AgentSettings, AttendError,
    ClientError, ErrorKind, EventName, EventProgress, EventReport, Order,
};
use model::ServerTime;
use tokio::sync::{mpsc, watch};
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
/// Pause after the server has refused this agent because another one lives.
const RIVAL_PAUSE: Duration = Duration::from_secs(30);

/// Maximum number of messages that wait for the line.
const MESSAGES_MAX: usize = 64;

/// News from the line.
#[derive(Debug)]
pub(crate) enum News {
    /// The line is open. This is the time by the server's clock.
    Connected {
        server_time: ServerTime,
    },
    Order(Order),
    Lost,
    /// The server refuses this agent while another agent of the node lives.
    Rival {
        reason: String,
    },
}

/// A message on its way to the server.
#[derive(Debug)]
pub(crate) enum Message {
    /// A report, which the server confirms by its number.
    Report {
        number: u64,
        report: EventReport,
    },
    Progress(EventProgress),
    /// An obstacle that keeps the node from beginning an event.
    Obstacle {
        event: EventName,
        reason: String,
    },
    /// Answer to a probe.
    Alive,
}

/// The line's end in the agent.
pub(crate) struct Line {
    pub(crate) news: mpsc::UnboundedReceiver<News>,
    pub(crate) messages: mpsc::Sender<Message>,
    /// Digest of the plan that the agent has.
    pub(crate) digest: watch::Sender<Vec<u8>>,
    /// Settings of the agent.
    pub(crate) settings: watch::Sender<AgentSettings>,
    /// Sent to make a polling agent connect now.
    pub(crate) wake: mpsc::Sender<()>,
}

/// The line's end at the network.
struct Cable {
    home: PathBuf,
    identity: AgentIdentity,
    settings: watch::Receiver<AgentSettings>,
    news: mpsc::UnboundedSender<News>,
    messages: mpsc::Receiver<Message>,
    digest: watch::Receiver<Vec<u8>>,
    wake: mpsc::Receiver<()>,
    /// Minutes between two calls, as the server has been told; 0 for a line that stays open.
    told_minutes: u32,
}

/// Opens the line, and again whenever it is lost.
pub(crate) fn open(
    home: PathBuf,
    identity: AgentIdentity,
    settings: AgentSettings,
    digest: Vec<u8>,
) -> Line {
    // Neither end waits for the other: the agent may be about to send when there is news.
    let (news_in, news) = mpsc::unbounded_channel();
    let (messages, messages_out) = mpsc::channel(MESSAGES_MAX);
    let (digest, digest_out) = watch::channel(digest);
    let (settings, settings_out) = watch::channel(settings);
    let (wake, wake_out) = mpsc::channel(1);
    let cable = Cable {
        home,
        identity,
        settings: settings_out,
        news: news_in,
        messages: messages_out,
        digest: digest_out,
        wake: wake_out,
        told_minutes: 0,
    };
    tokio::spawn(cable.run());
    Line { news, messages, digest, settings, wake }
}

impl Cable {
    async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let began = sys::clock::monotonic();
            let ended = self.connect().await;
            if self.news.send(News::Lost).is_err() {
                return;
            }
            // A line that held for a while was good.
            if began.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            let wait = match ended {
                Ok(()) => self.pause_after_call(),
                Err(AttendError::Rival(reason)) => {
                    if self.news.send(News::Rival { reason }).is_err() {
                        return;
                    }
                    RIVAL_PAUSE
                }
                Err(AttendError::Line(error)) => {
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
            while self.messages.try_recv().is_ok() {}
        }
    }

    /// Returns the time until the next call after one that has ended well.
    fn pause_after_call(&self) -> Duration {
        match poll_minutes(&self.settings.borrow()) {
            0 => PAUSE_MIN,
            // To the server, an agent that does not come back in the time that it has told is away.
            minutes if minutes != self.told_minutes => PAUSE_MIN,
            minutes => Duration::from_secs(60) * minutes,
        }
    }

    /// Opens the line, and serves it until it ends.
    async fn connect(&mut self) -> Result<(), AttendError> {
        let digest = self.digest.borrow().clone();
        let minutes = poll_minutes(&self.settings.borrow());
        let call = AgentCall::open(&self.home, &digest, self.identity, minutes).await?;
        self.told_minutes = minutes;
        if self.news.send(News::Connected { server_time: call.server_time }).is_err() {
            return Ok(());
        }
        let Self { settings, news, messages, wake, .. } = self;
        // Messages that wait for the network must not hold up orders.
        tokio::select! {
            ended = listen(call.orders, settings, news) => ended?,
            ended = speak(call.messages, messages, wake) => ended?,
            () = tokio::time::sleep(LINE_MAX) => {}
        }
        Ok(())
    }
}

/// Returns the minutes between two calls of an agent that polls; 0 for one that stays connected.
fn poll_minutes(settings: &AgentSettings) -> u32 {
    match settings.mode {
        AgentMode::Prompted => 0,
        AgentMode::Polling => settings.poll_minutes.max(1),
    }
}

/// Passes the orders of the server on, until nobody takes them or a polling agent has heard enough.
async fn listen(
    mut orders: AgentOrders,
    settings: &mut watch::Receiver<AgentSettings>,
    news: &mpsc::UnboundedSender<News>,
) -> Result<(), ClientError> {
    loop {
        // The settings may change while the line is open.
        let stay = match settings.borrow_and_update().mode {
            AgentMode::Prompted => LINE_MAX,
            AgentMode::Polling => POLL_STAY,
        };
        tokio::select! {
            changed = settings.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
            order = timeout(stay, orders.next()) => match order {
                Ok(order) => {
                    if news.send(News::Order(order?)).is_err() {
                        return Ok(());
                    }
                }
                Err(_) => return Ok(()),
            },
        }
    }
}

/// Sends what the agent has to say, until it has ended.
async fn speak(
    to: AgentMessages,
    messages: &mut mpsc::Receiver<Message>,
    wake: &mut mpsc::Receiver<()>,
) -> Result<(), ClientError> {
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(Message::Report { number, report }) => to.report(number, &report).await?,
                Some(Message::Progress(progress)) => to.progress(progress).await?,
                Some(Message::Obstacle { event, reason }) => to.obstacle(event, reason).await?,
                Some(Message::Alive) => to.alive().await?,
                None => return Ok(()),
            },
            _ = wake.recv() => {}
        }
    }
}
