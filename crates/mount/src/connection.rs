//! The connection to the server, which outlives restarts of the server.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, ErrorKind, RangeReader};
use sys::lock::RwLock;

/// Pause before the server is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Opens a connection.
pub type Opener = Box<dyn Fn() -> Result<Client, ClientError> + Send + Sync>;

/// A client, and the readers that use it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) client: Arc<Client>,
    /// Reader of files.
    pub(crate) reader: Arc<RangeReader>,
    /// Reader of the parts of all images. A reader for each image would take tens of megabytes each
    /// time.
    pub(crate) image_parts: Arc<RangeReader>,
}

impl Line {
    fn new(client: Client) -> Self {
        let client = Arc::new(client);
        let [reader, image_parts] = [(); 2].map(|()| Arc::new(client.range_reader()));
        Self { client, reader, image_parts }
    }
}

/// Connection that is made again when it is lost.
pub(crate) struct Connection {
    opener: Opener,
    line: RwLock<Line>,
    /// Time for which a question waits for a server that is away.
    patience: Duration,
}

impl Connection {
    pub(crate) fn open(opener: Opener, patience: Duration) -> Result<Self, ClientError> {
        let line = RwLock::new(Line::new(opener()?));
        Ok(Self { opener, line, patience })
    }

    /// Returns the present connection.
    pub(crate) fn line(&self) -> Line {
        self.line.read().clone()
    }

    /// Asks the server. While it is away, waits and asks again. A key that the node has got since
    /// this connection was made may decrypt what could not be read: that is asked for again, too.
    pub(crate) fn ask<T>(
        &self,
        question: impl Fn(&Line) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let began = sys::clock::monotonic();
        loop {
            let line = self.line();
            let answer = question(&line);
            let Err(error) = &answer else { return answer };
            let asks_again = match error.kind {
                ErrorKind::Retry if began.elapsed() < self.patience => {
                    sys::clock::sleep(PAUSE);
                    self.renew(&line);
                    true
                }
                ErrorKind::Damaged if line.client.has_new_keys() => self.renew(&line),
                _ => false,
            };
            if !asks_again {
                return answer;
            }
        }
    }

    /// Connects again, unless another thread has done that. Returns true if the connection is
    /// another one than `old`.
    fn renew(&self, old: &Line) -> bool {
        if !Arc::ptr_eq(&self.line.read().client, &old.client) {
            return true;
        }
        let Ok(client) = (self.opener)() else { return false };
        let mut line = self.line.write();
        if Arc::ptr_eq(&line.client, &old.client) {
            *line = Line::new(client);
        }
        true
    }
}
