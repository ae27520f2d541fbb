//! Forms in which chips are dumped, before one of them is believed and loaded.

use crate::chip::image::{ChipForm, Form};
use mtd::{OobLayout, find_layout};
use std::rc::Rc;

/// How a format lies in the bytes of a dump.
pub(crate) trait DumpForm: ChipForm {
    /// Share of what is written in an image that the form explains, from 0 to 1.
    fn share(&self, image: &[u8], form: &Form, block_bytes: u32) -> f64;

    /// Bytes of data of an erase block, where the image itself says it.
    fn block_bytes(&self) -> Option<u32>;

    /// Does with the bytes, which are whole pages, what a flasher or the first mount would do. What the form
    /// is once the size of a block is known.
    fn prepare(&self, bytes: &mut [u8], form: &Form, block_bytes: u32) -> Prepared;
}

/// A dump whose bytes were prepared for a chip.
pub(crate) struct Prepared {
    /// Layout of the chip's spare areas.
    pub(crate) layout: &'static OobLayout,
    /// Blocks that the format asks for; 0 for those that the image has.
    pub(crate) blocks_wanted: u64,
    /// How the format lies on the chip.
    pub(crate) on_chip: Rc<dyn ChipForm>,
}

/// A form that is tried on an image, or that was found in it.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    pub(crate) form: Form,
    /// The layout of the same kind of page where pages have their ECC.
    pub(crate) layout_with_ecc: &'static OobLayout,
    /// Nothing speaks for it in an image in which nothing is found.
    pub(crate) is_rare: bool,
    /// Share from which on no other form is tried; none where all are.
    pub(crate) settling_share: Option<f64>,
    pub(crate) on_chip: Rc<dyn DumpForm>,
}

impl Dump {
    /// A form that is tried on images, by the names of its layouts without page ECC and with it; none if
    /// there are no such layouts.
    pub(crate) fn new(
        file_system: &'static str,
        has_oob: bool,
        [plain, with_ecc]: [&str; 2],
        on_chip: Rc<dyn DumpForm>,
    ) -> Option<Self> {
        let form = Form { file_system, has_oob, layout: find_layout(plain)?, share: 0.0 };
        let layout_with_ecc = find_layout(with_ecc)?;
        let same_page = |layout: &OobLayout| (layout.page_bytes, layout.oob_bytes);
        // `with_code` exchanges the two, and the stride of the image must not change by that.
        assert_eq!(same_page(form.layout), same_page(layout_with_ecc), "both are of one chip");
        Some(Self { form, layout_with_ecc, is_rare: false, settling_share: None, on_chip })
    }
}
