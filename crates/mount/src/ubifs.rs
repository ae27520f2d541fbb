//! UBIFS over UBI in the table of file systems.

use crate::any::Call;
use crate::kind::{Kind, MountError, MountRequest, UbiRequest, unknown_option};
use crate::{AnyFileSystem, MTDBLOCK, Machine, Mounted};
use posix::{Errno, FileSystem, Memory};
use std::rc::Rc;
use ubi::{AttachOptions, FormatOptions, Ubi, VolumeKind, VolumeOptions};
use ubifs::{
    Compressor, CpuCosts, MemoryVolume, MountOptions, NewFileSystem, Ubifs, Volume, find_profile,
};

pub(crate) const KIND: Kind = Kind {
    name: "ubifs",
    summary: "UBIFS over UBI: a journal and an index in a tree, written back through the page cache",
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"],
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// Name of the volume that is made on a device without any.
const VOLUME: &str = "nandlab";

/// A mounted UBIFS, and the device that its volume is of.
pub struct UbifsMount {
    /// The file system, whose calls the layer above makes.
    pub file_system: Ubifs,
    /// The device; none under a volume in memory.
    pub ubi: Option<Rc<Ubi>>,
    /// The mount attached the device, and its end detaches it.
    is_attached_here: bool,
}

impl UbifsMount {
    pub(crate) async fn unmount(&self) -> Result<(), Errno> {
        let done = self.file_system.unmount().await;
        // Only what this mount attached is detached; a script's `ubiattach` stays.
        if let (Some(ubi), true) = (&self.ubi, self.is_attached_here) {
            ubi.detach();
        }
        done
    }

    /// Structures of both layers.
    pub(crate) fn memory(&self) -> Memory {
        let mut kinds = self.file_system.memory().kinds;
        kinds.extend(self.ubi.iter().flat_map(|ubi| ubi.memory_use().kinds));
        kinds.sort_unstable();
        Memory { kinds }
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        let mut findings = self.ubi.as_ref().map_or_else(Vec::new, |ubi| ubi.findings());
        findings.extend(self.file_system.findings());
        findings
    }
}

impl Machine {
    /// Attaches the device to UBI, which stays so until it is detached (`ubiattach`).
    ///
    /// # Errors
    /// [`MountError::Medium`].
    pub async fn attach_ubi(&self, request: &MountRequest) -> Result<Rc<Ubi>, MountError> {
        let ubi = attach(self, request).await?;
        *self.attached.borrow_mut() = Some(ubi.clone());
        Ok(ubi)
    }

    /// Mounts UBIFS on a volume in memory, without UBI and the chip; an empty one becomes a file system
    /// of sizes that may be chosen.
    ///
    /// # Errors
    /// [`MountError`].
    pub async fn mount_volume(
        &self,
        volume: Rc<MemoryVolume>,
        request: &MountRequest,
        new: NewFileSystem,
    ) -> Result<Mounted, MountError> {
        let options = MountOptions { new, ..parse(request, self)? };
        let mounted = mounting(self, Volume::Memory(volume), options).await;
        let file_system = mounted.map_err(|error| medium(error.to_string()))?;
        let mount = UbifsMount { file_system, ubi: None, is_attached_here: false };
        Ok(self.mounted(AnyFileSystem::Ubifs(mount), request.has_write_back))
    }

    /// The device that is attached to UBI.
    pub fn attached_ubi(&self) -> Option<Rc<Ubi>> {
        self.attached.borrow().clone()
    }

    /// Erases the device and makes it an empty one of UBI (`ubiformat -Q IMAGE_SEQUENCE`).
    ///
    /// # Errors
    /// [`MountError::Medium`].
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
    /// [`MountError::Medium`]; so if nothing is attached.
    pub async fn make_ubi_volume(&self, name: &str) -> Result<(), MountError> {
        let ubi = self.attached_ubi().ok_or_else(|| medium("UBI: nothing is attached".into()))?;
        let made = ubi.make_volume(&VolumeOptions::new(name)).await;
        made.map(drop).map_err(|error| medium(format!("UBI: {error}")))
    }

    /// Ends UBI's work on the device (`ubidetach`).
    pub fn detach_ubi(&self) {
        if let Some(ubi) = self.attached.borrow_mut().take() {
            ubi.detach();
        }
    }
}

fn format(machine: &Machine, options: FormatOptions) -> Call<'_, Result<(), MountError>> {
    let (sim, cpus, mtd) = (&machine.sim, machine.cpus.clone(), machine.mtd.clone());
    Box::pin(async move {
        let formatted = Ubi::format(sim, cpus, mtd, &options).await;
        formatted.map_err(|error| medium(format!("UBI: {error}")))
    })
}

fn mounting(
    machine: &Machine,
    volume: Volume,
    options: MountOptions,
) -> Call<'_, Result<Ubifs, ubifs::MountError>> {
    Box::pin(Ubifs::mount(&machine.sim, machine.cpus.clone(), volume, options))
}

fn attach<'a>(
    machine: &'a Machine,
    request: &'a MountRequest,
) -> Call<'a, Result<Rc<Ubi>, MountError>> {
    Box::pin(attach_device(machine, request))
}

async fn attach_device(machine: &Machine, request: &MountRequest) -> Result<Rc<Ubi>, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = ubi::find_profile(name).expect("the table is tested");
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
        ..AttachOptions::new(profile)
    };
    let attached = Ubi::attach(&machine.sim, machine.cpus.clone(), machine.mtd.clone(), options);
    attached.await.map_err(|error| medium(format!("UBI: {error}")))
}

fn medium(reason: String) -> MountError {
    MountError::Medium { kind: KIND.name, reason }
}

/// The volume that is asked for, or the only one; one over the whole device if it has none.
async fn open(ubi: &Rc<Ubi>, request: &MountRequest) -> Result<ubi::Volume, MountError> {
    let refused = |error: ubi::UbiError| medium(format!("UBI: {error}"));
    let volumes = ubi.volumes();
    let id = match (&request.ubi.volume, &volumes[..]) {
        (Some(asked), _) => {
            let named = volumes.iter().find(|(_, name)| name == asked);
            named.map(|(id, _)| *id).ok_or_else(|| {
                let known: Vec<&str> = volumes.iter().map(|(_, name)| name.as_str()).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                medium(format!("there is no volume `{asked}`; the device has: {known}"))
            })?
        }
        // A blank device gets one volume of all its blocks, where a user would run ubimkvol.
        (None, []) => ubi.make_volume(&VolumeOptions::new(VOLUME)).await.map_err(refused)?,
        (None, [(id, _)]) => *id,
        (None, _) => {
            let known: Vec<&str> = volumes.iter().map(|(_, name)| name.as_str()).collect();
            return Err(medium(format!(
                "the device has {} volumes, name one: {}",
                known.len(),
                known.join(", ")
            )));
        }
    };
    let volume = ubi.open_volume(id).await.map_err(refused)?;
    if volume.kind() == VolumeKind::Static {
        let reason = format!("volume `{}` is static: UBIFS needs a dynamic one", volume.name());
        return Err(medium(reason));
    }
    Ok(volume)
}

/// Options as `ubifs_parse_options` of `fs/ubifs/super.c` (Linux 6.1) takes them.
fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let work = &machine.board.work;
    let mut options = MountOptions {
        has_thread: request.has_background,
        costs: CpuCosts {
            crc_ps_per_byte: work.crc32_ps_per_byte,
            copy_ps_per_byte: machine.board.costs.copy_ps_per_byte,
            lzo_compress_ps_per_byte: work.lzo_compress_ps_per_byte,
            lzo_decompress_ps_per_byte: work.lzo_decompress_ps_per_byte,
            zlib_compress_ps_per_byte: work.zlib_compress_ps_per_byte,
            zlib_decompress_ps_per_byte: work.zlib_decompress_ps_per_byte,
            zstd_compress_ps_per_byte: work.zstd_compress_ps_per_byte,
            zstd_decompress_ps_per_byte: work.zstd_decompress_ps_per_byte,
            znode_ns: work.entry_ns,
        },
        made_at: machine.now().seconds,
        ..MountOptions::new(profile)
    };
    // The timers of write buffers follow the interval of write-back (`wbuf_timer_init`).
    if !request.has_background || !request.has_write_back {
        options.write_buffer_interval_ns = None;
    }
    for option in &request.options {
        match option.as_str() {
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            "sync" => options.is_synchronous = true,
            "bulk_read" => options.has_bulk_read = true,
            "no_bulk_read" => options.has_bulk_read = false,
            "compr=none" => options.compressor = Some(Compressor::None),
            "compr=lzo" => options.compressor = Some(Compressor::Lzo),
            "compr=zlib" => options.compressor = Some(Compressor::Zlib),
            "compr=zstd" => options.compressor = Some(Compressor::Zstd),
            _ => {
                let known = "ro, rw, sync, bulk_read, no_bulk_read, compr=none, compr=lzo, \
                             compr=zlib, compr=zstd";
                return Err(unknown_option(option, known));
            }
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<AnyFileSystem, MountError> {
    let options = parse(request, machine)?;
    let attached = machine.attached_ubi();
    let is_attached_here = attached.is_none();
    // A device that a script has attached is used as it is.
    let ubi = match attached {
        Some(ubi) => ubi,
        None => attach(machine, request).await?,
    };
    let mounted = match open(&ubi, request).await {
        Ok(volume) => {
            let mounted = mounting(machine, Volume::Ubi(volume), options).await;
            mounted.map_err(|error| medium(error.to_string()))
        }
        Err(error) => Err(error),
    };
    match mounted {
        Ok(file_system) => {
            Ok(AnyFileSystem::Ubifs(UbifsMount { file_system, ubi: Some(ubi), is_attached_here }))
        }
        Err(error) => {
            // A mount that fails leaves the device as it found it.
            if is_attached_here {
                ubi.detach();
            }
            Err(error)
        }
    }
}
