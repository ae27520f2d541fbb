//! A chip comes back from its image as it went in.

use crate::support;

use nand::{
    Chip, FaultSettings, ImageError, ImageLayout, NandError, PageAddress, Part, Role, Storage, Tag,
};
use proptest::prelude::*;
use support::{BLOCKS, PAGES, byte_chip, small_part, tag};

const STRIDE: usize = 272;

fn image(chip: &Chip, layout: ImageLayout) -> Vec<u8> {
    let mut bytes = Vec::new();
    chip.save_image(&mut bytes, layout).expect("written to memory");
    bytes
}

fn load(part: &Part, mut bytes: &[u8], layout: ImageLayout) -> Result<Chip, ImageError> {
    Chip::load_image(part, &mut bytes, layout)
}

fn all_pages() -> impl Iterator<Item = PageAddress> {
    (0..BLOCKS * PAGES).map(|number| PageAddress::new(number / PAGES, number % PAGES))
}

#[derive(Clone, Debug)]
enum Step {
    Program(u32, u64, Vec<u8>),
    Raw(u32, Vec<u8>, Vec<u8>),
    Link(u32),
    Erase(u32),
    MarkBad(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0..BLOCKS * PAGES;
    let oob = prop::collection::vec(any::<u8>(), 6..16).prop_map(|mut oob| {
        oob[5] = 0xff;
        oob
    });
    prop_oneof![
        6 => (page.clone(), 0..1_u64 << 40, prop::collection::vec(any::<u8>(), 0..256))
            .prop_map(|(page, sequence, data)| Step::Program(page, sequence, data)),
        3 => (page.clone(), prop::collection::vec(any::<u8>(), 0..256), oob)
            .prop_map(|(page, data, oob)| Step::Raw(page, data, oob)),
        2 => page.prop_map(Step::Link),
        1 => (0..BLOCKS).prop_map(Step::Erase),
        1 => (2..BLOCKS).prop_map(Step::MarkBad),
    ]
}

fn perform(chip: &mut Chip, step: &Step) -> Result<(), NandError> {
    let at = |page: u32| PageAddress::new(page / PAGES, page % PAGES);
    match step {
        Step::Program(page, sequence, data) => {
            chip.program(at(*page), Tag::new(*page, *sequence, Role::Log), Some(data))
        }
        Step::Raw(page, data, oob) => chip.program_raw(at(*page), data, oob),
        Step::Link(page) => chip.program_spare(at(*page), Tag::link()),
        Step::Erase(block) => chip.erase(*block),
        Step::MarkBad(block) => chip.mark_bad(*block),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn contents_tags_and_bad_blocks_survive(steps in prop::collection::vec(step(), 0..60)) {
        let part = small_part();
        let mut chip = byte_chip(&part);
        for step in &steps {
            let _ = perform(&mut chip, step);
        }
        let bytes = image(&chip, ImageLayout::WithOob);
        prop_assert_eq!(bytes.len(), STRIDE * (BLOCKS * PAGES) as usize);
        let mut loaded = load(&part, &bytes, ImageLayout::WithOob).expect("fits");
        prop_assert_eq!(&image(&loaded, ImageLayout::WithOob), &bytes);
        for at in all_pages() {
            let (mut before, mut after) = (([0; 256], [0; 16]), ([0; 256], [0; 16]));
            prop_assert_eq!(loaded.read_data(at, &mut after.0), chip.read_data(at, &mut before.0));
            prop_assert_eq!(loaded.peek(at), chip.peek(at), "{:?}", at);
            chip.read_raw(at, &mut before.0, &mut before.1).expect("read");
            loaded.read_raw(at, &mut after.0, &mut after.1).expect("read");
            prop_assert_eq!(before, after);
            prop_assert_eq!(loaded.is_bad(at.block), chip.is_bad(at.block));
        }
    }

    #[test]
    fn an_image_of_tagged_pages_rebuilds_what_may_be_programmed(pages in prop::collection::vec(0..BLOCKS * PAGES, 0..20)) {
        let part = small_part();
        let mut chip = byte_chip(&part);
        for page in pages {
            // Without data, a page of ones: its tag alone shows that it is used.
            let _ = perform(&mut chip, &Step::Program(page, 5, Vec::new()));
        }
        let mut loaded = load(&part, &image(&chip, ImageLayout::WithOob), ImageLayout::WithOob).expect("fits");
        for at in all_pages() {
            prop_assert_eq!(loaded.is_programmed(at), chip.is_programmed(at));
            prop_assert_eq!(loaded.next_page(at.block), chip.next_page(at.block));
        }
        for at in all_pages() {
            prop_assert_eq!(loaded.program(at, tag(1), None), chip.program(at, tag(1), None));
        }
    }
}

#[test]
fn an_image_is_pages_in_order_data_then_spare() {
    let mut chip = byte_chip(&small_part());
    chip.program_raw(PageAddress::new(1, 2), &[7; 256], &[8; 3]).expect("program");
    let bytes = image(&chip, ImageLayout::WithOob);
    let start = STRIDE * (PAGES as usize + 2);
    assert_eq!(bytes[start..start + 256], [7; 256]);
    assert_eq!(bytes[start + 256..start + 259], [8; 3]);
    assert_eq!(bytes.iter().filter(|byte| **byte != 0xff).count(), 259);
    let data = image(&chip, ImageLayout::DataOnly);
    assert_eq!(data.len(), 256 * (BLOCKS * PAGES) as usize);
    assert_eq!(data[256 * 10..256 * 11], [7; 256]);
    let loaded = load(&small_part(), &data, ImageLayout::DataOnly).expect("fits");
    assert!(loaded.is_programmed(PageAddress::new(1, 2)));
    assert_eq!(loaded.peek(PageAddress::new(1, 2)), Tag::ERASED);
    assert_eq!(image(&loaded, ImageLayout::DataOnly), data);
}

#[test]
fn a_mark_in_the_first_or_second_page_makes_a_block_bad() {
    for page in 0..3 {
        let mut bytes = vec![0xff; STRIDE * (BLOCKS * PAGES) as usize];
        bytes[STRIDE * (PAGES as usize + page) + 256 + 5] = 0xf0;
        let chip = load(&small_part(), &bytes, ImageLayout::WithOob).expect("fits");
        assert_eq!(chip.is_bad(1), page < 2, "page {page}");
        assert!(!chip.is_bad(0) && !chip.is_bad(2));
    }
}

#[test]
fn a_spare_area_with_marks_alone_leaves_the_data_area_free() {
    let mut chip = byte_chip(&small_part());
    let at = PageAddress::new(1, 0);
    chip.program_raw(at, &[], &[0xff, 0xff, 0x85, 0x19]).expect("marker");
    let mut loaded = load(&small_part(), &image(&chip, ImageLayout::WithOob), ImageLayout::WithOob)
        .expect("fits");
    assert_eq!((loaded.is_programmed(at), loaded.next_page(1)), (false, 0));
    assert_eq!(loaded.program(at, tag(1), None), Ok(()));
}

#[test]
fn a_torn_page_shows_noise_in_the_image_and_its_spare_area_no_tag() {
    let mut chip = byte_chip(&small_part());
    chip.cut_power_after(0, nand::CutPoint::Inside);
    assert!(chip.program(PageAddress::new(0, 0), tag(1), Some(&[0; 256])).is_err());
    let bytes = image(&chip, ImageLayout::WithOob);
    let ones: u32 = bytes[..256].iter().map(|byte| byte.count_ones()).sum();
    assert!((900..1150).contains(&ones), "{ones} of 2048 bits set");
    assert_eq!(bytes[256..272], [0xff; 16]);
}

#[test]
fn a_shorter_image_leaves_the_rest_erased() {
    let mut bytes = vec![0xff; STRIDE * 3];
    bytes[0] = 1;
    let chip = load(&small_part(), &bytes, ImageLayout::WithOob).expect("fits");
    let programmed: Vec<_> = all_pages().filter(|at| chip.is_programmed(*at)).collect();
    assert_eq!(programmed, [PageAddress::new(0, 0)]);
    assert!(load(&small_part(), &[], ImageLayout::WithOob).is_ok());
}

#[test]
fn an_image_of_another_length_is_refused_with_its_length() {
    let whole = STRIDE * (BLOCKS * PAGES) as usize;
    for (length, layout, page_bytes) in [
        (STRIDE * 2 + 1, ImageLayout::WithOob, 272),
        (whole + STRIDE * 3, ImageLayout::WithOob, 272),
        (STRIDE, ImageLayout::DataOnly, 256),
        (whole, ImageLayout::DataOnly, 256),
    ] {
        let error = load(&small_part(), &vec![0xff; length], layout).expect_err("does not fit");
        assert_eq!(
            error.to_string(),
            format!(
                "image: {length} bytes are not a whole number of {page_bytes}-byte pages, or more than the chip's 32 pages; is the part or the OOB option right?"
            )
        );
    }
}

#[test]
fn a_chip_without_bytes_has_no_image() {
    let chip = Chip::new(&small_part(), Storage::Tags, &FaultSettings::default());
    let error = chip.save_image(&mut Vec::new(), ImageLayout::WithOob).expect_err("no bytes");
    assert_eq!(error.to_string(), "image: this chip was made without byte storage");
}
