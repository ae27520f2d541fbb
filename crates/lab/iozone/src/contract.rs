//! What a test of IOzone is: a number after `-i`, and the columns that it fills.

/// A test: what `-i N` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Number that follows `-i`.
    pub number: u32,
    /// Columns of IOzone's table that it fills, words joined by hyphens.
    pub columns: &'static [&'static str],
    /// It makes the file that the other tests work on.
    pub makes_file: bool,
}

impl Test {
    /// The columns without retests (`-+n`): random I/O is two tests, not one and its repetition.
    pub fn columns_run(&self, has_retests: bool) -> &'static [&'static str] {
        if has_retests || self.number == 2 { self.columns } else { &self.columns[..1] }
    }
}
