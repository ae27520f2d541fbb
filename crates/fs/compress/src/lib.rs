//! Compressors that several file systems share and no library offers as the kernel has them.

pub mod lzo;
