//! Small devices, and servers of them in a folder of their own.

use device::{DeviceSpec, Precondition};
use serve::{Address, CoreOptions, CutAfter, Pace, Server, ServerOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is gone with its test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nandlab-serve-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A shipped device made small, with changes.
pub(crate) fn spec(name: &str, bytes: u64, changes: &[(&str, &str)]) -> DeviceSpec {
    let mut spec = device::find_device(name).expect("a preset");
    for (key, value) in changes {
        spec.set(key, value).expect(key);
    }
    spec.set_capacity(bytes).expect("smaller");
    spec
}

pub(crate) fn core(device: DeviceSpec, cut_after: Option<CutAfter>) -> CoreOptions {
    CoreOptions { device, precondition: None::<Precondition>, seed: 1, cut_after, bytes_in: None }
}

/// A server of `core` at the socket `s` of a folder.
pub(crate) fn options(folder: &Folder, core: CoreOptions, pace: Pace) -> ServerOptions {
    ServerOptions {
        core,
        exports: Vec::new(),
        listen: vec![Address::Unix(folder.path("s"))],
        control: None,
        metrics: None,
        pace,
        is_open: false,
        log: None,
        image: None,
    }
}

pub(crate) fn start(options: &ServerOptions) -> Server {
    Server::start(options).expect("a server")
}

/// The socket file of the first address.
pub(crate) fn socket(server: &Server) -> &Path {
    match &server.addresses()[0] {
        Address::Unix(path) => path,
        Address::Tcp(_) => panic!("a socket file was asked for"),
    }
}
