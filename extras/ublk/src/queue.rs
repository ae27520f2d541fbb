//! The queue of a ublk device: requests come from the block layer, and their results go back.

use crate::layout::{
    DESCRIPTOR_BYTES, Request, buffer_offset, commit_and_fetch, fetch, request_command,
};
use io_uring::{IoUring, opcode, types};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A tag that the driver gives back: no request comes for it any more (`UBLK_IO_RES_ABORT`, -ENODEV).
const ABORTED: i32 = -19;

/// What came for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A request.
    Request(u16, Request),
    /// The device is stopped: the tag is not used any more.
    Gone(u16),
}

/// The only queue of a device.
pub struct Queue {
    file: File,
    ring: IoUring,
    /// One descriptor a tag, written by the kernel.
    descriptors: MmapRaw,
}

impl Queue {
    /// Opens the character device and asks for a request of every tag. All later calls are made by this thread: the
    /// driver takes it for the server of the queue.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn open(device: u32, depth: u16) -> io::Result<Self> {
        let path = format!("/dev/ublkc{device}");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = usize::from(depth) * DESCRIPTOR_BYTES;
        let descriptors = MmapOptions::new().len(length).map_raw_read_only(&file)?;
        let ring = IoUring::new(u32::from(depth).next_power_of_two())?;
        let mut queue = Self { file, ring, descriptors };
        for tag in 0..depth {
            queue.push(tag, fetch(), 0)?;
        }
        queue.ring.submit()?;
        Ok(queue)
    }

    fn push(&mut self, tag: u16, command: u32, result: i32) -> io::Result<()> {
        let fd = types::Fd(self.file.as_raw_fd());
        let bytes = request_command(tag, result);
        let entry =
            opcode::UringCmd16::new(fd, command).cmd(bytes).build().user_data(u64::from(tag));
        // SAFETY: the command holds no address: bytes are copied by `read_from` and `write_to`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)
    }

    /// Ends the request of a tag; the next one is fetched. The result is its bytes, or a negative error number.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.push(tag, commit_and_fetch(), result)
    }

    /// Waits for arrivals, as long as `timeout`.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn wait(&mut self, timeout: Duration, arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        let time = types::Timespec::from(timeout);
        let arguments = types::SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            // ETIME: nothing came.
            Err(error) if error.raw_os_error() == Some(62) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => drop(other?),
        }
        let done: Vec<(u16, i32)> = self
            .ring
            .completion()
            .map(|entry| (entry.user_data() as u16, entry.result()))
            .collect();
        for (tag, result) in done {
            if result == ABORTED {
                arrivals.push(Arrival::Gone(tag));
            } else if result < 0 {
                return Err(io::Error::from_raw_os_error(-result));
            } else {
                arrivals.push(Arrival::Request(tag, self.request(tag)));
            }
        }
        Ok(())
    }

    fn request(&self, tag: u16) -> Request {
        let at = usize::from(tag) * DESCRIPTOR_BYTES;
        assert!(at + DESCRIPTOR_BYTES <= self.descriptors.len(), "the tag is one of this queue");
        // SAFETY: it lies in the mapping, and the kernel does not write it again before the tag is committed.
        let bytes = unsafe {
            self.descriptors.as_ptr().add(at).cast::<[u8; DESCRIPTOR_BYTES]>().read_volatile()
        };
        Request::parse(&bytes)
    }

    /// Copies the bytes of a write.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn read_from(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, buffer_offset(tag))
    }

    /// Copies what a read found.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn write_to(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, buffer_offset(tag))
    }
}
