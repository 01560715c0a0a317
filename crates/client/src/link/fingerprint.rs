//! Fingerprint of the server's pages of a filespace.

use model::DirPath;
use wire::proto;

use super::Link;
use crate::error::{ClientError, ErrorKind};

/// State of the pages of a filespace at the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PagesState {
    /// Two equal fingerprints mean equal digests of all pages.
    pub(crate) fingerprint: [u8; 16],
    /// Directories with a page without a digest, except the directory above the root; `None` if
    /// there are too many, or if they were not asked for.
    pub(crate) undigested: Option<Vec<DirPath>>,
}

impl Link {
    /// Returns the state of the pages of `filespace`; `None` if the server does not know the call.
    pub(crate) fn pages_state(
        &self,
        filespace: &[u8],
        lists_undigested: bool,
    ) -> Result<Option<PagesState>, ClientError> {
        let filespace = filespace.to_vec().into();
        let request = proto::FingerprintRequest { filespace, lists_undigested };
        let mut client = self.client();
        match self.runtime.block_on(client.fingerprint(request)) {
            Ok(reply) => parse(reply.into_inner(), lists_undigested).map(Some),
            Err(status) if status.code() == tonic::Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }
}

fn parse(reply: proto::FingerprintReply, lists: bool) -> Result<PagesState, ClientError> {
    let proto::FingerprintReply { fingerprint, undigested, has_more } = reply;
    // A filespace that the server does not have has no fingerprint.
    let fingerprint = match &fingerprint[..] {
        [] => [0; 16],
        bytes => bytes.try_into().map_err(|_| bug("a fingerprint has another length"))?,
    };
    let path = |path: &bytes::Bytes| {
        DirPath::within_limits(path).map_err(|_| bug("a directory without a digest has no path"))
    };
    let directories = undigested.iter().map(path).collect::<Result<Vec<_>, _>>()?;
    let undigested = (lists && !has_more).then_some(directories);
    Ok(PagesState { fingerprint, undigested })
}

fn bug(text: &str) -> ClientError {
    ClientError::new(ErrorKind::Bug, format!("the server sent nonsense: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_parsed_or_refused() {
        let reply = proto::FingerprintReply {
            fingerprint: vec![7; 16].into(),
            undigested: vec![b"/a/".to_vec().into()],
            has_more: false,
        };
        let directory = DirPath::new(b"/a/").expect("a directory");
        let state = parse(reply.clone(), true).expect("parsed");
        assert_eq!((state.fingerprint, state.undigested), ([7; 16], Some(vec![directory])));
        let more = proto::FingerprintReply { has_more: true, ..reply.clone() };
        assert_eq!(parse(more, true).expect("parsed").undigested, None);
        assert_eq!(parse(reply.clone(), false).expect("parsed").undigested, None);
        let unknown = parse(proto::FingerprintReply::default(), true).expect("parsed");
        assert_eq!((unknown.fingerprint, unknown.undigested), ([0; 16], Some(Vec::new())));
        let short = proto::FingerprintReply { fingerprint: vec![7; 15].into(), ..reply.clone() };
        assert_eq!(parse(short, true).expect_err("short").kind, ErrorKind::Bug);
        let odd = proto::FingerprintReply { undigested: vec![b"a".to_vec().into()], ..reply };
        assert_eq!(parse(odd, true).expect_err("no path").kind, ErrorKind::Bug);
    }
}
