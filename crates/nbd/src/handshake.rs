//! Agreement with a server on an export.
//!
//! ```text
//!   greeting --> flags --> structured replies? --> contexts? --> go --> transmission
//!                             | no                   | no          | not supported
//!                             v                      v             v
//!                          simple replies        no contexts    export name --> transmission
//! ```

use crate::connection::Connection;
use crate::error::{NbdError, Refusal};
use crate::message::{
    BlockSizes, Choice, Context, Detail, Fields, Greeting, OptionReply, OptionReplyHeader,
    RESERVED_BYTES, Shape, go, meta_contexts,
};

/// Maximum number of replies to one option.
const REPLIES_MAX: u32 = 256;

/// Result of a handshake.
#[derive(Debug)]
pub(crate) struct Agreement {
    pub(crate) shape: Shape,
    pub(crate) block_sizes: BlockSizes,
    /// True if the server sends replies in chunks.
    pub(crate) is_structured: bool,
    /// Contexts that the server has, each of them one that was asked for.
    pub(crate) contexts: Vec<Context>,
}

/// Agrees with the server on `export` and on those of `contexts` that it has.
pub(crate) fn agree(
    connection: &mut Connection,
    export: &[u8],
    contexts: &[&str],
) -> Result<Agreement, NbdError> {
    let greeting = Greeting::parse(&connection.receive_array()?)?;
    connection.send(&greeting.answer())?;
    let agreed = agree_on_options(connection, greeting, export, contexts);
    if matches!(agreed, Err(NbdError::Refused { .. })) {
        // The protocol asks for this farewell. The connection ends in any case.
        drop(connection.send(&Choice::Abort.encode(&[])));
    }
    agreed
}

fn agree_on_options(
    connection: &mut Connection,
    greeting: Greeting,
    export: &[u8],
    contexts: &[&str],
) -> Result<Agreement, NbdError> {
    let nothing = |_| Err(NbdError::protocol("a reply does not belong to its option"));
    let outcome = ask(connection, Choice::StructuredReply, &[], nothing)?;
    let is_structured = outcome.is_ok();
    let contexts = if is_structured && !contexts.is_empty() {
        agree_on_contexts(connection, export, contexts)?
    } else {
        Vec::new()
    };
    let (shape, block_sizes) = match enter(connection, export)? {
        Ok(entered) => entered,
        Err(refusal) if refusal.refusal == Refusal::Unsupported => {
            enter_by_name(connection, greeting, export)?
        }
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(Agreement { shape, block_sizes, is_structured, contexts })
}

/// Returns those of `contexts` that the server has, in the same order; none if it refuses the
/// question. If the export is the reason, the next option is refused too.
fn agree_on_contexts(
    connection: &mut Connection,
    export: &[u8],
    contexts: &[&str],
) -> Result<Vec<Context>, NbdError> {
    let mut agreed: Vec<Context> = Vec::new();
    let data = meta_contexts(export, contexts);
    let outcome = ask(connection, Choice::SetMetaContext, &data, |reply| {
        let OptionReply::Context(context) = reply else {
            return Err(NbdError::protocol("a reply does not belong to its option"));
        };
        if !contexts.contains(&context.name.as_str()) {
            return Err(NbdError::protocol("it agrees to a context that nobody asked for"));
        }
        if agreed.iter().any(|other| other.id == context.id || other.name == context.name) {
            return Err(NbdError::protocol("it agrees to a context twice"));
        }
        agreed.push(context);
        Ok(())
    })?;
    // The server may answer in any order.
    agreed.sort_by_key(|context| contexts.iter().position(|name| *name == context.name));
    Ok(if outcome.is_ok() { agreed } else { Vec::new() })
}

type Entry = (Shape, BlockSizes);

/// Chooses the export and begins the transmission.
fn enter(
    connection: &mut Connection,
    export: &[u8],
) -> Result<Result<Entry, OptionRefusal>, NbdError> {
    let (mut shape, mut block_sizes) = (None, BlockSizes::default());
    let outcome = ask(connection, Choice::Go, &go(export), |reply| {
        match reply {
            OptionReply::Detail(Detail::Export(export)) => shape = Some(export),
            OptionReply::Detail(Detail::BlockSizes(sizes)) => block_sizes = sizes,
            OptionReply::Detail(Detail::Other) => {}
            _ => return Err(NbdError::protocol("a reply does not belong to its option")),
        }
        Ok(())
    })?;
    if let Err(refusal) = outcome {
        return Ok(Err(refusal));
    }
    let shape = shape.ok_or(NbdError::protocol("it does not tell the size of the export"))?;
    Ok(Ok((shape, block_sizes)))
}

/// Chooses the export in the way of old servers, which close the connection if they do not have it.
fn enter_by_name(
    connection: &mut Connection,
    greeting: Greeting,
    export: &[u8],
) -> Result<Entry, NbdError> {
    connection.send(&Choice::ExportName.encode(export))?;
    let bytes: [u8; Shape::BYTES] = connection.receive_array()?;
    let shape = Shape::parse(&mut Fields::new(&bytes))?;
    if !greeting.no_zeroes {
        let _reserved: [u8; RESERVED_BYTES] = connection.receive_array()?;
    }
    Ok((shape, BlockSizes::default()))
}

/// Refusal of an option, after which the handshake may go on.
#[derive(Debug)]
struct OptionRefusal {
    refusal: Refusal,
    message: String,
}

impl From<OptionRefusal> for NbdError {
    fn from(refused: OptionRefusal) -> Self {
        Self::Refused { refusal: refused.refusal, message: refused.message }
    }
}

/// Sends an option, and calls `each` with each reply before the last reply.
fn ask(
    connection: &mut Connection,
    choice: Choice,
    data: &[u8],
    mut each: impl FnMut(OptionReply) -> Result<(), NbdError>,
) -> Result<Result<(), OptionRefusal>, NbdError> {
    connection.send(&choice.encode(data))?;
    for _ in 0..REPLIES_MAX {
        let header = OptionReplyHeader::parse(&connection.receive_array()?, choice)?;
        let data = connection.receive_vec(header.bytes as usize)?;
        match OptionReply::parse(header, &data)? {
            OptionReply::Ack => return Ok(Ok(())),
            OptionReply::Refusal(refusal, message) => {
                return Ok(Err(OptionRefusal { refusal, message }));
            }
            reply => each(reply)?,
        }
    }
    Err(NbdError::protocol("an option has too many replies"))
}
