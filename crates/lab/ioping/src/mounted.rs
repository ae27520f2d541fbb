//! A file on a mounted file system as the target.
//!
//! Source: `create_temp` and `open_file` of ioping.c: the file of a directory is made under a name that no
//! other process has, and the name is removed before the first byte is written. `O_TMPFILE`, which versions
//! from 0.9 on try first, is not modelled: of the file systems here only UBIFS since Linux 4.9 knows it.

use crate::options::{Options, Target};
use crate::profile::Version;
use crate::report::MediumWork;
use crate::target::{CallError, OpenTarget, failed};
use fs_api::Errno;
use mount::{Machine, Mounted, SharedMount};
use random::Stream;
use std::rc::Rc;
use vfs::{OpenFile, OpenOptions, Vfs};

/// Path of the file that is the target `file`, in the root directory of the mount.
pub const FILE_PATH: &[u8] = b"file";

/// Permission bits of the file of a directory (`mkstemp`).
const PERMISSIONS: u32 = 0o600;
/// What a buffer holds until 0.8.
const FILLING: u8 = b'*';

/// A file that is open, or will be.
pub(crate) struct OpenMounted {
    machine: Machine,
    file_system: Rc<SharedMount>,
    vfs: Rc<Vfs<SharedMount>>,
    options: Rc<Options>,
    pid: u32,
    file: Option<OpenFile>,
    numbers: Stream,
    bytes: Vec<u8>,
    into: Vec<u8>,
}

impl OpenMounted {
    pub(crate) fn new(
        machine: &Machine,
        mounted: &Mounted,
        options: &Rc<Options>,
        pid: u32,
    ) -> Self {
        let size = options.size_bytes as usize;
        Self {
            numbers: machine.sim.stream(&format!("contents of ioping {pid}")),
            machine: machine.clone(),
            file_system: mounted.file_system.clone(),
            vfs: mounted.vfs.clone(),
            options: options.clone(),
            pid,
            file: None,
            bytes: vec![FILLING; size],
            into: vec![0; size],
        }
    }

    fn file(&self) -> &OpenFile {
        self.file.as_ref().expect("it is opened first")
    }

    /// Path of the file of a directory. The template has six letters, for which the number of the process
    /// stands here.
    fn path(&self) -> Vec<u8> {
        let has_suffix = self.options.profile.version >= Version::V0_9;
        match (self.options.keeps_file, has_suffix) {
            (true, _) => b"ioping.tmp".to_vec(),
            (false, true) => format!("ioping.tmp.{:06}", self.pid).into_bytes(),
            (false, false) => format!("ioping.{:06}", self.pid).into_bytes(),
        }
    }

    async fn open_directory(&mut self) -> Result<bool, CallError> {
        let path = self.path();
        // `O_SYNC` and `O_DSYNC` are one here.
        let sync = self.options.is_synchronous;
        let open = OpenOptions { create: Some(PERMISSIONS), sync, ..OpenOptions::default() };
        let caller = self.machine.root();
        let file = self.vfs.open(&caller, &path, open).await;
        self.file = Some(file.map_err(failed("creation of a temporary file"))?);
        if !self.options.keeps_file {
            let unlinked = self.vfs.unlink(&self.machine.root(), &path).await;
            unlinked.map_err(failed("unlink"))?;
            return Ok(true);
        }
        let set_bytes = self.options.working_set_bytes.expect("a directory has one");
        let attributes = self.vfs.stat(&path).await.map_err(failed("fstat"))?;
        Ok(attributes.size_bytes < self.options.offset_bytes + set_bytes)
    }
}

impl OpenTarget for OpenMounted {
    async fn open(&mut self) -> Result<bool, CallError> {
        let must_write = match self.options.target {
            Target::Directory => self.open_directory().await?,
            Target::File => {
                let sync = self.options.is_synchronous;
                let open = OpenOptions { sync, ..OpenOptions::default() };
                let file = self.vfs.open(&self.machine.root(), FILE_PATH, open).await;
                self.file = Some(file.map_err(failed("open"))?);
                false
            }
            Target::Device => return Err(failed("open")(Errno::Enxio)),
        };
        if self.options.is_direct {
            // Before the file is written, in every version.
            self.vfs.set_direct(self.file()).map_err(failed("fcntl(O_DIRECT)"))?;
        }
        Ok(must_write)
    }

    async fn read(&mut self, offset: u64, bytes: u64) -> Result<(), CallError> {
        let file = self.file.as_ref().expect("it is opened first");
        let read = self.vfs.read(file, offset, &mut self.into[..bytes as usize]).await;
        read.map(drop).map_err(failed("read"))
    }

    async fn write(&mut self, offset: u64, bytes: u64) -> Result<(), CallError> {
        let bytes = &self.bytes[..bytes as usize];
        let written = self.vfs.write(&self.machine.root(), self.file(), offset, bytes).await;
        written.map_err(failed("write"))
    }

    async fn fsync(&self) -> Result<(), CallError> {
        self.vfs.fsync(&self.machine.root(), self.file()).await.map_err(failed("fsync"))
    }

    async fn fdatasync(&self) -> Result<(), CallError> {
        self.vfs.fdatasync(&self.machine.root(), self.file()).await.map_err(failed("fdatasync"))
    }

    fn advise_random(&self) {
        self.vfs.advise_random(self.file());
    }

    fn advise_not_needed(&self, offset: u64, bytes: u64) {
        self.vfs.advise_not_needed(self.file(), offset..offset + bytes);
    }

    fn draw_bytes(&mut self) {
        for word in self.bytes.chunks_mut(8) {
            word.copy_from_slice(&self.numbers.next_u64().to_le_bytes()[..word.len()]);
        }
    }

    fn medium_work(&self) -> Option<MediumWork> {
        let path = self.file_system.block_path();
        Some(MediumWork {
            chip: self.machine.mtd.with_chip(|chip| chip.counters()),
            device: path.and_then(|path| path.queue().statistics()),
        })
    }

    async fn exit(&mut self) -> Result<(), CallError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        // The last user of a file without a name deletes it.
        self.vfs.close(&self.machine.root(), file).await.map_err(failed("close"))
    }
}
