//! A file in which formats are looked for, and what is known of it beforehand.

use crate::content::{Content, read_whole};
use crate::error::ImageError;
use crate::options::OpenOptions;
use file_systems::{KINDS, find_kind};
use mount::MountError;
use mtd::{LAYOUTS, OobLayout, find_layout};
use std::cell::OnceCell;
use std::path::Path;
use std::rc::Rc;

/// What is known beforehand: only forms that fit are tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Name of the file system.
    pub(crate) file_system: Option<&'static str>,
    /// Spare area; its ECC is not compared.
    pub(crate) layout: Option<&'static OobLayout>,
    /// Whether pages have their ECC.
    pub(crate) has_ecc: Option<bool>,
    /// Bytes of data of a page.
    pub(crate) page_bytes: Option<u32>,
    /// Whether the image has spare areas.
    pub(crate) has_oob: Option<bool>,
    /// Bytes of data of an erase block.
    pub(crate) block_bytes: u32,
    /// The size of a block is given by an option.
    pub(crate) is_block_size_given: bool,
    /// Where UBI has its second header.
    pub(crate) vid_header_offset: Option<u32>,
}

/// A file in which formats are looked for. It is not read whole before a format needs that: devices are
/// recognised by their superblocks, chips by all their bytes.
pub(crate) struct Candidate<'a> {
    /// What messages name.
    pub(crate) path: &'a Path,
    pub(crate) options: &'a OpenOptions,
    pub(crate) content: Rc<Content>,
    /// All bytes of a file, once they were read.
    read: OnceCell<Vec<u8>>,
}

impl<'a> Candidate<'a> {
    /// The image that `path` names.
    pub(crate) fn new(path: &'a Path, content: Content, options: &'a OpenOptions) -> Self {
        Self { path, options, content: Rc::new(content), read: OnceCell::new() }
    }

    /// What the options say of the dump of a chip.
    ///
    /// # Errors
    /// [`ImageError::Option`].
    pub(crate) fn known(&self) -> Result<Known, ImageError> {
        known(self.options)
    }

    /// All bytes.
    ///
    /// # Errors
    /// Those of reading, and [`ImageError::Content`] if there are none. A wrong option is reported before a
    /// large file is read.
    pub(crate) fn bytes(&self) -> Result<&[u8], ImageError> {
        self.known()?;
        let bytes = match &*self.content {
            Content::Memory(bytes) => bytes,
            Content::File(file, length) => {
                if let Some(read) = self.read.get() {
                    read
                } else {
                    let read = read_whole(file, *length, self.path)?;
                    self.read.get_or_init(|| read)
                }
            }
        };
        if bytes.is_empty() {
            return Err(ImageError::content(self.path, "the file is empty"));
        }
        Ok(bytes)
    }

    /// All bytes, given away.
    ///
    /// # Errors
    /// As [`Candidate::bytes`].
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, ImageError> {
        self.bytes()?;
        if let Some(read) = self.read.into_inner() {
            return Ok(read);
        }
        match Rc::try_unwrap(self.content) {
            Ok(Content::Memory(bytes)) => Ok(bytes),
            Ok(Content::File(file, length)) => read_whole(&file, length, self.path),
            // A format still holds the bytes, so they are copied.
            Err(shared) => {
                let mut bytes = vec![0; shared.length() as usize];
                shared.read_at(0, &mut bytes).map_err(ImageError::io(self.path))?;
                Ok(bytes)
            }
        }
    }
}

/// Bytes of data of an erase block, where nothing else is said.
pub(crate) fn default_block_bytes(page_bytes: u32) -> u32 {
    if page_bytes <= 512 { 32 * page_bytes } else { 64 * page_bytes }
}

/// Refuses a name that no file system has, and file systems without images here.
///
/// # Errors
/// [`ImageError::Option`].
pub(crate) fn check_name(name: &str) -> Result<(), ImageError> {
    let unknown =
        |error: MountError| ImageError::Option { option: "--fs", reason: error.to_string() };
    let kind = find_kind(name).map_err(unknown)?;
    if let Some(why) = kind.images_instead {
        let known = KINDS.iter().filter(|kind| kind.is_shown && kind.images_instead.is_none());
        let known: Vec<&str> = known.map(|kind| kind.name).collect();
        let (last, others) = known.split_last().expect("some have tools");
        let reason = format!("{why}; known here are {} and {last}", others.join(", "));
        return Err(ImageError::Option { option: "--fs", reason });
    }
    Ok(())
}

/// What the options say of the dump of a chip, checked.
fn known(options: &OpenOptions) -> Result<Known, ImageError> {
    let file_system = known_file_system(options)?;
    let (layout, has_ecc) = known_spare_area(options)?;
    let (page_bytes, block_bytes) = known_sizes(options, layout)?;
    Ok(Known {
        file_system,
        layout,
        has_ecc,
        // A code lies in spare areas: without the word of `--oob`, a dump of erased pages would be taken for one
        // without them.
        has_oob: options.has_oob.or(has_ecc.filter(|has_ecc| *has_ecc)),
        page_bytes,
        block_bytes,
        is_block_size_given: options.block_bytes.is_some(),
        vid_header_offset: options.vid_header_offset,
    })
}

fn refuse<T>(option: &'static str, reason: String) -> Result<T, ImageError> {
    Err(ImageError::Option { option, reason })
}

/// The file system that is asked for; options of UBI are refused where it lies on the chip itself.
fn known_file_system(options: &OpenOptions) -> Result<Option<&'static str>, ImageError> {
    let kind = match &options.file_system {
        Some(name) => {
            check_name(name)?;
            find_kind(name).ok()
        }
        None => None,
    };
    let on_chip = kind.filter(|kind| !kind.is_over_ubi && !kind.is_on_block_device);
    if let (Some(kind), Some(option)) = (on_chip, options.of_ubi()) {
        let reason =
            format!("{} does not lie on UBI, which alone has such: leave it out", kind.name);
        return refuse(option, reason);
    }
    Ok(kind.map(|kind| kind.name))
}

/// Layout of the spare area, and whether pages have their ECC; options that contradict each other are refused.
fn known_spare_area(
    options: &OpenOptions,
) -> Result<(Option<&'static OobLayout>, Option<bool>), ImageError> {
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
    Ok((layout, has_ecc))
}

/// Bytes of a page, if they are given, and of a block.
fn known_sizes(
    options: &OpenOptions,
    layout: Option<&'static OobLayout>,
) -> Result<(Option<u32>, u32), ImageError> {
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
    Ok((page_bytes, block_bytes))
}
