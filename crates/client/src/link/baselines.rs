//! Baselines that the server keeps of this node.

use model::ServerTime;
use tonic::{Code, Status};
use wire::{BASELINE_BYTES_MAX, BASELINE_DOCUMENT_BYTES_MAX, proto};

use super::Link;
use super::bounds::{Room, Size};
use super::portions::{self, Section};
use crate::error::{ClientError, ErrorKind};

/// Baseline that the server keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptBaseline {
    /// Time when the server took it, by the server's clock.
    pub made: ServerTime,
    /// The document; as the server has it, if it cannot be decoded.
    pub document: Vec<u8>,
}

impl KeptBaseline {
    /// Takes the memory of the document from `room`.
    fn parse(baseline: proto::Baseline, room: &mut Room) -> Result<Self, ClientError> {
        let proto::Baseline { made, document: encoded, .. } = baseline;
        // A damaged document costs only itself: its reader reports it.
        let document = wire::decode_baseline(&encoded)
            .map_or_else(|| encoded.to_vec(), std::borrow::Cow::into_owned);
        room.take(Size::of_document(&document))?;
        Ok(Self { made: ServerTime(made), document })
    }
}

impl Link {
    pub(crate) fn keep_baseline(&self, document: &[u8]) -> Result<(), ClientError> {
        let encoded = wire::encode_baseline(document).ok_or_else(|| too_long(document.len()))?;
        let request = proto::KeepBaselineRequest { document: encoded.into() };
        let kept = self.runtime.block_on(self.client().keep_baseline(request));
        kept.map(drop).map_err(|status| self.about_baselines(status))
    }

    /// Returns the baselines that the server keeps of this node, oldest first.
    pub(crate) fn baselines(&self) -> Result<Vec<KeptBaseline>, ClientError> {
        let baselines = portions::all(|portion| {
            let request = proto::BaselinesRequest { portion: Some(portion) };
            let reply = self.runtime.block_on(self.client().baselines(request));
            let reply = reply.map_err(|status| self.about_baselines(status))?.into_inner();
            Ok(Section { items: reply.baselines, next: reply.next })
        })?;
        let mut room = Room::of_all_baselines();
        let parsed = baselines.into_iter().map(|one| KeptBaseline::parse(one, &mut room));
        parsed.collect()
    }

    fn about_baselines(&self, status: Status) -> ClientError {
        match status.code() {
            Code::Unimplemented => {
                let server = &self.hello.server_version;
                let message =
                    format!("server {server} is too old to keep baselines; upgrade the server");
                ClientError::new(ErrorKind::Usage, message)
            }
            _ => status.into(),
        }
    }
}

fn too_long(bytes: usize) -> ClientError {
    let message = format!(
        "the server cannot keep a baseline of {bytes} bytes: it takes from 1 to \
         {BASELINE_DOCUMENT_BYTES_MAX} bytes, and at most {BASELINE_BYTES_MAX} after compression; \
         measure fewer paths at once"
    );
    ClientError::new(ErrorKind::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(document: Vec<u8>) -> proto::Baseline {
        proto::Baseline { number: 1, made: 7, document: document.into() }
    }

    #[test]
    fn a_damaged_document_costs_only_itself() {
        let mut room = Room::of_all_baselines();
        let mut parse = |bytes: &[u8]| {
            let parsed = KeptBaseline::parse(baseline(bytes.to_vec()), &mut room);
            parsed.expect("there is room").document
        };
        let encoded = wire::encode_baseline(b"{}").expect("is short");
        assert_eq!(parse(&encoded), b"{}");
        let cut = &encoded[..encoded.len() - 1];
        assert_eq!(parse(cut), cut);
        assert_eq!(parse(b""), b"");
    }

    #[test]
    fn baselines_that_expand_without_end_are_refused() {
        let encoded = wire::encode_baseline(&vec![b'x'; BASELINE_DOCUMENT_BYTES_MAX]);
        let bomb = baseline(encoded.expect("it compresses well"));
        let mut room = Room::of_all_baselines();
        let taken = (0..1000).take_while(|_| KeptBaseline::parse(bomb.clone(), &mut room).is_ok());
        let count = taken.count();
        assert!((100..200).contains(&count), "{count}");
    }

    #[test]
    fn a_document_that_is_too_long_is_not_sent() {
        let link = crate::link::tests::unanswered(crate::rules::tests::hello());
        for bytes in [0, BASELINE_DOCUMENT_BYTES_MAX + 1] {
            let error = link.keep_baseline(&vec![b'x'; bytes]).expect_err("no server takes it");
            assert_eq!(error.kind, ErrorKind::Usage);
        }
        let error = link.keep_baseline(b"{}").expect_err("nobody listens");
        assert_eq!(error.kind, ErrorKind::Retry);
    }

    #[test]
    fn a_server_that_does_not_know_the_calls_is_named() {
        let link = crate::link::tests::unanswered(crate::rules::tests::hello());
        let error = link.about_baselines(Status::unimplemented(""));
        assert!(error.message.contains("too old to keep baselines"), "{error}");
        assert_eq!(link.about_baselines(Status::aborted("x")).kind, ErrorKind::Busy);
    }
}
