//! Pages of the server. One stream has many requests that wait for their pages.

use bytes::Bytes;
use format::page;
use model::{DirPath, NameError, Object};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use super::Link;
use super::versions::damaged;
use crate::error::{ClientError, ErrorKind};

/// Maximum number of requests that wait to be sent.
const REQUESTS_WAITING: usize = 256;

/// Sending half of the stream. Pages come in the order of the requests.
pub(crate) struct PageRequests {
    filespace: Bytes,
    sender: mpsc::Sender<proto::PagesRequest>,
}

/// Receiving half of the stream.
pub(crate) struct PageReplies<'a> {
    link: &'a Link,
    stream: Streaming<proto::PagesReply>,
}

impl Link {
    /// Opens a stream of requests for pages of `filespace`.
    pub(crate) fn pages(
        &self,
        filespace: &[u8],
    ) -> Result<(PageRequests, PageReplies<'_>), ClientError> {
        let (sender, receiver) = mpsc::channel(REQUESTS_WAITING);
        let mut client = self.client();
        let stream =
            self.runtime.block_on(client.pages(ReceiverStream::new(receiver)))?.into_inner();
        let requests = PageRequests { filespace: Bytes::copy_from_slice(filespace), sender };
        Ok((requests, PageReplies { link: self, stream }))
    }

    /// Returns the page of `directory` that holds or would hold `name`.
    pub(crate) fn page_holding(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        name: &[u8],
    ) -> Result<KeyedPage, ClientError> {
        let (requests, mut replies) = self.pages(filespace)?;
        requests.send(proto::PagesRequest {
            holding: Bytes::copy_from_slice(name),
            ..requests.about(directory)
        })?;
        let reply = replies.reply()?;
        Ok(KeyedPage { first: reply.first.to_vec(), page: OldPage(reply.page) })
    }

    /// Returns, for each of the objects `names` of a page, the digest of its content at the server;
    /// `None` if the server does not know it.
    pub(crate) fn content_digests(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        first: &[u8],
        names: &[&[u8]],
    ) -> Result<Vec<Option<[u8; 16]>>, ClientError> {
        let (requests, mut replies) = self.pages(filespace)?;
        requests.send(proto::PagesRequest {
            first: Bytes::copy_from_slice(first),
            contents_of: names.iter().map(|name| Bytes::copy_from_slice(name)).collect(),
            ..requests.about(directory)
        })?;
        Ok(decode_contents(&replies.reply()?.contents, names.len()))
    }
}

/// Parses one digest for each of `count` objects. A digest that is missing or zero counts as not
/// known.
fn decode_contents(bytes: &[u8], count: usize) -> Vec<Option<[u8; 16]>> {
    let (digests, _) = bytes.as_chunks::<16>();
    let known = |at: usize| digests.get(at).copied().filter(|digest| *digest != [0; 16]);
    (0..count).map(known).collect()
}

impl PageRequests {
    /// Requests the page of `directory` that begins with the name `first`. Blocks while too many
    /// requests wait.
    pub(crate) fn request(&self, directory: &DirPath, first: &[u8]) -> Result<(), ClientError> {
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
        self.sender.blocking_send(request).map_err(|_| ClientError::lost())
    }
}

impl PageReplies<'_> {
    /// Returns the page of the next request.
    pub(crate) fn next(&mut self) -> Result<OldPage, ClientError> {
        Ok(OldPage(self.reply()?.page))
    }

    fn reply(&mut self) -> Result<proto::PagesReply, ClientError> {
        let ended = || ClientError::new(ErrorKind::Retry, "the server ended the stream of pages");
        self.link.runtime.block_on(self.stream.message())?.ok_or_else(ended)
    }
}

/// Page as the server has it; empty if the server has no such page.
///
/// The thread that needs the objects decodes the page. If another thread decoded it, the memory
/// would move from one processor's cache to another.
#[derive(Default)]
pub(crate) struct OldPage(Bytes);

impl OldPage {
    /// Decodes the page's objects, without the places of contents, which only the server
    /// understands. The page must be a page of `directory`.
    pub(crate) fn objects(&self, directory: &DirPath) -> Result<Vec<Object>, ClientError> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let objects: Vec<Object> = page::decode_without_contents(&self.0)
            .map_err(|damage| damaged(directory.as_bytes(), &damage))?;
        if objects.iter().all(|object| directory.can_hold(&object.name)) {
            Ok(objects)
        } else {
            Err(damaged(directory.as_bytes(), &NameError::Root))
        }
    }
}

/// Page with its first name.
pub(crate) struct KeyedPage {
    /// First name of the page; empty for the first page of a directory.
    pub(crate) first: Vec<u8>,
    pub(crate) page: OldPage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_did_not_come_is_not_known() {
        let bytes = [[1; 16], [0; 16], [3; 16]].concat();
        assert_eq!(decode_contents(&bytes, 3), [Some([1; 16]), None, Some([3; 16])]);
        assert_eq!(decode_contents(&bytes[..20], 2), [Some([1; 16]), None]);
        assert_eq!(decode_contents(b"", 1), [None]);
    }

    #[test]
    fn a_damaged_page_is_refused() {
        let root = DirPath::root();
        assert_eq!(OldPage::default().objects(&root).expect("an empty page"), []);
        let error = OldPage(Bytes::from_static(b"no page")).objects(&root).expect_err("damaged");
        assert_eq!(error.kind, ErrorKind::Damaged);
    }
}
