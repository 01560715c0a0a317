//! Requests that make something, sent again: a caller that names its request by an
//! `Idempotency-Key` gets the first answer again, and nothing is made twice.

use axum::http::{HeaderMap, StatusCode};
use catalog::AnswerRow;
use model::ServerTime;

use crate::call::Reply;
use crate::desk::Desk;
use crate::problem::{Kind, Problem};

pub(crate) const HEADER: &str = "idempotency-key";
/// Maximum length of a key in bytes.
const KEY_BYTES_MAX: usize = 255;
/// Time for which an answer is kept, in microseconds: a day.
const KEPT_MICROS: i64 = 86_400_000_000;

/// Returns the key in the headers of a request.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let is_visible = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || text.len() > KEY_BYTES_MAX {
        let text = format!("an Idempotency-Key has 1 to {KEY_BYTES_MAX} visible characters");
        return Err(Problem::invalid(text));
    }
    Ok(Some(text.to_owned()))
}

/// A request with a key.
pub(crate) struct KeyedRequest<'a> {
    pub(crate) caller: &'a str,
    pub(crate) key: String,
    /// Operation, path and body.
    pub(crate) content: [&'a [u8]; 3],
}

impl KeyedRequest<'_> {
    fn row(&self, key: &[u8; 32]) -> AnswerRow {
        let mut hasher = blake3::Hasher::new_keyed(key);
        for part in self.content {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        AnswerRow {
            caller: self.caller.to_owned(),
            key: self.key.clone(),
            request: hasher.finalize().into(),
            made: sys::clock::now(),
            status: 0,
            body: Vec::new(),
        }
    }

    fn context(&self) -> Vec<u8> {
        [self.caller.as_bytes(), b"\n", self.key.as_bytes()].concat()
    }

    /// Returns the answer of the first request with this key. Without one, carries out the request
    /// and keeps its answer. A request that fails is not kept, so that it can be sent again.
    pub(crate) fn answer(
        &self,
        desk: &Desk,
        work: impl FnOnce() -> Result<Reply, Problem>,
    ) -> Result<Reply, Problem> {
        let catalog = &desk.store().catalog;
        let row = self.row(&desk.answers_key);
        catalog.forget_answers(ServerTime(row.made.0.saturating_sub(KEPT_MICROS)))?;
        if let Some(known) = catalog.claim_answer(&row)? {
            return self.known(desk, &row, known);
        }
        match work() {
            Ok(reply) => {
                let body = desk.seals.seal(&self.context(), &reply.body);
                catalog.put_answer(&AnswerRow { status: reply.status.as_u16(), body, ..row })?;
                Ok(reply)
            }
            Err(problem) => {
                catalog.drop_answer(self.caller, &self.key)?;
                Err(problem)
            }
        }
    }

    fn known(&self, desk: &Desk, row: &AnswerRow, known: AnswerRow) -> Result<Reply, Problem> {
        if known.request != row.request {
            let text = "this Idempotency-Key was given to another request";
            return Err(Problem::invalid(text));
        }
        if known.status == 0 {
            let text = "the request with this Idempotency-Key is still being carried out, or was \
                        interrupted; look at what it has made";
            return Err(Problem::conflict(text));
        }
        let body = desk
            .seals
            .open(&self.context(), &known.body)
            .ok_or_else(|| Problem::new(Kind::Damaged, "the kept answer cannot be read"))?;
        let status = StatusCode::from_u16(known.status).unwrap_or(StatusCode::OK);
        let mut headers = HeaderMap::new();
        let yes = axum::http::HeaderValue::from_static("true");
        headers.insert("idempotency-replayed", yes);
        Ok(Reply { status, headers, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visible_and_short() {
        let with = |value: &[u8]| {
            let value = axum::http::HeaderValue::from_bytes(value).expect("is a value");
            key(&HeaderMap::from_iter([(HEADER.parse().expect("a name"), value)]))
        };
        assert_eq!(key(&HeaderMap::new()), Ok(None));
        assert_eq!(with(b"a-1"), Ok(Some("a-1".to_owned())));
        for bad in [&b""[..], b"a b", b"\xff", &[b'x'; 256]] {
            assert!(with(bad).is_err());
        }
    }
}
