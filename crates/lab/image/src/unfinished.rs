//! Files and folders that appear under their names when they are complete.

use crate::error::ImageError;
use std::path::{Path, PathBuf};

/// Writes a file that appears when it is complete.
pub(crate) fn finish<T>(
    to: &Path,
    write: impl FnOnce(&Path) -> std::io::Result<T>,
) -> Result<T, ImageError> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let guard = Unfinished(&unfinished);
    let done = write(&unfinished).map_err(ImageError::io(to))?;
    std::fs::rename(&unfinished, to).map_err(ImageError::io(to))?;
    drop(guard);
    Ok(done)
}

/// A file or folder that has a name for the time being: what is not moved from there goes away with this,
/// however the work ends.
pub(crate) struct Unfinished<'p>(pub(crate) &'p Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // The reason is reported; what was never made, or was moved, need not be removed.
        let _ = match self.0.symlink_metadata() {
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(self.0),
            Ok(_) => std::fs::remove_file(self.0),
            Err(_) => Ok(()),
        };
    }
}
