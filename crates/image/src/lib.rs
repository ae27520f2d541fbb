//! Images of raw NAND as files.

mod detect;
mod error;
mod list;
mod load;

pub use detect::{Form, TagsForm};
pub use error::ImageError;
pub use list::{FILE_BYTES_MAX, Listing};
pub use load::{Image, OpenOptions};
