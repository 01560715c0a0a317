//! Asking the server for pages: one stream, many questions under way.

use bytes::Bytes;
use format::page;
use model::{DirPath, Object};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use crate::link::Link;
use crate::{ClientError, ErrorKind};

/// Questions that wait to be sent at most.
const QUESTIONS_WAITING: usize = 256;

/// The asking half. Answers come in the order of the questions.
pub(super) struct Questions {
    filespace: Bytes,
    sender: mpsc::Sender<proto::PagesRequest>,
}

/// The answering half.
pub(super) struct Answers<'a> {
    link: &'a Link,
    stream: Streaming<proto::PagesReply>,
}

/// Opens a stream of questions about `filespace`.
pub(super) fn open<'a>(
    link: &'a Link,
    filespace: &[u8],
) -> Result<(Questions, Answers<'a>), ClientError> {
    let (sender, receiver) = mpsc::channel(QUESTIONS_WAITING);
    let mut client = link.client();
    let stream = link.runtime.block_on(client.pages(ReceiverStream::new(receiver)))?.into_inner();
    let questions = Questions { filespace: Bytes::copy_from_slice(filespace), sender };
    Ok((questions, Answers { link, stream }))
}

impl Questions {
    /// Asks for a page. Blocks while too many questions wait.
    pub(super) fn ask(&self, directory: &DirPath, first: &[u8]) -> Result<(), ClientError> {
        self.send(proto::PagesRequest {
            first: Bytes::copy_from_slice(first),
            ..self.about(directory)
        })
    }

    fn about(&self, directory: &DirPath) -> proto::PagesRequest {
        proto::PagesRequest {
            filespace: self.filespace.clone(),
            directory: Bytes::copy_from_slice(directory.as_bytes()),
            ..proto::PagesRequest::default()
        }
    }

    fn send(&self, request: proto::PagesRequest) -> Result<(), ClientError> {
        let lost = |_| ClientError::new(ErrorKind::Retry, "the connection to the server was lost");
        self.sender.blocking_send(request).map_err(lost)
    }
}

impl Answers<'_> {
    /// The page asked for next.
    pub(super) fn next(&mut self) -> Result<OldPage, ClientError> {
        Ok(OldPage(self.reply()?.page))
    }

    fn reply(&mut self) -> Result<proto::PagesReply, ClientError> {
        let ended = || ClientError::new(ErrorKind::Retry, "the server ended the stream of pages");
        self.link.runtime.block_on(self.stream.message())?.ok_or_else(ended)
    }
}

/// A page as the server has it; empty where it has none.
///
/// Who needs its objects decodes it: on another thread, their memory would go back and forth.
#[derive(Default)]
pub(super) struct OldPage(Bytes);

impl OldPage {
    /// Its objects, without where contents lie: that only the server understands.
    pub(super) fn objects(&self) -> Result<Vec<Object>, ClientError> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        page::decode_without_contents(&self.0)
            .map_err(|damage| ClientError::new(ErrorKind::Damaged, damage.to_string()))
    }
}

/// The page of `directory` that holds or would hold `name`, and its first name.
pub(super) fn holding(
    link: &Link,
    filespace: &[u8],
    directory: &DirPath,
    name: &[u8],
) -> Result<(Vec<u8>, OldPage), ClientError> {
    let (questions, mut answers) = open(link, filespace)?;
    questions.send(proto::PagesRequest {
        holding: Bytes::copy_from_slice(name),
        ..questions.about(directory)
    })?;
    let reply = answers.reply()?;
    Ok((reply.first.to_vec(), OldPage(reply.page)))
}

/// What the server holds as the contents of the objects `names` of a page; `None` where it cannot
/// tell.
pub(super) fn contents(
    link: &Link,
    filespace: &[u8],
    directory: &DirPath,
    first: &[u8],
    names: &[&[u8]],
) -> Result<Vec<Option<[u8; 16]>>, ClientError> {
    let (questions, mut answers) = open(link, filespace)?;
    questions.send(proto::PagesRequest {
        first: Bytes::copy_from_slice(first),
        contents_of: names.iter().map(|name| Bytes::copy_from_slice(name)).collect(),
        ..questions.about(directory)
    })?;
    let reply = answers.reply()?;
    let (digests, _) = reply.contents.as_chunks::<16>();
    let known = |at: usize| digests.get(at).copied().filter(|digest| *digest != [0; 16]);
    Ok((0..names.len()).map(known).collect())
}
