//! Numbers for new packs. Servers that share a catalogue each take ranges of numbers beforehand,
//! so that no two servers use the same number.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use model::PackNumber;

/// Source of ranges that no other server has; it gives a new range each time.
pub type NumberSource = Arc<dyn Fn() -> io::Result<Range<PackNumber>> + Send + Sync>;

/// Number of remaining numbers at which more are taken.
const NUMBERS_LOW: u64 = 16;

/// Origin of the numbers of new packs.
pub enum Numbers {
    /// This server alone gives numbers, beginning with this number.
    Own(PackNumber),
    Shared(NumberSource),
}

/// Numbers that this server may give to new packs.
///
/// Invariant: each number is given at most once. `next <= end`, and `end <= taken_end`.
pub(crate) struct Stock {
    next: PackNumber,
    end: PackNumber,
    /// Range to be used after `end` is reached.
    spare: Option<Range<PackNumber>>,
    /// End of all ranges that were ever taken, whether they are still in use or not.
    taken_end: PackNumber,
    source: Option<NumberSource>,
}

impl Stock {
    /// Returns the stock of a server in whose pools `last` is the greatest number.
    pub(crate) fn new(numbers: Numbers, last: Option<PackNumber>) -> Self {
        let after_last = PackNumber(last.map_or(1, |last| last.0 + 1));
        let (next, end, source) = match numbers {
            Numbers::Own(next) => (next.max(after_last), PackNumber(u64::MAX), None),
            // No number is taken yet, which the list of servers calls 0.
            Numbers::Shared(source) => (PackNumber(0), PackNumber(0), Some(source)),
        };
        let stock = Self { next, end, spare: None, taken_end: end, source };
        assert!(stock.is_shared() || stock.next >= after_last, "no number is given twice");
        stock
    }

    /// True if other servers take numbers from the same source.
    pub(crate) fn is_shared(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn next(&self) -> PackNumber {
        self.next
    }

    pub(crate) fn taken_end(&self) -> PackNumber {
        self.taken_end
    }

    /// Lower limit of the numbers of new packs; `None` if the next number comes from a range that
    /// is not taken yet.
    pub(crate) fn next_taken(&self) -> Option<PackNumber> {
        let is_taken = self.next < self.end || self.spare.is_some();
        is_taken.then_some(self.next.min(self.end))
    }

    /// Takes a new range if no number is left.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        if self.next >= self.end
            && let Some(source) = &self.source
        {
            let taken = self.spare.take().map_or_else(|| source(), Ok)?;
            assert!(taken.start < taken.end, "a source gives at least one number");
            self.taken_end = self.taken_end.max(taken.end);
            (self.next, self.end) = (taken.start, taken.end);
        }
        assert!(self.next < self.end, "a stock that was filled has a number");
        assert!(self.end <= self.taken_end, "a number in use was taken");
        Ok(())
    }

    /// Keeps a range for later. If another thread has kept a range meanwhile, the new range is
    /// never used.
    pub(crate) fn keep(&mut self, taken: Range<PackNumber>) {
        assert!(taken.start < taken.end, "a source gives at least one number");
        self.taken_end = self.taken_end.max(taken.end);
        self.spare = self.spare.take().or(Some(taken));
    }

    /// Returns the source to take more numbers from, if few are left.
    pub(crate) fn low_source(&self) -> Option<NumberSource> {
        let left = self.end.0.saturating_sub(self.next.0);
        let is_low = left <= NUMBERS_LOW && self.spare.is_none();
        self.source.clone().filter(|_| is_low)
    }

    /// Takes the next number for one pack.
    pub(crate) fn take(&mut self) -> io::Result<PackNumber> {
        self.fill()?;
        let number = self.next;
        self.next = PackNumber(number.0 + 1);
        Ok(number)
    }

    /// Gives back the number that was taken last. No pack may have it.
    pub(crate) fn put_back(&mut self, number: PackNumber) {
        assert_eq!(number.0 + 1, self.next.0, "only the last number can be put back");
        self.next = number;
    }

    /// Discards all remaining numbers: the next number comes from a new range.
    pub(crate) fn give_up(&mut self) {
        assert!(self.is_shared(), "numbers are discarded only if a source gives others");
        self.spare = None;
        self.next = self.end;
    }

    /// Takes note that a pack with this number exists: new packs get greater numbers.
    pub(crate) fn pass(&mut self, pack: PackNumber) {
        if !self.is_shared() {
            self.next = self.next.max(PackNumber(pack.0 + 1));
            assert!(self.next > pack, "no number is given twice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(ranges: impl IntoIterator<Item = Range<u64>>) -> Stock {
        let ranges: Vec<Range<u64>> = ranges.into_iter().collect();
        let ranges = sys::lock::Mutex::new(ranges.into_iter());
        let source: NumberSource = Arc::new(move || {
            let range = ranges.lock().next().ok_or(io::ErrorKind::ConnectionRefused)?;
            Ok(PackNumber(range.start)..PackNumber(range.end))
        });
        Stock::new(Numbers::Shared(source), None)
    }

    #[test]
    fn own_numbers_begin_after_all_packs_that_are_there() {
        let mut stock = Stock::new(Numbers::Own(PackNumber(3)), Some(PackNumber(7)));
        assert_eq!(stock.take().unwrap(), PackNumber(8));
        stock.pass(PackNumber(20));
        assert_eq!(stock.take().unwrap(), PackNumber(21));
        stock.put_back(PackNumber(21));
        assert_eq!(stock.take().unwrap(), PackNumber(21));
    }

    #[test]
    fn ranges_of_others_are_left_out() {
        let mut stock = shared([1..3, 10..12]);
        assert_eq!(stock.next_taken(), None);
        let taken: Vec<u64> = (0..4).map(|_| stock.take().unwrap().0).collect();
        assert_eq!(taken, [1, 2, 10, 11]);
        assert_eq!(stock.taken_end(), PackNumber(12));
        assert!(stock.take().is_err(), "the source gives no more");
        // The number of another server's pack does not change the numbers of this server.
        stock.pass(PackNumber(50));
        stock.keep(PackNumber(30)..PackNumber(32));
        assert_eq!(stock.take().unwrap(), PackNumber(30));
    }

    #[test]
    fn numbers_that_were_given_up_are_never_given() {
        let mut stock = shared([1..40, 40..80]);
        assert_eq!(stock.take().unwrap(), PackNumber(1));
        stock.give_up();
        assert_eq!(stock.next_taken(), None);
        assert_eq!(stock.take().unwrap(), PackNumber(40));
        assert!(stock.low_source().is_none());
    }
}
