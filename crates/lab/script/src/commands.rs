//! The table of commands: what a line may begin with. Help, the table of the manual, suggestions and the
//! syntax files of editors are made of it.

/// What a command belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A system call, or a group of them.
    Call,
    /// A system call on an open file.
    Descriptor,
    /// A line for the program that runs the script.
    Harness,
    /// The beginning of a block of lines.
    Block,
    /// A word before a system call.
    Prefix,
    /// The end of a block.
    Closing,
}

impl Group {
    /// Name of the group in tables for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Descriptor => "descriptor",
            Self::Harness => "harness",
            Self::Block => "block",
            Self::Prefix => "prefix",
            Self::Closing => "closing",
        }
    }
}

/// A command of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRow {
    /// The word that a line begins with.
    pub name: &'static str,
    /// What it belongs to.
    pub group: Group,
    /// The forms of the line, each by itself.
    pub forms: &'static [&'static str],
    /// What it does, in Markdown.
    pub does: &'static str,
}

const fn row(
    name: &'static str,
    group: Group,
    forms: &'static [&'static str],
    does: &'static str,
) -> CommandRow {
    CommandRow { name, group, forms, does }
}

use Group::{Block, Call, Closing, Descriptor, Harness, Prefix};

/// All commands, sorted by name.
pub const COMMANDS: &[CommandRow] = &[
    row(
        "ack",
        Harness,
        &["ack N"],
        "the application has told its user that step N is done: a cut behind it must not take that back",
    ),
    row(
        "age",
        Harness,
        &["age DURATION [at TEMPERATURE]"],
        "lets time pass for the cells of the chip alone, at 40C or another temperature: `age 3 years at 55C`",
    ),
    row(
        "append",
        Call,
        &["append PATH LENGTH CHUNK KIND SEED [SYNC]"],
        "opens with O_APPEND, writes, closes; unlike a shell's `>>` it makes no file: `put` does",
    ),
    row("chmod", Call, &["chmod PATH MODE"], "sets the permission bits"),
    row(
        "chown",
        Call,
        &["chown PATH UID GID"],
        "sets owner and group, of a symbolic link itself (`lchown`)",
    ),
    row("close", Descriptor, &["close NAME"], "closes an open file"),
    row(
        "cmd",
        Harness,
        &["cmd PROGRAM ARGUMENTS"],
        "the chip or UBI: the forms below; nothing else is carried out",
    ),
    row(
        "concurrent",
        Block,
        &["concurrent { LINES } { LINES }"],
        "runs a process for each pair of braces, side by side, and waits for all of them",
    ),
    row(
        "drop",
        Harness,
        &["drop"],
        "drops unused names, pages and inodes; UBIFS drops its index, after a commit if parts of it were changed",
    ),
    row("end", Harness, &["end"], "ends a phase"),
    row(
        "every",
        Block,
        &["every PERIOD for DURATION { LINES }"],
        "carries the lines out at the multiples of PERIOD, for DURATION",
    ),
    row(
        "expect",
        Harness,
        &[
            "expect PATH old-or-new",
            "expect PATH prefix",
            "expect PATH whole",
            "expect PATH absent-or-whole",
            "expect one-of A B",
        ],
        "says what a power cut behind it must leave of a file; `nandlab crash` checks it",
    ),
    row(
        "expect-tree",
        Harness,
        &["expect-tree NAME"],
        "the same of all files: the tree is one of those that `tree NAME` kept",
    ),
    row(
        "fails",
        Prefix,
        &["fails ERRNO CALL"],
        "the call must fail with this error: `fails ENOSPC put ...`",
    ),
    row(
        "fallocate",
        Call,
        &["fallocate PATH OFFSET LENGTH [keep-size]", "fallocate PATH OFFSET LENGTH punch-hole"],
        "sets space aside, or makes a hole; the file keeps its size but in the plain form",
    ),
    row(
        "fdatasync",
        Call,
        &["fdatasync PATH", "fdatasync NAME"],
        "as `fsync`; of an open file only the bytes and what is needed to find them",
    ),
    row(
        "for",
        Block,
        &["for NAME in FIRST..LAST { LINES }"],
        "carries the lines out for each number from FIRST to LAST, both included, as `seq FIRST LAST` counts",
    ),
    row(
        "fsync",
        Call,
        &["fsync PATH", "fsync NAME"],
        "makes a file or directory durable, or an open file",
    ),
    row("ftruncate", Descriptor, &["ftruncate NAME SIZE"], "sets the length of an open file"),
    row("link", Call, &["link OLD NEW"], "gives a file another name"),
    row("load", Harness, &["load NAME"], "replaces the chip by the copy"),
    row(
        "log",
        Harness,
        &["log on", "log off"],
        "turns counting of the chip's operations on or off",
    ),
    row(
        "mkdir",
        Call,
        &["mkdir PATH MODE"],
        "makes a directory; set-group-ID is left out, as Linux does",
    ),
    row(
        "mknod",
        Call,
        &[
            "mknod PATH MODE c MAJOR MINOR",
            "mknod PATH MODE b MAJOR MINOR",
            "mknod PATH MODE p",
            "mknod PATH MODE s",
        ],
        "makes a device, a FIFO or a socket",
    ),
    row(
        "mount",
        Harness,
        &[
            "mount jffs2 mtd0 OPTIONS",
            "mount yaffs2 /dev/mtdblock0 OPTIONS",
            "mount ubifs ubi0:NAME OPTIONS",
            "mount -",
            "mount blocks=N",
        ],
        "mounts, as below",
    ),
    row(
        "open",
        Descriptor,
        &["open NAME PATH FLAGS [MODE]"],
        "opens a file or directory under a name",
    ),
    row(
        "phase",
        Harness,
        &["phase NAME", "phase -"],
        "begins a phase and ends the one before; only ends it",
    ),
    row(
        "powercut",
        Harness,
        &["powercut"],
        "the supply fails between two operations and comes back; nothing is mounted, attached or open then",
    ),
    row("pread", Descriptor, &["pread NAME OFFSET LENGTH"], "reads in one call"),
    row(
        "put",
        Call,
        &["put PATH MODE LENGTH CHUNK KIND SEED [SYNC]"],
        "opens with O_CREAT and O_TRUNC, writes LENGTH bytes in calls of CHUNK, closes",
    ),
    row(
        "putn",
        Call,
        &["putn PREFIX FIRST END MODE LENGTH CHUNK KIND SEED [SYNC]"],
        "the same for PREFIX00000 and so on, from FIRST to before END; the seed is SEED plus the number",
    ),
    row(
        "pwrite",
        Descriptor,
        &["pwrite NAME OFFSET LENGTH KIND SEED"],
        "writes in one call, at OFFSET; at the end if the file was opened with `a`, as in Linux",
    ),
    row(
        "read",
        Call,
        &["read PATH CHUNK [OFFSET LENGTH]"],
        "reads to the end, or LENGTH bytes from OFFSET on",
    ),
    row(
        "rename",
        Call,
        &["rename OLD NEW [noreplace]", "rename OLD NEW exchange", "rename OLD NEW whiteout"],
        "moves a name; keeps what has the new one, exchanges both, or leaves a whiteout (`renameat2`)",
    ),
    row("repeat", Block, &["repeat COUNT { LINES }"], "carries the lines out COUNT times"),
    row("rmdir", Call, &["rmdir PATH"], "removes an empty directory"),
    row(
        "rwrite",
        Call,
        &["rwrite PATH COUNT BLOCK FILE_SIZE PLACE_SEED KIND SEED [SYNC]"],
        "writes COUNT blocks at random multiples of BLOCK",
    ),
    row("save", Harness, &["save NAME COPIES"], "keeps a copy of the chip under a name"),
    row(
        "scrub",
        Harness,
        &["scrub"],
        "reads every file from the chip, and tells bit errors by file; nothing is written again",
    ),
    row("settle", Harness, &["settle TIME"], "waits until the chip has been idle for this time"),
    row(
        "setxattr",
        Call,
        &["setxattr PATH NAME VALUE"],
        "sets an extended attribute; the value in hexadecimal",
    ),
    row("sleep", Call, &["sleep TIME"], "waits"),
    row("snap", Harness, &["snap NAME"], "keeps a copy of the chip under a name"),
    row("symlink", Call, &["symlink TARGET PATH"], "makes a symbolic link"),
    row("sync", Call, &["sync"], "makes everything durable"),
    row("tree", Harness, &["tree NAME"], "keeps the tree as it is here, for `expect-tree NAME`"),
    row("truncate", Call, &["truncate PATH SIZE"], "sets the length of a file"),
    row(
        "try",
        Prefix,
        &["try CALL"],
        "the call may fail: that is reported, and the script goes on",
    ),
    row("umount", Harness, &["umount"], "unmounts"),
    row("unlink", Call, &["unlink PATH"], "removes a name"),
    row(
        "unlinkn",
        Call,
        &["unlinkn PREFIX FIRST END"],
        "removes the names PREFIX00000 and so on, from FIRST to before END",
    ),
    row("utime", Call, &["utime PATH ACCESSED MODIFIED"], "sets the times, in seconds"),
    row(
        "wear",
        Harness,
        &["wear CYCLES"],
        "every block counts as erased so often: what bit errors depend on; contents stay",
    ),
    row("workload", Harness, &["workload NAME"], "names the workload, for the reader"),
    row(
        "write",
        Call,
        &["write PATH OFFSET LENGTH CHUNK KIND SEED [SYNC]", "write NAME LENGTH KIND SEED"],
        "writes from OFFSET on; to an open file at its position, in one call",
    ),
    row("}", Closing, &["}"], "ends a block"),
];

/// The row of a name.
pub fn find_command(name: &str) -> Option<&'static CommandRow> {
    COMMANDS.binary_search_by_key(&name, |row| row.name).ok().map(|at| &COMMANDS[at])
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, find_command};

    #[test]
    fn rows_are_sorted_and_their_forms_begin_with_their_names() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        for row in COMMANDS {
            assert!(row.forms.iter().all(|form| form.split(' ').next() == Some(row.name)));
            assert_eq!(find_command(row.name), Some(row));
        }
        assert_eq!(find_command("snyc"), None);
    }
}
