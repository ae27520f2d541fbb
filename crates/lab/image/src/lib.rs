//! Images of file systems as files: recognised, listed, extracted, checked, compared, made.
//!
//! [`AnyImage::open`] finds out by the bytes of a file what it is: the dump of a chip, with spare areas or
//! plain ([`Image`]), or the blocks of a block device ([`DeviceImage`]). It is mounted read-only with no cost
//! in time: the code that studies run serves as a tool. Damage is reported and worked around, not a
//! reason to give up.

mod any;
mod check;
mod check_jffs2;
mod check_jffs2_tree;
mod check_nilfs2;
mod check_ubi;
mod check_ubifs;
mod check_yaffs2;
mod detect;
mod detect_ubi;
mod device;
mod device_medium;
mod device_table;
mod diff;
mod error;
mod extract;
mod host_file;
mod info;
mod info_nilfs2;
mod info_ubi;
mod jffs2_log;
mod list;
mod load;
mod make;
mod make_nilfs2;
mod make_ubi;
mod medium;
mod rearranged;
mod report;
mod source;
mod volumes;

pub use any::AnyImage;
pub use check::{Checkpoint, Counts};
pub use check_jffs2::Jffs2Counts;
pub use check_ubi::UbiCounts;
pub use check_yaffs2::Yaffs2Counts;
pub use detect::{Form, TagsForm};
pub use detect_ubi::UbiForm;
pub use device::DeviceImage;
pub use diff::{Difference, diff};
pub use error::ImageError;
pub use extract::{ExtractOptions, Extracted};
pub use list::{FILE_BYTES_MAX, Listing};
pub use load::{Image, OpenOptions};
pub use make::{Made, MakeOptions, Padding, make};
pub use make_nilfs2::Nilfs2MakeOptions;
pub use make_ubi::{UbiMakeOptions, make_ubi};
pub use medium::{BlockData, Medium, PageState};
pub use report::{Remark, Report};
