//! Weight of objects: an upper bound of what they take in the body of a page, and in memory.

use std::sync::Arc;

use model::{Attributes, Extent, Object, Payload, Xattr};

/// Weight of an object without its name, its attributes and its payload.
const OBJECT_BYTES: usize = 256;
/// Weight of an extent. An encoded extent has at most 21 bytes: its tag, a difference and a length.
pub const EXTENT_BYTES: usize = 24;

const _: () = assert!(size_of::<Object>() <= OBJECT_BYTES, "a weight covers an object in memory");
const _: () = assert!(size_of::<Extent>() <= EXTENT_BYTES, "a weight covers an extent in memory");

/// Returns the weight of `objects`, in bytes. Attributes that neighbours share count once.
pub fn weight<P>(objects: &[Object<P>]) -> usize {
    let mut before: Option<&Arc<Attributes>> = None;
    let mut bytes = OBJECT_BYTES;
    for object in objects {
        bytes += OBJECT_BYTES + object.name.as_bytes().len();
        bytes += match &object.payload {
            Payload::Nothing => 0,
            Payload::Target(target) => target.len(),
            Payload::Extents(extents) => extents.len() * EXTENT_BYTES,
        };
        if !before.is_some_and(|before| Arc::ptr_eq(before, &object.attributes)) {
            bytes += attributes_weight(&object.attributes);
        }
        before = Some(&object.attributes);
    }
    bytes
}

fn attributes_weight(attributes: &Attributes) -> usize {
    let of_xattr = |xattr: &Xattr| size_of::<Xattr>() + xattr.name.len() + xattr.value.len();
    attributes.xattrs.iter().map(of_xattr).sum()
}
