//! Makes, starts, stops and forgets a ublk device.

use crate::layout::{Control, control_command, device_info, device_number, parameters};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// The driver's control device.
pub struct Driver {
    file: File,
    /// Commands need the long submission entries.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Driver {
    /// Opens /dev/ublk-control.
    ///
    /// # Errors
    /// A sentence.
    pub fn open() -> Result<Self, String> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/ublk-control");
        let file = file.map_err(|error| {
            format!("/dev/ublk-control: {error}: load the module ublk_drv, and be root")
        })?;
        let ring = IoUring::builder().build(4).map_err(|error| format!("io_uring: {error}"))?;
        Ok(Self { file, ring })
    }

    /// Makes a device with one queue; returns its number.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn add(&mut self, depth: u16) -> io::Result<u32> {
        let mut info = device_info(depth);
        let address = info.as_mut_ptr() as u64;
        self.command(Control::Add, u32::MAX, address, info.len() as u16, 0)?;
        Ok(device_number(&info))
    }

    /// Describes the block device.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn set_parameters(
        &mut self,
        device: u32,
        sectors: u64,
        page_sectors: u32,
    ) -> io::Result<()> {
        let bytes = parameters(sectors, page_sectors);
        let address = bytes.as_ptr() as u64;
        self.command(Control::SetParameters, device, address, bytes.len() as u16, 0)
    }

    /// Starts, stops or forgets the device.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn tell(&mut self, what: Control, device: u32) -> io::Result<()> {
        // The driver wants to know who serves the device (`ublk_ctrl_start_dev` of drivers/block/ublk_drv.c).
        self.command(what, device, 0, 0, u64::from(std::process::id()))
    }

    fn command(
        &mut self,
        what: Control,
        device: u32,
        address: u64,
        length: u16,
        value: u64,
    ) -> io::Result<()> {
        let bytes = control_command(device, address, length, value);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, what.number()).cmd(bytes).build();
        // SAFETY: the memory at `address` belongs to the caller, which waits here until the command is over.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        // Also after a signal: the driver reads and writes the memory at `address` until it has answered.
        let result = loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => drop(other?),
            }
            if let Some(entry) = self.ring.completion().next() {
                break entry.result();
            }
        };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}
