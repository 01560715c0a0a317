//! Reception: takes windows of entries and their quanta from the server and passes them to a
//! destination.
//!
//! The server decides the order of its messages, but not how much the client keeps of them:
//!
//! 1. The entries of all windows that are not complete have room in [`Room::of_all_windows`].
//! 2. At most [`WINDOWS_AT_ONCE`] windows are not complete. Their numbers count from 0, and nothing
//!    follows the last window.
//! 3. A window gets data only while it is the oldest, and not much more than it needs.
//!
//! Entries that come while no window may be added wait as early arrivals.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, bounded};

use super::destination::{Destination, WINDOWS_AT_ONCE};
use super::opener::{Opener, Work};
use super::tally::Tally;
use super::window::{Window, WindowBuilder};
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::bounds::Room;
use crate::link::restore::{Arrival, DamagedChunks, RestoreStream};
use crate::link::stage::Purpose;
use crate::link::versions::{Entries, Selection};

/// Maximum number of quanta that wait for a thread.
const QUANTA_WAITING: usize = 8;
/// Maximum number of directories of a window. Larger windows hardly reduce the number of quanta
/// that are sent twice.
const WINDOW_DIRECTORIES_MAX: u32 = 2048;
/// Maximum number of messages with entries that wait until the data of a window is complete.
const EARLY_MAX: usize = 4096;
/// Number of files that are open for other reasons.
const OTHER_FILES: u64 = 128;

/// Result of a reception.
pub(super) struct Receipt {
    /// Number of versions.
    pub(super) versions: u64,
    /// Reason why the server could not send some versions, if it has sent all others.
    pub(super) unreadable: Option<ClientError>,
}

/// Receives the versions of `selection` into `destination`. If data must be read from volumes,
/// `purpose` decides when the server reads it.
pub(super) fn receive<D: Destination>(
    link: &Link,
    selection: &Selection,
    purpose: Option<Purpose>,
    destination: &mut D,
    tally: &Tally,
) -> Result<Receipt, ClientError> {
    let directories_max = directories_max(sys::process::raise_open_files());
    let directories_max = directories_max.min(destination.directories_max());
    let stream = link.restore(selection, purpose, directories_max)?;
    let builder = WindowBuilder::new();
    let ready = VecDeque::new();
    let room = Room::of_all_windows();
    let mut reception = Reception {
        link,
        stream,
        tally,
        entries: 0,
        room,
        builder,
        windows: 0,
        ready,
        has_all_entries: false,
        early: VecDeque::new(),
        early_room: Room::of_all_windows(),
        opener: None,
    };
    let unreadable = loop {
        match reception.receive_next(destination) {
            Ok(true) => {}
            Ok(false) => break None,
            // The server sends this error after the data of the last window. Earlier, the rest is
            // missing too.
            Err(error) if error.kind == ErrorKind::Damaged && reception.is_complete() => {
                break Some(error);
            }
            Err(error) => return Err(error),
        }
    };
    let Reception { stream, entries: versions, .. } = reception;
    stream.finish();
    Ok(Receipt { versions, unreadable })
}

/// Returns the maximum number of directories of a window, so that the directories of all windows
/// can be open with `open_files` files.
fn directories_max(open_files: u64) -> u32 {
    let share = open_files.saturating_sub(OTHER_FILES) / (WINDOWS_AT_ONCE + 1);
    u32::try_from(share).unwrap_or(u32::MAX).clamp(1, WINDOW_DIRECTORIES_MAX)
}

/// State of a reception into files of type `F`.
struct Reception<'a, F> {
    link: &'a Link,
    stream: RestoreStream<'a>,
    tally: &'a Tally,
    /// Number of entries so far.
    entries: u64,
    /// Room for the entries of windows that are not complete.
    room: Room,
    /// Window whose entries are arriving.
    builder: WindowBuilder<F>,
    /// Number of windows whose entries have arrived.
    windows: u64,
    /// Windows that have been answered, oldest first. Data arrives for the oldest window.
    ready: VecDeque<Arc<Window<F>>>,
    /// True after the entries of the last window.
    has_all_entries: bool,
    /// Arrivals that wait until a window is complete, and room for their entries.
    early: VecDeque<Arrival>,
    early_room: Room,
    /// Opener of this thread, after the first window with little data.
    opener: Option<Opener<'a>>,
}

impl<F: Send + Sync> Reception<'_, F> {
    /// Returns true after the data of the last window.
    fn is_complete(&self) -> bool {
        self.has_all_entries && self.ready.is_empty() && self.early.is_empty()
    }

    /// Returns true if the destination may not take another window now.
    fn is_busy<D: Destination<File = F>>(&self, destination: &D) -> bool {
        let open = self.ready.len() as u64;
        // A window beyond all that may be open is refused, and does not wait.
        open >= destination.windows_at_once() && open < WINDOWS_AT_ONCE
    }

    /// Keeps an arrival until a window is complete.
    fn keep(&mut self, arrival: Arrival) -> Result<(), ClientError> {
        if let Arrival::Entries(entries) = &arrival {
            self.early_room.take(entries.size.waiting())?;
        }
        if self.early.len() == EARLY_MAX {
            return Err(out_of_turn());
        }
        self.early.push_back(arrival);
        Ok(())
    }

    /// Takes an arrival that has waited, if the destination may take it now.
    fn take_early<D: Destination<File = F>>(&mut self, destination: &D) -> Option<Arrival> {
        if self.is_busy(destination) {
            return None;
        }
        let arrival = self.early.pop_front()?;
        if let Arrival::Entries(entries) = &arrival {
            self.early_room.give_back(entries.size.waiting());
        }
        Some(arrival)
    }

    fn next(&mut self) -> Result<Arrival, ClientError> {
        // A pause is no part of the transfer.
        self.tally.progress.hold();
        let began = sys::clock::monotonic();
        let arrival = self.stream.next(&self.tally.progress);
        self.tally.note_transfer(began.elapsed());
        arrival
    }

    /// Takes in the next message. If it has data, takes in everything up to the end of the window's
    /// data. Returns false after the last window.
    ///
    /// One thread takes in entries, but several threads take in data. So no entry is taken in while
    /// data arrives, and what has waited is taken in first.
    fn receive_next<D: Destination<File = F>>(
        &mut self,
        destination: &mut D,
    ) -> Result<bool, ClientError> {
        let arrival = match self.take_early(destination) {
            Some(arrival) => arrival,
            None => self.next()?,
        };
        match arrival {
            entries @ (Arrival::Entries(_) | Arrival::EntriesEnd { .. })
                if self.is_busy(destination) =>
            {
                self.keep(entries)?;
            }
            Arrival::Entries(entries) => self.take_entries(entries, destination)?,
            Arrival::EntriesEnd { window, is_last } => {
                destination.end_window();
                self.answer(window, is_last)?;
            }
            Arrival::Quantum(quantum) => {
                let window = Arc::clone(self.ready.front().ok_or_else(out_of_turn)?);
                window.count_message()?;
                let first = Work { window, quantum };
                let is_little = first.window.is_small() || destination.takes_one_thread();
                let is_last = match is_little {
                    true => self.take_little_data(first, &*destination)?,
                    false => self.take_data(first, &*destination)?,
                };
                return Ok(!is_last);
            }
            Arrival::Damaged(damaged) => {
                let window = self.ready.front().ok_or_else(out_of_turn)?;
                window.count_message()?;
                lose_damaged(window, destination, &damaged);
            }
            // The window gets no more data: all of it is damaged, or no data was wanted.
            Arrival::DataEnd { is_last } => {
                self.complete(destination)?;
                return Ok(!is_last);
            }
        }
        Ok(true)
    }

    fn take_entries<D: Destination<File = F>>(
        &mut self,
        Entries { entries, size }: Entries,
        to: &mut D,
    ) -> Result<(), ClientError> {
        if self.has_all_entries {
            return Err(out_of_turn());
        }
        let size = size.waiting();
        self.room.take(size)?;
        self.builder.count(size);
        for entry in entries {
            self.entries += 1;
            let pieces = entry.pieces_within(&to.range());
            if !self.builder.has_room_for(pieces.as_ref().map_or(0, Vec::len)) {
                let message = "the server sent more chunks at once than a file can have";
                return Err(ClientError::new(ErrorKind::Bug, message));
            }
            let file = to.take(entry);
            self.builder.add(file, pieces.as_deref());
        }
        Ok(())
    }

    /// Ends the oldest window, because all its data has arrived.
    fn complete<D: Destination<File = F>>(&mut self, destination: &D) -> Result<(), ClientError> {
        let window = self.ready.pop_front().ok_or_else(out_of_turn)?;
        window.lose_rest(destination);
        destination.complete_window();
        self.tally.progress.get_on();
        self.room.give_back(window.size());
        Ok(())
    }

    /// Ends the entries of a window, and asks for the data that its files lack.
    fn answer(&mut self, number: u64, is_last: bool) -> Result<(), ClientError> {
        let is_in_turn = number == self.windows && !self.has_all_entries;
        if !is_in_turn || self.ready.len() as u64 == WINDOWS_AT_ONCE {
            return Err(out_of_turn());
        }
        self.windows += 1;
        self.has_all_entries = is_last;
        let (window, bits) = std::mem::replace(&mut self.builder, WindowBuilder::new()).finish();
        self.ready.push_back(Arc::new(window));
        self.stream.answer(number, bits)
    }

    fn count(&self, work: &Work<F>) {
        let bytes = work.quantum.record.len() as u64;
        self.tally.progress.bytes_transferred.fetch_add(bytes, Relaxed);
    }

    /// Takes in the data of a window, as [`Self::take_data`] does, but only on this thread. For
    /// little data, the start of threads would take longer.
    fn take_little_data<D: Destination<File = F>>(
        &mut self,
        first: Work<F>,
        destination: &D,
    ) -> Result<bool, ClientError> {
        let mut opener = match self.opener.take() {
            Some(opener) => opener,
            None => Opener::new(self.link).map_err(|error| {
                ClientError::new(ErrorKind::Bug, format!("cannot make a decompressor: {error}"))
            })?,
        };
        let is_last = self.each_quantum(first, destination, |work| {
            opener.open_or_lose(&work, destination);
            Ok(())
        })?;
        self.opener = Some(opener);
        self.complete(destination)?;
        Ok(is_last)
    }

    /// Takes in the data of a window, with one thread for each processor. Returns true after the
    /// last window.
    ///
    /// Entries that arrive meanwhile wait, because all threads use the destination.
    fn take_data<D: Destination<File = F>>(
        &mut self,
        first: Work<F>,
        destination: &D,
    ) -> Result<bool, ClientError> {
        let link = self.link;
        let is_last = std::thread::scope(|scope| {
            let (sender, receiver) = bounded(QUANTA_WAITING);
            for _ in 0..sys::process::processors() {
                let receiver = receiver.clone();
                scope.spawn(move || open_all(&receiver, link, destination));
            }
            drop(receiver);
            self.each_quantum(first, destination, |work| {
                let refused = |_| ClientError::new(ErrorKind::Bug, "no thread takes data");
                sender.send(work).map_err(refused)
            })
        })?;
        self.complete(destination)?;
        Ok(is_last)
    }

    /// Gives the quanta of a window to `take` as they arrive, from `first` on. Returns true after
    /// the last window.
    fn each_quantum<D: Destination<File = F>>(
        &mut self,
        first: Work<F>,
        destination: &D,
        mut take: impl FnMut(Work<F>) -> Result<(), ClientError>,
    ) -> Result<bool, ClientError> {
        let window = Arc::clone(&first.window);
        let mut next = Some(first);
        loop {
            if let Some(work) = next.take() {
                self.count(&work);
                take(work)?;
            }
            match self.next()? {
                Arrival::Quantum(quantum) => {
                    window.count_message()?;
                    next = Some(Work { window: Arc::clone(&window), quantum });
                }
                Arrival::Damaged(damaged) => {
                    window.count_message()?;
                    lose_damaged(&window, destination, &damaged);
                }
                Arrival::DataEnd { is_last } => return Ok(is_last),
                entries => self.keep(entries)?,
            }
        }
    }
}

fn out_of_turn() -> ClientError {
    ClientError::new(ErrorKind::Bug, "the server sent data at the wrong time")
}

fn lose_damaged<D: Destination>(window: &Window<D::File>, to: &D, damaged: &DamagedChunks) {
    window.lose(to, damaged.first_place, damaged.count, &damaged.reason);
}

/// Opens all quanta of the queue `work`. It runs in a thread of its own.
fn open_all<D: Destination>(work: &Receiver<Work<D::File>>, link: &Link, destination: &D) {
    match Opener::new(link) {
        Ok(mut opener) => work.iter().for_each(|work| opener.open_or_lose(&work, destination)),
        Err(error) => work.iter().for_each(|work| work.lose(destination, &error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_all_windows_can_be_open_at_once() {
        for limit in [0, 1, 128, 200, 1024, 4096, 8320, 1 << 20, u64::MAX] {
            let directories = directories_max(limit);
            assert!((1..=WINDOW_DIRECTORIES_MAX).contains(&directories), "{limit}");
            let open = u64::from(directories) * WINDOWS_AT_ONCE;
            assert!(open + OTHER_FILES <= limit || directories == 1, "{limit}");
        }
        assert_eq!(directories_max(u64::MAX), WINDOW_DIRECTORIES_MAX);
        assert!(directories_max(1024) > 200);
    }
}
