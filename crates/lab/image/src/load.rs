//! Files as chips: what the image holds is found out, and loaded under a driver that fits.

use crate::ImageError;
use crate::detect::{Form, Found, Known, TagsForm, assume, detect, has_markers_in_band};
use crate::detect_ubi::{
    blocks_wanted, detect_bare, detect_ubi, grow_auto_resized, has_volume_table,
};
use crate::rearranged::find_rearrangement;
use crate::volumes::BareVolume;
use cancellation::Checked;
use file_systems::find_kind;
use mount::{Driver, Kind, Machine, MountRequest, Mounted};
use mtd::{LAYOUTS, OobLayout, find_layout};
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage, find_part};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use yaffs2::TAGS_ECC_BYTES;

/// What an image is, where its bytes are not to be asked.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Name of the file system.
    pub file_system: Option<String>,
    /// Name of the OOB layout.
    pub oob_layout: Option<String>,
    /// Code of the pages: `hamming` or `none`.
    pub ecc: Option<String>,
    /// Whether pages have their spare areas in the image; none to find out.
    pub has_oob: Option<bool>,
    /// Bytes of data of a page.
    pub page_bytes: Option<u32>,
    /// Bytes of data of an erase block; none for 64 large pages or 32 small ones.
    pub block_bytes: Option<u32>,
    /// Where UBI keeps its second header, if not where the first ones say.
    pub vid_header_offset: Option<u32>,
    /// Name of the volume of UBI; none for the only one.
    pub volume: Option<String>,
    /// Generation of the code that reads it.
    pub profile: Option<String>,
    /// Number of the checkpoint of NILFS2 to show; none for the newest.
    pub checkpoint: Option<u64>,
}

/// An image of raw NAND, loaded.
pub struct Image {
    /// The file that holds the image.
    pub path: PathBuf,
    /// The file system that the image holds.
    pub kind: &'static Kind,
    /// How it is stored.
    pub form: Form,
    /// The chip; it may be larger than the image.
    pub chip: Chip,
    /// Spare area of the chip.
    pub layout: &'static OobLayout,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Blocks of the file, the last one perhaps in part.
    pub blocks: u32,
    /// How it is mounted.
    pub request: MountRequest,
    /// What is odd about the file, a sentence each.
    pub notes: Vec<String>,
    /// Bad marks with a single wrong bit, which were not believed.
    pub corrected_marks: Vec<u32>,
    /// UBIFS without UBI; the chip is blank then.
    pub(crate) bare: Option<BareVolume>,
}

/// Pages that are added to an image for volumes that are not all there.
const MISSING_PAGES_MAX: u32 = 1 << 20;
/// Blocks that every file system here is content with.
const BLOCKS_MIN: u32 = 16;

/// The largest image that is read: sizes of raw NAND file systems end here.
const FILE_BYTES_MAX: u64 = 4 << 30;

impl Image {
    /// Loads a file and finds out what it holds.
    ///
    /// # Errors
    /// [`ImageError`]: the file cannot be read, an option is wrong, or nothing known is in it.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, ImageError> {
        // A wrong option is reported before a large file is read.
        known(options)?;
        Self::from_bytes(path, read(path)?, options)
    }

    /// [`Image::open`] with the bytes of the file at hand.
    ///
    /// # Errors
    /// As [`Image::open`]; `path` is what messages name.
    pub fn from_bytes(
        path: &Path,
        mut bytes: Vec<u8>,
        options: &OpenOptions,
    ) -> Result<Self, ImageError> {
        let file_bytes = bytes.len() as u64;
        let known = known(options)?;
        let mut form = find_form(path, &bytes, options, &known)?;
        if form.is_bare {
            return Self::of_bare(path, bytes, form, options);
        }
        let page_bytes = form.layout.page_bytes;
        let block_bytes = form.ubi.map(|ubi| ubi.block_bytes).or(options.block_bytes);
        let block_bytes = block_bytes.unwrap_or(default_block_bytes(page_bytes));
        if !block_bytes.is_multiple_of(page_bytes) || block_bytes < 2 * page_bytes {
            let reason = format!("{block_bytes} is not a whole number of {page_bytes}-byte pages");
            return Err(ImageError::Option { option: "--block-size", reason });
        }
        form.has_markers_in_band =
            form.file_system == "jffs2" && has_markers_in_band(&bytes, &form, block_bytes);
        let mut notes = Vec::new();
        let rest = bytes.len() % form.stride();
        if rest > 0 {
            if form.has_oob {
                notes.push(format!(
                    "the image ends {rest} bytes into page {}: the dump was cut short",
                    bytes.len() / form.stride()
                ));
            }
            // The rest of the last page is taken for erased.
            bytes.resize(bytes.len().next_multiple_of(form.stride()), 0xff);
        }
        let layout =
            if form.is_for_flasher() { place_tags(&mut bytes, &form) } else { form.layout };
        let pages_per_block = block_bytes / page_bytes;
        let pages = (bytes.len() / form.stride()) as u32;
        let blocks = pages.div_ceil(pages_per_block);
        grow_auto_resized(&mut bytes, &form);
        let missing = blocks_wanted(&bytes, &form).saturating_sub(blocks.into());
        // A damaged table must not ask for a chip without end.
        let missing = missing.min(u64::from(MISSING_PAGES_MAX / pages_per_block)) as u32;
        if missing > 0 {
            notes.push(format!(
                "the volumes want {missing} erase blocks more than the image has: \
                 those are taken to be blank"
            ));
        }
        let part = part_of(layout, pages_per_block, (blocks + missing).max(BLOCKS_MIN));
        let corrected_marks =
            if form.has_oob { correct_marks(&mut bytes, &part, form.stride()) } else { Vec::new() };
        let kept = if form.has_oob { ImageLayout::WithOob } else { ImageLayout::DataOnly };
        let chip = Chip::load_image(&part, &mut Checked(&bytes[..]), kept)
            .map_err(|error| ImageError::content(path, error.to_string()))?;
        // Not held beside the chip that was made of it.
        drop(bytes);
        let (kind, request) = request_of(&form, options, path)?;
        Ok(Self {
            path: path.to_owned(),
            kind,
            form,
            chip,
            layout,
            file_bytes,
            blocks,
            request,
            notes,
            corrected_marks,
            bare: None,
        })
    }

    /// A file system of mkfs.ubifs, without UBI.
    fn of_bare(
        path: &Path,
        bytes: Vec<u8>,
        form: Form,
        options: &OpenOptions,
    ) -> Result<Self, ImageError> {
        let mut notes = Vec::new();
        let file_bytes = bytes.len() as u64;
        let superblock = ubifs::read_superblock(&bytes).map_err(|reason| {
            ImageError::content(path, format!("superblock of UBIFS: {reason}"))
        })?;
        let rest = bytes.len() % superblock.leb_bytes as usize;
        if rest > 0 {
            let leb = bytes.len() / superblock.leb_bytes as usize;
            notes.push(format!("the image ends {rest} bytes into LEB {leb}: it was cut short"));
        }
        if let Some(name) = &options.volume {
            let reason = format!("a file system without UBI has no volume `{name}`: leave it out");
            return Err(ImageError::Option { option: "--volume", reason });
        }
        // The chip is not read: the volume lies in memory.
        let part = part_of(form.layout, 64, BLOCKS_MIN);
        let (kind, request) = request_of(&form, options, path)?;
        Ok(Self {
            path: path.to_owned(),
            kind,
            form,
            chip: Chip::new(&part, Storage::Bytes, &FaultSettings::default()),
            layout: form.layout,
            file_bytes,
            blocks: 0,
            request,
            notes,
            corrected_marks: Vec::new(),
            bare: Some(BareVolume::new(bytes, &superblock)),
        })
    }

    /// Mounts the image, without writing to it, and carries out a job.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        job: impl FnOnce(Machine, Mounted) -> F + 'static,
    ) -> Result<T, ImageError> {
        self.run_as(self.request.clone(), job)
    }

    /// [`Image::run`] with another request.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn run_as<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        request: MountRequest,
        job: impl FnOnce(Machine, Mounted) -> F + 'static,
    ) -> Result<T, ImageError> {
        let (kind, bare) = (self.kind, self.bare.clone());
        // A clone shares its blocks, so each look costs little.
        let driver = Driver::of_tool(self.layout);
        let outcome = mount::run(self.chip.clone(), &driver, 0, move |machine| async move {
            let mounted = Self::mount(&machine, kind, bare.as_ref(), &request).await?;
            Ok(job(machine, mounted).await)
        });
        let value = outcome.value.expect("no power cut is asked for");
        value.map_err(|source| self.refused(source))
    }
}

/// Opens a file of the host. A pipe would wait for a writer, and nothing else can be read from any place.
pub(crate) fn open_file(path: &Path) -> Result<(File, u64), ImageError> {
    let failed = ImageError::io(path);
    // `NONBLOCK`: opening a pipe returns at once.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(&failed)?;
    if !metadata.is_file() {
        let reason = "this is no file: copy what it holds to one, and name that";
        return Err(ImageError::content(path, reason));
    }
    Ok((file, metadata.len()))
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    /// Bytes between two looks whether to go on.
    const PIECE_BYTES: u64 = 1 << 24;
    let failed = ImageError::io(path);
    let (mut file, length) = open_file(path)?;
    if length > FILE_BYTES_MAX {
        let reason = format!("{length} bytes are more than the 4 GiB of raw NAND");
        return Err(ImageError::content(path, reason));
    }
    // Room for the rest of the last page: memory is never needed twice.
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize + 4096).map_err(|_| {
        ImageError::content(path, format!("{length} bytes are more than there is memory for"))
    })?;
    loop {
        cancellation::check();
        let count = file.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes).map_err(&failed)?;
        if count == 0 {
            return Ok(bytes);
        }
    }
}

pub(crate) fn default_block_bytes(page_bytes: u32) -> u32 {
    if page_bytes <= 512 { 32 * page_bytes } else { 64 * page_bytes }
}

fn known(options: &OpenOptions) -> Result<Known<'_>, ImageError> {
    let refuse = |option, reason| Err(ImageError::Option { option, reason });
    let kind = match &options.file_system {
        Some(name) => {
            crate::any::check_name(name)?;
            find_kind(name).ok()
        }
        None => None,
    };
    let file_system = kind.map(|kind| kind.name);
    let of_ubi = [
        ("--vid-hdr-offset", options.vid_header_offset.is_some()),
        ("--volume", options.volume.is_some()),
    ];
    let on_chip = kind.filter(|kind| !kind.is_over_ubi && !kind.is_on_block_device);
    if let (Some(kind), Some((option, _))) =
        (on_chip, of_ubi.iter().find(|(_, is_given)| *is_given))
    {
        let reason =
            format!("{} does not lie on UBI, which alone has such: leave it out", kind.name);
        return refuse(option, reason);
    }
    let layout = options.oob_layout.as_deref().map(|name| (name, find_layout(name)));
    if let Some((name, None)) = layout {
        let known: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
        return refuse("--oob-layout", format!("`{name}` is none of {}", known.join(", ")));
    }
    let layout = layout.and_then(|(_, found)| found);
    let has_ecc = match options.ecc.as_deref() {
        None => None,
        Some("hamming") => Some(true),
        Some("none") => Some(false),
        Some(other) => return refuse("--ecc", format!("`{other}` is none of hamming, none")),
    };
    if options.has_oob == Some(false) && (layout.is_some() || has_ecc == Some(true)) {
        let reason = "without spare areas there is neither a layout of them nor ECC: leave one out";
        return refuse("--no-oob", reason.into());
    }
    if let (Some(layout), Some(has_ecc)) = (layout, has_ecc)
        && has_ecc == layout.ecc_places.is_empty()
    {
        let reason = format!("the layout {} says otherwise: leave one of the two out", layout.name);
        return refuse("--ecc", reason);
    }
    let sizes: Vec<u32> = LAYOUTS.iter().map(|layout| layout.page_bytes).collect();
    if let Some(bytes) = options.page_bytes
        && !sizes.contains(&bytes)
    {
        let reason = format!("no layout has pages of {bytes} bytes: 512 and 2048 are known");
        return refuse("--page-size", reason);
    }
    let page_bytes = options.page_bytes.or(layout.map(|layout| layout.page_bytes));
    let block_bytes =
        options.block_bytes.unwrap_or(default_block_bytes(page_bytes.unwrap_or(2048)));
    if block_bytes == 0 || block_bytes > 1 << 24 {
        let reason = format!("{block_bytes} is no size of an erase block: 1 byte to 16 MiB");
        return refuse("--block-size", reason);
    }
    // A block of another size explains nothing, and the message would be about the file.
    let smallest_page_bytes = page_bytes.unwrap_or(512);
    if !block_bytes.is_multiple_of(smallest_page_bytes) {
        let reason =
            format!("{block_bytes} is not a whole number of {smallest_page_bytes}-byte pages");
        return refuse("--block-size", reason);
    }
    Ok(Known {
        file_system,
        layout,
        has_ecc,
        has_oob: options.has_oob,
        page_bytes,
        block_bytes,
        is_block_size_given: options.block_bytes.is_some(),
        vid_header_offset: options.vid_header_offset,
    })
}

fn find_form(
    path: &Path,
    bytes: &[u8],
    options: &OpenOptions,
    known: &Known<'_>,
) -> Result<Form, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::content(path, "the file is empty"));
    }
    if let Some(form) = detect_ubi(bytes, known) {
        // The first header of a block is in its place even where spare areas stand apart; the table is not.
        if options.file_system.is_none()
            && !has_volume_table(bytes, &form)
            && let Some(reason) = find_rearrangement(bytes, known)
        {
            return Err(ImageError::uncertain(path, reason));
        }
        return Ok(form);
    }
    if let Some((form, _)) = detect_bare(bytes, known) {
        return Ok(form);
    }
    let of_ubi = [
        ("--vid-hdr-offset", options.vid_header_offset.is_some()),
        ("--volume", options.volume.is_some()),
    ];
    if let Some((option, _)) = of_ubi.iter().find(|(_, is_given)| *is_given) {
        let reason = format!("no erase block of {} begins with UBI's header", path.display());
        return Err(ImageError::Option { option, reason });
    }
    if known.file_system == Some("ubifs") {
        let reason = "no erase block begins with UBI's header, nor is the beginning a superblock \
                      of UBIFS; say --block-size if erase blocks have an uncommon size";
        return Err(ImageError::content(path, reason));
    }
    let uncertain = match detect(bytes, known) {
        Found::Certain(form) => return Ok(form),
        Found::Uncertain(form) => Some(form),
        Found::Nothing => None,
    };
    let is_blank = bytes.iter().all(|byte| *byte == 0xff);
    if options.file_system.is_some() {
        // A page of 2048 bytes with its spare area has 2112.
        let has_oob = bytes.len().is_multiple_of(2112) && !bytes.len().is_multiple_of(2048);
        let form = assume(known, known.has_oob.unwrap_or(has_oob));
        return form.ok_or_else(|| {
            let reason = "the file system, the layout and the page size do not go together";
            ImageError::content(path, reason)
        });
    }
    if let Some(reason) = find_rearrangement(bytes, known) {
        return Err(ImageError::uncertain(path, reason));
    }
    if let Some(form) = uncertain {
        return Err(ImageError::uncertain(path, weak(&form)));
    }
    let found = if is_blank {
        "all bytes are 0xFF, as on an erased chip; say --fs to see an empty file system"
    } else {
        "neither headers of UBI, nor nodes of JFFS2, nor tags of YAFFS2, nor a superblock of NILFS2 \
         are found in it; if it is one of them, say which: --fs, --oob-layout, --page-size"
    };
    Err(ImageError::content(path, found))
}

/// What to say of a form that explains too little.
fn weak(form: &Form) -> String {
    let oob = if form.has_oob { "with" } else { "without" };
    format!(
        "not certain: the likeliest form is {} {oob} spare areas, but it explains only {:.1} % of what is \
         written; if it is right, say --fs {} --{}oob",
        form.file_system,
        100.0 * form.share,
        form.file_system,
        if form.has_oob { "" } else { "no-" },
    )
}

/// Does what a flasher does: tags go to the free bytes. The layout of the result.
fn place_tags(bytes: &mut [u8], form: &Form) -> &'static OobLayout {
    let layout = find_layout("linux-large-no-ecc").expect("in the table");
    for page in bytes.chunks_exact_mut(form.stride()) {
        let spare = &mut page[form.layout.page_bytes as usize..];
        let mut tags = [0; TAGS_ECC_BYTES];
        tags.copy_from_slice(&spare[..TAGS_ECC_BYTES]);
        spare.fill(0xff);
        layout.scatter(&tags, 0, spare);
    }
    layout
}

/// The part of a dump: of the size of the image, with rules that matter to no reader.
fn part_of(layout: &OobLayout, pages_per_block: u32, blocks: u32) -> Part {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.page_data_bytes = layout.page_bytes;
    part.geometry.page_oob_bytes = layout.oob_bytes;
    part.geometry.pages_per_block = pages_per_block;
    part.geometry.blocks = blocks;
    // Small pages have the mark in the sixth spare byte (`NAND_SMALL_BADBLOCK_POS`).
    part.geometry.bad_mark_oob_offset = if layout.page_bytes == 512 { 5 } else { 0 };
    part
}

/// A mark with a single wrong bit is bit rot, not a mark: those are zero. Numbers of such pages.
fn correct_marks(bytes: &mut [u8], part: &Part, stride: usize) -> Vec<u32> {
    let geometry = &part.geometry;
    let place = (geometry.page_data_bytes + geometry.bad_mark_oob_offset) as usize;
    let mut pages = Vec::new();
    for (page, number) in bytes.chunks_exact_mut(stride).zip(0_u32..) {
        if page[place].count_ones() == 7 {
            page[place] = 0xff;
            pages.push(number);
        }
    }
    pages
}

fn request_of(
    form: &Form,
    options: &OpenOptions,
    path: &Path,
) -> Result<(&'static Kind, MountRequest), ImageError> {
    let failed = |source| ImageError::Mount { path: path.to_owned(), source: Box::new(source) };
    let kind = find_kind(form.file_system).map_err(failed)?;
    let mut request = MountRequest::read_only();
    request.profile = Some(kind.profile(options.profile.as_deref()).map_err(failed)?.to_owned());
    request.ubi.volume.clone_from(&options.volume);
    request.ubi.header_offset = form.ubi.map(|ubi| ubi.header_offset);
    if form.has_markers_in_band {
        request.options.push("clean-markers=in-band".into());
    }
    if kind.name == "yaffs2" {
        match form.tags {
            TagsForm::SpareWithEcc => {}
            TagsForm::Spare => request.options.push("tags-ecc-off".into()),
            TagsForm::Inband => request.options.push("inband-tags".into()),
        }
    }
    Ok((kind, request))
}
