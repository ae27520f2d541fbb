"""Tests of the emulated machine: its parts without a boot, and two boots of a stock kernel."""

import lzma
import struct
from pathlib import Path

import pytest

from nandlab.vm import (
    Contents,
    Drive,
    Kernel,
    Machine,
    VmRunError,
    VmUnavailable,
    find_kernel,
    require_programs,
    run_machine,
)
from nandlab.vm import machine as machine_module
from nandlab.vm import programs as programs_module
from nandlab.vm.initramfs import Archive
from nandlab.vm.kernels import extract_vmlinux, newest_release, rename_unless_there
from nandlab.vm.machine import init_script, qemu_command
from nandlab.vm.modules import needed_packages
from nandlab.vm.programs import MACHINE_PROGRAMS

DEADLINE_S = 900.0
"""Far longer than a boot takes on a busy host: only a machine that hangs is to be ended."""

ELSEWHERE = Kernel("6.12.1+deb12-amd64", "6.12.1-1", Path("vmlinux"), Path("tree"))


def kernel_or_skip() -> Kernel:
    """Return a kernel to boot, or leave the test out, saying what is missing."""
    try:
        require_programs(MACHINE_PROGRAMS)
        return find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs_module, "find_program", lambda _: None)
    with pytest.raises(VmUnavailable) as caught:
        require_programs(["qemu-system-x86_64", "busybox"])
    message = str(caught.value)
    assert "not installed: busybox, qemu-system-x86_64" in message
    assert message.endswith("apt-get install busybox-static qemu-system-x86")


def test_newest_release_compares_numbers_and_keeps_to_the_series() -> None:
    releases = ["6.12.9+deb12-amd64", "6.12.117+deb12-amd64", "6.1.0-56-amd64", "6.120.1-amd64"]
    assert newest_release(releases, "6.12") == "6.12.117+deb12-amd64"
    assert newest_release(releases, "6.1") == "6.1.0-56-amd64"
    assert newest_release(releases, "6.12.9+deb12-amd64") == "6.12.9+deb12-amd64"
    assert newest_release(releases, "5.10") is None


def test_a_kernel_in_the_cache_needs_no_apt(tmp_path: Path) -> None:
    tree = tmp_path / "6.12.5-amd64"
    tree.mkdir()
    (tree / "kernel.json").write_text('{"release": "6.12.5-amd64", "package_version": "6.12.5-1"}')
    kernel = find_kernel("6.12", cache=tmp_path, may_download=False)
    assert kernel == Kernel("6.12.5-amd64", "6.12.5-1", tree / "vmlinux", tree)
    with pytest.raises(VmUnavailable, match=r"no kernel of series 6\.1 "):
        find_kernel("6.1", cache=tmp_path, may_download=False)


def test_build_programs_may_be_newer_than_the_kernel() -> None:
    depends = (
        "linux-headers-6.1.0-56-common (= 6.1.192-2), linux-kbuild-6.1 (>= 6.1.192-2), "
        "linux-compiler-gcc-12-x86"
    )
    assert needed_packages(depends) == [
        "linux-headers-6.1.0-56-common=6.1.192-2",
        "linux-kbuild-6.1",
    ]
    depends = (
        "linux-base (>= 4.12~), linux-headers-6.12.117+deb12-common (= 6.12.117-1), "
        "linux-image-6.12.117+deb12-amd64 (= 6.12.117-1) | linux-image-other (= 6.12.117-1), "
        "linux-kbuild-6.12.117+deb12, gcc-12"
    )
    assert needed_packages(depends) == [
        "linux-headers-6.12.117+deb12-common=6.12.117-1",
        "linux-kbuild-6.12.117+deb12",
    ]


def test_vmlinux_is_taken_out_of_its_compressed_image() -> None:
    payload = lzma.compress(b"\x7fELF kernel") + struct.pack("<I", 11)
    image = bytearray(0x400)
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, 0, len(payload))
    assert extract_vmlinux(bytes(image) + payload) == b"\x7fELF kernel"
    with pytest.raises(VmUnavailable, match="no boot header"):
        extract_vmlinux(bytes(0x400))


def test_archive_holds_parents_once_and_in_order() -> None:
    archive = Archive()
    archive.add("a/b/file", 0o100644, b"hello")
    archive.add_link("a/link", "/a/b/file")
    data = archive.to_bytes()
    assert [name for name, _ in entries(data)] == ["a", "a/b", "a/b/file", "a/link", "TRAILER!!!"]
    assert dict(entries(data))["a/b/file"] == b"hello"
    assert data == archive.to_bytes()


def entries(data: bytes) -> list[tuple[str, bytes]]:
    """Read a cpio archive back."""
    found, offset = [], 0
    while offset < len(data):
        assert data[offset : offset + 6] == b"070701"
        size = int(data[offset + 54 : offset + 62], 16)
        name_size = int(data[offset + 94 : offset + 102], 16)
        name = data[offset + 110 : offset + 109 + name_size].decode()
        start = -(-(offset + 110 + name_size) // 4) * 4
        found.append((name, data[start : start + size]))
        offset = -(-(start + size) // 4) * 4
    return found


def test_command_line_holds_drives_and_clock() -> None:
    machine = Machine(ELSEWHERE, "true", 1.0, drives=(Drive("a.img", True),), icount_shift=2)
    command = " ".join(qemu_command(machine, Path("initramfs"), Path("output.tar")))
    assert "-icount shift=2,sleep=off" in command
    assert command.index("file=a.img") < command.index("file=output.tar")
    assert "read-only=on" in command
    assert "modprobe ntfs3 || finish 98" in init_script(("ntfs3",), "/dev/vdb")


def test_a_script_runs_and_its_output_comes_back(tmp_path: Path) -> None:
    kernel = kernel_or_skip()
    disk = tmp_path / "disk.img"
    disk.write_bytes(b"from the host".ljust(1 << 20, b"\0"))
    given = tmp_path / "given.txt"
    given.write_text("given\n")
    script = """
uname -r > /output/release
head -c 13 /dev/vda > /output/disk
cat /given.txt
grep -q vfat /proc/filesystems
echo -n "from the guest" | dd of=/dev/vda conv=notrunc 2>/dev/null
"""
    contents = Contents(modules=("vfat",), files={"/given.txt": given})
    lines: list[str] = []
    result = run_machine(
        Machine(kernel, script, DEADLINE_S, contents, drives=(Drive(str(disk)),)),
        tmp_path / "out",
        lines.append,
    )
    assert result.files["release"].read_text().strip() == kernel.release
    assert result.files["disk"].read_bytes() == b"from the host"
    assert disk.read_bytes().startswith(b"from the guest")
    assert "given" in lines


def test_a_failing_script_and_a_missed_deadline_are_failures(tmp_path: Path) -> None:
    kernel = kernel_or_skip()
    with pytest.raises(VmRunError, match="failed with 7") as caught:
        run_machine(Machine(kernel, "echo before; (exit 7); echo after", DEADLINE_S), tmp_path)
    assert "before" in caught.value.console
    assert "after" not in caught.value.console
    # It never ends by itself, however fast the host is.
    with pytest.raises(VmRunError, match=r"missed its deadline of 2 s"):
        run_machine(Machine(kernel, "while :; do :; done", 2.0), tmp_path)


def test_only_a_kernel_that_dies_before_the_script_is_booted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consoles: list[str] = []
    monkeypatch.setattr(machine_module, "_run_process", lambda *_: consoles.pop(0))
    dead, died_later = "Kernel panic\n", "nandlab machine begins\nKernel panic\n"
    alive = "nandlab machine begins\nnandlab machine result 0\n"
    for planned, left, expected in (
        ([dead, alive], 0, alive),
        ([dead, dead, dead, alive], 1, dead),
        ([died_later, alive], 1, died_later),
    ):
        consoles[:] = planned
        assert machine_module._boot([], 1.0, None) == expected
        assert len(consoles) == left


def test_an_unknown_module_is_refused_before_the_boot(tmp_path: Path) -> None:
    kernel = kernel_or_skip()
    contents = Contents(modules=("no_such_module",))
    with pytest.raises(VmUnavailable, match="has no module no_such_module"):
        run_machine(Machine(kernel, "true", DEADLINE_S, contents), tmp_path)


def test_a_kernel_that_another_process_unpacked_first_is_taken(tmp_path: Path) -> None:
    mine, first, target = (tmp_path / name for name in ("mine", "first", "6.1.0"))
    for folder in (mine, first):
        folder.mkdir()
        (folder / "owner").write_text(folder.name)
    rename_unless_there(first, target)
    rename_unless_there(mine, target)
    assert (target / "owner").read_text() == "first"
    assert mine.is_dir()
    with pytest.raises(FileNotFoundError):
        rename_unless_there(tmp_path / "missing", tmp_path / "6.12.0")
