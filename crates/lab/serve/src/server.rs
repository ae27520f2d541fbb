//! Listens for clients, and gives whoever runs it the device's state and its power switch.

use crate::clients::{accept_all, watch};
use crate::clock::{Clock, Pace};
use crate::control::COMMANDS;
use crate::core::Core;
use crate::image::ImageError;
use crate::log;
use crate::metrics::PAGES;
use crate::open_image;
use crate::record::RecordWriter;
use crate::shared::{Gate, Shared, Statistics, Status, lock};
use crate::socket::{Address, Listener};
use crate::work::{CoreOptions, Failure, SECTOR_BYTES};
use jobs::Latencies;
use nbd::{Export, transmission_flag};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use thiserror::Error;

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
    /// Where the device is kept. An image that exists has its own seed and contents.
    pub image: Option<PathBuf>,
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
    /// The image cannot be had.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The exports break a rule of the protocol.
    #[error(transparent)]
    Export(#[from] nbd::ExportError),
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
        check_files(options)?;
        // A large device takes seconds to fill, so an address in use and a log that cannot be are told before.
        let Sockets { listeners, control, metrics, files } = Sockets::open(options)?;
        let log = options.log.as_deref().map(|path| begin_log(path, options)).transpose()?;
        let (mut core, exports) = make(options).inspect_err(|_| {
            // A log of no run would be in the way of the next try.
            if let Some(path) = &options.log {
                let _ = std::fs::remove_file(path);
            }
        })?;
        if let Some(log) = log {
            core.log_to(log);
        }
        let shared = Arc::new(Shared {
            exports: exports.into(),
            clock: Clock::new(options.pace, core.now_ns()),
            gate: RwLock::new(Gate { is_open: true, cuts: core.cuts() }),
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
        // From here on nothing fails: threads that were started would outlive an error.
        let mut threads = Vec::new();
        let listening = listeners.iter().map(|(address, _)| address.clone()).collect();
        for (_, listener) in listeners {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || accept_all(&shared, &listener)));
        }
        if let Some(listener) = control {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || COMMANDS.answer_all(&shared, &listener)));
        }
        let metrics_address = metrics.as_ref().map(|(address, _)| address.clone());
        if let Some((_, listener)) = metrics {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || PAGES.answer_all(&shared, &listener)));
        }
        // Without a clock time passes with requests alone.
        if shared.is_armed() && shared.clock.is_real() {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || watch(&shared)));
        }
        Ok(Self { shared, listening, metrics_address, threads, sockets: files })
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

    /// Ends all connections, the log and the image; returns the digest of the chips, and what kept the server from going
    /// on. With an image the supply is taken away in order after the digest was made.
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
        let digest = core.digest();
        if failure.is_none()
            && let Err(not_kept) = core.end_image()
        {
            *failure = Some(not_kept.to_string());
        }
        (digest, failure.clone())
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

/// What a server listens at.
struct Sockets {
    listeners: Vec<(Address, Listener)>,
    control: Option<Listener>,
    metrics: Option<(Address, Listener)>,
    files: Vec<SocketFile>,
}

impl Sockets {
    /// Opens all; those that were opened are closed, and their files gone, if one cannot be.
    fn open(options: &ServerOptions) -> Result<Self, ServerError> {
        let mut files = Vec::new();
        let mut open = |address: &Address| -> Result<(Address, Listener), ServerError> {
            let listener = bind(address)?;
            if let Address::Unix(path) = address {
                files.push(SocketFile(path.clone()));
            }
            Ok((listener.address(address), listener))
        };
        let listeners = options.listen.iter().map(&mut open).collect::<Result<_, _>>()?;
        let control = options.control.clone().map(Address::Unix);
        let control = control.as_ref().map(&mut open).transpose()?.map(|(_, listener)| listener);
        let metrics = options.metrics.as_ref().map(&mut open).transpose()?;
        Ok(Self { listeners, control, metrics, files })
    }
}

/// The device, and what is offered of it.
fn make(options: &ServerOptions) -> Result<(Core, Vec<Export>), ServerError> {
    let core = match &options.image {
        Some(path) => open_image::open(path, &options.core)?,
        None => Core::new(&options.core).map_err(ServerError::Device)?,
    };
    let exports = exports(&core, options);
    nbd::check_exports(&exports)?;
    Ok((core, exports))
}

/// Begins the log of a run.
fn begin_log(path: &Path, options: &ServerOptions) -> Result<RecordWriter, ServerError> {
    let place = |reason: std::io::Error| ServerError::Place {
        place: path.display().to_string(),
        reason: reason.to_string(),
    };
    // A log that exists is kept: it is the only record of its run.
    let file = std::fs::File::create_new(path).map_err(place)?;
    log::begin_log(file, &options.core).map_err(|reason| {
        // It holds no run, and would be in the way of the next try.
        let _ = std::fs::remove_file(path);
        place(reason)
    })
}

/// What the device is made from must be found again when its log or its image is used.
fn check_files(options: &ServerOptions) -> Result<(), ServerError> {
    let named = options.log.as_ref().map(|_| "--log").or(options.image.as_ref().map(|_| "--image"));
    if let (Some(option), Some(flash)) = (named, &options.core.device.flash)
        && nand::find_part(&flash.part).is_none()
    {
        // A part that is a file could be another one by then.
        return Err(ServerError::Device(format!(
            "{option} cannot keep the part of the file {}: use a part of `nandlab list parts`, or leave {option} out",
            flash.part
        )));
    }
    let is_used = options.image.as_ref().is_some_and(|path| path.exists());
    if is_used && options.log.is_some() {
        return Err(ServerError::Device(
            "--log begins with a new device, and the image holds one that was used: log into a new image, or leave \
             --log out"
                .into(),
        ));
    }
    Ok(())
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
