//! Streams of server-sent events about an object, from its present state to its end.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use crate::desk::Desk;
use crate::download::Download;

/// Media type of the streams.
pub(super) const MEDIA: &str = "text/event-stream";
/// Maximum time of a stream; a browser then begins another one by itself.
const WATCH_MAX: Duration = Duration::from_secs(600);
/// Pause between two looks at the object, and the number of looks without news after which a stream
/// says that it lives.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
const LOOKS_PER_SIGN: u32 = 15;

/// State of an object, as a look finds it.
pub(super) struct LiveState<D> {
    pub(super) document: D,
    pub(super) is_over: bool,
}

/// Returns the stream of an object, which tells each change of its document. It ends with the
/// object, and when `look` returns `None`: then the caller may no longer see the object.
pub(super) fn follow<D>(
    desk: Arc<Desk>,
    mut look: impl FnMut() -> io::Result<Option<LiveState<D>>> + Send + 'static,
) -> Download
where
    D: Serialize + PartialEq + Send + 'static,
{
    let began = sys::clock::monotonic();
    let source = move |sink: &mut dyn Write| {
        let (mut told, mut looks) = (None, 0_u32);
        while let Some(LiveState { document, is_over }) = look()? {
            if told.as_ref() != Some(&document) {
                let json = String::from_utf8(crate::routes::document(&document))
                    .map_err(io::Error::other)?;
                write!(sink, "event: state\ndata: {json}\n\n")?;
                told = Some(document);
            } else if looks.is_multiple_of(LOOKS_PER_SIGN) {
                sink.write_all(b": alive\n\n")?;
            }
            sink.flush()?;
            let is_stopping = desk.store().stopping.load(Ordering::Relaxed);
            if is_over || is_stopping || began.elapsed() > WATCH_MAX {
                break;
            }
            sys::clock::sleep(LOOK_PAUSE);
            looks += 1;
        }
        Ok(())
    };
    Download { media: MEDIA, bytes: None, name: None, node: None, source: Box::new(source) }
}
