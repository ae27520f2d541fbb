//! The host that a storage stack runs on, as data: processors, kernel, memory, and what the paths
//! of its kernel cost.
//!
//! Boards stand in `boards/*.toml`, each value beside its source. Costs are physical ones (a bio, a
//! page, a byte): none belongs to one scheduler or file system.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

/// The board that commands use when none is named.
pub const DEFAULT_BOARD: &str = "odroid-xu";

/// A host: processors, kernel, memory and costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Name used on the command line and in studies.
    pub name: String,
    /// One line: processor, memory, kernel.
    pub summary: String,
    /// Kernel version, major and minor: plugging and the limit of requests go by it.
    pub kernel: String,
    /// Ticks a second (`CONFIG_HZ`).
    pub hz: u32,
    /// Bytes of main memory that the board is built with.
    pub memory_bytes: u64,
    /// RAM free for the page cache and its dirty pages when nothing of the study runs.
    pub available_bytes: u64,
    /// How many processors there are, and how they are shared.
    pub processors: Processors,
    /// Processor time of kernel paths.
    pub costs: Costs,
    /// Write-back and read-ahead, in the units of `/proc/sys/vm`.
    pub writeback: Writeback,
    /// Processor time of work on bytes and records, whoever does it.
    #[serde(default)]
    pub work: Work,
    /// The driver of raw NAND, if the board has any.
    #[serde(default)]
    pub raw_nand: RawNand,
    /// Where the values stand: a key (`costs.page_ns`) or a section (`costs`) to its source.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// Processors that run at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processors {
    /// Processors that run tasks at the same time.
    pub count: u32,
    /// Longest run while others wait.
    pub timeslice_ns: u64,
}

/// Processor time of the paths every request takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Into the kernel and back.
    pub syscall_ns: u64,
    /// From a bio to the driver, for each bio.
    pub bio_submit_ns: u64,
    /// Interrupt, end of the bio and wake-up, for each bio.
    pub bio_complete_ns: u64,
    /// Look-up or insertion of a page in the page cache.
    pub page_ns: u64,
    /// Copying between user and page cache.
    pub copy_ps_per_byte: u64,
}

/// Processor time of work on bytes and records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// CRC-32 with a table.
    pub crc32_ps_per_byte: u64,
    /// zlib, of the bytes that go in.
    pub zlib_compress_ps_per_byte: u64,
    /// zlib, of the bytes that come out.
    pub zlib_decompress_ps_per_byte: u64,
    /// LZO1X-1, of the bytes that go in.
    pub lzo_compress_ps_per_byte: u64,
    /// LZO1X, of the bytes that come out.
    pub lzo_decompress_ps_per_byte: u64,
    /// rtime, of the bytes that go in.
    pub rtime_compress_ps_per_byte: u64,
    /// rtime, of the bytes that come out.
    pub rtime_decompress_ps_per_byte: u64,
    /// zstd at level 3, of the bytes that go in.
    #[serde(default)]
    pub zstd_compress_ps_per_byte: u64,
    /// zstd, of the bytes that come out.
    #[serde(default)]
    pub zstd_decompress_ps_per_byte: u64,
    /// A record in memory that is compared, or put in its place in a table, list or tree.
    pub entry_ns: u64,
}

/// The driver of raw NAND: what it adds to the chip's own time, and its habits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawNand {
    /// Processor time of a command and its address cycles.
    pub command_ns: u64,
    /// Processor time of a byte between chip and memory.
    pub transfer_ps_per_byte: u64,
    /// Processor time of ECC in software for a byte; 0 where hardware does it.
    pub ecc_ps_per_byte: u64,
    /// Processor time of a read beyond all that, whether of a page or of its spare area alone.
    pub read_page_ns: u64,
    /// Processor time of a program beyond all that, whether of a page or of its spare area alone.
    pub program_page_ns: u64,
    /// The processor waits for the chip by asking it again and again, and does nothing else.
    pub polls: bool,
    /// Bad blocks are known from a table in memory, not by reading the mark at every question.
    pub has_bad_block_table: bool,
    /// A part of a page is read as the ECC steps that hold it (`NAND_SUBPAGE_READ`).
    pub reads_sub_pages: bool,
}

impl Default for RawNand {
    /// No costs; the habits of Linux's `nandsim`.
    // `nandsim` reads sub-pages and keeps its bad blocks in memory.
    fn default() -> Self {
        Self {
            command_ns: 0,
            transfer_ps_per_byte: 0,
            ecc_ps_per_byte: 0,
            read_page_ns: 0,
            program_page_ns: 0,
            polls: false,
            has_bad_block_table: true,
            reads_sub_pages: true,
        }
    }
}

/// Tunables of write-back and read-ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writeback {
    /// Percentage of dirtyable memory from which the flusher writes.
    pub dirty_background_ratio: u32,
    /// Percentage of dirtyable memory from which writers are made to wait.
    pub dirty_ratio: u32,
    /// Interval of the periodic flusher, in hundredths of a second.
    pub dirty_writeback_centisecs: u32,
    /// Age from which the periodic flusher writes a page, in hundredths of a second.
    pub dirty_expire_centisecs: u32,
    /// Largest read-ahead window, bytes.
    pub read_ahead_bytes: u64,
}

/// Why a board could not be had.
#[derive(Debug, Error)]
pub enum BoardError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// Path as it was given.
        path: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The text is not a board.
    #[error("{path}: {message}")]
    Text {
        /// Path or catalogue name.
        path: String,
        /// Line, key and reason.
        message: String,
    },
}

impl Board {
    /// The host of a tool: nothing costs time, and memory is ample.
    pub fn without_costs() -> Self {
        Self {
            name: "none".into(),
            summary: "a host on which nothing takes time".into(),
            // A recent kernel: what depends on its version takes the newest form.
            kernel: "6.12".into(),
            hz: 1000,
            memory_bytes: 4 << 30,
            available_bytes: 2 << 30,
            processors: Processors { count: 1, timeslice_ns: 10_000_000 },
            costs: Costs {
                syscall_ns: 0,
                bio_submit_ns: 0,
                bio_complete_ns: 0,
                page_ns: 0,
                copy_ps_per_byte: 0,
            },
            writeback: Writeback {
                // Linux's defaults: 10 % and 20 % of memory, 5 s, 30 s, 128 KiB.
                dirty_background_ratio: 10,
                dirty_ratio: 20,
                dirty_writeback_centisecs: 500,
                dirty_expire_centisecs: 3000,
                read_ahead_bytes: 131_072,
            },
            work: Work::default(),
            raw_nand: RawNand::default(),
            sources: BTreeMap::new(),
        }
    }

    /// Parses a board; `path` names the text in messages.
    ///
    /// # Errors
    /// [`BoardError::Text`], which names the line and key that is wrong, unknown or missing.
    pub fn parse(path: &str, text: &str) -> Result<Self, BoardError> {
        let wrong = |message: String| BoardError::Text { path: path.to_owned(), message };
        let board: Self =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        board.check().map_err(wrong)?;
        Ok(board)
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// The sentence begins with the key and names the permitted values.
    pub fn check(&self) -> Result<(), String> {
        let ranges = [
            ("hz", u64::from(self.hz), 1, 10_000),
            ("processors.count", u64::from(self.processors.count), 1, 1024),
            ("processors.timeslice_ns", self.processors.timeslice_ns, 1000, 1_000_000_000),
            // The page cache cannot be larger than memory.
            ("available_bytes", self.available_bytes, 1 << 20, self.memory_bytes),
            ("costs.syscall_ns", self.costs.syscall_ns, 0, 1_000_000_000),
            ("costs.bio_submit_ns", self.costs.bio_submit_ns, 0, 1_000_000_000),
            ("costs.bio_complete_ns", self.costs.bio_complete_ns, 0, 1_000_000_000),
            ("costs.page_ns", self.costs.page_ns, 0, 1_000_000_000),
            ("costs.copy_ps_per_byte", self.costs.copy_ps_per_byte, 0, 1_000_000_000),
            (
                "writeback.dirty_background_ratio",
                self.writeback.dirty_background_ratio.into(),
                1,
                99,
            ),
            ("writeback.dirty_ratio", self.writeback.dirty_ratio.into(), 1, 100),
            (
                "writeback.dirty_writeback_centisecs",
                self.writeback.dirty_writeback_centisecs.into(),
                0,
                1_000_000,
            ),
            (
                "writeback.dirty_expire_centisecs",
                self.writeback.dirty_expire_centisecs.into(),
                0,
                1_000_000,
            ),
            ("writeback.read_ahead_bytes", self.writeback.read_ahead_bytes, 0, 1 << 30),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{key} is {value}, but must be {least} to {most}"));
            }
        }
        // `global_dirty_limits` halves a background limit that is not below the other; here the
        // ratio is refused.
        if self.writeback.dirty_background_ratio >= self.writeback.dirty_ratio {
            return Err("writeback.dirty_background_ratio must be below dirty_ratio".into());
        }
        self.kernel_version().map(drop)
    }

    /// Major, minor and patch number of the kernel.
    ///
    /// # Errors
    /// A sentence if it is no version.
    pub fn kernel_version(&self) -> Result<(u32, u32, u32), String> {
        let wrong =
            || format!("kernel is `{}`, but must be a version like 2.6.29 or 3.4", self.kernel);
        let mut numbers =
            self.kernel.split('.').map(|text| text.parse::<u32>().map_err(|_| wrong()));
        let mut next = || numbers.next().transpose();
        let major = next()?.ok_or_else(wrong)?;
        let minor = next()?.ok_or_else(wrong)?;
        // Kernels before 3.0 differ by a third number; without one it is 0.
        Ok((major, minor, next()?.unwrap_or(0)))
    }

    /// True if the kernel is `version` or later.
    pub fn is_kernel_at_least(&self, version: (u32, u32, u32)) -> bool {
        // A board that was checked has a version.
        self.kernel_version().is_ok_and(|own| own >= version)
    }
}

macro_rules! embedded {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../boards/", $file, ".toml")))),*]
    };
}

/// Name and text of every catalogue board, sorted by name.
const TEXTS: &[(&str, &str)] = embedded!("emulated-pc", "odroid-xu", "s5pv210-datasheet");

/// All catalogue boards, sorted by name.
pub fn catalogue() -> Vec<Board> {
    TEXTS
        .iter()
        .map(|(name, text)| Board::parse(name, text).expect("the catalogue is tested"))
        .collect()
}

/// The catalogue board called `name`.
pub fn find_board(name: &str) -> Option<Board> {
    let (name, text) = TEXTS.iter().find(|(known, _)| *known == name)?;
    Some(Board::parse(name, text).expect("the catalogue is tested"))
}

/// Reads a user's board file.
///
/// # Errors
/// [`BoardError::File`], [`BoardError::Text`].
pub fn load_board(path: &Path) -> Result<Board, BoardError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|reason| BoardError::File { path: shown.clone(), reason })?;
    Board::parse(&shown, &text)
}

#[cfg(test)]
mod tests {
    use super::{Board, DEFAULT_BOARD, TEXTS, catalogue, find_board};

    #[test]
    fn the_catalogue_is_sorted_named_as_its_files_and_holds_the_default() {
        assert!(TEXTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (board, (file, _)) in catalogue().iter().zip(TEXTS) {
            assert_eq!(board.name, *file);
        }
        assert!(find_board(DEFAULT_BOARD).is_some());
    }

    #[test]
    fn every_value_of_the_catalogue_has_a_source() {
        for (file, text) in TEXTS {
            let table: toml::Table = text.parse().expect("parsed before");
            let sources = table["sources"].as_table().expect("sources");
            for (key, value) in table.iter().filter(|(key, _)| *key != "sources" && *key != "name")
            {
                let inner = value.as_table().map(|inner| inner.keys().collect::<Vec<_>>());
                let named = sources.contains_key(key)
                    || inner.is_some_and(|inner| {
                        inner.iter().all(|name| sources.contains_key(&format!("{key}.{name}")))
                    });
                assert!(named, "{file}: {key} has no source");
            }
        }
    }

    #[test]
    fn a_wrong_value_is_named() {
        let text = TEXTS[0].1.replace("hz = 250", "hz = 0");
        let message = Board::parse("mine.toml", &text).unwrap_err().to_string();
        assert_eq!(message, "mine.toml: hz is 0, but must be 1 to 10000");
    }
}
