//! Memory in huge pages, for reads that bypass the page cache: the kernel gives a device one piece
//! of memory for each run of neighbouring pages, and a device takes few pieces at once. A read of
//! 1 MiB into scattered small pages becomes two requests or more.
//!
//! The other memory of the process may stay in small pages; see
//! [`use_small_pages`](crate::process::use_small_pages). Memory that is in huge pages stays there.

use memmap2::{Advice, MmapMut};

use crate::lock::Mutex;

/// Length of a huge page of most machines, and alignment of the memory.
const PAGE_BYTES: usize = 2 << 20;

/// Held while the process takes huge pages, so that nobody reads the setting meanwhile.
static TURN: Mutex<()> = Mutex::new(());

/// Memory in huge pages, as far as the kernel has any. Otherwise it is in small pages.
#[derive(Debug)]
pub struct HugeMemory {
    map: MmapMut,
    /// Offset in the mapping at which the memory begins.
    start: usize,
    bytes: usize,
}

impl HugeMemory {
    /// Returns `bytes` bytes of memory, at least one.
    pub fn new(bytes: usize) -> Self {
        assert!(bytes > 0, "an empty mapping cannot be made");
        let whole = bytes.next_multiple_of(PAGE_BYTES);
        // A page more makes room for the alignment. What is never touched costs nothing.
        let mut map = MmapMut::map_anon(whole + PAGE_BYTES).expect("there is memory");
        let start = map.as_ptr().align_offset(PAGE_BYTES);
        assert!(start < PAGE_BYTES, "the mapping has room for its alignment");
        take_huge_pages(|| {
            // A kernel without huge pages refuses the advice, which does no harm.
            let _refused = map.advise_range(Advice::HugePage, start, whole);
            // The first access to a page decides about its size.
            for page in map[start..start + whole].chunks_exact_mut(PAGE_BYTES) {
                page[0] = 0;
            }
        });
        Self { map, start, bytes }
    }

    /// Returns the memory, which begins at a multiple of 2 MiB.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.bytes]
    }
}

/// Calls `work` while this process may have huge pages.
fn take_huge_pages(work: impl FnOnce()) {
    let _turn = TURN.lock();
    let wants_small = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false);
    let set = |wants_small| {
        // A process whose setting cannot be changed has small pages.
        let _refused = rustix::thread::disable_transparent_huge_pages(wants_small);
    };
    if wants_small {
        set(false);
    }
    work();
    if wants_small {
        set(true);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Returns the addresses of the mapping that a line of `smaps` begins.
    fn addresses(line: &str) -> Option<Range<usize>> {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    }

    /// Returns the number of bytes of huge pages in the mapping with the address `address`; `None`
    /// if the kernel does not tell.
    fn huge_bytes(address: usize) -> Option<u64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines();
        lines.find(|line| addresses(line).is_some_and(|range| range.contains(&address)))?;
        let huge = lines.find_map(|line| line.strip_prefix("AnonHugePages:"))?;
        Some(huge.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// Returns true if a program can have huge pages on this machine.
    fn has_huge_pages() -> bool {
        let folder = std::path::Path::new("/sys/kernel/mm/transparent_hugepage");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        read("hpage_pmd_size").trim() == PAGE_BYTES.to_string()
            && !read("enabled").contains("[never]")
    }

    #[test]
    fn memory_is_in_huge_pages_although_the_process_wants_small_ones() {
        crate::process::use_small_pages();
        let mut memory = HugeMemory::new(PAGE_BYTES + 5);
        assert_eq!(memory.bytes().len(), PAGE_BYTES + 5);
        assert!(memory.bytes().as_ptr().addr().is_multiple_of(PAGE_BYTES), "aligned");
        memory.bytes().fill(7);
        let huge = huge_bytes(memory.bytes().as_ptr().addr());
        if has_huge_pages() {
            assert_eq!(huge, Some(2 * PAGE_BYTES as u64));
            assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap());
        }
        assert!(memory.bytes().iter().all(|byte| *byte == 7));
    }
}
