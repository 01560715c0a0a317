//! Objects of the tree: files, links, special files, names, folders.

use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, makedev};

use super::{MANY_FILES, Planter};
use crate::folder::Folder;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const NAME_BYTES_MAX: usize = 255;

/// Number of nested folders. With names of 200 bytes, their path is longer than the 4096 bytes that
/// a path may have.
const CHAIN_LEVELS: usize = 25;
const CHAIN_NAME_BYTES: usize = 200;

impl Planter {
    pub(super) fn sizes(&self) -> io::Result<()> {
        let folder = self.top.make(b"sizes")?;
        let mut random = self.random("sizes");
        for bytes in [0, 1, 4095, 4096, 4097, 100 * KIB, MIB - 1, MIB, MIB + 1] {
            Self::write(&folder, format!("random-{bytes}").as_bytes(), &random.bytes(bytes))?;
            Self::write(&folder, format!("text-{bytes}").as_bytes(), &random.text(bytes))?;
        }
        Self::write(&folder, b"random-large", &random.bytes(3 * MIB + 17))?;
        Self::write(&folder, b"text-large", &random.text(5 * MIB + 3))?;
        let repeated = random.bytes(300 * KIB);
        Self::write(&folder, b"twin-1", &repeated)?;
        Self::write(&folder, b"twin-2", &repeated)?;
        Self::write(&folder, b"twin-3-shifted", &[b"shift", repeated.as_slice()].concat())?;
        Self::write(&folder, b"zeros", &vec![0; 256 * KIB])
    }

    pub(super) fn sparse_files(&self) -> io::Result<()> {
        let folder = self.top.make(b"sparse")?;
        let mib = MIB as u64;
        self.sparse(&folder, "hole-at-start", 4 * mib, &[3 * mib])?;
        self.sparse(&folder, "hole-in-the-middle", 4 * mib, &[0, 3 * mib])?;
        self.sparse(&folder, "hole-at-end", 4 * mib, &[0])?;
        self.sparse(&folder, "all-hole", 2 * mib, &[])?;
        self.sparse(&folder, "all-hole-odd", 2 * mib + 1, &[])?;
        self.sparse(&folder, "unaligned", 3 * mib + 5, &[700_001, 2_000_003])?;
        self.sparse(&folder, "many-holes", 8 * mib, &[0, mib, 2 * mib, 4 * mib, 7 * mib])?;
        self.sparse(&folder, "gibibyte", 1 << 30, &[0, 512 * mib, (1 << 30) - 64 * KIB as u64])
    }

    /// Makes a file of `bytes` with 64 KiB of data at each of `offsets`.
    fn sparse(&self, folder: &Folder, name: &str, bytes: u64, offsets: &[u64]) -> io::Result<()> {
        let file = folder.create(name.as_bytes())?;
        file.set_len(bytes)?;
        let mut random = self.random(name);
        offsets
            .iter()
            .try_for_each(|offset| file.write_all_at(&random.bytes(64 * KIB), *offset))
    }

    pub(super) fn hard_links(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"links")?;
        let other = folder.make(b"other")?;
        let mut random = self.random("links");
        Self::write(&folder, b"within", &random.bytes(10 * KIB))?;
        folder.link(b"within", &folder, b"within-again")?;
        folder.link(b"within", &folder, b"a-third-time")?;
        Self::write(&folder, b"across", &random.bytes(20 * KIB))?;
        folder.link(b"across", &other, b"across")?;
        Self::write(&other, b"empty", b"")?;
        other.link(b"empty", &folder, b"also-empty")?;
        folder.symlink(b"symlink", b"nowhere")?;
        let result = folder.link(b"symlink", &other, b"symlink-linked");
        self.attempt("hard link of a symlink", result);
        let result = folder
            .make_special(b"fifo", FileType::Fifo, 0)
            .and_then(|()| folder.link(b"fifo", &other, b"fifo-linked"));
        self.attempt("hard link of a FIFO", result);
        Ok(())
    }

    pub(super) fn symlinks(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"symlinks")?;
        let inner = folder.make(b"inner")?;
        Self::write(&inner, b"file", b"reached through a link?")?;
        let long = vec![b'x'; 4000];
        let targets: [(&[u8], &[u8]); 11] = [
            (b"relative", b"inner/file"),
            (b"upwards", b"../sizes/text-1"),
            (b"absolute", b"/etc/hostname"),
            (b"dangling", b"not/here"),
            (b"to-a-folder", b"inner"),
            (b"to-its-parent", b".."),
            (b"to-the-root", b"/"),
            (b"itself", b"itself"),
            (b"loop-1", b"loop-2"),
            (b"loop-2", b"loop-1"),
            (b"bytes", b"\xff\xfe\n\t "),
        ];
        for (name, target) in targets {
            folder.symlink(name, target)?;
        }
        let result = folder.symlink(b"long", &long);
        self.attempt("symlink with a target of 4000 bytes", result);
        Ok(())
    }

    pub(super) fn special_files(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"special")?;
        let nodes: [(&str, FileType, u64); 6] = [
            ("fifo", FileType::Fifo, 0),
            ("null", FileType::CharacterDevice, makedev(1, 3)),
            ("character-largest", FileType::CharacterDevice, makedev(4095, 0xf_ffff)),
            ("loop", FileType::BlockDevice, makedev(7, 0)),
            ("block-large", FileType::BlockDevice, makedev(259, 70_000)),
            ("socket", FileType::Socket, 0),
        ];
        for (name, kind, device) in nodes {
            let result = folder.make_special(name.as_bytes(), kind, device);
            if kind == FileType::Socket && result.is_ok() {
                self.planted.sockets += 1;
            }
            self.attempt(format!("special file {name}"), result);
        }
        Ok(())
    }

    pub(super) fn names(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"names")?;
        let mut random = self.random("names");
        for name in nasty_names() {
            let content = random.bytes(40);
            let result = Self::write(&folder, &name, &content);
            self.attempt(format!("file named {}", name.escape_ascii()), result);
            if name.len() == NAME_BYTES_MAX {
                continue;
            }
            let inner = [name.as_slice(), b"d"].concat();
            let result = folder.make(&inner).and_then(|inner| Self::write(&inner, &name, b"again"));
            self.attempt(format!("folder named {}", inner.escape_ascii()), result);
        }
        Ok(())
    }

    pub(super) fn deep_chain(&self) -> io::Result<()> {
        let mut folder = self.top.make(b"deep")?;
        for level in 0..CHAIN_LEVELS {
            let mut name = format!("level-{level:02}-").into_bytes();
            name.resize(CHAIN_NAME_BYTES, b'n');
            folder = folder.make(&name)?;
            Self::write(&folder, b"file", format!("content of level {level}\n").as_bytes())?;
        }
        folder.symlink(b"symlink", b"../file")?;
        Self::write(&folder, b"bottom", &self.random("deep").bytes(5 * KIB))?;
        folder.link(b"bottom", &self.top.child(b"links")?, b"from-the-deep")?;
        folder.make(b"empty-at-the-bottom").map(drop)
    }

    pub(super) fn empty_and_large_folders(&self) -> io::Result<()> {
        drop(self.top.make(b"empty")?);
        drop(self.top.make(b"only-a-folder")?.make(b"inside")?);
        let folder = self.top.make(b"many")?;
        let mut random = self.random("many");
        for index in 0..MANY_FILES {
            let bytes = random.below(200) as usize;
            let content = random.text(bytes);
            Self::write(&folder, format!("file-{index:05}").as_bytes(), &content)?;
        }
        Ok(())
    }
}

fn nasty_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        b"new\nline".as_slice(),
        b"\n",
        b"tab\tin",
        b"\xff\xfeinvalid",
        b"\xc3",
        b"overlong\xc0\xaf",
        b"-rf",
        b"--help",
        b"-",
        b" leading",
        b"trailing ",
        b" ",
        b"'single'",
        b"\"double\"",
        b"`id`",
        b"$HOME",
        b"${x}",
        b"*",
        b"?",
        b"[abc]",
        b"[",
        b"back\\slash",
        b"\\",
        b"...",
        b"....",
        b".hidden",
        b"~",
        b"#comment",
        b"a;b&c|d<e>f",
        b"%s%n%d",
        b"{}",
        b"\x01\x02\x1b[31mred",
        b"\x7f",
        b"C:",
        b"con",
        b"lost+found",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    let scripts = [
        "gr\u{fc}\u{df}e",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}",
        "\u{4f60}\u{597d}",
        "\u{3053}\u{3093}",
        "\u{645}\u{631}\u{62d}\u{628}\u{627}",
        "\u{1f980}",
        "\u{200b}\u{202e}abc",
        "\u{feff}bom",
    ];
    names.extend(scripts.map(|name| name.as_bytes().to_vec()));
    names.push(vec![b'L'; NAME_BYTES_MAX]);
    names.push(vec![0xfd; NAME_BYTES_MAX]);
    names
}
