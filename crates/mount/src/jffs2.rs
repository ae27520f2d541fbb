//! JFFS2 in the table of file systems.

use crate::kind::{Kind, MountError, MountRequest, unknown_option};
use crate::{AnyFileSystem, Machine};
use jffs2::{CleanMarkers, CpuCosts, Jffs2, MountOptions, find_profile};

pub(crate) const KIND: Kind = Kind {
    name: "jffs2",
    summary: "JFFS2: a log of compressed nodes, scanned at mount",
    is_on_block_device: false,
    has_cleaner: false,
    profiles: &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"],
    mount: |machine, request| Box::pin(mount(machine, request)),
};

const LZO: u8 = 7;
const ZLIB: u8 = 6;

/// Options as `jffs2_parse_param` of `fs/jffs2/super.c` (Linux 6.1) takes them, and one for what the
/// kernel sees at the kind of the device: where blocks say that they were erased.
fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
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
            "compr=none" => options.compressors = Some(Vec::new()),
            "compr=lzo" => options.compressors = Some(vec![LZO]),
            "compr=zlib" => options.compressors = Some(vec![ZLIB]),
            "clean-markers=in-band" => options.clean_markers = CleanMarkers::InBand,
            _ => return Err(unknown_option(option, "ro, rw, compr=none, compr=lzo, compr=zlib")),
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<AnyFileSystem, MountError> {
    let options = parse(request, machine)?;
    let (sim, cpus, mtd) = (&machine.sim, machine.cpus.clone(), machine.mtd.clone());
    match Jffs2::mount(sim, cpus, mtd, options).await {
        Ok(mounted) => Ok(AnyFileSystem::Jffs2(mounted)),
        Err(jffs2::MountError::Call(errno)) => Err(MountError::Call { kind: KIND.name, errno }),
        Err(error) => Err(MountError::Medium { kind: KIND.name, reason: error.to_string() }),
    }
}
