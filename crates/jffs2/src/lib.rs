//! JFFS2.
