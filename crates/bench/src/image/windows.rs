//! Windows of a disk: what is read at once.

use std::ops::Range;

/// Length of a window.
pub(super) const WINDOW_BYTES: usize = 1 << 20;
/// Alignment of reads that bypass the page cache.
const ALIGNMENT: u64 = 4096;
/// Two runs with at most this many bytes between them are read at once.
const GAP_BYTES: u64 = 64 << 10;

/// A part of a disk at a multiple of [`WINDOW_BYTES`], with the runs of it that are in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) offset: u64,
    /// Ranges of the disk, in whole blocks, in order and apart from each other.
    pub(super) runs: Vec<Range<u64>>,
}

impl Window {
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }
}

/// Returns the windows with the ranges `used`, which are in order. Like the program that is
/// measured, it joins runs that are close to each other.
pub(super) fn windows(used: &[Range<u64>]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for range in used {
        let end = range.end.next_multiple_of(ALIGNMENT);
        let mut start = range.start / ALIGNMENT * ALIGNMENT;
        while start < end {
            let offset = start / WINDOW_BYTES as u64 * WINDOW_BYTES as u64;
            let run = start..end.min(offset + WINDOW_BYTES as u64);
            start = run.end;
            match windows.last_mut() {
                Some(window) if window.offset == offset => add(&mut window.runs, run),
                _ => windows.push(Window { offset, runs: Vec::from([run]) }),
            }
        }
    }
    windows
}

fn add(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if run.start <= last.end + GAP_BYTES => last.end = last.end.max(run.end),
        _ => runs.push(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_at_windows_and_joined_if_they_are_close() {
        let used = [100..5000, 8192..12_288, 500_000..500_001, (1 << 20) - 4096..(2 << 20) + 1];
        let runs = |window: &Window| window.runs.clone();
        let windows = windows(&used);
        let offsets: Vec<u64> = windows.iter().map(|window| window.offset).collect();
        assert_eq!(offsets, [0, 1 << 20, 2 << 20]);
        let last = (1 << 20) - 4096..1 << 20;
        assert_eq!(runs(&windows[0]), [0..12_288, 499_712..503_808, last]);
        assert_eq!(runs(&windows[1]), Vec::from([1 << 20..2 << 20]));
        assert_eq!(windows[2].bytes(), 4096);
    }
}
