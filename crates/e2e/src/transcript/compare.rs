//! Comparison of messages without knowledge of their schema.
//!
//! Each recorded field must be in the new message, with its number, its position among the fields
//! of that number, and its value. Additional fields are no difference, because a newer release may
//! add them. Fields with times, sessions, addresses and sentences are not
//! compared.

/// Fields that differ from run to run: the method, and the numbers of the fields on the way to the
/// field.
const VOLATILE: [(&str, &[u32]); 20] = [
    ("Hello", &[2]),
    ("Hello", &[3]),
    ("Hello", &[13]),
    ("Filespaces", &[1, 3]),
    // Pages hold the time at which the server inserted each object.
    ("Pages", &[1]),
    ("Backup", &[1, 1]),
    ("List", &[1, 2]),
    ("Restore", &[1, 1, 2]),
    ("OpenArchive", &[3]),
    ("SetArchive", &[3]),
    ("Archives", &[1, 3]),
    ("Delete", &[2]),
    ("Delete", &[5]),
    ("Deletions", &[1, 2]),
    ("Deletions", &[1, 5]),
    ("Undelete", &[2]),
    ("Undelete", &[5]),
    // Sentences for people.
    ("Delete", &[4]),
    ("Deletions", &[1, 4]),
    ("Undelete", &[4]),
];

/// Field of grants: for each chunk its place, which only the server reads, and its MAC. Earlier
/// servers did not encrypt the place. Equal MACs prove equal places.
const GRANTS: (&str, &[u32]) = ("Backup", &[2, 2, 2]);

/// Value of a field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Returns the differences of `actual`, an answer of `method`, from `expected`.
pub(super) fn differences(method: &str, expected: &[u8], actual: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let name = method.rsplit('/').next().unwrap_or_default();
    compare(name, &mut Vec::new(), expected, actual, &mut found);
    found
}

/// Returns the number of the first field of `message`; 0 for an empty message.
pub(super) fn first_field(message: &[u8]) -> u32 {
    fields(message).and_then(|fields| Some(fields.first()?.0)).unwrap_or(0)
}

fn compare(
    method: &str,
    path: &mut Vec<u32>,
    expected: &[u8],
    actual: &[u8],
    found: &mut Vec<String>,
) {
    let (Some(expected), Some(actual)) = (fields(expected), fields(actual)) else {
        found.push(format!("{method} {path:?} is not a message"));
        return;
    };
    let mut seen: Vec<u32> = Vec::new();
    for (number, value) in &expected {
        let index = seen.iter().filter(|seen| *seen == number).count();
        seen.push(*number);
        path.push(*number);
        if !VOLATILE.contains(&(method, path)) {
            let mut of_number = actual.iter().filter(|(other, _)| other == number);
            match (value, of_number.nth(index).map(|(_, value)| value)) {
                (value, Some(other)) if value == other => {}
                (Value::Bytes(value), Some(Value::Bytes(other)))
                    if (method, &path[..]) == GRANTS && macs(value) == macs(other) => {}
                (Value::Bytes(value), Some(Value::Bytes(other)))
                    if fields(value).is_some() && fields(other).is_some() =>
                {
                    compare(method, path, value, other, found);
                }
                (value, other) => {
                    found.push(format!("{method} {path:?}: {value:?} became {other:?}"));
                }
            }
        }
        path.pop();
    }
}

/// Returns the MACs of grants.
fn macs(grants: &[u8]) -> Vec<&[u8]> {
    grants.chunks(16).map(|grant| &grant[grant.len().min(8)..]).collect()
}

/// Parses a message; `None` if the bytes are not a message.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Value<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)?),
            kind => {
                let length = match kind {
                    1 => 8,
                    2 => usize::try_from(varint(&mut bytes)?).ok()?,
                    5 => 4,
                    _ => return None,
                };
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Value::Bytes(value)
            }
        };
        fields.push((number, value));
    }
    Some(fields)
}

pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, expected: &[u8], actual: &[u8], count: usize) {
        let found = differences(method, expected, actual);
        assert_eq!(found.len(), count, "{found:?}");
    }

    #[test]
    fn a_changed_or_missing_field_differs_and_a_new_one_does_not() {
        check("/a/X", &[0x08, 5], &[0x08, 5], 0);
        check("/a/X", &[0x08, 5], &[0x08, 6], 1);
        check("/a/X", &[0x08, 5], &[0x10, 5], 1);
        check("/a/X", &[0x08, 5], &[0x08, 5, 0x10, 6], 0);
        check("/a/X", &[0x0a, 2, 0x08, 5], &[0x0a, 4, 0x08, 5, 0x10, 6], 0);
        check("/a/X", &[0x0a, 2, 0x08, 5], &[0x0a, 2, 0x08, 6], 1);
        check("/a/X", &[0x08, 5, 0x08, 6], &[0x08, 5], 1);
    }

    #[test]
    fn a_place_in_a_grant_may_differ() {
        let answer = |place, mac| {
            let grants = [[place; 8], [mac; 8]].concat();
            [&[0x12, 20, 0x12, 18, 0x12, 16][..], &grants].concat()
        };
        check("/a/Backup", &answer(1, 7), &answer(2, 7), 0);
        check("/a/Backup", &answer(1, 7), &answer(1, 8), 1);
        check("/a/Backup", &answer(1, 7), &answer(1, 7)[..6], 1);
        check("/a/Restore", &answer(1, 7), &answer(2, 7), 1);
    }

    #[test]
    fn a_time_may_differ() {
        check("/a/Hello", &[0x18, 5], &[0x18, 6], 0);
        check("/a/Hello", &[0x20, 5], &[0x20, 6], 1);
        check("/a/Filespaces", &[0x0a, 2, 0x18, 5], &[0x0a, 2, 0x18, 6], 0);
    }
}
