//! Prediction of what a backup takes, from the measured parts. Pure.
//!
//! ```text
//!   stage       seconds
//!   disk        waiting for the walk and for reads
//!   processor   walking, reading, cutting, digesting, compressing, encrypting, and keeping
//!               the catalogue
//!   network     bytes sent / rate
//!
//!   time = start + slowest stage + OVERLAP of the others
//! ```
//!
//! A server on the same host uses the same processors; its work is added to the node's. What
//! another server can do is not known here, so it counts as never being the slowest, and a remark
//! says so.

mod constants;

use crate::facts::{Amount, Facts, Files};
use crate::prediction::{Advice, Prediction, Range, Stage, StageTime, Work};
use crate::sample::Estimate;
use constants as c;

/// Time below which nobody wants work to be shorter.
const SHORT_SECS: f64 = 1.0;

/// Seconds of the stages.
#[derive(Clone, Copy, Debug, Default)]
struct Seconds {
    disk: f64,
    processor: f64,
    network: f64,
}

impl Seconds {
    fn stages(&self) -> [StageTime; 3] {
        let stages = [Stage::Disk, Stage::Processor, Stage::Network];
        let secs = [self.disk, self.processor, self.network];
        [0, 1, 2].map(|n| StageTime { stage: stages[n], secs: secs[n] })
    }

    fn slowest(&self) -> StageTime {
        let [first, rest @ ..] = self.stages();
        rest.into_iter()
            .fold(first, |slowest, one| if one.secs > slowest.secs { one } else { slowest })
    }

    /// Returns the time of stages that overlap.
    fn together(&self) -> f64 {
        let slowest = self.slowest().secs;
        let sum = self.disk + self.processor + self.network;
        slowest + c::NOT_OVERLAPPED * (sum - slowest)
    }
}

/// Returns the predictions for the place that `facts` describe. `fitted` gives, for each work, the
/// ratio of real times to predicted times of the past.
pub(crate) fn predict(facts: &Facts, fitted: &dyn Fn(Work) -> Option<Estimate>) -> Vec<Prediction> {
    let one = |work| {
        let amount = match work {
            Work::First | Work::Restore => facts.whole(),
            Work::Unchanged => facts.nothing(),
            Work::Day => facts.day(),
            Work::Image => facts.used_blocks(),
        };
        corrected(predict_amount(facts, work, &amount), fitted(work))
    };
    Work::ALL.map(one).into()
}

/// Predicts work of this amount, without the correction by earlier runs.
pub(crate) fn predict_amount(facts: &Facts, work: Work, amount: &Amount) -> Prediction {
    match work {
        Work::First | Work::Unchanged | Work::Day => facts.backup(work, amount),
        Work::Restore => facts.restore(amount),
        Work::Image => facts.image(amount),
    }
}

/// Returns the relative deviation of predicted times from real ones, before several runs on the
/// host have shown it.
pub(crate) fn deviation(work: Work) -> f64 {
    match work {
        Work::Restore => c::DEVIATION_RESTORE,
        Work::First | Work::Unchanged | Work::Day | Work::Image => c::DEVIATION_TIME,
    }
}

/// Applies what earlier runs have taught.
fn corrected(prediction: Prediction, fitted: Option<Estimate>) -> Prediction {
    let Some(fitted) = fitted else { return prediction };
    let likely = prediction.secs.likely * fitted.value;
    let deviation = (fitted.error / fitted.value).max(c::DEVIATION_FITTED);
    Prediction { secs: time(likely, deviation), fitted: fitted.value, ..prediction }
}

/// Makes the range of a time of `likely` seconds with the relative deviation `deviation`.
fn time(likely: f64, deviation: f64) -> Range {
    Range::around(likely, deviation.hypot(c::DEVIATION_SECS / likely))
}

impl Facts {
    /// The whole tree.
    fn whole(&self) -> Amount {
        Amount { small: self.small, large: self.large, ..self.nothing() }
    }

    fn nothing(&self) -> Amount {
        Amount { objects: self.objects, directories: self.directories, ..Amount::default() }
    }

    /// The used blocks of the file system, as one file. An image leaves out only blocks that the
    /// file system calls free, so it reads those that are never free for files, too, and all blocks
    /// if nobody tells. They are taken for empty, as most of a table of inodes is.
    fn used_blocks(&self) -> Amount {
        let large = Files { count: 0.0, bytes: self.file_system_bytes };
        Amount { large, empty_bytes: self.file_system_own_bytes, ..Amount::default() }
    }

    /// The changes of a usual day. Changed files are as small as all files are.
    fn day(&self) -> Amount {
        let large_share = if self.bytes() > 0.0 { self.large.bytes / self.bytes() } else { 0.0 };
        let large_files = if self.large.bytes > 0.0 {
            self.large.count * self.day.bytes * large_share / self.large.bytes
        } else {
            0.0
        };
        let large = Files { count: large_files, bytes: self.day.bytes * large_share };
        let small = Files {
            count: (self.day.count - large_files).max(0.0),
            bytes: self.day.bytes - large.bytes,
        };
        Amount { small, large, ..self.nothing() }
    }

    /// Share of bytes that are new to the server, and bytes after compression for one before.
    fn shrunk(&self, amount: &Amount) -> (Estimate, Estimate) {
        let unique = match amount.new_share {
            Some(value) => Estimate { value, error: 0.0 },
            None => Estimate { value: 1.0 - self.copies.value, error: self.copies.error },
        };
        let bytes = amount.bytes();
        if bytes <= 0.0 {
            return (unique, self.ratio_small);
        }
        let (small, large) = (amount.small.bytes / bytes, amount.large.bytes / bytes);
        let value = small * self.ratio_small.value + large * self.ratio_large.value;
        let error = (small * self.ratio_small.error).hypot(large * self.ratio_large.error);
        (unique, Estimate { value, error })
    }

    fn backup(&self, work: Work, amount: &Amount) -> Prediction {
        let (unique, ratio) = self.shrunk(amount);
        let new_bytes = amount.bytes() * unique.value;
        let packed = new_bytes * ratio.value;
        let is_first = work == Work::First;
        let changed = if is_first { amount.objects } else { amount.files() };
        let sent =
            packed + changed * c::SENT_BYTES_OBJECT + amount.directories * self.digest_bytes(work);
        let walk = if is_first { self.walk_first } else { self.walk_again };
        let disk = amount.objects * walk.wait
            + amount.small.count * self.read_small.wait
            + amount.large.bytes * self.read_large.wait;
        let node = amount.objects * (walk.work + self.own(c::COMPARE_SECS_OBJECT))
            + changed * self.own(c::NODE_SECS_OBJECT)
            + amount.small.count * self.read_small.work
            + amount.large.bytes * (self.read_large.work + self.each_byte(self.cut))
            + amount.bytes() * self.each_byte(self.digest)
            + new_bytes * self.each_byte(self.compress)
            + sent * self.each_byte(self.encrypt);
        let server = changed * self.own(c::SERVER_SECS_OBJECT)
            + new_bytes * (self.each_byte(self.decompress) + self.each_byte(self.digest))
            + packed * self.own(c::SERVER_SECS_PACKED_BYTE)
            + sent * self.each_byte(self.encrypt);
        let server = if self.server_is_here { server } else { 0.0 };
        let seconds = Seconds { disk, processor: node + server, network: sent / self.to_server };
        let commit = if changed > 0.0 { c::COMMIT_SECS } else { 0.0 };
        let start = c::START_SECS + commit + c::ROUND_TRIPS * self.round_trip;
        let likely = start + seconds.together();
        let spread =
            (unique.error / unique.value.max(0.01)).hypot(ratio.error / ratio.value.max(0.01));
        let relative = deviation(work).hypot(match seconds.slowest().stage {
            Stage::Network => spread,
            Stage::Disk | Stage::Processor => 0.3 * spread,
        });
        let catalog = changed * c::CATALOG_BYTES_OBJECT
            + (amount.small.count + amount.large.bytes / c::CHUNK_BYTES) * c::INDEX_BYTES_CHUNK;
        let data = packed
            + (amount.small.count + amount.large.bytes / c::CHUNK_BYTES) * c::FOOTER_BYTES_CHUNK;
        let sizes = c::DEVIATION_SIZE.hypot(spread);
        Prediction {
            work,
            secs: time(likely, relative),
            limit: seconds.slowest().stage,
            stages: seconds.stages().into(),
            bytes_read: Range::around(amount.bytes(), 0.0),
            bytes_sent: Range::around(sent, sizes),
            node_memory_bytes: Range::around(self.node_memory(amount), c::DEVIATION_MEMORY),
            server_bytes: Range::around(data + catalog, sizes),
            catalog_bytes: Range::around(catalog, c::DEVIATION_SIZE),
            advice: self.advice(work, &seconds, start),
            fitted: 1.0,
        }
    }

    /// Bytes that travel for each directory: the digests that a first backup does not fetch.
    fn digest_bytes(&self, work: Work) -> f64 {
        if work == Work::First { 0.0 } else { c::DIGEST_BYTES_DIRECTORY }
    }

    fn node_memory(&self, amount: &Amount) -> f64 {
        let data = if amount.files() > 0.0 { c::MEMORY_DATA_BYTES } else { 0.0 };
        c::MEMORY_BASE_BYTES
            + data
            + self.directories * c::MEMORY_BYTES_DIRECTORY
            + (self.small.count + self.large.bytes / c::CHUNK_BYTES).min(c::GRANTS_MAX)
                * c::MEMORY_BYTES_GRANT
    }

    fn restore(&self, amount: &Amount) -> Prediction {
        let (unique, ratio) = self.shrunk(amount);
        let bytes = amount.bytes();
        // A quantum that several files need is fetched once if they are near each other.
        let packed = bytes * unique.value * ratio.value;
        let sent = packed + amount.objects * c::SENT_BYTES_OBJECT;
        // A directory or a symbolic link is an inode and a name as a file is.
        let disk = amount.objects * self.create.wait + bytes * self.write_byte_wait(bytes);
        let node = amount.objects * (self.create.work + self.own(c::RESTORE_SECS_OBJECT))
            + bytes
                * (self.each_byte(self.decompress)
                    + self.each_byte(self.digest)
                    + self.own(c::RESTORE_SECS_BYTE))
            + sent * self.each_byte(self.encrypt);
        let server = packed * self.own(c::SERVER_SECS_PACKED_BYTE)
            + amount.objects * self.own(c::RESTORE_SERVER_SECS_OBJECT)
            + sent * self.each_byte(self.encrypt);
        let server = if self.server_is_here { server } else { 0.0 };
        let seconds = Seconds { disk, processor: node + server, network: sent / self.from_server };
        let start = c::START_SECS + c::ROUND_TRIPS * self.round_trip;
        Prediction {
            work: Work::Restore,
            secs: time(start + seconds.together(), deviation(Work::Restore)),
            limit: seconds.slowest().stage,
            stages: seconds.stages().into(),
            bytes_read: Range::default(),
            bytes_sent: Range::around(
                sent,
                c::DEVIATION_SIZE.hypot(ratio.error / ratio.value.max(0.01)),
            ),
            node_memory_bytes: Range::around(
                c::MEMORY_BASE_BYTES + c::MEMORY_DATA_BYTES,
                c::DEVIATION_MEMORY,
            ),
            server_bytes: Range::default(),
            catalog_bytes: Range::default(),
            advice: self.advice(Work::Restore, &seconds, start),
            fitted: 1.0,
        }
    }

    /// Waiting for the disk, for each of the `bytes` that a restore writes. Where the memory holds
    /// what is written, the disk writes it later.
    fn write_byte_wait(&self, bytes: f64) -> f64 {
        if bytes < 0.1 * self.memory_available { 0.0 } else { 1.0 / self.write_stream }
    }

    /// An image backup reads the used blocks as one stream, those of zeros, too. It compresses the
    /// data that the server does not have: all of it, if nothing else is known.
    fn image(&self, amount: &Amount) -> Prediction {
        let bytes = amount.bytes();
        let read_bytes = bytes + amount.empty_bytes;
        let new_bytes = bytes * amount.new_share.unwrap_or(1.0);
        let ratio = self.shrunk(&self.whole()).1;
        let packed = new_bytes * ratio.value;
        let node = bytes * self.each_byte(self.digest)
            + read_bytes * self.own(c::COPY_SECS_BYTE)
            + new_bytes * self.each_byte(self.compress)
            + packed * self.each_byte(self.encrypt);
        let server = new_bytes * (self.each_byte(self.decompress) + self.each_byte(self.digest))
            + packed * (self.own(c::SERVER_SECS_PACKED_BYTE) + self.each_byte(self.encrypt));
        let server = if self.server_is_here { server } else { 0.0 };
        let seconds = Seconds {
            disk: read_bytes / self.read_stream,
            processor: node + server,
            network: packed / self.to_server,
        };
        // The head of an image without changes is new, too.
        let commits = if new_bytes > 0.0 { c::IMAGE_COMMITS } else { 1.0 };
        let start = c::START_SECS + commits * c::COMMIT_SECS + c::ROUND_TRIPS * self.round_trip;
        let chunks = new_bytes / c::CHUNK_BYTES * c::INDEX_BYTES_CHUNK;
        let sizes = c::DEVIATION_SIZE.hypot(ratio.error / ratio.value.max(0.01));
        Prediction {
            work: Work::Image,
            secs: time(start + seconds.together(), deviation(Work::Image).hypot(sizes)),
            limit: seconds.slowest().stage,
            stages: seconds.stages().into(),
            bytes_read: Range::around(read_bytes, 0.0),
            bytes_sent: Range::around(packed, sizes),
            node_memory_bytes: Range::around(
                c::MEMORY_BASE_BYTES + c::MEMORY_DATA_BYTES,
                c::DEVIATION_MEMORY,
            ),
            server_bytes: Range::around(packed + chunks, sizes),
            catalog_bytes: Range::around(chunks, c::DEVIATION_SIZE),
            advice: self.advice(Work::Image, &seconds, start),
            fitted: 1.0,
        }
    }

    /// Says what would change the time most.
    fn advice(&self, work: Work, seconds: &Seconds, start: f64) -> Advice {
        let slowest = seconds.slowest();
        let without = |stage: Stage| {
            let mut others = *seconds;
            match stage {
                Stage::Disk => others.disk = 0.0,
                Stage::Processor => others.processor = 0.0,
                Stage::Network => others.network = 0.0,
            }
            others.slowest()
        };
        if start + seconds.together() < SHORT_SECS {
            return Advice("It takes so little time that nothing needs to change.".to_owned());
        }
        if slowest.secs < start {
            return Advice(
                "Starting and ending take most of the time; nothing would make it much shorter."
                    .to_owned(),
            );
        }
        let next = without(slowest.stage);
        let gain = slowest.secs / next.secs.max(start);
        let verb = if next.stage == Stage::Processor { "limit" } else { "limits" };
        let bound = format!(
            "Without this limit it would be {gain:.1} times as fast; then the {} {verb} it.",
            next.stage.title()
        );
        let cause = match slowest.stage {
            Stage::Disk => self.advice_on_disk(work),
            Stage::Processor if self.server_is_here => {
                "The processors limit it. The server is on this host and shares them: another host \
                 for the server, more processors or a lighter compression would help."
                    .to_owned()
            }
            Stage::Processor => {
                "The processors limit it: more processors or a lighter compression would help."
                    .to_owned()
            }
            Stage::Network => format!(
                "The network limits it: it carries {:.1} MiB/s. A stronger compression would help.",
                self.to_server / 1_048_576.0
            ),
        };
        Advice(format!("{cause} {bound}"))
    }

    fn advice_on_disk(&self, work: Work) -> String {
        let image_bytes = self.file_system_bytes + self.file_system_own_bytes;
        let image_secs = image_bytes / self.read_stream;
        match (work, self.iops) {
            (Work::First | Work::Unchanged | Work::Day, Some((iops, depth)))
                if self.read_stream.is_finite() =>
            {
                format!(
                    "The disk limits it: it gives {iops:.0} random reads a second, at {depth} or \
                     more at once, so more threads than that give nothing. Reading all its used \
                     blocks as a stream, for an image backup, would take {}.",
                    crate::plan::duration_words(image_secs)
                )
            }
            (Work::Restore, _) => {
                "The disk limits it: making and writing files waits for it.".to_owned()
            }
            _ => "The disk limits it.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
