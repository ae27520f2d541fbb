//! What all threads of a server share: the device, the gate of replies, the list of clients.

use crate::account::{Account, Totals};
use crate::clock::Clock;
use crate::core::{Core, Power};
use crate::socket::Socket;
use crate::work::{Failure, SECTOR_BYTES};
use device::{DeviceStatistics, Outage};
use jobs::Latencies;
use nbd::Export;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// What the server does now.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The device has power.
    pub is_on: bool,
    /// What the last cut took, while there is no power.
    pub outage: Option<OutageTold>,
    /// Power cuts so far.
    pub cuts: u64,
    /// Clients that are connected.
    pub connections: usize,
    /// Clients that connected since the start.
    pub accepted: u64,
    /// Connections that broke the protocol.
    pub broken: u64,
    /// Simulated time, nanoseconds.
    pub now_ns: u64,
    /// Why the server stopped by itself, if it did.
    pub failure: Option<String>,
}

/// [`Outage`] in figures.
#[derive(Clone, Debug, Serialize)]
pub struct OutageTold {
    /// Simulated time of the cut, nanoseconds.
    pub at_ns: u64,
    /// Dies that were in the middle of an operation.
    pub torn_operations: usize,
    /// Sectors in the cache that were lost.
    pub lost_cached_sectors: u64,
}

impl From<&Outage> for OutageTold {
    fn from(outage: &Outage) -> Self {
        Self {
            at_ns: outage.at_ns,
            torn_operations: outage.torn.len(),
            lost_cached_sectors: outage.lost_cached_sectors,
        }
    }
}

/// What was asked for, and what the device did for it.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// Requests of clients.
    pub totals: Totals,
    /// Pages programmed for each page of the host; none before the first write.
    pub write_amplification: Option<f64>,
    /// Page reads, page programs and erases of the chips.
    pub chip_operations: [u64; 3],
    /// Blocks that were cleaned.
    pub cleaned_blocks: u64,
    /// Blocks that the layers have free, all dies together.
    pub free_blocks: Option<u64>,
    /// Fewest, mean and most erases of a block; none without flash.
    pub erases: Option<(u32, f64, u32)>,
    /// Memory of the tables and the cache that the device would have, bytes.
    pub device_ram_bytes: u64,
}

/// Closed while the device has no power.
pub(crate) struct Gate {
    pub(crate) is_open: bool,
    /// Power cuts so far.
    pub(crate) cuts: u64,
}

/// What all threads of a server share. The crate's documentation has the order of the locks.
pub(crate) struct Shared {
    pub(crate) exports: Arc<[Export]>,
    pub(crate) clock: Clock,
    pub(crate) gate: RwLock<Gate>,
    /// Taken for a moment before the core: whoever waits has the next turn, and not whoever just had one.
    pub(crate) turn: Mutex<()>,
    pub(crate) core: Mutex<Core>,
    /// Sockets of the clients, to shut them in a power cut.
    pub(crate) connections: Mutex<BTreeMap<u64, Socket>>,
    pub(crate) punctuality: Mutex<(Latencies, u64)>,
    pub(crate) accepted: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) is_armed: AtomicBool,
    pub(crate) is_stopping: AtomicBool,
    pub(crate) failure: Mutex<Option<String>>,
}

/// A lock, also after a thread panicked under it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked has left nothing half-done that others could see: each lock guards one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The core, in turn.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        let _turn = lock(&self.turn);
        lock(&self.core)
    }

    /// True if the supply is to fail by itself.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// A reply that was due then leaves now.
    pub(crate) fn left(&self, due_ns: u64) {
        if self.clock.is_real() {
            let lateness_ns = self.clock.lateness_ns(due_ns);
            let mut punctuality = lock(&self.punctuality);
            punctuality.0.record(lateness_ns);
            punctuality.1 += u64::from(lateness_ns > crate::account::LATE_NS);
        }
    }

    /// The supply fails, now or at the moment that was planned if that has passed.
    pub(crate) fn cut(&self) {
        self.cut_if(|_| true);
    }

    /// As [`Shared::cut`], unless it failed since a connection that saw `cuts` failures: what that one noticed is
    /// over, and the supply may be back.
    pub(crate) fn cut_after(&self, cuts: u64) {
        self.cut_if(|so_far| so_far == cuts);
    }

    fn cut_if(&self, is_asked: impl FnOnce(u64) -> bool) {
        // Alone: no reply is on its way to a client while the moment is chosen.
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut core = self.core();
        if !is_asked(core.cuts()) {
            return;
        }
        let now_ns = if self.clock.is_real() { self.clock.now_ns() } else { core.now_ns() };
        let told = core.cut(now_ns);
        gate.cuts = core.cuts();
        drop(core);
        gate.is_open = false;
        self.is_armed.store(false, Ordering::Release);
        self.shut_all();
        drop(gate);
        if let Err(failure) = told {
            self.fail(&failure.to_string());
        }
    }

    /// The supply comes back: clients may connect again.
    pub(crate) fn restore(&self) -> Result<device::Recovery, Failure> {
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut core = self.core();
        let now_ns = if self.clock.is_real() { self.clock.now_ns() } else { core.now_ns() };
        let recovery = core.restore(now_ns)?;
        gate.is_open = true;
        Ok(recovery)
    }

    /// The server cannot go on: nothing more is answered. The caller must not hold the gate.
    pub(crate) fn fail(&self, reason: &str) {
        self.gate.write().unwrap_or_else(PoisonError::into_inner).is_open = false;
        lock(&self.failure).get_or_insert_with(|| reason.to_owned());
        self.stop();
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.shut_all();
    }

    fn shut_all(&self) {
        lock(&self.connections).values().for_each(Socket::shut);
    }

    pub(crate) fn status(&self) -> Status {
        let mut core = self.core();
        let now_ns = if self.clock.is_real() { self.clock.now_ns() } else { core.now_ns() };
        // What the device does by itself until now is part of what is told.
        let passed = core.pass_time(now_ns);
        let (power, cuts) = (core.power().clone(), core.cuts());
        drop(core);
        if let Err(failure @ Failure::File { .. }) = passed {
            self.fail(&failure.to_string());
        }
        Status {
            is_on: power == Power::On,
            outage: match &power {
                Power::On => None,
                Power::Off(outage) => Some(outage.into()),
            },
            cuts,
            connections: lock(&self.connections).len(),
            accepted: self.accepted.load(Ordering::Relaxed),
            broken: self.broken.load(Ordering::Relaxed),
            now_ns,
            failure: lock(&self.failure).clone(),
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let core = self.core();
        let mut account: Account = core.account.clone();
        let statistics = core.device().statistics();
        let flash = core.device().flash();
        drop(core);
        (account.lateness, account.late) = lock(&self.punctuality).clone();
        let page_bytes = flash.as_ref().map_or(0, |flash| flash.page_bytes);
        let erases = flash.as_ref().filter(|flash| !flash.erase_counts.is_empty()).map(|flash| {
            let counts = &flash.erase_counts;
            let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let least = counts.iter().min().copied().unwrap_or_default();
            let most = counts.iter().max().copied().unwrap_or_default();
            (least, sum as f64 / counts.len() as f64, most)
        });
        Statistics {
            totals: account.totals(),
            write_amplification: write_amplification(&statistics, page_bytes),
            chip_operations: [
                statistics.chip.page_reads,
                statistics.chip.page_programs,
                statistics.chip.erases,
            ],
            cleaned_blocks: statistics.cleaned_blocks,
            free_blocks: flash.as_ref().map(|flash| flash.free_blocks),
            erases,
            device_ram_bytes: flash.map_or(0, |flash| flash.ram_bytes),
        }
    }
}

/// Bytes programmed over bytes written by the host.
fn write_amplification(statistics: &DeviceStatistics, page_bytes: u64) -> Option<f64> {
    let written = statistics.written_sectors * SECTOR_BYTES;
    let programmed = statistics.chip.page_programs * page_bytes;
    (written > 0).then(|| programmed as f64 / written as f64)
}
