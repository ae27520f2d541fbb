"""The journal that a real kernel writes for a script is the one written here, node by node."""

from pathlib import Path

import pytest
from ubifs_journal import JournalNode, differences, journal

from nandlab.cli import main
from nandlab.vm import VmUnavailable, find_kernel
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

pytestmark = pytest.mark.usefixtures("engine_is_built")

BLOCKS = 64
KERNELS = ("6.1", "6.12")

PROGRAMS = ("nanddump", "nandwrite", "ubiattach", "ubidetach", "ubiformat", "ubimkvol")

SCRIPT = """\
mount -
mkdir d 755
put d/file 640 9000 4096 x 1 fsync
symlink some/target d/link
mknod d/character 600 c 300 70000
mknod d/block 600 b 8 1
mknod d/pipe 644 p
mknod d/socket 644 s
link d/file d/second
put one 644 100 100 x 2
setxattr one user.only 0102
put two 644 100 100 t 3
setxattr two user.first 61207661
setxattr two trusted.second 61207662
setxattr d user.of-a-directory 00
put over 644 10 10 x 4
put target 644 20 20 x 5
put long 644 20000 4096 x 6 fsync
snap new.oob
sync
setxattr two user.first 6f74686572
truncate long 12345
truncate long 8192
truncate long 100000
append long 5000 4096 x 7 fsync
write long 3000 2000 2000 x 8 fsync
chmod two 4711
chown d/link 5 6
utime one 100 200
fsync one
fsync two
mkdir e 700
rename d/file e/moved
rename over target
rename d/link e/link
mkdir gone 755
rmdir gone
unlink e/link
unlink d/character
unlink d/block
unlink d/pipe
unlink d/socket
unlink d/second
unlink one
unlink two
put last 644 5000 5000 x 9 fsync
snap changed.oob
umount
"""
"""Inodes of every kind, made before a commit and deleted after it; the chip is kept twice."""


@pytest.fixture(scope="module")
def _machine_is_there() -> None:
    try:
        require_programs((*MACHINE_PROGRAMS, *PROGRAMS))
        for series in KERNELS:
            find_kernel(series)
        find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def _kept(script: Path, place: str, profile: str, out: Path) -> dict[str, list[JournalNode]]:
    """Journals of the chips that a run keeps, by name."""
    folder = out / place
    command = ["script", str(script), "--in", place, "--fs", "ubifs", "--blocks", str(BLOCKS)]
    command += ["--profile", profile, "--dirty-writeback-centisecs", "360000"]
    command += ["--dump-dir", str(folder), "--dump", str(out / f"{place}.oob")]
    if place == "kernel":
        command += ["--manifest", str(out / "kernel.tsv")]
    assert main(command) == 0
    return {path.name: journal(path.read_bytes()) for path in sorted(folder.iterdir())}


@pytest.mark.usefixtures("_machine_is_there")
@pytest.mark.parametrize("series", KERNELS)
def test_a_kernel_writes_the_same_nodes(series: str, tmp_path: Path) -> None:
    script = tmp_path / "journal.ops"
    script.write_text(SCRIPT, encoding="utf-8")
    kept = {
        place: _kept(script, place, f"linux-{series}", tmp_path)
        for place in ("kernel", "simulation")
    }
    assert list(kept["kernel"]) == ["changed.oob", "new.oob"]
    assert list(kept["simulation"]) == list(kept["kernel"])
    for name, nodes in kept["kernel"].items():
        wrong = differences(nodes, kept["simulation"][name])
        assert wrong == [], "\n".join([f"{name}: kernel -, here +", *wrong])
    changed = kept["kernel"]["changed.oob"]
    kinds = {node.kind for node in changed}
    assert kinds == {"inode", "data", "entry", "truncation", "padding"}
    deleted = [dict(node.fields) for node in changed if node.kind == "inode"]
    lengths = sorted({fields["data_len"] for fields in deleted if fields["nlink"] == 0})
    # Files and pipes hold nothing. Attributes keep their values, devices the 4 bytes of their
    # numbers, links their targets.
    assert lengths == [0, len(b"\1\2"), 4, len("other"), len("some/target")]
