//! Changes of a disk, as a database makes them: half of the changed blocks stand alone, half are in
//! runs of 1 MiB.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::fill::{Content, LARGE_BYTES};
use crate::process;
use crate::trouble::{Context as _, Trouble};

/// One block in so many is changed.
const CHANGED_OF: u64 = 100;
const BLOCK_BYTES: usize = 4096;
const RUN_BYTES: usize = 1 << 20;

/// Overwrites a hundredth of `used_bytes` in the large files on the disk that is mounted at `root`.
/// Returns the number of bytes that were written.
pub(super) fn change(root: &Path, content: &mut Content, used_bytes: u64) -> Result<u64, Trouble> {
    let what = || format!("change files on the disk at {}", root.display());
    let open = |path| File::options().write(true).open(root.join(path));
    let files: io::Result<Vec<File>> = content.changeable.iter().map(open).collect();
    let files = files.while_doing(what)?;
    let each = used_bytes / CHANGED_OF / 2;
    let mut written = 0;
    for bytes in [BLOCK_BYTES, RUN_BYTES] {
        let mut data = vec![0; bytes];
        for _ in 0..each.div_ceil(bytes as u64) {
            process::check_interrupted()?;
            let random = &mut content.mixer.random;
            let file = usize::try_from(random.below(files.len() as u64)).unwrap_or(0);
            let place = random.below(LARGE_BYTES / bytes as u64) * bytes as u64;
            content.mixer.fill_text(&mut data);
            files[file].write_all_at(&data, place).while_doing(what)?;
            written += data.len() as u64;
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::mix::Mixer;

    #[test]
    fn a_hundredth_is_changed_in_blocks_and_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("text"), vec![b'x'; 1 << 20]).expect("written");
        let mixer = Mixer::with_text_of(folder.path()).expect("there is text");
        let root = tempfile::tempdir().expect("a folder");
        let file = File::create_new(root.path().join("large")).expect("made");
        file.set_len(LARGE_BYTES).expect("sized");
        let (changeable, small) = (Vec::from(["large".into()]), "small".into());
        let mut content = Content { mixer, changeable, small, small_content: Vec::new() };
        let used_bytes = 800 << 20;
        let written = change(root.path(), &mut content, used_bytes).expect("changed");
        assert_eq!(written, 8 << 20);
        let mut blocks = vec![0; 64 << 20];
        file.read_exact_at(&mut blocks, 0).expect("read");
        let changed =
            blocks.chunks(BLOCK_BYTES).filter(|block| block.iter().any(|byte| *byte != 0));
        // Some blocks are chosen twice.
        assert!((1000..=2048).contains(&changed.count()));
    }
}
