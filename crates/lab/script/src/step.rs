//! What a line of a script asks for.

use crate::rest::RestLine;
use crate::{DataKind, Xorshift};
use fs_api::FileType;
use vfs::RenameMode;

/// What the place of a file system begins with that lies on a volume of UBI.
pub(crate) const UBI_VOLUME: &str = "ubi0:";

/// When a writer makes its bytes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// No call of its own: write-back brings the bytes to the medium.
    #[default]
    Never,
    /// Before the file is closed.
    AtEnd,
    /// After every call of `write`.
    Each,
}

/// Bytes and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteCall {
    /// Bytes of all calls together.
    pub length: u64,
    /// Bytes of one call; the last one may be shorter.
    pub chunk: u64,
    /// What the bytes are like.
    pub kind: DataKind,
    /// Seed of the bytes; 0 for bytes that the line holds.
    pub seed: u64,
    /// When they are made durable.
    pub sync: Sync,
}

impl WriteCall {
    /// Where each call writes, one behind the other from `first` on. A line may ask for more calls than
    /// memory could list.
    pub fn offsets(&self, first: u64) -> impl Iterator<Item = u64> + use<> {
        let (count, chunk) = (self.length.div_ceil(self.chunk), self.chunk);
        (0..count).map(move |number| first.saturating_add(number * chunk))
    }

    /// Where each of `count` calls writes that `rwrite` makes in a file of `file_bytes`.
    pub fn random_offsets(
        &self,
        count: u64,
        file_bytes: u64,
        place_seed: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let mut places = Xorshift::new(place_seed);
        // 31 bits: of a file with more blocks than that only the first are written.
        let (blocks, chunk) = (file_bytes / self.chunk, self.chunk);
        (0..count).map(move |_| (places.next_number() >> 33) % blocks * chunk)
    }
}

/// The name that `putn` and `unlinkn` make of a prefix and a number.
pub fn numbered(prefix: &[u8], number: u64) -> Vec<u8> {
    // Five digits, so that names sort by number; `numbers` refuses more.
    [prefix, format!("{number:05}").as_bytes()].concat()
}

/// What `fallocate` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocateMode {
    /// Space is set aside, and the file grows to the end of the part.
    #[default]
    Grow,
    /// `keep-size`: space is set aside, and the file keeps its length (`FALLOC_FL_KEEP_SIZE`).
    KeepSize,
    /// `punch-hole`: the part becomes a hole (`FALLOC_FL_PUNCH_HOLE` with `FALLOC_FL_KEEP_SIZE`).
    PunchHole,
}

/// How `open` opens a file, in the flags of open(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of open(2)")]
pub struct OpenFlags {
    /// Bytes may be read (`O_RDONLY`, `O_RDWR`).
    pub reads: bool,
    /// Bytes may be written (`O_WRONLY`, `O_RDWR`).
    pub writes: bool,
    /// Every write goes to the end (`O_APPEND`).
    pub appends: bool,
    /// A file is made if there is none, with these permission bits (`O_CREAT`).
    pub create: Option<u32>,
    /// There must be none (`O_EXCL`).
    pub is_exclusive: bool,
    /// The file is made empty (`O_TRUNC`).
    pub truncates: bool,
    /// Every write returns when it is durable.
    pub sync: OpenSync,
}

/// What every write to an open file waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenSync {
    /// For nothing.
    #[default]
    Never,
    /// For the bytes, and what is needed to find them (`O_DSYNC`).
    Data,
    /// For the bytes and all attributes (`O_SYNC`).
    All,
}

/// The bytes of one call to an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenData {
    /// How many.
    pub length: u64,
    /// What they are like.
    pub kind: DataKind,
    /// Their seed; 0 for bytes that the line holds.
    pub seed: u64,
}

/// A system call, a group of them, or a control line. Paths are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the calls the variants are named after"
)]
pub enum Step {
    /// `put`: make or empty a file and write it.
    Put { path: Vec<u8>, permissions: u32, call: WriteCall },
    /// `putn`: the same for many files, numbered in five digits; seeds count up.
    PutMany { prefix: Vec<u8>, numbers: std::ops::Range<u64>, permissions: u32, call: WriteCall },
    /// `append`: write to the end of a file.
    Append { path: Vec<u8>, call: WriteCall },
    /// `write`: write from an offset on.
    Write { path: Vec<u8>, offset: u64, call: WriteCall },
    /// `rwrite`: write blocks at random places; `call.length` is all bytes, `call.chunk` a block.
    RandomWrite { path: Vec<u8>, count: u64, file_bytes: u64, place_seed: u64, call: WriteCall },
    /// `read`: read a file in pieces, from `offset` on, `length` bytes or to its end.
    Read { path: Vec<u8>, chunk: u64, offset: u64, length: Option<u64> },
    /// `fsync` and `fdatasync`: makes one file or directory durable, by its path or as a descriptor. Of a path
    /// both do the same.
    Fsync { target: Vec<u8>, is_data_only: bool },
    /// `sync`: makes all files durable.
    SyncAll,
    /// `truncate`: sets the length of a file.
    Truncate { path: Vec<u8>, size: u64 },
    /// `rename`: moves a name, as `renameat2` does.
    Rename { from: Vec<u8>, to: Vec<u8>, mode: RenameMode },
    /// `link`: gives a file another name.
    Link { from: Vec<u8>, to: Vec<u8> },
    /// `symlink`: makes a symbolic link.
    Symlink { target: Vec<u8>, path: Vec<u8> },
    /// `unlink`: removes the name of a file.
    Unlink { path: Vec<u8> },
    /// `unlinkn`: removes the names of numbered files.
    UnlinkMany { prefix: Vec<u8>, numbers: std::ops::Range<u64> },
    /// `mkdir`: makes a directory.
    MakeDirectory { path: Vec<u8>, permissions: u32 },
    /// `rmdir`: removes an empty directory.
    RemoveDirectory { path: Vec<u8> },
    /// `chmod`: sets permission bits.
    ChangeMode { path: Vec<u8>, permissions: u32 },
    /// `chown`, of a symbolic link itself.
    ChangeOwner { path: Vec<u8>, uid: u32, gid: u32 },
    /// `utime`: sets the times of access and modification.
    SetTimes { path: Vec<u8>, accessed: i64, modified: i64 },
    /// `mknod`: makes a device, pipe or socket.
    MakeNode { path: Vec<u8>, permissions: u32, kind: FileType, device: (u32, u32) },
    /// `setxattr`: sets an extended attribute.
    SetAttribute { path: Vec<u8>, name: Vec<u8>, value: Vec<u8> },
    /// `fallocate`: sets space aside for a part of a file, or gives it back.
    Allocate { path: Vec<u8>, offset: u64, length: u64, mode: AllocateMode },
    /// `open`: opens a file or directory under a name that later lines use.
    Open { name: String, path: Vec<u8>, flags: OpenFlags },
    /// `write`, of four words: writes at the position of an open file.
    WriteOpen { name: String, data: OpenData },
    /// `pwrite`: writes to an open file from an offset on.
    WriteOpenAt { name: String, offset: u64, data: OpenData },
    /// `pread`: reads from an open file.
    ReadOpenAt { name: String, offset: u64, length: u64 },
    /// `ftruncate`: sets the length of an open file.
    TruncateOpen { name: String, size: u64 },
    /// `close`: closes an open file.
    Close { name: String },
    /// The process ends, and what it has open is closed. No line says so: it stands before the `umount` of a
    /// script without mounts.
    Exit,
    /// `sleep`: nothing happens for so many milliseconds.
    Sleep { milliseconds: u64 },
    /// Anything that is no system call.
    Control(ControlLine),
}

/// How `ubiattach` attaches the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// `-O`: offset of the volume-identifier header.
    pub header_offset: Option<u32>,
}

/// The volume that `ubimkvol` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// `-N`: its name. It takes all space there is (`-m`).
    pub name: String,
}

impl ControlLine {
    /// The line is about bit errors of the chip, which are drawn in scripts with such a line alone.
    pub fn is_aging(&self) -> bool {
        matches!(self, Self::Age { .. } | Self::Wear { .. } | Self::Scrub)
    }
}

/// Lines that control the run itself: mounts, phases, chips that are kept and exchanged. The process of the
/// script makes no call for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// `log on`, `log off`: chip operations are counted, or not.
    Log(bool),
    /// `workload NAME`: the workload begins.
    Workload(String),
    /// `phase NAME`: counters start for a phase; `phase -` stops them.
    Phase(Option<String>),
    /// `end`: closes the last phase.
    End,
    /// `mount TYPE SOURCE OPTIONS`: mounts; options are the kernel's, without any for `-`.
    Mount {
        /// `jffs2`, `yaffs2` or `ubifs`.
        file_system: String,
        /// `mtd0`, `/dev/mtdblock0` or `ubi0:NAME`.
        source: String,
        /// Options, divided by commas.
        options: Vec<String>,
    },
    /// `mount -` and `mount blocks=N`: mounts what the command line says, on so many blocks.
    MountGiven {
        /// Blocks of the chip.
        blocks: Option<u32>,
    },
    /// `umount`: ends the mount in an orderly way.
    Unmount,
    /// `drop`: the page cache forgets what is clean.
    DropCaches,
    /// `settle MS`: waits until the chip has been idle so long.
    Settle {
        /// How long the chip must be idle, in milliseconds.
        milliseconds: u64,
    },
    /// `cmd ubiformat /dev/mtd0 -q -y -Q N [-O N]`.
    Format {
        /// `-Q`: the image sequence number.
        sequence: u32,
        /// `-O`: offset of the volume-identifier header.
        header_offset: Option<u32>,
    },
    /// `cmd ubiattach -m 0 -d 0 [-O N] /dev/ubi_ctrl`.
    Attach(Attach),
    /// `cmd ubimkvol /dev/ubi0 -N NAME -m`.
    MakeVolume(Volume),
    /// `cmd ubidetach -d 0`: UBI lets go of the chip.
    Detach,
    /// `cmd rmmod nandsim`: the chip is gone.
    RemoveChip,
    /// `cmd modprobe nandsim …`: an erased chip.
    AddChip,
    /// `snap NAME`: the chip's contents at this moment, under a name.
    Snap(String),
    /// `save NAME N`: the same.
    Save(String),
    /// `load NAME`: an erased chip receives contents that were kept.
    Load(String),
    /// `powercut`: the supply fails between two operations, and comes back.
    PowerCut,
    /// `age DURATION [at TEMPERATURE]`: the chip lies without power.
    Age {
        /// How long, in milliseconds.
        milliseconds: u64,
        /// How warm it is.
        celsius: i32,
    },
    /// `wear CYCLES`: every block counts as erased so often.
    Wear {
        /// Erases of each block.
        cycles: u32,
    },
    /// `scrub`: reads every file, and tells bit errors by file.
    Scrub,
    /// `expect`, `expect-tree`, `tree` and `ack`: what the application relies on.
    AtRest(RestLine),
}
