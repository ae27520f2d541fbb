//! Requests as schedulers see them.

pub use process::Class;
use std::ops::{Index, IndexMut};

/// Whether data comes from or goes to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Data comes from the device.
    Read,
    /// Data goes to the device.
    Write,
}

/// What a process hands to the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio {
    /// The issuing process, which schedulers take for the owner of the I/O context.
    pub pid: u32,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// A process waits for it: every read, and writes flagged `REQ_SYNC`.
    pub sync: bool,
    /// `REQ_NOIDLE`: no other request will follow closely (writes driven by `fsync`).
    pub noidle: bool,
    /// Priority class of the process.
    pub class: Class,
    /// Priority level in the class, 0 (first) to 7.
    pub level: u8,
    /// First sector, of 512 bytes whatever the device's block size.
    pub sector: u64,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
}

impl Bio {
    /// The sector after the last one.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

/// What a request may be joined with.
///
/// Models `req_op` and `rq_mergeable` (`block/blk.h`), which `attempt_merge` and `blk_rq_merge_ok` ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joins {
    /// Reads with reads, and writes with writes.
    #[default]
    Data,
    /// Discards with discards: they free sectors, and carry no data.
    Discards,
    /// Nothing: a write through the device's cache (FUA), the data of a flush, a part of a bio that was split.
    Nothing,
}

/// Number of a request while it exists; reused afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// As an index of tables kept beside the requests.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One or more merged bios on their way to the device.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Process, flags and priority of the bio it was made of; sectors of all merged bios.
    pub bio: Bio,
    /// When it was made, in jiffies; of merged requests the earlier time (`start_time`).
    pub start_jiffies: u64,
    /// When it was inserted, in nanoseconds.
    pub insert_ns: u64,
    /// Deadline in its scheduler's FIFO, in the scheduler's unit of time (`fifo_time`).
    pub deadline: u64,
    /// Taken by the driver.
    pub started: bool,
    /// Still with the scheduler, where bios can be merged into it.
    pub sorted: bool,
    /// What it may be joined with.
    pub joins: Joins,
    /// It went to the dispatch list without the scheduler, which does not know it.
    pub bypassed: bool,
    /// The zone that it writes to, of a disk whose zones take one write at a time (`blk_req_needs_zone_write_lock` of
    /// Linux 6.1).
    pub zone: Option<u32>,
}

impl Request {
    /// A request of one bio that nobody has yet: neither the scheduler nor the driver.
    pub(crate) fn new(bio: Bio) -> Self {
        Self {
            bio,
            start_jiffies: 0,
            insert_ns: 0,
            deadline: 0,
            started: false,
            sorted: false,
            joins: Joins::Data,
            bypassed: false,
            zone: None,
        }
    }

    /// The first sector of the merged bios.
    #[inline]
    pub fn sector(&self) -> u64 {
        self.bio.sector
    }

    /// The sector after the last one.
    #[inline]
    pub fn end(&self) -> u64 {
        self.bio.end()
    }

    /// True if it may be with the scheduler: also one that nothing is joined with, which no merge cache has.
    pub(crate) fn may_wait(&self) -> bool {
        self.sorted || self.joins == Joins::Nothing
    }
}

/// All requests of a queue, by number.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    slots: Vec<Request>,
    free: Vec<RequestId>,
}

impl Requests {
    /// Stores a request under the number freed last, or a new one.
    pub(crate) fn add(&mut self, request: Request) -> RequestId {
        if let Some(id) = self.free.pop() {
            self.slots[id.index()] = request;
            return id;
        }
        self.slots.push(request);
        RequestId(self.slots.len() as u32 - 1)
    }

    /// Gives the number back.
    pub(crate) fn remove(&mut self, id: RequestId) {
        debug_assert!(!self.free.contains(&id), "a request ends once");
        self.free.push(id);
    }

    /// Checks the free numbers, and that as many requests are started as the driver holds.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self, in_flight: u32) {
        let mut is_free = vec![false; self.slots.len()];
        for id in &self.free {
            let was_free = std::mem::replace(&mut is_free[id.index()], true);
            assert!(!was_free, "a number is free once");
        }
        let exist = self.slots.iter().zip(is_free).filter(|(_, is_free)| !is_free);
        let started = exist.filter(|(request, _)| request.started).count();
        assert_eq!(started, in_flight as usize, "the driver holds the requests that are started");
    }

    /// Lists a free number twice, for a test of [`Requests::audit`].
    #[cfg(test)]
    pub(crate) fn free_twice(&mut self) {
        let mut other = self.slots[0];
        other.started = false;
        self.slots.extend([other, other]);
        self.free.extend([RequestId(2), RequestId(2)]);
    }

    /// Requests that exist and went past the scheduler.
    pub(crate) fn bypassed(&self) -> usize {
        let is_free = |place: usize| self.free.iter().any(|id| id.index() == place);
        let bypassed = self.slots.iter().enumerate().filter(|(_, request)| request.bypassed);
        bypassed.filter(|(place, _)| !is_free(*place)).count()
    }

    /// Requests that exist: queued, on the dispatch list, or with the driver.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers ever used at one time: the length of tables kept beside the requests.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

impl Index<RequestId> for Requests {
    type Output = Request;

    #[inline]
    fn index(&self, id: RequestId) -> &Request {
        &self.slots[id.index()]
    }
}

impl IndexMut<RequestId> for Requests {
    #[inline]
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.slots[id.index()]
    }
}
