//! Numbers of archives and deletions in replayed sessions. A recording has one archive and one
//! deletion; the server draws other numbers for them.

use super::compare::varint;

/// The numbers that the server has given in place of the recorded ones.
#[derive(Default, Debug)]
pub struct Numbers {
    archive: Option<Pair>,
    deletion: Option<Pair>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    recorded: u64,
    given: u64,
}

impl Pair {
    fn of(recorded: &[u8], given: &[u8]) -> Option<Self> {
        Some(Self { recorded: first_number(recorded)?, given: first_number(given)? })
    }
}

/// Beginnings of the names of an archive's filespaces: the old one and the new one.
type Names = Option<(Vec<u8>, Vec<u8>)>;

impl Numbers {
    /// Returns a recorded question with the numbers of the server.
    pub(super) fn question(&self, path: &str, question: &[u8]) -> Vec<u8> {
        let own = match method(path) {
            "SetArchive" => self.archive,
            "Undelete" => self.deletion,
            _ => None,
        };
        let number = |field, number| {
            own.filter(|own| (field, number) == (1, own.recorded)).map(|own| own.given)
        };
        let names = self.archive.map(|archive| (name(archive.recorded), name(archive.given)));
        rewritten(question, &number, &names).unwrap_or_else(|| question.to_vec())
    }

    /// Returns an answer of the server with the recorded numbers. `recorded` is the answer in the
    /// recording.
    pub(super) fn answer(&mut self, path: &str, recorded: &[u8], answer: &[u8]) -> Vec<u8> {
        match method(path) {
            "OpenArchive" => self.archive = Pair::of(recorded, answer),
            "Delete" => self.deletion = Pair::of(recorded, answer),
            _ => {}
        }
        let number = |_, number| {
            let mut pairs = [self.archive, self.deletion].into_iter().flatten();
            pairs.find(|pair| pair.given == number).map(|pair| pair.recorded)
        };
        let names = self.archive.map(|archive| (name(archive.given), name(archive.recorded)));
        rewritten(answer, &number, &names).unwrap_or_else(|| answer.to_vec())
    }
}

fn method(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn name(archive: u64) -> Vec<u8> {
    format!("\0{archive}\0").into_bytes()
}

/// Returns the number in field 1, if the message begins with it.
fn first_number(mut message: &[u8]) -> Option<u64> {
    (varint(&mut message)? == 1 << 3).then(|| varint(&mut message))?
}

/// Returns the message with other numbers and names; `None` if it has none of them.
fn rewritten(
    message: &[u8],
    number: &dyn Fn(u32, u64) -> Option<u64>,
    names: &Names,
) -> Option<Vec<u8>> {
    let (mut rest, mut new, mut is_changed) = (message, Vec::new(), false);
    while !rest.is_empty() {
        let begin = rest;
        let key = varint(&mut rest)?;
        match key & 7 {
            0 => {
                let value = varint(&mut rest)?;
                if let Some(other) = number(u32::try_from(key >> 3).ok()?, value) {
                    put(&mut new, key);
                    put(&mut new, other);
                    is_changed = true;
                    continue;
                }
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                let renamed = names.as_ref().and_then(|(old, new)| {
                    Some([&new[..], bytes.strip_prefix(&old[..])?].concat())
                });
                if let Some(other) = renamed.or_else(|| rewritten(bytes, number, names)) {
                    put(&mut new, key);
                    put(&mut new, other.len() as u64);
                    new.extend(other);
                    is_changed = true;
                    continue;
                }
            }
            1 => rest = rest.split_at_checked(8)?.1,
            5 => rest = rest.split_at_checked(4)?.1,
            _ => return None,
        }
        new.extend_from_slice(&begin[..begin.len() - rest.len()]);
    }
    is_changed.then_some(new)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}
