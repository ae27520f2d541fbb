//! Images of file systems as files: recognised, listed, extracted, checked, compared, made.
//!
//! [`AnyImage::open`] finds out by the bytes of a file what it is: the dump of a chip, with spare areas or
//! plain ([`ChipImage`]), or the blocks of a block device ([`DeviceImage`]). It is mounted read-only with no
//! cost in time: the code that studies run serves as a tool. Damage is reported and worked around, not a
//! reason to give up.
//!
//! A format is a row of `table.rs` and a file or folder in `formats`; `contract.rs` says what a row and an
//! open image answer. Nothing else names a format.

mod candidate;
mod chip;
mod content;
mod contract;
mod device_table;
mod diff;
mod error;
mod extract;
mod formats;
mod host_file;
mod listing;
mod make;
mod medium;
mod on_chip;
mod open;
mod options;
mod rearranged;
mod report;
mod source;
mod table;
mod tree_copy;
mod unfinished;

pub use chip::{ChipImage, Form};
pub use contract::{Made, OpenImage};
pub use diff::{Difference, diff};
pub use error::ImageError;
pub use extract::Extracted;
pub use formats::jffs2::Jffs2Form;
pub use formats::nilfs2::DeviceImage;
pub use formats::ubifs::{BareForm, UbiForm};
pub use formats::yaffs2::{TagsForm, YaffsForm};
pub use listing::{FILE_BYTES_MAX, Listing};
pub use make::make;
pub use medium::{BlockData, Medium, PageState};
pub use on_chip::ImageOnChip;
pub use open::AnyImage;
pub use options::{
    ExtractOptions, MakeOptions, Nilfs2MakeOptions, OpenOptions, Padding, UbiMakeOptions,
};
pub use report::{Remark, Report};
