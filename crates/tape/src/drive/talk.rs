//! Reports of a drive about itself and its medium: alerts, capacity, attributes, recommended order.

use super::Drive;
use crate::device::CommandError;
use crate::scsi::{
    Attribute, Cdb, Density, PhysicalPosition, Segment, SegmentLimits, TapeAlert, TapeCapacity,
    WrapEnd, log_page, opcode, physical_position, recommended_order, segment_limits, segment_list,
    supported_log_pages, tape_alerts, tape_capacity, wrap_ends,
};

/// Returns the answer, or `None` if the device refuses the command.
fn if_known<T>(result: Result<T, CommandError>) -> Result<Option<T>, CommandError> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_refused() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drive {
    /// Returns a log page; `None` if the drive does not have the page.
    pub fn log(&mut self, page: u8) -> Result<Option<Vec<u8>>, CommandError> {
        const PAGE_BYTES: u16 = 8192;
        let mut answer = vec![0; usize::from(PAGE_BYTES)];
        let asked = self.device.query(&Cdb::log_sense(page, PAGE_BYTES), &mut answer);
        Ok(if_known(asked)?.map(|()| answer))
    }

    /// Returns the numbers of the log pages that the drive has.
    pub fn log_pages(&mut self) -> Result<Vec<u8>, CommandError> {
        match self.log(log_page::SUPPORTED)? {
            Some(page) => Ok(supported_log_pages(&page)?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the alerts that were raised since the last call, including alerts that were read
    /// after errors.
    pub fn alerts(&mut self) -> Result<Vec<TapeAlert>, CommandError> {
        if let Some(page) = self.log(log_page::TAPE_ALERT)? {
            self.alerts.extend(tape_alerts(&page)?);
        }
        let mut alerts = std::mem::take(&mut self.alerts);
        alerts.sort_unstable();
        alerts.dedup();
        if alerts.iter().any(|alert| Self::asks_for_cleaning(*alert)) {
            self.device.note_cleaning(true);
        }
        Ok(alerts)
    }

    fn asks_for_cleaning(alert: TapeAlert) -> bool {
        [TapeAlert::CLEAN_NOW, TapeAlert::CLEAN_PERIODIC].contains(&alert)
    }

    /// Reads the alerts after an error, and keeps them for the next call of [`Self::alerts`]. A
    /// failure to read them is ignored, because the error before it matters more.
    pub(super) fn look_for_alerts(&mut self) {
        if let Ok(alerts) = self.alerts() {
            self.alerts = alerts;
        }
    }

    /// Returns true if the drive has asked to be cleaned, by an alert or in its sense bytes.
    pub fn wants_cleaning(&self) -> bool {
        self.device.wants_cleaning()
    }

    /// Notes that the drive was cleaned.
    pub fn was_cleaned(&mut self) {
        self.device.note_cleaning(false);
    }

    /// Returns the capacity of the medium and its free part; `None` if the drive does not report
    /// them.
    pub fn capacity(&mut self) -> Result<Option<TapeCapacity>, CommandError> {
        let page = self.log(log_page::TAPE_CAPACITY)?;
        Ok(page.and_then(|page| tape_capacity(&page).ok()))
    }

    /// Returns the densities that the drive knows, or the densities of the medium in it if
    /// `of_medium` is true.
    pub fn densities(&mut self, of_medium: bool) -> Result<Vec<Density>, CommandError> {
        const ANSWER_BYTES: u16 = 4096;
        let mut answer = vec![0; usize::from(ANSWER_BYTES)];
        let cdb = Cdb::report_density_support(of_medium, ANSWER_BYTES);
        match if_known(self.device.query(&cdb, &mut answer))? {
            Some(()) => Ok(Density::parse_all(&answer)?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the cartridge's attributes from `first` on; none if the cartridge has no memory.
    pub fn attributes(&mut self, first: u16) -> Result<Vec<Attribute>, CommandError> {
        const ANSWER_BYTES: u16 = 8192;
        let mut answer = vec![0; usize::from(ANSWER_BYTES)];
        let cdb = Cdb::read_attributes(first, ANSWER_BYTES.into());
        match if_known(self.device.query(&cdb, &mut answer))? {
            Some(()) => Ok(Attribute::parse_all(&answer)?),
            None => Ok(Vec::new()),
        }
    }

    /// Writes texts to the memory of the cartridge; returns false if the drive refuses that.
    pub fn set_attributes(&mut self, texts: &[Attribute]) -> Result<bool, CommandError> {
        let parameters = Attribute::encode_texts(texts);
        let bytes = u32::try_from(parameters.len()).expect("attributes are short");
        let sent = self.device.send(&Cdb::write_attributes(bytes), &parameters);
        Ok(if_known(sent)?.is_some())
    }

    /// Returns the end of each wrap that held data when the tape was loaded; none if the drive does
    /// not report them, as before LTO-7.
    pub fn wrap_ends(&mut self) -> Result<Vec<WrapEnd>, CommandError> {
        /// Length of an answer with up to 1365 wraps. LTO-10 has 472 wraps.
        const ANSWER_BYTES: u16 = 16 << 10;
        if !self
            .device
            .may_know(opcode::MAINTENANCE_IN, Some(opcode::READ_END_OF_WRAP.into()))
        {
            return Ok(Vec::new());
        }
        let mut answer = vec![0; usize::from(ANSWER_BYTES)];
        let cdb = Cdb::read_end_of_wrap(ANSWER_BYTES.into());
        match if_known(self.device.query(&cdb, &mut answer))? {
            Some(()) => Ok(wrap_ends(&answer)?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the physical position of the head, for models of positioning times; `None` if the
    /// drive does not report it. Only drives by IBM report it.
    pub fn physical_position(&mut self) -> Result<Option<PhysicalPosition>, CommandError> {
        const ANSWER_BYTES: u8 = 96;
        if self.identity.inquiry.vendor != "IBM" {
            return Ok(None);
        }
        let mut answer = [0; ANSWER_BYTES as usize];
        self.device.query(&Cdb::request_sense(ANSWER_BYTES), &mut answer)?;
        Ok(physical_position(&answer)?)
    }

    /// Returns the limits of a list of segments that the drive can put into order; `None` if the
    /// drive cannot do that.
    pub fn order_limits(&mut self) -> Result<Option<SegmentLimits>, CommandError> {
        let action = Some(opcode::RECOMMENDED_ACCESS_ORDER.into());
        if !self.device.may_know(opcode::MAINTENANCE_OUT, action) {
            return Ok(None);
        }
        let mut answer = [0; 4];
        let cdb = Cdb::receive_recommended_order(true, 4);
        match if_known(self.device.query(&cdb, &mut answer))? {
            Some(()) => Ok(Some(segment_limits(&answer)?)),
            None => Ok(None),
        }
    }

    /// Returns the numbers of `segments` in the order in which the drive would read them; `None` if
    /// the drive recommends no order, or cannot order so many segments.
    pub fn recommend(&mut self, segments: &[Segment]) -> Result<Option<Vec<u32>>, CommandError> {
        let Some(limits) = self.order_limits()? else { return Ok(None) };
        if segments.len() > usize::from(limits.segments_max) {
            return Ok(None);
        }
        let parameters = segment_list(segments);
        let bytes =
            u32::try_from(parameters.len()).expect("the drive limits the number of segments");
        let sent = self.device.send(&Cdb::generate_recommended_order(bytes), &parameters);
        if if_known(sent)?.is_none() {
            return Ok(None);
        }
        let mut answer = vec![0; parameters.len()];
        self.device.query(&Cdb::receive_recommended_order(false, bytes), &mut answer)?;
        let order = recommended_order(&answer)?;
        // An order that leaves out segments is useless.
        Ok((order.len() == segments.len()).then_some(order))
    }
}
