//! Sizes of a volume. Uses nothing of the crate.

/// Shape of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeShape {
    /// Bytes of a logical eraseblock.
    pub leb_bytes: u32,
    /// Logical eraseblocks of the volume.
    pub leb_count: u32,
    /// Unit of writing, bytes.
    pub min_io_bytes: u32,
    /// Most bytes that are written at a stroke.
    pub max_write_bytes: u32,
}
