//! Images of UBIFS, alone or on UBI, as mkfs.ubifs and ubinize make them.
//!
//! The file system itself writes its eraseblocks, to a volume in memory. Volumes become an image by the code
//! of ubinize; with spare areas it is flashed to a blank chip, as ubiformat does it.

use crate::chip::find_chip;
use crate::contract::Made;
use crate::error::ImageError;
use crate::options::{MakeOptions, Padding};
use crate::source::Source;
use crate::tree_copy::{copy, read_source};
use crate::unfinished::finish;
use cancellation::Checked;
use file_systems::{find_kind, mount_volume};
use mount::{Driver, MountError, MountRequest};
use mtd::{OobLayout, find_layout};
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage};
use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::path::Path;
use std::rc::Rc;
use ubi::headers::crc32;
use ubi::{
    FormatOptions, ImageOptions, Layout, Ubi, VolumeImage, VolumeKind, VolumeSection, parse_config,
    ubinize,
};
use ubifs::{MemoryVolume, NewFileSystem, VolumeShape};

/// Bytes that a file is filled up with at once.
const PIECE_BYTES: usize = 1 << 20;
/// Blocks of the volume table, of wear levelling and of atomic changes.
const OWN_BLOCKS: u32 = 4;
/// Bad blocks of 1024 for which some are kept (`CONFIG_MTD_UBI_BEB_LIMIT`).
const BAD_PER_1024: u32 = 20;
/// Name of the volume, if none is given.
const VOLUME: &str = "rootfs";
/// Share of the eraseblocks that the journal takes, and the most that it takes, as the kernel chooses.
const JOURNAL_PERCENT: u64 = 5;
const MAX_JOURNAL_BYTES: u64 = 32 << 20;
/// Eraseblocks that a file system may grow to: of 16 KiB, the smallest, they are the 4 GiB at which
/// images of raw NAND end. The file system keeps a record of each.
const LEB_COUNT_MAX: u32 = 1 << 18;

fn refuse(option: &'static str, reason: impl Into<String>) -> ImageError {
    ImageError::Option { option, reason: reason.into() }
}

fn check_leb_count(options: &MakeOptions) -> Result<(), ImageError> {
    match options.ubi.max_leb_count.filter(|count| *count > LEB_COUNT_MAX) {
        None => Ok(()),
        Some(count) => Err(refuse(
            "--max-leb-cnt",
            format!(
                "{count} eraseblocks are more than raw NAND has: at most {LEB_COUNT_MAX} are possible"
            ),
        )),
    }
}

/// The counter and the number that the headers of all blocks have.
fn image_options(volumes: &[VolumeImage], options: &MakeOptions) -> ImageOptions {
    // Follows from the contents, so that equal trees make equal images; 0 would stand for none.
    let content =
        volumes.iter().fold(0, |sum: u32, volume| sum.rotate_left(1) ^ crc32(&volume.data));
    ImageOptions {
        erase_counter: options.ubi.erase_counter,
        image_sequence: options.ubi.image_sequence.unwrap_or(content.max(1)),
    }
}

/// Makes an image of UBIFS or of volumes; the file appears when it is complete.
///
/// # Errors
/// [`ImageError`]: the tree or the configuration cannot be read or does not fit, an option is wrong.
pub(super) fn make_ubi(
    from: Option<&Path>,
    to: &Path,
    options: &MakeOptions,
) -> Result<Made, ImageError> {
    let (part, oob_layout) = find_chip(options)?;
    let source = from.map(|from| read_source(from, options)).transpose()?;
    let names = source.as_ref().map_or(0, |source| source.nodes.len() as u64);
    let page_bytes = part.geometry.page_data_bytes;
    check_leb_count(options)?;
    let offset = options.ubi.vid_header_offset;
    let layout = Layout::of_geometry(&part.geometry, page_bytes / oob_layout.sub_pages, offset)
        .map_err(|error| refuse("--vid-hdr-offset", error.to_string()))?;
    if options.ubi.is_bare {
        let Some(source) = source else {
            return Err(refuse("--from", "a file system is made of a directory: name one"));
        };
        let data = make_bare(source, &layout, to, options)?;
        return save(to, &data, page_bytes, options).map(|made| Made { names, ..made });
    }
    if options.ubi.leb_bytes.is_some() {
        let reason = "on UBI eraseblocks have the size that its headers leave; it goes with --bare";
        return Err(refuse("--leb-size", reason));
    }
    let volumes = match &options.ubi.config {
        Some(config) => configured(config, source, &layout, to, options)?,
        None => vec![single(source, &layout, to, options)?],
    };
    let data =
        ubinize(&layout, image_options(&volumes, options), &volumes).map_err(
            |error| match &options.ubi.config {
                Some(config) => ImageError::content(config, error.to_string()),
                None => refuse("--volume", error.to_string()),
            },
        )?;
    let blocks = data.len() / layout.peb_bytes as usize;
    if blocks > part.geometry.blocks as usize {
        let reason = format!(
            "the image has {blocks} erase blocks, the chip {}: a larger chip has more --blocks",
            part.geometry.blocks
        );
        return Err(refuse("--blocks", reason));
    }
    if !options.has_oob {
        return save(to, &data, page_bytes, options).map(|made| Made { names, ..made });
    }
    let chip =
        flash(&part, oob_layout, &layout, data).map_err(|reason| refuse("--part", reason))?;
    let save = |to: &Path| {
        let mut file = std::io::BufWriter::new(Checked(std::fs::File::create(to)?));
        chip.save_image(&mut file, ImageLayout::WithOob).map_err(std::io::Error::other)?;
        file.flush()
    };
    finish(to, save)?;
    let pages = part.geometry.pages();
    let stride = u64::from(page_bytes + part.geometry.page_oob_bytes);
    Ok(Made { names, pages, file_bytes: u64::from(pages) * stride })
}

/// A file system without UBI.
fn make_bare(
    source: Source,
    layout: &Layout,
    to: &Path,
    options: &MakeOptions,
) -> Result<Vec<u8>, ImageError> {
    let leb_bytes = options.ubi.leb_bytes.unwrap_or(layout.leb_bytes);
    if options.has_oob {
        return Err(refuse("--oob", "a file system without UBI lies on no pages: leave it out"));
    }
    if !leb_bytes.is_multiple_of(layout.min_io_bytes) || !(15_360..=1 << 24).contains(&leb_bytes) {
        let reason = format!(
            "{leb_bytes} is no whole number of {}-byte pages from 15 KiB to 16 MiB",
            layout.min_io_bytes
        );
        return Err(refuse("--leb-size", reason));
    }
    let largest = options.ubi.max_leb_count.unwrap_or(available_lebs(layout));
    make_file_system(source, leb_bytes, layout, largest, to, options).map(|made| made.0)
}

/// Eraseblocks that one volume over the whole chip has.
fn available_lebs(layout: &Layout) -> u32 {
    let reserve = (layout.peb_count * BAD_PER_1024).div_ceil(1024);
    layout.peb_count.saturating_sub(OWN_BLOCKS + reserve).max(1)
}

/// The only volume of an image: as large as the file system, until it is attached.
fn single(
    source: Option<Source>,
    layout: &Layout,
    to: &Path,
    options: &MakeOptions,
) -> Result<VolumeImage, ImageError> {
    let Some(source) = source else {
        return Err(refuse("--from", "a directory is missing; or volumes, with --ubinize"));
    };
    let largest = options.ubi.max_leb_count.unwrap_or(available_lebs(layout));
    let made = make_file_system(source, layout.leb_bytes, layout, largest, to, options)?;
    let (data, leb_count) = made;
    let name = options.ubi.volume.clone().unwrap_or_else(|| VOLUME.into());
    if name.is_empty() || name.len() > ubi::volume_table::NAME_BYTES_MAX || name.contains('\0') {
        return Err(refuse("--volume", "a name has 1 to 127 bytes"));
    }
    let section = VolumeSection {
        section: name.clone(),
        image: None,
        id: 0,
        name,
        kind: VolumeKind::Dynamic,
        size_bytes: Some(u64::from(leb_count) * u64::from(layout.leb_bytes)),
        alignment: 1,
        is_auto_resized: true,
        skips_check: false,
    };
    Ok(VolumeImage { section, data })
}

/// The volumes of a configuration, with the contents of their files; the tree goes to the volume that is
/// named, or else to the only dynamic one without a file.
fn configured(
    config: &Path,
    source: Option<Source>,
    layout: &Layout,
    to: &Path,
    options: &MakeOptions,
) -> Result<Vec<VolumeImage>, ImageError> {
    let text = std::fs::read_to_string(config).map_err(ImageError::io(config))?;
    let sections =
        parse_config(&text).map_err(|error| ImageError::content(config, error.to_string()))?;
    let target = match &source {
        Some(_) => Some(find_target(config, &sections, options.ubi.volume.as_deref())?),
        None if options.ubi.volume.is_some() => {
            return Err(refuse(
                "--volume",
                "it names the volume that --from fills, which is missing",
            ));
        }
        None => None,
    };
    let mut source = source;
    let mut volumes = Vec::new();
    for (number, section) in sections.into_iter().enumerate() {
        let data = if target == Some(number)
            && let Some(source) = source.take()
        {
            // An alignment leaves a part of each eraseblock unused.
            let usable_bytes = layout.leb_bytes - layout.leb_bytes % section.alignment.max(1);
            let own = section.size_bytes.map_or(u64::MAX, |size| size / u64::from(usable_bytes));
            let own = u32::try_from(own).unwrap_or(u32::MAX);
            let chip = options.ubi.max_leb_count.unwrap_or(available_lebs(layout));
            let largest = if section.is_auto_resized { chip } else { own.min(chip) };
            let (data, leb_count) =
                make_file_system(source, usable_bytes, layout, largest, to, options)?;
            if leb_count > own {
                let reason = format!(
                    "section [{}]: the file system needs {leb_count} eraseblocks, vol_size is {own}",
                    section.section
                );
                return Err(ImageError::content(config, reason));
            }
            data
        } else if let Some(image) = &section.image {
            let image = Path::new(image);
            std::fs::read(image).map_err(ImageError::io(image))?
        } else {
            Vec::new()
        };
        volumes.push(VolumeImage { section, data });
    }
    Ok(volumes)
}

fn find_target(
    config: &Path,
    sections: &[VolumeSection],
    asked: Option<&str>,
) -> Result<usize, ImageError> {
    let is_meant = |section: &VolumeSection| match asked {
        Some(name) => section.name == name,
        None => section.image.is_none() && section.kind == VolumeKind::Dynamic,
    };
    let mut meant = sections.iter().enumerate().filter(|(_, section)| is_meant(section));
    match (meant.next(), meant.next(), asked) {
        (Some((_, section)), None, _) if section.kind == VolumeKind::Static => Err(refuse(
            "--volume",
            format!("`{}` is static: UBIFS needs a dynamic one", section.name),
        )),
        (Some((number, _)), None, _) => Ok(number),
        (_, _, Some(name)) => {
            let known: Vec<&str> = sections.iter().map(|section| &section.name[..]).collect();
            let reason = format!("{} has no `{name}`, but {}", config.display(), known.join(", "));
            Err(refuse("--volume", reason))
        }
        _ => {
            let reason = "not one dynamic volume without an image: say which one --from fills";
            Err(refuse("--volume", reason))
        }
    }
}

/// The eraseblocks of a file system in a row, and how many it needs.
///
/// Made as large as it may grow to, it tells how little it needs; made that small, it fits volumes
/// that turn out smaller than the largest.
fn make_file_system(
    source: Source,
    leb_bytes: u32,
    layout: &Layout,
    largest: u32,
    to: &Path,
    options: &MakeOptions,
) -> Result<(Vec<u8>, u32), ImageError> {
    let shape = VolumeShape {
        leb_bytes,
        leb_count: largest,
        min_io_bytes: layout.min_io_bytes,
        max_write_bytes: layout.min_io_bytes,
    };
    let journal_bytes = options.ubi.journal_bytes.unwrap_or_else(|| {
        let bytes = u64::from(largest) * JOURNAL_PERCENT / 100 * u64::from(leb_bytes);
        bytes.min(MAX_JOURNAL_BYTES)
    });
    let new = NewFileSystem {
        max_leb_count: Some(largest),
        journal_bytes: Some(journal_bytes),
        reserved_bytes: options.ubi.reserved_bytes,
    };
    let source = Rc::new(source);
    let whole = write_tree(&source, shape, new, to, options)?;
    let used = whole.iter().flatten().count() as u32;
    let journal_lebs = (journal_bytes / u64::from(leb_bytes)) as u32;
    // Room for the collector, the journal and the areas of the file system's own.
    let small = (used + used / 4 + 16).max(journal_lebs + 32);
    let made = if small < largest {
        // One that does not fit is no error: the larger one is there.
        write_tree(&source, VolumeShape { leb_count: small, ..shape }, new, to, options).ok()
    } else {
        None
    };
    let leb_count = if made.is_some() { small } else { largest };
    let mut data = Vec::new();
    for leb in made.unwrap_or(whole) {
        data.extend_from_slice(&leb.unwrap_or_else(|| vec![0xff; leb_bytes as usize]));
    }
    // Blank eraseblocks at the end need not be written.
    let used = data.iter().rposition(|byte| *byte != 0xff).map_or(0, |last| last + 1);
    data.truncate(used.next_multiple_of(leb_bytes as usize));
    if options.ubi.fixes_space {
        let marked = ubifs::ask_for_space_fixup(&mut data[..leb_bytes as usize]);
        marked.map_err(|reason| ImageError::content(to, reason))?;
    }
    Ok((data, leb_count))
}

/// Copies the tree to an empty volume in memory; its eraseblocks.
fn write_tree(
    source: &Rc<Source>,
    shape: VolumeShape,
    new: NewFileSystem,
    to: &Path,
    options: &MakeOptions,
) -> Result<Vec<Option<Vec<u8>>>, ImageError> {
    let failed = |source| match source {
        error @ MountError::UnknownProfile { .. } => refuse("--profile", error.to_string()),
        source => ImageError::Mount { path: to.to_owned(), source: Box::new(source) },
    };
    let kind = find_kind("ubifs").map_err(failed)?;
    let profile = kind.profile(options.profile.as_deref()).map_err(failed)?;
    let mut request = MountRequest {
        profile: Some(profile.to_owned()),
        has_background: false,
        has_write_back: false,
        // As mkfs.ubifs compresses by default.
        options: vec!["compr=lzo".into()],
        ..MountRequest::default()
    };
    request.options.extend(options.mount_options.iter().cloned());
    let (source, shown) = (source.clone(), to.to_owned());
    let job = move |machine: mount::Machine| async move {
        let volume = Rc::new(MemoryVolume::new(&machine.sim, shape));
        let mounted = mount_volume(&machine, volume.clone(), &request, new).await;
        let mounted = mounted
            .map_err(|source| ImageError::Mount { path: shown, source: Box::new(source) })?;
        copy(&mounted.vfs, &source).await?;
        Ok(volume.contents(|_| false))
    };
    // The driver's chip is not used.
    let layout = find_layout("linux-large").expect("in the table");
    let part = nand::find_part("nandsim-64MiB").expect("in the catalogue");
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    mount::run(chip, &Driver::of_tool(layout), 0, job).value.expect("no power cut is asked for")
}

/// A blank chip after ubiformat has written an image to it.
fn flash(
    part: &Part,
    oob_layout: &'static OobLayout,
    layout: &Layout,
    image: Vec<u8>,
) -> Result<Chip, String> {
    let chip = Chip::new(part, Storage::Bytes, &FaultSettings::default());
    let header_offset = Some(layout.header_offset);
    let job = move |machine: mount::Machine| async move {
        let options = FormatOptions { header_offset, ..FormatOptions::default() };
        Ubi::flash(&machine.sim, machine.cpus.clone(), machine.mtd.clone(), &image, &options).await
    };
    let outcome = mount::run(chip, &Driver::of_tool(oob_layout), 0, job);
    let done = outcome.value.expect("no power cut is asked for");
    done.map_err(|error| error.to_string())?;
    Ok(outcome.chip)
}

/// Writes data and fills the file up: in pieces, for what fills it may be more than the memory of this computer.
fn write_filled(to: &Path, data: &[u8], file_bytes: u64) -> std::io::Result<()> {
    let mut writer = BufWriter::with_capacity(PIECE_BYTES, Checked(File::create(to)?));
    writer.write_all(data)?;
    let rest = file_bytes - data.len() as u64;
    std::io::copy(&mut std::io::repeat(0xff).take(rest), &mut writer)?;
    writer.flush()
}

/// Writes data alone, filled up as it is asked for.
fn save(
    to: &Path,
    data: &[u8],
    page_bytes: u32,
    options: &MakeOptions,
) -> Result<Made, ImageError> {
    if let Some(limit) = options.size_limit_bytes
        && data.len() as u64 > limit
    {
        let reason = format!("the image has {} bytes of data, {limit} are allowed", data.len());
        return Err(refuse("--size-limit", reason));
    }
    let mut file_bytes = data.len() as u64;
    if let Some(Padding::Bytes(bytes)) = options.padding {
        if bytes > 4 << 30 {
            return Err(refuse(
                "--pad",
                format!("{bytes} bytes are more than the 4 GiB of raw NAND"),
            ));
        }
        file_bytes = file_bytes.max(bytes);
    }
    finish(to, |to| write_filled(to, data, file_bytes))?;
    Ok(Made { names: 0, pages: file_bytes.div_ceil(page_bytes.into()) as u32, file_bytes })
}
