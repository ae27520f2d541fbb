//! The device that is served, in simulated time.
//!
//! There is no clock here: callers say when a request comes, and learn when its reply is due. What they call is
//! logged, so that a log gives the same state again.

use crate::account::Account;
use crate::image::Image;
use crate::record::{Record, RecordWriter};
use crate::work::{CoreOptions, CutAfter, Failure, SECTOR_BYTES, Work};
use device::{
    BlockDevice, Command, CutOperation, LoadError, Operation, Outage, Recovery, SavedPart,
    StoredDevice,
};

/// Sectors of one command to the device; longer requests are several commands.
// 512 KiB: what hosts of cards take at once (`max_req_size` of drivers/mmc/host/sdhci.c), and
// BLK_DEF_MAX_SECTORS of Linux before 4.3.
const COMMAND_SECTORS_MAX: u32 = 1_024;

/// What a command of zeros writes.
static ZEROS: [u8; COMMAND_SECTORS_MAX as usize * SECTOR_BYTES as usize] =
    [0; COMMAND_SECTORS_MAX as usize * SECTOR_BYTES as usize];

/// The supply of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Power {
    /// It works.
    On,
    /// It failed, and this is what that took.
    Off(Outage),
}

/// A device that stores bytes, and all that was asked of it.
pub struct Core {
    device: Box<dyn BlockDevice>,
    /// Latest moment that anything was asked for.
    now_ns: u64,
    /// Moment at which the supply is to fail, if it is known already.
    planned_cut_ns: Option<u64>,
    /// The flush of this number ends with a power cut.
    cut_flush: Option<u64>,
    /// An operation of the chips is waited for.
    watches_operations: bool,
    flushes: u64,
    cuts: u64,
    /// Servers that began with this device, of an image.
    sessions: u64,
    power: Power,
    log: Option<RecordWriter>,
    image: Option<Image>,
    /// What was asked for.
    pub account: Account,
}

impl Core {
    /// A device as it leaves its preconditioning.
    ///
    /// # Errors
    /// A sentence: a device that does not exist or stores no bytes, or its end of life while it is filled.
    pub fn new(options: &CoreOptions) -> Result<Self, String> {
        let mut core = Self::build(options)?;
        if let Some(how) = &options.precondition {
            core.device.precondition(how).map_err(|error| {
                format!("device {} while it is filled: {error}", options.device.name)
            })?;
        }
        // After it was filled: what fills a device has no bytes, and would be kept page by page.
        core.stored().store_bytes();
        core.keep_bytes(options)?;
        core.arm(options.cut_after);
        Ok(core)
    }

    /// A device without power since `at_ns`, which is about to hold what another one held ([`Core::load`]).
    ///
    /// # Errors
    /// As [`Core::new`].
    pub(crate) fn without_power(options: &CoreOptions, at_ns: u64) -> Result<Self, String> {
        let mut core = Self::build(options)?;
        core.stored().begin_without_power(at_ns);
        core.keep_bytes(options)?;
        core.now_ns = at_ns;
        core.power = Power::Off(Outage { at_ns, ..Outage::default() });
        Ok(core)
    }

    fn keep_bytes(&mut self, options: &CoreOptions) -> Result<(), String> {
        let Some(folder) = &options.bytes_in else { return Ok(()) };
        let kept = self.stored().keep_bytes_in(folder);
        kept.map_err(|error| format!("{}: no file for bytes: {error}", folder.display()))
    }

    fn build(options: &CoreOptions) -> Result<Self, String> {
        let mut device =
            device::build(&options.device, options.seed).map_err(|error| error.to_string())?;
        if device.stored().is_none() {
            return Err(format!(
                "device {} stores no bytes: choose one with flash",
                options.device.name
            ));
        }
        Ok(Self {
            device,
            now_ns: 0,
            planned_cut_ns: None,
            cut_flush: None,
            watches_operations: false,
            flushes: 0,
            cuts: 0,
            sessions: 0,
            power: Power::On,
            log: None,
            image: None,
            account: Account::default(),
        })
    }

    /// Writes all calls to a log from now on.
    pub(crate) fn log_to(&mut self, log: RecordWriter) {
        self.log = Some(log);
    }

    /// Keeps all calls in an image from now on.
    pub(crate) fn keep_in(&mut self, image: Image) {
        self.image = Some(image);
    }

    /// Takes over a part of what a device held.
    pub(crate) fn load(&mut self, part: SavedPart<'_>) -> Result<(), LoadError> {
        self.stored().load(part)
    }

    /// A server begins: the supply works, and a cut is planned.
    ///
    /// # Errors
    /// [`Failure`]: the image, or a layer that cannot be built anew.
    pub(crate) fn begin_session(&mut self, cut_after: Option<CutAfter>) -> Result<(), Failure> {
        self.note(&Record::Session { at_ns: self.now_ns, cut_after })?;
        // The server before was killed: nothing of what it answered is lost, and its planned cut is forgotten.
        if self.sessions > 0 {
            self.shut_down()?;
        }
        if self.power != Power::On {
            let at_ns = self.now_ns;
            let recovery = self.stored().restore_power(at_ns, None)?;
            self.power = Power::On;
            // Clients of the session find a device that is ready.
            self.now_ns = recovery.ready_ns;
        }
        self.sessions += 1;
        // What is told of a session begins with it. Flushes are counted from here on, as programs and erases are.
        (self.flushes, self.planned_cut_ns, self.cut_flush) = (0, None, None);
        self.watches_operations = false;
        self.account = Account::default();
        let at_ns = self.now_ns;
        self.arm(match cut_after {
            Some(CutAfter::Nanoseconds(after_ns)) => {
                Some(CutAfter::Nanoseconds(at_ns.saturating_add(after_ns)))
            }
            other => other,
        });
        self.sync_log()
    }

    fn arm(&mut self, cut_after: Option<CutAfter>) {
        match cut_after {
            Some(CutAfter::Programs(count)) => {
                self.stored().cut_at(CutOperation::Program(count));
                self.watches_operations = true;
            }
            Some(CutAfter::Erases(count)) => {
                self.stored().cut_at(CutOperation::Erase(count));
                self.watches_operations = true;
            }
            Some(CutAfter::Nanoseconds(at_ns)) => self.planned_cut_ns = Some(at_ns),
            Some(CutAfter::Flushes(count)) => self.cut_flush = Some(count),
            None => {}
        }
    }

    fn stored(&mut self) -> &mut dyn StoredDevice {
        self.device.stored().expect("checked when the core was made")
    }

    /// Bytes of the device.
    pub fn size_bytes(&self) -> u64 {
        self.device.sectors() * SECTOR_BYTES
    }

    /// The latest moment that anything was asked for, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// True if the supply will fail by itself.
    pub fn is_armed(&self) -> bool {
        self.power == Power::On
            && (self.watches_operations
                || self.cut_flush.is_some()
                || self.planned_cut_ns.is_some())
    }

    /// When the supply fails by itself, if that is known. Replies that are due later are never sent.
    pub fn cut_ns(&mut self) -> Option<u64> {
        let planned = self.planned_cut_ns;
        let operation = self.stored().cut_ns();
        planned.into_iter().chain(operation).min()
    }

    /// The supply.
    pub fn power(&self) -> &Power {
        &self.power
    }

    /// When the supply failed or will fail, if that is known. It may have failed as the last request was carried out,
    /// before [`Core::cut`] takes notice.
    pub fn failed_ns(&mut self) -> Option<u64> {
        let outage_ns = self.stored().outage().map(|outage| outage.at_ns);
        outage_ns.or_else(|| self.cut_ns())
    }

    /// Power cuts so far.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// What the device has done so far.
    pub fn device(&self) -> &dyn BlockDevice {
        self.device.as_ref()
    }

    /// Carries a request out that comes at `at_ns`, or now if that is later; returns when its reply is due.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn submit(&mut self, at_ns: u64, work: &Work<'_>) -> Result<u64, Failure> {
        if self.power != Power::On {
            return Err(Failure::PowerLost);
        }
        let at_ns = at_ns.max(self.now_ns);
        if self.planned_cut_ns.is_some_and(|cut_ns| cut_ns <= at_ns) {
            return Err(Failure::PowerLost);
        }
        // Before it is carried out: a change of the chips that is not in the log would make all later ones differ.
        self.note(&Record::Work { at_ns, work: *work })?;
        self.now_ns = at_ns;
        let done = self.carry_out(at_ns, work);
        match done {
            Ok(done_ns) => {
                debug_assert!(done_ns >= at_ns, "a reply is due after its request");
                let (kind, bytes) = work.kind();
                self.account.answered(kind, done_ns - at_ns, bytes);
                if *work == Work::Flush {
                    self.flushes += 1;
                    // The reply leaves at that very moment: whatever it promised has to outlive the cut.
                    if self.cut_flush == Some(self.flushes) {
                        self.planned_cut_ns = Some(done_ns);
                    }
                }
                Ok(done_ns)
            }
            Err(error) => {
                self.account.failed += 1;
                Err(error)
            }
        }
    }

    fn carry_out(&mut self, at_ns: u64, work: &Work<'_>) -> Result<u64, Failure> {
        match *work {
            Work::Read { sector, sectors } => {
                self.in_commands(at_ns, Operation::Read, sector, sectors, false, None)
            }
            Work::Write { sector, bytes, fua } => {
                let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u32;
                self.in_commands(at_ns, Operation::Write, sector, sectors, fua, Some(bytes))
            }
            Work::Zero { sector, sectors, fua } => {
                self.in_commands(at_ns, Operation::Write, sector, sectors, fua, None)
            }
            Work::Discard { sector, sectors } => {
                // One command, however long: it moves no data, and hosts send it so.
                let command = Command::discard(sector, sectors);
                Ok(self.stored().submit(at_ns, &command)?.done_ns)
            }
            Work::Flush => Ok(self.stored().submit(at_ns, &Command::flush())?.done_ns),
        }
    }

    /// A read or a write as commands of the device, all submitted at once; the reply is due with the last one.
    fn in_commands(
        &mut self,
        at_ns: u64,
        operation: Operation,
        sector: u64,
        sectors: u32,
        fua: bool,
        bytes: Option<&[u8]>,
    ) -> Result<u64, Failure> {
        let mut done_ns = at_ns;
        // All at one moment, as the block layer queues the pieces of a long request (`blk_bio_segment_split`).
        for first in (0..sectors).step_by(COMMAND_SECTORS_MAX as usize) {
            let count = COMMAND_SECTORS_MAX.min(sectors - first);
            let command =
                Command { fua, ..Command::new(operation, sector + u64::from(first), count) };
            let stored = self.device.stored().expect("checked when the core was made");
            let completion = if operation == Operation::Write {
                let begin = first as usize * SECTOR_BYTES as usize;
                let length = count as usize * SECTOR_BYTES as usize;
                let part = match bytes {
                    Some(bytes) => &bytes[begin..begin + length],
                    None => &ZEROS[..length],
                };
                stored.submit_write(at_ns, &command, part)?
            } else {
                stored.submit(at_ns, &command)?
            };
            done_ns = done_ns.max(completion.done_ns);
        }
        Ok(done_ns)
    }

    /// Copies what a read that was submitted found, whole sectors.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn read_bytes(&mut self, sector: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        Ok(self.stored().read_bytes(sector, bytes)?)
    }

    /// True if some byte of the page at `sector` may not be zero, and the sectors from there to the page's end.
    pub fn allocation(&mut self, sector: u64) -> (bool, u64) {
        self.stored().allocation(sector)
    }

    /// Simulated time passes to `at_ns`: what the device does by itself has begun by then.
    ///
    /// # Errors
    /// [`Failure`]; the supply may have failed meanwhile.
    pub fn pass_time(&mut self, at_ns: u64) -> Result<(), Failure> {
        if self.power == Power::On && at_ns > self.now_ns {
            self.now_ns = at_ns;
            // Only a device that is watched does anything that matters before its next command.
            if self.watches_operations {
                self.note(&Record::Pass { at_ns })?;
                self.stored().pass_time(at_ns)?;
            }
        }
        Ok(())
    }

    /// The supply fails at `at_ns`, or at the moment that was planned if that is sooner.
    ///
    /// # Errors
    /// [`Failure`]: the log, or a device at its end of life.
    pub fn cut(&mut self, at_ns: u64) -> Result<(), Failure> {
        if self.power != Power::On {
            return Ok(());
        }
        let planned = self.cut_ns().unwrap_or(u64::MAX);
        // The device follows its commands: it cannot fail before the last one, unless that was known.
        let at_ns = at_ns.max(self.now_ns).min(planned);
        // With the moment that was chosen: a second run has no clock to choose one.
        self.note(&Record::Cut { at_ns })?;
        self.now_ns = self.now_ns.max(at_ns);
        let outage = match self.stored().outage().cloned() {
            // It failed as it was asked for the last command.
            Some(outage) => outage,
            None => self.stored().cut_power(at_ns)?,
        };
        self.cuts += 1;
        (self.planned_cut_ns, self.cut_flush, self.watches_operations) = (None, None, false);
        self.power = Power::Off(outage);
        self.sync_log()
    }

    /// The supply is back at `at_ns`: the layers rebuild their tables from the chips.
    ///
    /// # Errors
    /// [`Failure`]: the log, or a layer that cannot be built anew.
    pub fn restore(&mut self, at_ns: u64) -> Result<Recovery, Failure> {
        if self.power == Power::On {
            return Ok(Recovery::default());
        }
        let at_ns = at_ns.max(self.now_ns);
        self.note(&Record::Restore { at_ns })?;
        self.now_ns = at_ns;
        // A cut within the rebuild is for the tests of the engine: no client could see a difference.
        let recovery = self.stored().restore_power(at_ns, None)?;
        self.power = Power::On;
        self.sync_log()?;
        Ok(recovery)
    }

    /// A digest of what the chips hold, as of the last call.
    pub fn digest(&mut self) -> String {
        self.stored().medium_digest()
    }

    /// Ends the log with the digest.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub fn end_log(&mut self) -> Result<(), Failure> {
        // As of the last call, so that a log that is carried out again ends with the same one.
        let digest = self.digest();
        match self.log.take() {
            Some(log) => log.end(self.now_ns, &digest).map_err(Failure::of("log")),
            None => Ok(()),
        }
    }

    /// Takes the supply away in order, if the device has one.
    fn shut_down(&mut self) -> Result<(), Failure> {
        if self.power != Power::On {
            return Ok(());
        }
        // The supply may have failed in an operation of the chips, and the server ended before it took notice.
        let failed = self.stored().outage().cloned();
        let outage = if let Some(outage) = failed {
            outage
        } else {
            let now_ns = self.now_ns;
            match self.stored().shut_down(now_ns) {
                Ok(end_ns) => Outage { at_ns: end_ns, ..Outage::default() },
                // A device that is worn out cannot take what its cache holds. It can still be read afterwards.
                Err(_) => self.stored().cut_power(now_ns)?,
            }
        };
        self.now_ns = self.now_ns.max(outage.at_ns);
        self.power = Power::Off(outage);
        Ok(())
    }

    /// Takes the supply away in order, if the device has one, and makes the image hold the state instead of the calls.
    ///
    /// # Errors
    /// [`Failure`]. The image holds the calls then, and the next server carries them out again.
    pub(crate) fn end_image(&mut self) -> Result<(), Failure> {
        let Some(image) = self.image.take() else { return Ok(()) };
        self.shut_down()?;
        image.replace(self.now_ns, self.stored()).map_err(Failure::of("image"))
    }

    /// What was logged reaches the file: it outlives this process. What an image promised to be durable outlives a
    /// power cut of the host, too.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub fn sync_log(&mut self) -> Result<(), Failure> {
        if let Some(image) = &mut self.image {
            image.records.keep_promises().map_err(Failure::of("image"))?;
        }
        self.log.as_mut().map_or(Ok(()), |log| log.flush().map_err(Failure::of("log")))
    }

    fn note(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        if let Some(image) = &mut self.image {
            image.records.write(record).map_err(Failure::of("image"))?;
        }
        match &mut self.log {
            Some(log) => log.write(record).map_err(Failure::of("log")),
            None => Ok(()),
        }
    }
}
