//! A volume in memory: for tools that work on one file, and for tests that cut the power often. Uses formats
//! only.

use crate::position::{LebNumber, Position};
use crate::volume_shape::VolumeShape;
use fs_api::Errno;
use sim::Sim;
use std::cell::{Cell, RefCell};
use ubi::is_blank;

/// What is left of a write that the power cut ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornWrite {
    /// Nothing of the write is on the medium.
    Nothing,
    /// The first half of its units, the last of them in part.
    Half,
    /// All of it, but the call never returned.
    Whole,
}

/// Counts of operations since the volume was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounters {
    /// Reads, mapped or not.
    pub reads: u64,
    /// Writes and atomic changes.
    pub writes: u64,
    /// Unmaps of what was mapped, and maps.
    pub maps: u64,
}

#[derive(Clone, Default)]
struct Leb {
    /// Contents; none while it is not mapped, which reads as 0xFF.
    bytes: Option<Vec<u8>>,
    /// Contents that were unmapped and are not erased yet.
    ghost: Option<Vec<u8>>,
}

/// Eraseblocks in memory. A write to bytes that are not blank is an error of the caller and panics.
pub struct MemoryVolume {
    sim: Sim,
    shape: VolumeShape,
    lebs: RefCell<Vec<Leb>>,
    counters: Cell<VolumeCounters>,
    cut: Cell<Option<(u64, TornWrite)>>,
    is_read_only: Cell<bool>,
}

impl MemoryVolume {
    /// A volume on which nothing is mapped.
    pub fn new(sim: &Sim, shape: VolumeShape) -> Self {
        Self {
            sim: sim.clone(),
            shape,
            lebs: RefCell::new(vec![Leb::default(); shape.leb_count as usize]),
            counters: Cell::default(),
            cut: Cell::new(None),
            is_read_only: Cell::new(false),
        }
    }

    /// A volume with contents: what is none is not mapped, what is short is blank behind.
    pub fn with_contents(sim: &Sim, shape: VolumeShape, contents: Vec<Option<Vec<u8>>>) -> Self {
        let volume = Self::new(sim, shape);
        for (leb, bytes) in volume.lebs.borrow_mut().iter_mut().zip(contents) {
            leb.bytes = bytes.map(|mut bytes| {
                bytes.resize(shape.leb_bytes as usize, 0xff);
                bytes
            });
        }
        volume
    }

    /// Contents as the next power-on finds them: of unmapped eraseblocks, every one that `returns`
    /// says has come back.
    pub fn contents(&self, mut returns: impl FnMut(u32) -> bool) -> Vec<Option<Vec<u8>>> {
        let lebs = self.lebs.borrow();
        let numbered = lebs.iter().zip(0..);
        numbered
            .map(|(leb, number)| match &leb.bytes {
                Some(bytes) => Some(bytes.clone()),
                None => leb.ghost.clone().filter(|_| returns(number)),
            })
            .collect()
    }

    /// Shape of the volume.
    pub fn shape(&self) -> VolumeShape {
        self.shape
    }

    /// Counts of operations since the volume was made.
    pub fn counters(&self) -> VolumeCounters {
        self.counters.get()
    }

    /// Cuts the power in the write, change, map or unmap after `operations` more of them.
    pub fn cut_power_after(&self, operations: u64, torn: TornWrite) {
        self.cut.set(Some((operations, torn)));
    }

    /// From now on the volume refuses each change, as one of a device that became read-only.
    pub fn become_read_only(&self) {
        self.is_read_only.set(true);
    }

    fn must_be_writable(&self) -> Result<(), Errno> {
        if self.is_read_only.get() { Err(Errno::Erofs) } else { Ok(()) }
    }

    fn count(&self, change: impl FnOnce(&mut VolumeCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Whether the operation that begins now is the one in which the power is cut.
    fn is_cut_now(&self) -> Option<TornWrite> {
        let (left, torn) = self.cut.get()?;
        self.cut.set(left.checked_sub(1).map(|left| (left, torn)));
        (left == 0).then_some(torn)
    }

    async fn end(&self) {
        self.sim.stop();
        std::future::pending::<()>().await;
    }

    fn put(&self, to: Position, bytes: &[u8]) {
        let mut lebs = self.lebs.borrow_mut();
        let leb = &mut lebs[to.leb.index()];
        let size = self.shape.leb_bytes as usize;
        let contents = leb.bytes.get_or_insert_with(|| vec![0xff; size]);
        let target = &mut contents[to.offset as usize..to.offset as usize + bytes.len()];
        assert!(is_blank(target), "bytes are written twice");
        target.copy_from_slice(bytes);
        leb.ghost = None;
    }

    pub(crate) fn read(&self, at: Position, into: &mut [u8]) -> Result<(), Errno> {
        // A volume of memory takes no time, so that a scan of it is one poll.
        cancellation::check();
        self.count(|counters| counters.reads += 1);
        let lebs = self.lebs.borrow();
        match lebs.get(at.leb.index()).ok_or(Errno::Eio)?.bytes.as_ref() {
            Some(bytes) => {
                let from = at.offset as usize;
                let part = bytes.get(from..from + into.len()).ok_or(Errno::Eio)?;
                into.copy_from_slice(part);
            }
            None => into.fill(0xff),
        }
        Ok(())
    }

    pub(crate) async fn write(&self, to: Position, bytes: &[u8]) -> Result<(), Errno> {
        self.must_be_writable()?;
        assert!(to.offset.is_multiple_of(self.shape.min_io_bytes), "writes begin at a unit");
        assert!(bytes.len().is_multiple_of(self.shape.min_io_bytes as usize), "and end at one");
        self.count(|counters| counters.writes += 1);
        if let Some(torn) = self.is_cut_now() {
            let unit = self.shape.min_io_bytes as usize;
            let kept = match torn {
                TornWrite::Nothing => 0,
                TornWrite::Half => (bytes.len() / unit / 2) * unit + unit / 2,
                TornWrite::Whole => bytes.len(),
            };
            self.put(to, &bytes[..kept]);
            self.end().await;
        }
        self.put(to, bytes);
        Ok(())
    }

    pub(crate) async fn change(&self, leb: LebNumber, bytes: &[u8]) -> Result<(), Errno> {
        self.must_be_writable()?;
        self.count(|counters| counters.writes += 1);
        let torn = self.is_cut_now();
        if torn.is_none_or(|torn| torn == TornWrite::Whole) {
            self.lebs.borrow_mut()[leb.index()] = Leb::default();
            self.put(Position::start_of(leb), bytes);
        }
        if torn.is_some() {
            self.end().await;
        }
        Ok(())
    }

    pub(crate) async fn unmap(&self, leb: LebNumber) -> Result<(), Errno> {
        self.must_be_writable()?;
        if !self.is_mapped(leb) {
            return Ok(());
        }
        self.count(|counters| counters.maps += 1);
        let torn = self.is_cut_now();
        {
            let mut lebs = self.lebs.borrow_mut();
            let leb = &mut lebs[leb.index()];
            leb.ghost = leb.bytes.take();
        }
        if torn.is_some() {
            self.end().await;
        }
        Ok(())
    }

    pub(crate) async fn map(&self, leb: LebNumber) -> Result<(), Errno> {
        self.must_be_writable()?;
        self.count(|counters| counters.maps += 1);
        let torn = self.is_cut_now();
        if torn != Some(TornWrite::Nothing) {
            self.put(Position::start_of(leb), &[]);
        }
        if torn.is_some() {
            self.end().await;
        }
        Ok(())
    }

    pub(crate) fn is_mapped(&self, leb: LebNumber) -> bool {
        self.lebs.borrow()[leb.index()].bytes.is_some()
    }
}
