//! JFFS2 on raw NAND in the table of file systems, and its options.

use crate::jffs2_block2mtd::OverBlock;
use crate::kind::{Kind, MountError, MountRequest, unknown_option};
use crate::{AnyFileSystem, MTDBLOCK, Machine};
use jffs2::{CleanMarkers, CpuCosts, Jffs2, MountOptions, find_profile};
use posix::{Errno, FileSystem};

pub(crate) const KIND: Kind = Kind {
    name: "jffs2",
    summary: "JFFS2: a log of compressed nodes, scanned at mount",
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: PROFILES,
    mount: |machine, request| Box::pin(mount(machine, request)),
};

pub(crate) const PROFILES: &[&str] = &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"];

/// A mounted JFFS2, and the block device under it if there is one.
pub struct Jffs2Mount {
    /// The file system, whose calls the layer above makes.
    pub file_system: Jffs2,
    /// The block device under it; none on raw NAND.
    pub over_block: Option<OverBlock>,
}

impl Jffs2Mount {
    pub(crate) async fn unmount(&self) -> Result<(), Errno> {
        let done = self.file_system.unmount().await;
        match &self.over_block {
            Some(over) => done.and(over.close().await),
            None => done,
        }
    }

    /// Lets go of clean pages of the block device; the kernel does not count them as objects.
    pub(crate) fn shrink(&self) -> u64 {
        if let Some(over) = &self.over_block {
            over.device.drop_pages();
        }
        0
    }
}

// `JFFS2_COMPR_LZO` and `JFFS2_COMPR_ZLIB` of `include/uapi/linux/jffs2.h`.
const LZO: u8 = 7;
const ZLIB: u8 = 6;

/// Options as `jffs2_parse_param` of `fs/jffs2/super.c` (Linux 6.1) takes them, and one for what the
/// kernel sees at the kind of the device: where blocks say that they were erased.
pub(crate) fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let work = &machine.board.work;
    let mut options = MountOptions {
        has_thread: request.has_background,
        has_write_back: request.has_write_back,
        costs: CpuCosts {
            crc_ps_per_byte: work.crc32_ps_per_byte,
            copy_ps_per_byte: machine.board.costs.copy_ps_per_byte,
            zlib_compress_ps_per_byte: work.zlib_compress_ps_per_byte,
            zlib_decompress_ps_per_byte: work.zlib_decompress_ps_per_byte,
            lzo_compress_ps_per_byte: work.lzo_compress_ps_per_byte,
            lzo_decompress_ps_per_byte: work.lzo_decompress_ps_per_byte,
            rtime_compress_ps_per_byte: work.rtime_compress_ps_per_byte,
            rtime_decompress_ps_per_byte: work.rtime_decompress_ps_per_byte,
        },
        hz: machine.board.hz,
        seed: request.seed,
        ..MountOptions::new(profile)
    };
    for option in &request.options {
        match option.as_str() {
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            // `compr=` forces one compressor for all files of the mount (`override_compr`).
            "compr=none" => options.compressors = Some(Vec::new()),
            "compr=lzo" => options.compressors = Some(vec![LZO]),
            "compr=zlib" => options.compressors = Some(vec![ZLIB]),
            // No option of the kernel, which decides by the kind of the device.
            "clean-markers=in-band" => options.clean_markers = CleanMarkers::InBand,
            _ => return Err(unknown_option(option, "ro, rw, compr=none, compr=lzo, compr=zlib")),
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<AnyFileSystem, MountError> {
    let options = parse(request, machine)?;
    let (sim, cpus, mtd) = (&machine.sim, machine.cpus.clone(), machine.mtd.clone());
    let mounted = Jffs2::mount(sim, cpus, mtd, options).await;
    let file_system = mounted.map_err(|error| failed(KIND.name, &error))?;
    Ok(AnyFileSystem::Jffs2(Jffs2Mount { file_system, over_block: None }))
}

pub(crate) fn failed(kind: &'static str, error: &jffs2::MountError) -> MountError {
    match error {
        jffs2::MountError::Call(errno) => MountError::Call { kind, errno: *errno },
        error => MountError::Medium { kind, reason: error.to_string() },
    }
}
