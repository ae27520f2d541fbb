//! The file sets: which files exist and how large each is.

use crate::random::Random;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// How the sizes of a file set are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSet {
    /// Name on the command line and, in capitals, the file extension.
    pub name: &'static str,
    /// Files are drawn until their sizes add up to this.
    pub total_bytes: u64,
    /// Mean of the normal distribution of sizes.
    pub mean_bytes: u64,
    /// Standard deviation of the normal distribution of sizes.
    pub standard_deviation_bytes: u64,
    /// Smaller draws are raised to this.
    pub minimum_bytes: u64,
}

/// Every file set of the workload.
pub const FILE_SETS: [FileSet; 2] = [
    FileSet {
        name: "jpg",
        total_bytes: 150 * MIB,
        mean_bytes: 240 * KIB,
        standard_deviation_bytes: 90 * KIB,
        minimum_bytes: 16 * KIB,
    },
    FileSet {
        name: "mp3",
        total_bytes: 150 * MIB,
        mean_bytes: 4813 * KIB,
        standard_deviation_bytes: 1126 * KIB,
        minimum_bytes: MIB,
    },
];

impl FileSet {
    /// The file set called `name`.
    ///
    /// # Errors
    /// When no file set has this name; the message lists those there are.
    pub fn named(name: &str) -> Result<Self, String> {
        FILE_SETS.into_iter().find(|set| set.name == name).ok_or_else(|| {
            let known = FILE_SETS.map(|set| set.name).join(" or ");
            format!("unknown file set {name}: use {known}")
        })
    }

    /// The size in bytes of every file, drawn from `seed`.
    pub fn sizes_bytes(&self, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed, 0);
        let mut sizes_bytes = Vec::new();
        let mut total_bytes = 0;
        while total_bytes < self.total_bytes {
            let drawn_bytes = self.draw_bytes(&mut random);
            sizes_bytes.push(drawn_bytes);
            total_bytes += drawn_bytes;
        }
        sizes_bytes
    }

    /// The name of the file with this index, in the 8.3 form that takes one directory entry in FAT.
    pub fn file_name(&self, index: usize) -> String {
        format!("FILE{index:04}.{}", self.name.to_uppercase())
    }

    #[expect(clippy::cast_sign_loss, reason = "the draw is raised to the minimum first")]
    fn draw_bytes(&self, random: &mut Random) -> u64 {
        let drawn = random.normal(self.mean_bytes as f64, self.standard_deviation_bytes as f64);
        drawn.max(self.minimum_bytes as f64).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equal_sets() {
        for set in FILE_SETS {
            assert_eq!(set.sizes_bytes(7), set.sizes_bytes(7));
            assert_ne!(set.sizes_bytes(7), set.sizes_bytes(8));
        }
    }

    #[test]
    fn sets_have_about_the_published_number_of_files() {
        let mp3 = FileSet::named("mp3").unwrap().sizes_bytes(1);
        let jpg = FileSet::named("jpg").unwrap().sizes_bytes(1);
        assert!((28..=36).contains(&mp3.len()), "{} files", mp3.len());
        assert!((610..=670).contains(&jpg.len()), "{} files", jpg.len());
    }

    #[test]
    fn an_unknown_set_is_refused_with_the_known_names() {
        let message = FileSet::named("wav").unwrap_err();
        assert_eq!(message, "unknown file set wav: use jpg or mp3");
    }
}
