//! Files as chips: what the image holds is found out, and loaded under a driver that fits.

use crate::ImageError;
use crate::detect::{Form, Known, TagsForm, assume, detect, has_markers_in_band};
use mount::{Driver, Kind, Machine, MountRequest, Mounted, find_kind};
use mtd::{LAYOUTS, OobLayout, find_layout};
use nand::{Chip, ImageLayout, Part, find_part};
use std::io::Read;
use std::path::{Path, PathBuf};
use yaffs2::TAGS_ECC_BYTES;

/// What an image is, where its bytes are not to be asked.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// File system.
    pub file_system: Option<String>,
    /// Name of the OOB layout.
    pub oob_layout: Option<String>,
    /// `hamming` or `none`.
    pub ecc: Option<String>,
    /// Bytes of data of a page.
    pub page_bytes: Option<u32>,
    /// Bytes of data of an erase block; none for 64 large pages or 32 small ones.
    pub block_bytes: Option<u32>,
    /// Where UBI keeps its second header: a matter of UBIFS alone.
    pub vid_header_offset: Option<u32>,
    /// Generation of the code that reads it.
    pub profile: Option<String>,
}

/// An image, loaded.
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// File system.
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
}

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
        // A wrong option is told before a large file is read.
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
        let mut form = find_form(path, &bytes, options, &known(options)?)?;
        let page_bytes = form.layout.page_bytes;
        let block_bytes = options.block_bytes.unwrap_or(default_block_bytes(page_bytes));
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
            bytes.resize(bytes.len().next_multiple_of(form.stride()), 0xff);
        }
        let layout =
            if form.is_for_flasher() { place_tags(&mut bytes, &form) } else { form.layout };
        let pages_per_block = block_bytes / page_bytes;
        let pages = (bytes.len() / form.stride()) as u32;
        let blocks = pages.div_ceil(pages_per_block);
        let part = part_of(layout, pages_per_block, blocks.max(BLOCKS_MIN));
        let corrected_marks =
            if form.has_oob { correct_marks(&mut bytes, &part, form.stride()) } else { Vec::new() };
        let kept = if form.has_oob { ImageLayout::WithOob } else { ImageLayout::DataOnly };
        let chip = Chip::load_image(&part, &mut &bytes[..], kept)
            .map_err(|error| ImageError::content(path, error.to_string()))?;
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
        let kind = self.kind;
        let driver = Driver::of_tool(self.layout);
        let outcome = mount::run(self.chip.clone(), &driver, 0, move |machine| async move {
            let mounted = machine.mount(kind, &request).await?;
            Ok(job(machine, mounted).await)
        });
        let value = outcome.value.expect("no power cut is asked for");
        value.map_err(|source| ImageError::Mount { path: self.path.clone(), source })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    let failed = ImageError::io(path);
    let mut file = std::fs::File::open(path).map_err(&failed)?;
    let metadata = file.metadata().map_err(&failed)?;
    if !metadata.is_file() {
        return Err(ImageError::content(path, "this is no file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        let reason = format!("{} bytes are more than the 4 GiB of raw NAND", metadata.len());
        return Err(ImageError::content(path, reason));
    }
    // Room for the rest of the last page: memory is never needed twice.
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 4096);
    file.read_to_end(&mut bytes).map_err(&failed)?;
    Ok(bytes)
}

pub(crate) fn default_block_bytes(page_bytes: u32) -> u32 {
    if page_bytes <= 512 { 32 * page_bytes } else { 64 * page_bytes }
}

fn known(options: &OpenOptions) -> Result<Known<'_>, ImageError> {
    let refuse = |option, reason| Err(ImageError::Option { option, reason });
    if options.vid_header_offset.is_some() {
        let reason = "neither JFFS2 nor YAFFS2 lies on UBI, which has such headers: leave it out";
        return refuse("--vid-hdr-offset", reason.into());
    }
    let file_system = match &options.file_system {
        Some(name) => match find_kind(name) {
            Ok(kind) => Some(kind.name),
            Err(error) => return refuse("--fs", error.to_string()),
        },
        None => None,
    };
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
    Ok(Known { file_system, layout, has_ecc, page_bytes, block_bytes })
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
    if let Some(form) = detect(bytes, known) {
        return Ok(form);
    }
    let is_blank = bytes.iter().all(|byte| *byte == 0xff);
    if options.file_system.is_some() {
        let has_oob = bytes.len().is_multiple_of(2112) && !bytes.len().is_multiple_of(2048);
        let form = assume(known, has_oob);
        return form.ok_or_else(|| {
            let reason = "the file system, the layout and the page size do not go together";
            ImageError::content(path, reason)
        });
    }
    let found = if is_blank {
        "all bytes are 0xFF, as on an erased chip; say --fs to see an empty file system"
    } else {
        "neither nodes of JFFS2 nor tags of YAFFS2 are found in it; \
         if it is one of them, say which: --fs, --oob-layout, --page-size"
    };
    Err(ImageError::content(path, found))
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
    let failed = |source| ImageError::Mount { path: path.to_owned(), source };
    let kind = find_kind(form.file_system).map_err(failed)?;
    let mut request = MountRequest::read_only();
    request.profile = Some(kind.profile(options.profile.as_deref()).map_err(failed)?.to_owned());
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
