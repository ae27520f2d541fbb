//! What the tests of this crate share.
#![allow(dead_code, reason = "every test program uses a part of it")]
#![allow(unreachable_pub, reason = "a module of a test program has no public")]

pub mod blktrace;
pub mod processor_time;

use std::fs;
use std::path::{Path, PathBuf};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use trace::{Options, Record, TraceError};

/// A file of the sample traces.
pub fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// An empty directory of this name, for the files of one test.
pub fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// A new file with this content.
pub fn file(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    path
}

/// Options that name a format.
pub fn format(name: &str) -> Options {
    Options { format: Some(name.to_owned()), ..Options::default() }
}

/// All records of a trace.
pub fn read(path: &Path, options: &Options) -> Result<Vec<Record>, TraceError> {
    let mut reader = trace::open(path, options)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        all.extend_from_slice(&batch);
    }
    Ok(all)
}

/// The one generator of random numbers in tests, from a fixed seed.
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `limit`, which is not 0; the slight bias does not matter here.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }

    pub fn byte(&mut self) -> u8 {
        self.0.next_u64() as u8
    }
}
