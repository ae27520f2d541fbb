"""A raw chip in a real kernel: loaded from an image, used by a shell script, and given back.

The chip is nandsim (drivers/mtd/nand/raw/nandsim.c), which keeps its pages in the memory of the
emulated machine. It takes its geometry from the identification bytes of a part. An image is written
into it raw, with spare areas and their ECC bytes, and read back in the same way. The module in
kernel/tear cuts the power at an operation.
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nandlab.vm import Contents, Drive, Kernel, Machine, VmUnavailable, build_modules, run_machine

PAGE_BYTES, SPARE_BYTES, PAGES_PER_BLOCK = 2048, 64, 64
BLOCK_BYTES = PAGES_PER_BLOCK * (PAGE_BYTES + SPARE_BYTES)
"""A block of an image: data and spare area of its pages, as `nanddump --oob` writes them."""

TORN = ("nothing", "first-half", "without-spare", "random-bits")
"""What a torn operation leaves, by the module's numbers (kernel/tear/README.md)."""

KINDS = ("program", "spare-program", "erase", "ubi-header", "ubifs-master", "last-page")
"""Kinds of operations, in the order of the module's counts."""

_TEAR = Path(__file__).resolve().parents[3] / "kernel" / "tear"
_PROGRAMS = ("flash_erase", "mtdinfo", "nanddump", "nandwrite")
_UBI_PROGRAMS = ("ubiattach", "ubidetach", "ubiformat", "ubimkvol", "ubinfo")
_LOADED = ("jffs2", "ubi", "ubifs", "mtdblock")
_MODULES = ("nandsim", *_LOADED, "lzo", "deflate", "zstd")
"""File systems ask for their compressors by name."""

_MIB = 1 << 20


@dataclass(frozen=True)
class SimulatedPart:
    """A part that nandsim can stand for."""

    identification: tuple[int, int, int, int]
    """Maker, device, cell type, geometry. The kernel takes the size of the chip from the second
    byte (`nand_flash_ids` of drivers/mtd/nand/raw/nand_ids.c), and page, spare area and block from
    the fourth one (`nand_decode_ext_id` of nand_base.c). 0x15: 2 KiB, 64 bytes, 128 KiB."""

    blocks: int


PARTS: Mapping[str, SimulatedPart] = {
    "nandsim-64MiB": SimulatedPart((0x20, 0xA2, 0x00, 0x15), 512),
    "k9f1g08u0a": SimulatedPart((0xEC, 0xF1, 0x00, 0x15), 1024),
    "k9f2g08u0b": SimulatedPart((0xEC, 0xDA, 0x00, 0x15), 2048),
    "k9f2g08u0c": SimulatedPart((0xEC, 0xDA, 0x00, 0x15), 2048),
    "mt29f2g08aab": SimulatedPart((0x2C, 0xDA, 0x00, 0x15), 2048),
}
"""Parts of SLC with pages of 2 KiB. nandsim has one plane and no order of programming, so two
planes of a part are one here."""


@dataclass(frozen=True)
class Cut:
    """A power cut at the operation `number` of the script; the first is number 1."""

    number: int
    torn: str
    seed: int


@dataclass(frozen=True)
class Chip:
    """A chip before the script."""

    part: str
    image: Path | None
    """Dump with spare areas; none for an erased chip."""

    blocks: int
    """Blocks of the partition that the script sees; those beyond are left erased."""


@dataclass(frozen=True)
class Given:
    """A chip after the script."""

    image: Path
    printed: str
    status: int | None
    """Exit status of the script; none if it was ended after the power was cut."""

    still_used: tuple[str, ...]
    """File systems that are mounted and UBI devices that are attached; not after a cut."""

    counts: tuple[int, ...] | None
    """Operations that change the chip, by [`KINDS`]; none without a cut."""

    torn_kind: str | None
    torn_page: int | None
    """Page of the chip; of an erase the first one of the block."""


def blocks_of(image: Path) -> int:
    """Blocks of a dump. Raises `ValueError` if there is no whole number of them."""
    length = image.stat().st_size
    if length == 0 or length % BLOCK_BYTES:
        raise ValueError(
            f"{length} bytes are no whole number of blocks of {BLOCK_BYTES} bytes: a dump holds "
            "data and spare area of every page, as nanddump --oob writes them"
        )
    return length // BLOCK_BYTES


def use(
    chip: Chip, script: str, kernel: Kernel, *, cut: Cut | None, seconds: int, out: Path
) -> Given:
    """Boot the kernel, load the chip, run the script as root, and bring the chip back into `out`.

    The script finds the chip as /dev/mtd0, and an empty folder /mnt. Only programs of busybox,
    mtd-utils and the shell are there.

    Raises `VmUnavailable` when something for the machine is missing, and `VmRunError` when the
    machine dies or the chip cannot be loaded.
    """
    bad, runs = _used_blocks(chip.image)
    files: dict[str, Path] = {}
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nandlab-raw-") as folder:
        place = Path(folder)
        files["chip-script"] = place / "chip-script"
        files["chip-script"].write_text(script, encoding="utf-8")
        if cut is not None:
            files["tear.ko"] = _tear_module(kernel, place)
        mebibytes = chip.blocks * BLOCK_BYTES // _MIB + 1
        machine = Machine(
            kernel,
            _guest_script(chip, bad, runs, cut),
            float(seconds),
            Contents(
                available_modules=_MODULES, programs=(*_PROGRAMS, *_UBI_PROGRAMS), files=files
            ),
            () if chip.image is None else (Drive(str(chip.image.resolve()), read_only=True),),
            # Pages of the chip, and its dump.
            memory_mib=1024 + 4 * mebibytes,
            output_limit_mib=64 + mebibytes,
            # On a busy host the emulated timer may be late, and the kernel takes it for a broken
            # one.
            kernel_arguments="no_timer_check",
        )
        return _given(run_machine(machine, out).files, cut)


def _tear_module(kernel: Kernel, place: Path) -> Path:
    if not _TEAR.is_dir():
        raise VmUnavailable(
            f"{_TEAR}: the module that cuts the power is not there: work in a source tree"
        )
    return build_modules(kernel, _TEAR, place / "module")["tear"]


def _used_blocks(image: Path | None) -> tuple[list[int], list[tuple[int, int]]]:
    """Blocks of a dump that are marked bad, and runs of the others that are not erased.

    A run is its first block and the one after its last. The mark is the first spare byte of the
    first page of a block.
    """
    bad: list[int] = []
    runs: list[tuple[int, int]] = []
    for number, block in enumerate(() if image is None else _blocks(image)):
        if block[PAGE_BYTES] != 0xFF:
            bad.append(number)
        elif block.strip(b"\xff"):
            begin = runs.pop()[0] if runs and runs[-1][1] == number else number
            runs.append((begin, number + 1))
    return bad, runs


def _blocks(image: Path) -> Iterator[bytes]:
    with image.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _guest_script(chip: Chip, bad: list[int], runs: list[tuple[int, int]], cut: Cut | None) -> str:
    part = PARTS[chip.part]
    identification = ",".join(f"{byte:#04x}" for byte in part.identification)
    options = f"id_bytes={identification}"
    if chip.blocks < part.blocks:
        options += f" parts={chip.blocks}"
    if bad:
        options += f" badblocks={','.join(map(str, bad))}"
    # nandwrite would go on with the next good block; blank pages are written too, because
    # --skip-all-ffs looks at the data alone and would leave JFFS2's clean markers out.
    loads = "\n".join(
        f"dd if=/dev/vda bs={BLOCK_BYTES} skip={begin} count={end - begin} 2> /dev/null |"
        f" nandwrite -q -o -n -s {begin * PAGES_PER_BLOCK * PAGE_BYTES} /dev/mtd0 -"
        for begin, end in runs
    )
    begins = _FOREGROUND if cut is None else _begins_torn(cut)
    return f"""umask 022
modprobe nandsim {options}
for module in {" ".join(_LOADED)}; do modprobe $module; done
cd /sys/class/mtd/mtd0
found="$(cat writesize) $(cat oobsize) $(cat erasesize) $(cat size)"
cd /root
wanted="{PAGE_BYTES} {SPARE_BYTES} {PAGES_PER_BLOCK * PAGE_BYTES} \\
{chip.blocks * PAGES_PER_BLOCK * PAGE_BYTES}"
if [ "$found" != "$wanted" ]; then echo "the chip is $found, not $wanted"; exit 1; fi
{loads}
{begins}
nanddump -q -n --oob --bb=dumpbad /dev/mtd0 -f /output/chip.oob
"""


_FOREGROUND = r"""
set +e
sh -e /chip-script > /output/printed 2>&1 < /dev/null
echo $? > /output/status
set -e
grep -E ' (jffs2|ubifs) |^/dev/mtdblock' /proc/mounts |
    while read -r _ place kind _; do echo "$kind $place"; done > /output/used
for one in /sys/class/ubi/ubi[0-9]; do if [ -e $one ]; then basename $one >> /output/used; fi; done
"""
"""Runs the script to its end. What still uses the chip may change it while it is read."""


def _begins_torn(cut: Cut) -> str:
    """Runs the script until the power is cut: from then on nothing changes the chip any more."""
    options = f"remaining={cut.number - 1} shape={TORN.index(cut.torn)} seed={cut.seed}"
    return rf"""
insmod /tear.ko {options}
tear=/sys/module/tear/parameters
set +e
sh -e /chip-script > /output/printed 2>&1 < /dev/null &
script=$!
while [ -d /proc/$script ] && [ "$(cat $tear/dead)" = N ]; do
    # A script that has ended stays until it is waited for.
    if grep -q '^State:.Z' /proc/$script/status 2> /dev/null; then break; fi
    usleep 50000
done
if [ "$(cat $tear/dead)" = N ]; then
    wait $script
    echo $? > /output/status
    echo 1 > $tear/dead
else
    kill -9 $script 2> /dev/null
fi
set -e
cat $tear/counts > /output/counts
echo "$(cat $tear/torn_kind) $(cat $tear/torn_address)" > /output/torn
"""


def _given(files: Mapping[str, Path], cut: Cut | None) -> Given:
    def text(name: str) -> str:
        path = files.get(name)
        return path.read_text(encoding="utf-8", errors="replace") if path else ""

    counts = tuple(int(one) for one in text("counts").strip().split(",")) if cut else None
    torn_kind = torn_page = None
    if cut:
        kind, address = (int(one) for one in text("torn").split())
        if kind >= 0:
            torn_kind, torn_page = KINDS[kind], address // PAGE_BYTES
    status = text("status").strip()
    image = files["chip.oob"]
    return Given(
        image=image,
        printed=text("printed"),
        status=int(status) if status else None,
        still_used=tuple(text("used").split("\n")[:-1]),
        counts=counts,
        torn_kind=torn_kind,
        torn_page=torn_page,
    )
