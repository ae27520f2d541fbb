//! YAFFS2.
