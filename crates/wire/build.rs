//! Generates the messages and services from `proto/`, without an external compiler, and the outline
//! of each message, by which `src/codec.rs` counts the fields of a message before it is decoded.

use std::fmt::Write as _;
use std::path::Path;

/// Types and labels of fields in a descriptor.
const TYPE_STRING: i32 = 9;
const TYPE_MESSAGE: i32 = 11;
const TYPE_BYTES: i32 = 12;
const LABEL_REPEATED: i32 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/holdfast.proto"], ["proto"])?;
    let mut outlines = String::new();
    for message in descriptors.file.iter().flat_map(|file| &file.message_type) {
        assert!(message.nested_type.is_empty(), "a message within a message has no outline");
        let name = message.name();
        let mut parts = String::new();
        for field in &message.field {
            let number = field.number();
            let is_packed = field.label.unwrap_or_default() == LABEL_REPEATED;
            match field.r#type.unwrap_or_default() {
                TYPE_MESSAGE => {
                    let of = field.type_name().rsplit('.').next().unwrap_or_default();
                    write!(parts, "({number}, Part::Message(&{})), ", constant(of))?;
                }
                TYPE_STRING | TYPE_BYTES => {}
                _ if is_packed => write!(parts, "({number}, Part::Packed), ")?,
                _ => {}
            }
        }
        let constant = constant(name);
        writeln!(outlines, "static {constant}: Outline = Outline(&[{parts}]);")?;
        writeln!(outlines, "impl ProtocolMessage for proto::{name} {{")?;
        writeln!(outlines, "    fn outline() -> &'static Outline {{ &{constant} }}\n}}")?;
    }
    let folder = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("outlines.rs"), outlines)?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::CountingCodec")
        .compile_fds(descriptors)?;
    Ok(())
}

/// Returns the name of the constant for the message `name`: `HELLO_REPLY` for `HelloReply`.
fn constant(name: &str) -> String {
    let mut constant = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !constant.is_empty() {
            constant.push('_');
        }
        constant.push(character.to_ascii_uppercase());
    }
    constant
}
