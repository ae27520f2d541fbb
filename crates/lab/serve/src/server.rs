//! Listens for clients, and cuts and restores the power of the device under all of them.

use crate::account::{Account, Totals};
use crate::clock::{Clock, Pace};
use crate::connection::{Connection, End};
use crate::control;
use crate::core::{Core, CoreOptions, Failure, Power, SECTOR_BYTES};
use crate::log::LogWriter;
use crate::metrics;
use crate::socket::{Address, Listener, Socket};
use device::{DeviceStatistics, Outage};
use jobs::Latencies;
use nbd::{Export, transmission_flag};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How often threads that wait look whether the server stops.
const LOOK_NS: i64 = 20_000_000;

/// How often it is looked whether the supply has failed by itself while no client asks for anything.
const WATCH: Duration = Duration::from_millis(1);

/// A moment may be met so much later without notice: the default of Linux, 50 us, is a third of a card's latency.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Connections at a time; each has a thread.
const CONNECTIONS_MAX: usize = 256;

/// What is served, and where.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The device.
    pub core: CoreOptions,
    /// Names under which clients find it; all lead to the same device.
    pub exports: Vec<String>,
    /// Where clients connect.
    pub listen: Vec<Address>,
    /// A socket file for the commands `cut`, `restore`, `status`, `stats` and `stop`.
    pub control: Option<PathBuf>,
    /// Where the state is told in Prometheus' text format, over HTTP.
    pub metrics: Option<Address>,
    /// How simulated time passes.
    pub pace: Pace,
    /// Clients may connect from other machines.
    pub is_open: bool,
    /// Where every call of the device is logged.
    pub log: Option<PathBuf>,
}

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The device cannot be made.
    #[error("{0}")]
    Device(String),
    /// No address, or one that others reach.
    #[error("{0}")]
    Address(String),
    /// A socket or a file cannot be had.
    #[error("{place}: {reason}")]
    Place {
        /// The address or the file.
        place: String,
        /// What the system said, and what to do.
        reason: String,
    },
    /// The exports break a rule of the protocol.
    #[error(transparent)]
    Export(#[from] nbd::ExportError),
}

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
    turn: Mutex<()>,
    core: Mutex<Core>,
    /// Sockets of the clients, to shut them in a power cut.
    connections: Mutex<BTreeMap<u64, Socket>>,
    punctuality: Mutex<(Latencies, u64)>,
    accepted: AtomicU64,
    broken: AtomicU64,
    is_armed: AtomicBool,
    is_stopping: AtomicBool,
    failure: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        if let Err(failure @ Failure::Log(_)) = passed {
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

/// A server at work; it stops when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    listening: Vec<Address>,
    metrics_address: Option<Address>,
    threads: Vec<JoinHandle<()>>,
    /// Last: threads that listen have ended when the files go.
    sockets: Vec<SocketFile>,
}

/// A socket file that is gone with its server, or with a start that failed.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Server {
    /// Makes the device and begins to listen.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(options: &ServerOptions) -> Result<Self, ServerError> {
        check_addresses(options)?;
        let mut core = Core::new(&options.core).map_err(ServerError::Device)?;
        let exports = exports(&core, options);
        nbd::check_exports(&exports)?;
        // Sockets first: an address in use must not cost the log of the run that uses it.
        let mut sockets = Vec::new();
        let mut listeners = Vec::new();
        for address in &options.listen {
            let listener = bind(address)?;
            if let Address::Unix(path) = address {
                sockets.push(SocketFile(path.clone()));
            }
            listeners.push((listener.address(address), listener));
        }
        let control = match &options.control {
            Some(path) => {
                let listener = bind(&Address::Unix(path.clone()))?;
                sockets.push(SocketFile(path.clone()));
                Some(listener)
            }
            None => None,
        };
        let metrics = options.metrics.as_ref().map(bind).transpose()?;
        if let Some(Address::Unix(path)) = &options.metrics {
            sockets.push(SocketFile(path.clone()));
        }
        if let Some(path) = &options.log {
            check_part(options)?;
            let place = |reason: std::io::Error| ServerError::Place {
                place: path.display().to_string(),
                reason: reason.to_string(),
            };
            // A log that exists is kept: it is the only record of its run.
            let file = std::fs::File::create_new(path).map_err(place)?;
            let log = LogWriter::begin(file, &options.core).map_err(|reason| {
                let _ = std::fs::remove_file(path);
                place(reason)
            })?;
            core.log_to(log);
        }
        let shared = Arc::new(Shared {
            exports: exports.into(),
            clock: Clock::new(options.pace),
            gate: RwLock::new(Gate { is_open: true, cuts: 0 }),
            is_armed: AtomicBool::new(core.is_armed()),
            turn: Mutex::new(()),
            core: Mutex::new(core),
            connections: Mutex::new(BTreeMap::new()),
            punctuality: Mutex::new((Latencies::default(), 0)),
            accepted: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let mut threads = Vec::new();
        let listening = listeners.iter().map(|(address, _)| address.clone()).collect();
        for (_, listener) in listeners {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || accept_all(&shared, &listener)));
        }
        if let Some(listener) = control {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || control::serve(&shared, &listener)));
        }
        let metrics_address =
            options.metrics.as_ref().zip(metrics.as_ref()).map(|(asked, at)| at.address(asked));
        if let Some(listener) = metrics {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || metrics::serve(&shared, &listener)));
        }
        // Without a clock time passes with requests alone.
        if shared.is_armed() && shared.clock.is_real() {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || watch(&shared)));
        }
        Ok(Self { shared, listening, metrics_address, threads, sockets })
    }

    /// Where clients connect; a port of zero was replaced by a free one.
    pub fn addresses(&self) -> &[Address] {
        &self.listening
    }

    /// Where the state is told in Prometheus' text format.
    pub fn metrics_address(&self) -> Option<&Address> {
        self.metrics_address.as_ref()
    }

    /// What the server does now.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// What was asked for, and what the device did.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// The supply fails now.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// The supply comes back.
    ///
    /// # Errors
    /// A layer that cannot be built anew.
    pub fn restore(&self) -> Result<device::Recovery, Failure> {
        self.shared.restore()
    }

    /// True once the server has stopped by itself, or was told to.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Ends all connections and the log; returns the digest of the chips, and what kept the server from going on.
    pub fn stop(mut self) -> (String, Option<String>) {
        self.end();
        let mut core = self.shared.core();
        let mut failure = lock(&self.shared.failure);
        // A log that failed is what stopped the server: its end cannot be written either.
        if failure.is_none()
            && let Err(unlogged) = core.end_log()
        {
            *failure = Some(unlogged.to_string());
        }
        (core.digest(), failure.clone())
    }

    fn end(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has told so.
            let _ = thread.join();
        }
        self.sockets.clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A log names the part: one that is a file could be another one when the log is carried out.
fn check_part(options: &ServerOptions) -> Result<(), ServerError> {
    match &options.core.device.flash {
        Some(flash) if nand::find_part(&flash.part).is_none() => Err(ServerError::Device(format!(
            "--log cannot keep the part of the file {}: use a part of `nandlab list parts`, or leave --log out",
            flash.part
        ))),
        _ => Ok(()),
    }
}

fn check_addresses(options: &ServerOptions) -> Result<(), ServerError> {
    if options.listen.is_empty() {
        return Err(ServerError::Address(
            "no address to listen at: name one, such as unix:/tmp/card.sock".into(),
        ));
    }
    let all = options.listen.iter().chain(&options.metrics);
    let open = all.into_iter().find(|address| !address.is_local());
    if let (Some(Address::Tcp(address)), false) = (open, options.is_open) {
        return Err(ServerError::Address(format!(
            "{address} can be reached from other machines, and NBD asks for no password: use 127.0.0.1 or a \
             socket file, or --allow-remote"
        )));
    }
    Ok(())
}

fn bind(address: &Address) -> Result<Listener, ServerError> {
    let shown = match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Tcp(address) => address.to_string(),
    };
    let (is_left, is_file) = match address {
        Address::Unix(path) => {
            let is_socket =
                std::fs::symlink_metadata(path).map(|file| file.file_type().is_socket());
            // A socket that refuses was left by a server that was killed.
            let refuses = || {
                let told = std::os::unix::net::UnixStream::connect(path).map(drop);
                told.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            };
            (matches!(is_socket, Ok(true)) && refuses(), matches!(is_socket, Ok(false)))
        }
        Address::Tcp(_) => (false, false),
    };
    let bound = Listener::bind(address).and_then(|listener| {
        listener.set_nonblocking()?;
        Ok(listener)
    });
    bound.map_err(|error| {
        let hint = match (is_left, error.kind()) {
            (true, _) => ": no server answers there: remove the socket",
            _ if is_file => ": a file of that name exists: choose another path",
            (false, ErrorKind::AddrInUse) => {
                ": another server answers there: choose another address"
            }
            _ => "",
        };
        ServerError::Place { place: shown, reason: format!("{error}{hint}") }
    })
}

/// The exports: one device under all names.
fn exports(core: &Core, options: &ServerOptions) -> Vec<Export> {
    let names: Vec<String> =
        if options.exports.is_empty() { vec![String::new()] } else { options.exports.clone() };
    let flags = transmission_flag::FLUSH
        | transmission_flag::FUA
        | transmission_flag::TRIM
        | transmission_flag::WRITE_ZEROES
        | transmission_flag::FAST_ZERO
        | transmission_flag::CAN_MULTI_CONN
        | transmission_flag::CACHE;
    let of_name = |name: String| Export {
        description: options.core.device.summary.clone(),
        flags,
        minimum_block_bytes: SECTOR_BYTES as u32,
        ..Export::new(name, core.size_bytes())
    };
    names.into_iter().map(of_name).collect()
}

/// Accepts clients until the server stops.
fn accept_all(shared: &Arc<Shared>, listener: &Listener) {
    let mut clients: BTreeMap<u64, JoinHandle<()>> = BTreeMap::new();
    while !shared.is_stopping() {
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        // An interrupted wait is like one that found nothing.
        let _ = poll(&mut polled, Some(&look));
        clients.retain(|_, thread| !thread.is_finished());
        let socket = match listener.accept() {
            Ok(socket) => socket,
            Err(error) => {
                // Without a free descriptor the client stays in the queue, and waiting for it would not wait.
                if error.kind() != ErrorKind::WouldBlock {
                    thread::sleep(Duration::from_nanos(LOOK_NS as u64));
                }
                continue;
            }
        };
        // A device without power answers nobody.
        let gate = shared.gate.read().unwrap_or_else(PoisonError::into_inner);
        if !gate.is_open || lock(&shared.connections).len() >= CONNECTIONS_MAX {
            socket.shut();
            continue;
        }
        // Under the gate: a cut that comes now finds the connection in the list.
        if let Some((number, thread)) = begin(shared, socket, gate.cuts) {
            clients.insert(number, thread);
        }
    }
    for (_, thread) in clients {
        let _ = thread.join();
    }
}

/// Starts the thread of a client.
fn begin(shared: &Arc<Shared>, socket: Socket, cuts: u64) -> Option<(u64, JoinHandle<()>)> {
    socket.set_nonblocking().ok()?;
    let copy = socket.try_clone().ok()?;
    let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
    lock(&shared.connections).insert(number, copy);
    let begun = Arc::clone(shared);
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name(format!("client {number}")).spawn(move || {
        // Without it, moments are met up to 50 us late; with less right the default stays.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let end = Connection::new(&shared, socket, cuts).run();
        if let End::Broken(_) = end {
            shared.broken.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(socket) = lock(&shared.connections).remove(&number) {
            socket.shut();
        }
    });
    if let Ok(thread) = thread {
        return Some((number, thread));
    }
    // No thread can be started: the client is told by the end of its connection.
    if let Some(socket) = lock(&begun.connections).remove(&number) {
        socket.shut();
    }
    None
}

/// Looks whether the supply fails by itself while no client asks for anything.
fn watch(shared: &Shared) {
    while !shared.is_stopping() && shared.is_armed() {
        let now_ns = shared.clock.now_ns();
        let mut core = shared.core();
        let passed = core.pass_time(now_ns);
        let has_failed = core.failed_ns().is_some_and(|at_ns| at_ns <= now_ns);
        let cuts = core.cuts();
        drop(core);
        if let Err(failure @ Failure::Log(_)) = passed {
            shared.fail(&failure.to_string());
        } else if has_failed {
            shared.cut_after(cuts);
        }
        thread::sleep(WATCH);
    }
}
