//! All columns of a page, except the column of contents.

use std::sync::Arc;

use model::{
    Attributes, ClassId, Kind, Name, Object, PAGE_OBJECTS_MAX, Payload, PlaceCode, ServerTime,
    Stat, Timestamp, Xattr,
};

use crate::budget::Budget;
use crate::bytes::RESERVED;
use crate::{DamageError, Reader, Writer};

/// Reason of damage for a page that takes more memory than its sender may use.
const OVER_BUDGET: &str = "it expands to more memory than its sender may use";
const NANOS_PER_SECOND: u32 = 1_000_000_000;
/// Largest mode: permissions and the bits for setuid, setgid and sticky.
const MODE_MAX: u16 = 0o7777;

pub(super) fn encode<P: PlaceCode>(writer: &mut Writer, objects: &[Object<P>]) {
    encode_names(writer, objects);
    encode_owners(writer, objects);
    encode_attributes(writer, objects);
    encode_linked(writer, objects);
    objects.iter().for_each(|object| writer.varint(object.stat.size));
    encode_times(writer, objects);
    let inodes = objects.iter().map(|object| object.stat.inode.cast_signed());
    encode_differences(writer, inodes);
    encode_differences(writer, objects.iter().map(|object| object.inserted.0));
    for object in objects.iter().filter(|object| is_device(object.stat.kind)) {
        writer.varint(object.stat.device);
    }
    for object in objects {
        if let Payload::Target(target) = &object.payload {
            writer.string(target);
        }
    }
}

fn is_device(kind: Kind) -> bool {
    matches!(kind, Kind::CharDevice | Kind::BlockDevice)
}

fn encode_names<P>(writer: &mut Writer, objects: &[Object<P>]) {
    let mut before: &[u8] = &[];
    let shared: Vec<usize> = objects
        .iter()
        .map(|object| {
            let name = object.name.as_bytes();
            let shared = name.iter().zip(before).take_while(|(a, b)| a == b).count();
            before = name;
            shared
        })
        .collect();
    shared.iter().for_each(|&shared| writer.varint(shared as u64));
    for (object, shared) in objects.iter().zip(&shared) {
        writer.varint((object.name.as_bytes().len() - shared) as u64);
    }
    for (object, &shared) in objects.iter().zip(&shared) {
        writer.raw(&object.name.as_bytes()[shared..]);
    }
}

/// Writes the distinct `items` in order of appearance, then the index of each object's item, unless
/// there is only one distinct item.
fn encode_dictionary<T: PartialEq>(
    writer: &mut Writer,
    items: impl Iterator<Item = T>,
    encode_item: impl Fn(&mut Writer, &T),
) {
    let mut dictionary: Vec<T> = Vec::new();
    let mut last = 0;
    let indexes: Vec<usize> = items
        .map(|item| {
            if dictionary.get(last) != Some(&item) {
                let found = dictionary.iter().position(|known| *known == item);
                last = found.unwrap_or(dictionary.len());
                if found.is_none() {
                    dictionary.push(item);
                }
            }
            last
        })
        .collect();
    writer.varint(dictionary.len() as u64);
    dictionary.iter().for_each(|item| encode_item(writer, item));
    if dictionary.len() > 1 {
        indexes.iter().for_each(|&index| writer.varint(index as u64));
    }
}

fn encode_owners<P>(writer: &mut Writer, objects: &[Object<P>]) {
    let owners = objects.iter().map(|object| {
        let stat = &object.stat;
        assert!(stat.mode <= MODE_MAX, "a mode has 12 bits; the kind is separate");
        (stat.kind, stat.mode, stat.uid, stat.gid, object.class)
    });
    encode_dictionary(writer, owners, |writer, &(kind, mode, uid, gid, class)| {
        writer.u8(kind.code());
        writer.varint(u64::from(mode));
        writer.varint(u64::from(uid));
        writer.varint(u64::from(gid));
        writer.varint(u64::from(class.0));
    });
}

fn encode_attributes<P>(writer: &mut Writer, objects: &[Object<P>]) {
    let attributes = objects.iter().map(|object| &*object.attributes);
    encode_dictionary(writer, attributes, |writer, attributes| {
        writer.varint(u64::from(attributes.flags));
        writer.varint(attributes.xattrs.len() as u64);
        for xattr in &attributes.xattrs {
            writer.string(&xattr.name);
            writer.string(&xattr.value);
        }
    });
}

fn encode_linked<P>(writer: &mut Writer, objects: &[Object<P>]) {
    for eight in objects.chunks(8) {
        let bits = eight.iter().enumerate();
        writer.u8(bits.fold(0, |byte, (at, object)| byte | u8::from(object.stat.linked) << at));
    }
}

fn encode_times<P>(writer: &mut Writer, objects: &[Object<P>]) {
    encode_differences(writer, objects.iter().map(|object| object.stat.mtime.secs));
    objects
        .iter()
        .for_each(|object| writer.varint(u64::from(object.stat.mtime.nanos)));
    encode_differences(writer, objects.iter().map(|object| object.stat.ctime.secs));
    encode_differences(writer, objects.iter().map(|object| i64::from(object.stat.ctime.nanos)));
}

fn encode_differences(writer: &mut Writer, values: impl Iterator<Item = i64>) {
    let mut before = 0_i64;
    for value in values {
        writer.signed(value.wrapping_sub(before));
        before = value;
    }
}

/// Decodes `count` objects. Files whose size is not 0 have no extents yet.
pub(super) fn decode<P: PlaceCode>(
    reader: &mut Reader<'_>,
    count: usize,
    budget: &Budget,
) -> Result<Vec<Object<P>>, DamageError> {
    take(reader, budget, count, size_of::<Object<P>>())?;
    let names = decode_names(reader, count, budget)?;
    let owners = decode_dictionary(reader, count, decode_owner)?;
    let attributes =
        decode_dictionary(reader, count, |reader| decode_attributes(reader, budget).map(Arc::new))?;
    let mut objects: Vec<Object<P>> = names
        .into_iter()
        .zip(owners)
        .zip(attributes)
        .map(|((name, owner), attributes)| unfilled(name, owner, attributes))
        .collect();
    let linked = reader.raw(count.div_ceil(8))?;
    for (at, object) in objects.iter_mut().enumerate() {
        object.stat.linked = linked[at / 8] >> (at % 8) & 1 == 1;
    }
    // The last byte has bits for objects that the page does not have.
    let last = linked.last().copied().unwrap_or(0);
    if !count.is_multiple_of(8) && last >> (count % 8) != 0 {
        return Err(reader.damaged(RESERVED));
    }
    for object in &mut objects {
        object.stat.size = reader.varint()?;
    }
    decode_times(reader, &mut objects)?;
    decode_differences(reader, &mut objects, |object, inode| {
        object.stat.inode = inode.cast_unsigned();
    })?;
    decode_differences(reader, &mut objects, |object, micros| {
        object.inserted = ServerTime(micros);
    })?;
    for object in objects.iter_mut().filter(|object| is_device(object.stat.kind)) {
        object.stat.device = reader.varint()?;
    }
    for object in objects.iter_mut().filter(|object| object.stat.kind == Kind::Symlink) {
        let target = reader.string()?;
        take(reader, budget, target.len(), 1)?;
        object.payload = Payload::Target(target.to_vec());
    }
    Ok(objects)
}

/// Takes the memory of `count` values from `budget`.
pub(super) fn take(
    reader: &Reader<'_>,
    budget: &Budget,
    count: usize,
    item_bytes: usize,
) -> Result<(), DamageError> {
    budget.take(count, item_bytes).map_err(|_| reader.damaged(OVER_BUDGET))
}

/// Returns an object whose numbers have not been read from the columns yet.
fn unfilled<P>(name: Name, owner: Owner, attributes: Arc<Attributes>) -> Object<P> {
    let Owner { kind, mode, uid, gid, class } = owner;
    let stat = Stat {
        kind,
        mode,
        uid,
        gid,
        size: 0,
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        inode: 0,
        linked: false,
        device: 0,
    };
    let (inserted, payload) = (ServerTime(0), Payload::Nothing);
    Object { name, stat, attributes, class, inserted, payload }
}

fn decode_names(
    reader: &mut Reader<'_>,
    count: usize,
    budget: &Budget,
) -> Result<Vec<Name>, DamageError> {
    let shared = column(count, || reader.number::<usize>())?;
    let suffixes = column(count, || reader.number::<usize>())?;
    let mut name: Vec<u8> = Vec::with_capacity(Name::BYTES_MAX);
    let mut names: Vec<Name> = Vec::with_capacity(count.min(PAGE_OBJECTS_MAX));
    for (shared, suffix) in shared.into_iter().zip(suffixes) {
        if shared > name.len() {
            return Err(reader.damaged("a name shares more bytes than the name before has"));
        }
        name.truncate(shared);
        name.extend_from_slice(reader.raw(suffix)?);
        let parsed = Name::new(&name).map_err(|_| reader.damaged("a name is impossible"))?;
        take(reader, budget, name.len(), 1)?;
        if names.last().is_some_and(|before| *before >= parsed) {
            return Err(reader.damaged("names are not in order"));
        }
        names.push(parsed);
    }
    Ok(names)
}

/// Reads `count` values. Allocates room in advance for no more objects than a page can have.
fn column<T>(
    count: usize,
    mut next: impl FnMut() -> Result<T, DamageError>,
) -> Result<Vec<T>, DamageError> {
    let mut values = Vec::with_capacity(count.min(PAGE_OBJECTS_MAX));
    for _ in 0..count {
        values.push(next()?);
    }
    Ok(values)
}

/// Reads a dictionary and the indexes into it. Returns one item for each object.
fn decode_dictionary<T: Clone>(
    reader: &mut Reader<'_>,
    count: usize,
    decode_item: impl Fn(&mut Reader<'_>) -> Result<T, DamageError>,
) -> Result<Vec<T>, DamageError> {
    let item_count = reader.count()?;
    if item_count > count {
        return Err(reader.damaged("a dictionary has more entries than the page has objects"));
    }
    let items = column(item_count, || decode_item(reader))?;
    if let [only] = items.as_slice() {
        return Ok(vec![only.clone(); count]);
    }
    column(count, || {
        let index = reader.number::<usize>()?;
        items
            .get(index)
            .cloned()
            .ok_or_else(|| reader.damaged("no such dictionary entry"))
    })
}

#[derive(Clone, Copy)]
struct Owner {
    kind: Kind,
    mode: u16,
    uid: u32,
    gid: u32,
    class: ClassId,
}

fn decode_owner(reader: &mut Reader<'_>) -> Result<Owner, DamageError> {
    let kind =
        Kind::from_code(reader.u8()?).ok_or_else(|| reader.damaged("unknown kind of object"))?;
    let mode = reader.number::<u16>()?;
    if mode > MODE_MAX {
        return Err(reader.damaged("a mode has more than 12 bits"));
    }
    let (uid, gid) = (reader.number()?, reader.number()?);
    Ok(Owner { kind, mode, uid, gid, class: ClassId(reader.number()?) })
}

fn decode_attributes(reader: &mut Reader<'_>, budget: &Budget) -> Result<Attributes, DamageError> {
    let flags = reader.number::<u32>()?;
    let count = reader.count()?;
    take(reader, budget, count, size_of::<Xattr>())?;
    let xattr = |_| {
        let (name, value) = (reader.string()?, reader.string()?);
        take(reader, budget, name.len() + value.len(), 1)?;
        Ok(Xattr { name: name.to_vec(), value: value.to_vec() })
    };
    Ok(Attributes { flags, xattrs: (0..count).map(xattr).collect::<Result<_, _>>()? })
}

fn decode_times<P>(reader: &mut Reader<'_>, objects: &mut [Object<P>]) -> Result<(), DamageError> {
    decode_differences(reader, objects, |object, secs| object.stat.mtime.secs = secs)?;
    for object in &mut *objects {
        object.stat.mtime.nanos = reader.number()?;
    }
    decode_differences(reader, objects, |object, secs| object.stat.ctime.secs = secs)?;
    // A difference that gives an impossible number of nanoseconds becomes `u32::MAX`, which is
    // refused below.
    decode_differences(reader, objects, |object, nanos| {
        object.stat.ctime.nanos = u32::try_from(nanos).unwrap_or(u32::MAX);
    })?;
    let is_time = |time: &Timestamp| time.nanos < NANOS_PER_SECOND;
    if objects
        .iter()
        .all(|object| is_time(&object.stat.mtime) && is_time(&object.stat.ctime))
    {
        Ok(())
    } else {
        Err(reader.damaged("nanoseconds out of range"))
    }
}

/// Reads a column of signed differences from the object before.
fn decode_differences<P>(
    reader: &mut Reader<'_>,
    objects: &mut [Object<P>],
    set: impl Fn(&mut Object<P>, i64),
) -> Result<(), DamageError> {
    let mut value = 0_i64;
    for object in objects {
        value = value.wrapping_add(reader.signed()?);
        set(object, value);
    }
    Ok(())
}
