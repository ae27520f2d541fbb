//! UBI on the machine's raw NAND: what `ubiattach` and the programs beside it do.

use crate::{Call, Machine, MountError, MountRequest, UbiRequest};
use std::rc::Rc;
use ubi::{AttachOptions, FormatOptions, PROFILES, Ubi, VolumeOptions};

/// Name of the layer in messages.
const UBI: &str = "ubi";

impl Machine {
    /// Attaches the device to UBI, which stays so until it is detached (`ubiattach`).
    ///
    /// # Errors
    /// [`MountError::Ubi`] if the device cannot be attached; [`MountError::UnknownProfile`].
    pub async fn attach_ubi(&self, request: &MountRequest) -> Result<Rc<Ubi>, MountError> {
        let ubi = self.attach_ubi_for_mount(request).await?;
        // Kept, so that mounts use it as it is and leave it attached.
        *self.attached.borrow_mut() = Some(ubi.clone());
        Ok(ubi)
    }

    /// Attaches the device for one mount, whose end detaches it.
    ///
    /// # Errors
    /// As [`Machine::attach_ubi`].
    pub fn attach_ubi_for_mount<'a>(
        &'a self,
        request: &'a MountRequest,
    ) -> Call<'a, Result<Rc<Ubi>, MountError>> {
        Box::pin(attach(self, request))
    }

    /// The device that is attached to UBI.
    pub fn attached_ubi(&self) -> Option<Rc<Ubi>> {
        self.attached.borrow().clone()
    }

    /// Erases the device and makes it an empty one of UBI (`ubiformat -Q IMAGE_SEQUENCE`).
    ///
    /// # Errors
    /// [`MountError::Ubi`] if blocks cannot be erased or are too small.
    pub async fn format_ubi(
        &self,
        image_sequence: u32,
        request: &UbiRequest,
    ) -> Result<(), MountError> {
        let header_offset = request.chosen_header_offset();
        format(self, FormatOptions { image_sequence, header_offset, keeps_counters: true }).await
    }

    /// Makes a volume of all blocks that are free on the device that is attached (`ubimkvol -m`).
    ///
    /// # Errors
    /// [`MountError::Ubi`]; so if nothing is attached.
    pub async fn make_ubi_volume(&self, name: &str) -> Result<(), MountError> {
        let ubi = self.attached_ubi().ok_or_else(|| refused(&"nothing is attached"))?;
        // Of all free blocks: the programs are asked for no size here (`ubimkvol -m`).
        ubi.make_volume(&VolumeOptions::new(name)).await.map(drop).map_err(|error| refused(&error))
    }

    /// Ends UBI's work on the device (`ubidetach`).
    pub fn detach_ubi(&self) {
        if let Some(ubi) = self.attached.borrow_mut().take() {
            ubi.detach();
        }
    }
}

fn refused(reason: &dyn std::fmt::Display) -> MountError {
    MountError::Ubi { reason: reason.to_string() }
}

fn format(machine: &Machine, options: FormatOptions) -> Call<'_, Result<(), MountError>> {
    let (sim, cpus, mtd) = (&machine.sim, machine.cpus.clone(), machine.mtd.clone());
    Box::pin(
        async move { Ubi::format(sim, cpus, mtd, &options).await.map_err(|error| refused(&error)) },
    )
}

/// The profile that is asked for; that of the newest kernel where none is.
fn profile(asked: Option<&str>) -> Result<&'static ubi::Profile, MountError> {
    // The table is sorted by kernel, the oldest first.
    let newest = &PROFILES[PROFILES.len() - 1];
    let Some(name) = asked else { return Ok(newest) };
    ubi::find_profile(name).ok_or_else(|| {
        let known: Vec<&str> = PROFILES.iter().rev().map(|profile| profile.name).collect();
        MountError::UnknownProfile { kind: UBI, name: name.into(), known: known.join(", ") }
    })
}

async fn attach(machine: &Machine, request: &MountRequest) -> Result<Rc<Ubi>, MountError> {
    let options = AttachOptions {
        header_offset: request.ubi.chosen_header_offset(),
        chip_blocks: request.ubi.chip_blocks,
        is_read_only: request.options.iter().any(|option| option == "ro"),
        has_thread: request.has_background,
        costs: ubi::CpuCosts {
            crc_ps_per_byte: machine.board.work.crc32_ps_per_byte,
            copy_ps_per_byte: machine.board.costs.copy_ps_per_byte,
        },
        seed: request.seed,
        ..AttachOptions::new(profile(request.profile.as_deref())?)
    };
    let attached = Ubi::attach(&machine.sim, machine.cpus.clone(), machine.mtd.clone(), options);
    attached.await.map_err(|error| refused(&error))
}
