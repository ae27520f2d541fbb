"""Power cuts of NILFS2: every prefix of the bios that a kernel wrote, and parts of a bio.

Also what a kernel shows of the files of disks that were cut elsewhere.

The device mapper's target `log-writes` records every write of a disk in the order in which they
were done. A disk after a cut is a blank one and the writes before the cut.
"""

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nandlab.vm import Contents, Drive, Machine, find_kernel, run_machine
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs
from tearing_lab.chips import Recovery, rows

DISK_MEBIBYTES = 32
_LOG_MEBIBYTES = 64
_LARGEST_BIO_MEBIBYTES = 2
_ICOUNT_SHIFT = 1
_SECTOR_BYTES = 512
_DEADLINE_S = 1800.0
# drivers/md/dm-log-writes.c: the super block, the head of an entry, and its flags.
_SUPER = struct.Struct("<QQQI")
_MAGIC = 0x6A736677736872
_ENTRY = struct.Struct("<QQQQ")
_FLUSH, _FUA, _DISCARD, _MARK = 1, 2, 4, 8
_LARGE_BIO_SECTORS = 16


@dataclass(frozen=True)
class _Needs:
    """Programs and modules of a machine."""

    programs: tuple[str, ...]
    modules: tuple[str, ...]


_NILFS2 = _Needs(("dmsetup", "mkfs.nilfs2"), ("brd", "dm_log_writes", "nilfs2"))
_FAT = _Needs(("mkfs.vfat",), ("vfat", "nls_cp437", "nls_ascii", "nls_utf8", "nls_iso8859_1"))
_WATCHED = {
    "nilfs2": _NILFS2,
    "vfat": _Needs(("dmsetup", *_FAT.programs), ("brd", "dm_log_writes", "dm_mod", *_FAT.modules)),
}
"""What it takes to record the writes of a file system."""

_FORMAT = {
    "nilfs2": "mkfs.nilfs2 -q -K -b 4096 -B 128",
    "vfat": "mkfs.vfat --invariant",
}


class LogError(Exception):
    """A log of writes is not whole."""


@dataclass(frozen=True)
class LoggedWrite:
    """A write of a disk; `data` is None for a discard, which leaves zeros."""

    sector: int
    sectors: int
    flags: int
    data: bytes | None

    @property
    def is_barrier(self) -> bool:
        """What was written before it is on the medium."""
        return bool(self.flags & _FLUSH)


@dataclass(frozen=True)
class WriteLog:
    """All writes of a disk; those before `first` made the file system."""

    writes: list[LoggedWrite]
    first: int


@dataclass(frozen=True)
class DiskCut:
    """A prefix of the writes, sectors of the next one, and a write before it that never arrived."""

    writes: int
    sectors: int = 0
    left_out: int | None = None

    @property
    def kind(self) -> str:
        """What sort of cut it is."""
        if self.left_out is not None:
            return "bio-left-out"
        return "inside-bio" if self.sectors else "between-bios"


def require_disk_cuts(series: str) -> None:
    """Raise `VmUnavailable` when something that NILFS2's cuts need is missing."""
    require_programs((*MACHINE_PROGRAMS, *_NILFS2.programs))
    find_kernel(series)
    find_guest_program()


def record_writes(
    series: str, scripts: Sequence[Path], out: Path, file_system: str = "nilfs2"
) -> tuple[list[WriteLog], list[list[str]]]:
    """Carry scripts out on a disk in a kernel; each one's writes, and its calls that failed."""
    needs = _WATCHED[file_system]
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log.drive"
    with log.open("wb") as file:
        file.truncate(len(scripts) * _LOG_MEBIBYTES << 20)
    commands = [_PREPARE.format(file_system=file_system)]
    commands += [_record(number, script.name, file_system) for number, script in enumerate(scripts)]
    files = {f"scripts/{script.name}": script for script in scripts}
    # Write-back decides which bios there are, and so does time: it is counted in instructions.
    found = _run(
        series,
        "\n".join(commands),
        files,
        (Drive(str(log)),),
        out / "files",
        needs,
        icount_shift=_ICOUNT_SHIFT,
    )
    logs = []
    with log.open("rb") as file:
        for number in range(len(scripts)):
            logs.append(read_log(file.read, file.seek, number * _LOG_MEBIBYTES << 20))
    failures = []
    for number in range(len(scripts)):
        path = found.get(f"{number}.failures")
        failures.append(path.read_text(encoding="utf-8").splitlines() if path else [])
    log.unlink()
    return logs, failures


_PREPARE = """umask 0
export DM_DISABLE_UDEV=1
echo 200 > /proc/sys/vm/dirty_writeback_centisecs
modprobe dm_log_writes
modprobe {file_system}
dmesg -n 1
map() {{
    dmsetup create "$1" --table "0 $2 linear $3 $(($2 * $4))"
}}
"""


def _record(number: int, script: str, file_system: str) -> str:
    # Disks in memory: a disk of the host is done at another instruction in each run.
    sectors = (DISK_MEBIBYTES << 20) // _SECTOR_BYTES
    return f"""
modprobe brd rd_nr=2 rd_size={_LOG_MEBIBYTES << 10}
dmsetup create data --table "0 {sectors} linear /dev/ram0 0"
dmsetup create watched --table "0 {sectors} log-writes /dev/mapper/data /dev/ram1"
{_FORMAT[file_system]} /dev/mapper/watched > /dev/null
dmsetup message watched 0 mark made
nandlab-guest block-script --file /scripts/{script} --fs {file_system} \\
    --device /dev/mapper/watched --mount-point /mnt --failures /output/{number}.failures
dmsetup remove watched
dmsetup remove data
dd if=/dev/ram1 of=/dev/vda bs=1M count={_LOG_MEBIBYTES} seek={number * _LOG_MEBIBYTES} \\
    conv=notrunc 2> /dev/null
rmmod brd
"""


def calls_on_fat(
    series: str, scripts: Sequence[Path], out: Path
) -> list[tuple[list[str], list[str]]]:
    """Carry scripts out on FAT in a kernel; each one's calls that failed, and the rows of its tree.

    Raises `VmUnavailable` without mkfs.vfat.
    """
    require_programs(("mkfs.vfat",))
    out.mkdir(parents=True, exist_ok=True)
    drive = out / "fat.drive"
    with drive.open("wb") as file:
        file.truncate(DISK_MEBIBYTES << 20)
    commands = ["umask 0", "modprobe vfat"]
    for number, script in enumerate(scripts):
        commands.append(f"""
mkfs.vfat --invariant /dev/vda > /dev/null
nandlab-guest block-script --file /scripts/{script.name} --fs vfat --device /dev/vda \\
    --mount-point /mnt --failures /output/{number}.failures
mount -t vfat /dev/vda /mnt
nandlab-guest list --mount-point /mnt --file /output/{number}.tree
umount /mnt
""")
    files = {f"scripts/{script.name}": script for script in scripts}
    found = _run(series, "\n".join(commands), files, (Drive(str(drive)),), out / "files", _FAT)
    drive.unlink()
    answers = []
    for number in range(len(scripts)):
        failures = found.get(f"{number}.failures")
        failed = failures.read_text(encoding="utf-8").splitlines() if failures else []
        answers.append((failed, rows(found[f"{number}.tree"].read_text(encoding="utf-8"))))
    return answers


def _run(
    series: str,
    script: str,
    files: Mapping[str, Path],
    drives: tuple[Drive, ...],
    out: Path,
    needs: _Needs = _NILFS2,
    icount_shift: int | None = None,
) -> dict[str, Path]:
    machine = Machine(
        find_kernel(series),
        script,
        _DEADLINE_S,
        Contents(
            available_modules=needs.modules,
            programs=needs.programs,
            files={"programs/nandlab-guest": find_guest_program(), **files},
        ),
        drives,
        icount_shift=icount_shift,
        # On a busy host the emulated timer may be late, as if it were broken.
        kernel_arguments="no_timer_check",
    )
    return run_machine(machine, out).files


def read_log(read: object, seek: object, start: int) -> WriteLog:
    """Read a log that begins at a byte of a file."""
    assert callable(read)
    assert callable(seek)
    seek(start)
    magic, version, count, sector_bytes = _SUPER.unpack_from(read(_SECTOR_BYTES))
    if magic != _MAGIC or version != 1 or sector_bytes != _SECTOR_BYTES:
        raise LogError(f"no log of writes at byte {start}")
    writes: list[LoggedWrite] = []
    first = None
    length_bytes = _SECTOR_BYTES
    for _ in range(count):
        head = read(_SECTOR_BYTES)
        sector, sectors, flags, length = _ENTRY.unpack_from(head)
        if flags & _MARK:
            if head[_ENTRY.size : _ENTRY.size + length].rstrip(b"\0") == b"made":
                first = len(writes)
            continue
        data = None if flags & _DISCARD else read(sectors * _SECTOR_BYTES)
        writes.append(LoggedWrite(sector, sectors, flags, data))
        length_bytes += _SECTOR_BYTES + len(data or b"")
    # The target goes on without a word when its log is full.
    if length_bytes > (_LOG_MEBIBYTES - _LARGEST_BIO_MEBIBYTES) << 20:
        raise LogError("the disk of the log is full")
    if first is None:
        raise LogError("the log does not say where the file system was made")
    return WriteLog(writes, first)


def disk_after(log: WriteLog, cut: DiskCut) -> bytearray:
    """Return the bytes of the disk after a cut."""
    disk = bytearray(DISK_MEBIBYTES << 20)
    for number, write in enumerate(log.writes[: cut.writes]):
        if number != cut.left_out:
            _apply(disk, write, write.sectors)
    if cut.sectors:
        _apply(disk, log.writes[cut.writes], cut.sectors)
    return disk


def _apply(disk: bytearray, write: LoggedWrite, sectors: int) -> None:
    start, length = write.sector * _SECTOR_BYTES, sectors * _SECTOR_BYTES
    data = bytes(length) if write.data is None else write.data[:length]
    disk[start : start + length] = data


def choose_cut(log: WriteLog, number: int, draw: random.Random) -> DiskCut:
    """Choose a cut: in turn between two bios, inside a large one, and with one left out.

    A device with a cache may lose any bio that no flush has followed, also one in the middle.
    """
    turn = number % 3
    after = range(log.first, len(log.writes))
    if turn == 1:
        large = [at for at in after if log.writes[at].sectors >= _LARGE_BIO_SECTORS]
        if large:
            at = draw.choice(large)
            return DiskCut(at, draw.randrange(1, log.writes[at].sectors))
    if turn == 2:
        losses = [(at, lost) for at in after for lost in _losable(log, at)]
        if losses:
            at, lost = draw.choice(losses)
            return DiskCut(at, left_out=lost)
    return DiskCut(draw.randrange(log.first, len(log.writes) + 1))


def _losable(log: WriteLog, cut: int) -> list[int]:
    """Writes before a cut that are followed by another one but not by a flush."""
    group = []
    for number in range(cut - 1, log.first - 1, -1):
        group.append(number)
        if log.writes[number].is_barrier:
            break
    return [number for number in group[1:] if not log.writes[number].flags & (_FUA | _FLUSH)]


def recover_disks(series: str, images: Mapping[str, Path], out: Path) -> dict[str, Recovery]:
    """Have a kernel mount copies of disks twice and list what each mount shows."""
    out.mkdir(parents=True, exist_ok=True)
    drive = out / "images.drive"
    with drive.open("wb") as file:
        for image in images.values():
            file.write(image.read_bytes())
    commands = [_PREPARE.format(file_system="nilfs2")]
    for number, name in enumerate(images):
        commands.append(_recover(number, name))
    found = _run(series, "\n".join(commands), {}, (Drive(str(drive)),), out / "files")
    drive.unlink()
    return {name: _recovery(name, found) for name in images}


def _recover(number: int, name: str) -> str:
    sectors = (DISK_MEBIBYTES << 20) // _SECTOR_BYTES
    listed = "".join(
        f"""if mount -t nilfs2 -o noatime /dev/mapper/disk /mnt; then
    nandlab-guest list --mount-point /mnt --file /output/{name}.{ending} ||
        echo "the {ending} listing failed" >> /output/{name}.error
    umount /mnt || echo "the {ending} unmount failed" >> /output/{name}.error
else
    echo "the {ending} mount failed" >> /output/{name}.error
fi
"""
        for ending in ("first", "second")
    )
    return f"""
map disk {sectors} /dev/vda {number}
{listed}dmsetup remove disk
dmesg -c > /output/{name}.messages
"""


def _recovery(name: str, found: Mapping[str, Path]) -> Recovery:
    def text(ending: str) -> str:
        path = found.get(f"{name}.{ending}")
        return path.read_text(encoding="utf-8", errors="replace") if path else ""

    return Recovery(
        name,
        rows(text("first")),
        rows(text("second")),
        text("messages"),
        text("error").strip() or None,
    )


@dataclass(frozen=True)
class MountedFiles:
    """What a kernel shows of a disk."""

    files: Mapping[str, bytes | None]
    """The bytes of each file by its path; None where a read fails."""
    names: frozenset[str]
    """All paths that have an inode, of files and others."""
    unreadable: frozenset[str]
    """Names of the root directory that have none: a listing names them, and `stat` fails."""
    messages: str
    """What the kernel said meanwhile."""
    is_mounted: bool


def mounted_files(
    series: str, images: Mapping[str, Path], file_system: str, out: Path
) -> dict[str, MountedFiles]:
    """Have a kernel mount disks of one size and read every file of them.

    Raises `VmUnavailable` when something that the machine needs is missing.
    """
    out.mkdir(parents=True, exist_ok=True)
    modules = {"vfat": _FAT, "nilfs2": _NILFS2}[file_system].modules
    needs = _Needs(("dmsetup",), ("dm_mod", *modules))
    require_programs((*MACHINE_PROGRAMS, *needs.programs))
    (disk_bytes,) = {image.stat().st_size for image in images.values()}
    drive = out / "images.drive"
    with drive.open("wb") as file:
        for image in images.values():
            file.write(image.read_bytes())
    commands = [
        f"export DM_DISABLE_UDEV=1\nmodprobe dm_mod\nmodprobe {file_system}",
        f"dmesg -n 1\n{_READ_FILES}",
    ]
    sectors = disk_bytes // _SECTOR_BYTES
    for number in range(len(images)):
        commands.append(
            f"""dmsetup create disk --table "0 {sectors} linear /dev/vda {number * sectors}"
if mount -t {file_system} -o noatime /dev/mapper/disk /mnt; then
    read_files {number}
    umount /mnt
fi
dmsetup remove disk
dmesg -c > /output/{number}.messages
"""
        )
    found = _run(series, "\n".join(commands), {}, (Drive(str(drive)),), out / "files", needs)
    drive.unlink()
    return {name: _files(number, found) for number, name in enumerate(images)}


# A file that cannot be read leaves what was read of it; the number says that it is no answer.
_READ_FILES = """read_files() {
    cd /mnt
    find . -mindepth 1 2> /dev/null > /output/$1.names
    # A pattern is matched with the names of the directory, and asks for no inode.
    for name in *; do [ "$name" = '*' ] || [ -e "$name" ] || [ -L "$name" ] || echo "$name"; done \\
        > /output/$1.unreadable
    file=0
    find . -type f 2> /dev/null | while read -r path; do
        file=$((file + 1))
        if cat "$path" > /output/$1.file$file 2> /dev/null; then state=read; else state=failed; fi
        echo "$file $state $path" >> /output/$1.files
    done
    cd /
}"""


def _files(number: int, found: Mapping[str, Path]) -> MountedFiles:
    def lines(ending: str) -> list[str]:
        path = found.get(f"{number}.{ending}")
        return path.read_text(encoding="utf-8", errors="replace").splitlines() if path else []

    files: dict[str, bytes | None] = {}
    for line in lines("files"):
        file, state, path = line.split(" ", 2)
        content = found[f"{number}.file{file}"].read_bytes() if state == "read" else None
        files[path.removeprefix("./")] = content
    names = frozenset(line.removeprefix("./") for line in lines("names"))
    unreadable = frozenset(lines("unreadable"))
    is_mounted = f"{number}.names" in found
    return MountedFiles(files, names, unreadable, "\n".join(lines("messages")), is_mounted)
