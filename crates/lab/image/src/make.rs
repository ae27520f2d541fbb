//! Images made from a tree of the host, by the format that is asked for.

use crate::candidate::check_name;
use crate::contract::Made;
use crate::error::ImageError;
use crate::options::MakeOptions;
use crate::table::formats;
use file_systems::find_kind;
use std::path::Path;

/// Makes an image of a directory; the file appears when it is complete. Volumes of UBI whose contents are
/// named by a configuration need no directory.
///
/// # Errors
/// [`ImageError`]: the tree cannot be read or does not fit, an option is wrong.
pub fn make(from: Option<&Path>, to: &Path, options: &MakeOptions) -> Result<Made, ImageError> {
    let name = &options.file_system;
    check_name(name)?;
    let unknown =
        |error: mount::MountError| ImageError::Option { option: "--fs", reason: error.to_string() };
    let kind = find_kind(name).map_err(unknown)?;
    let format = formats().into_iter().find(|format| format.name == name);
    let format = format.expect("each file system with images has a format; tested");
    (format.make)(kind, from, to, options)
}
