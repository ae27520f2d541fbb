"""Stock Debian kernels: found with apt, unpacked into a cache, ready for a direct boot."""

import errno
import json
import lzma
import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nandlab.vm import children
from nandlab.vm.programs import VmUnavailable, require_programs

_PACKAGE = re.compile(r"^linux-image-(?P<release>[0-9][0-9.]*(?:-[0-9]+)?(?:\+deb[0-9]+)?-amd64)$")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_XZ_MAGIC = b"\xfd7zXZ\x00"


@dataclass(frozen=True)
class Kernel:
    """One unpacked kernel.

    `release` is what the kernel calls itself, `package_version` what its package is called.
    `vmlinux` is the uncompressed image for a direct boot; `tree` holds `lib/modules/RELEASE`.
    """

    release: str
    package_version: str
    vmlinux: Path
    tree: Path


def cache_directory() -> Path:
    """Return where unpacked kernels are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nandlab" / "kernels"


def find_kernel(
    series: str = "6.12", *, cache: Path | None = None, may_download: bool = True
) -> Kernel:
    """Return the newest kernel of a series, such as `6.12`, or one exact release.

    A kernel that is in the cache already is taken before anything is asked of apt, so that
    repeated runs use the same one; remove the cache to go to a newer one.

    Raises `VmUnavailable` when there is none, or when apt cannot give it.
    """
    cache = cache or cache_directory()
    cached = [path.parent.name for path in cache.glob("*/kernel.json")]
    release = newest_release(cached, series)
    if release is not None:
        return _load(cache / release)
    if not may_download:
        raise VmUnavailable(f"no kernel of series {series} in {cache}: let it be downloaded once")
    require_programs(("apt-cache", "apt-get", "depmod", "dpkg", "dpkg-deb", "zstd"))
    release = newest_release(_offered_releases(), series)
    if release is None:
        raise VmUnavailable(
            f"apt offers no kernel of series {series}: run apt-get update, or name another series"
        )
    return _fetch(release, cache)


def newest_release(releases: list[str], series: str) -> str | None:
    """Return the highest of `releases` that is `series` or belongs to it, or None."""
    matching = [
        release
        for release in releases
        if release == series or re.match(re.escape(series) + r"[.+-]", release)
    ]
    return max(matching, key=_numbers, default=None)


def _numbers(release: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", release)]


def _offered_releases() -> list[str]:
    listing = subprocess.run(
        ["apt-cache", "pkgnames", "linux-image-"], capture_output=True, encoding="utf-8", check=True
    ).stdout
    found = (_PACKAGE.match(line.strip()) for line in listing.splitlines())
    return [match["release"] for match in found if match]


def _fetch(release: str, cache: Path) -> Kernel:
    package = f"linux-image-{release}"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="unpack-") as scratch_name:
        scratch = Path(scratch_name)
        tree = scratch / "kernel"
        archive = download(package, scratch)
        call(["dpkg", "-x", archive.name, tree.name], scratch)
        version = call(["dpkg-deb", "-f", archive.name, "Version"], scratch).strip()
        depmod = str(require_programs(["depmod"])["depmod"])
        call([depmod, "-b", str(tree), release], scratch)
        image = (tree / "boot" / f"vmlinuz-{release}").read_bytes()
        (tree / "vmlinux").write_bytes(extract_vmlinux(image))
        record = {"release": release, "package_version": version}
        (tree / "kernel.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        rename_unless_there(tree, cache / release)
    return _load(cache / release)


def rename_unless_there(tree: Path, target: Path) -> None:
    """Gives a folder its name in the cache, unless another process was first.

    What the other one unpacked is whole, since it got its name in the same way.
    """
    try:
        tree.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _load(tree: Path) -> Kernel:
    record = json.loads((tree / "kernel.json").read_text(encoding="utf-8"))
    return Kernel(record["release"], record["package_version"], tree / "vmlinux", tree)


def extract_vmlinux(image: bytes) -> bytes:
    """Return the ELF kernel inside a compressed `vmlinuz`.

    Booting the ELF file directly skips the decompressor, which is slow on an emulated processor.

    Raises `VmUnavailable` when the image is not one, or is compressed in an unknown way.
    """
    if image[0x202:0x206] != b"HdrS":
        raise VmUnavailable("the kernel image has no boot header: the package is not understood")
    setup_sectors = image[0x1F1] or 4
    payload_offset, payload_length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + payload_offset
    # The build appends the uncompressed length in four bytes.
    payload = image[start : start + payload_length - 4]
    if payload.startswith(_ZSTD_MAGIC):
        done = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=False)
        kernel = done.stdout
    elif payload.startswith(_XZ_MAGIC):
        kernel = lzma.decompress(payload)
    else:
        raise VmUnavailable("the kernel image is compressed neither by zstd nor by xz")
    if not kernel.startswith(b"\x7fELF"):
        raise VmUnavailable("the kernel image holds no ELF file")
    return kernel


def download(package: str, directory: Path) -> Path:
    """Download one package with apt into an existing directory, and return its file.

    `package` may end with `=` and a version. Raises `VmUnavailable` when apt cannot give it.
    """
    before = set(directory.glob("*.deb"))
    # The user that apt downloads as cannot write into a private directory of root's.
    call(["apt-get", "-o", "APT::Sandbox::User=root", "download", package], directory)
    return next(path for path in directory.glob("*.deb") if path not in before)


def call(command: list[str], directory: Path) -> str:
    """Run a command in a directory and return what it prints.

    Raises `VmUnavailable` with the last line of its messages when it fails.
    """
    done = children.run(command, directory=directory, is_apart=True)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise VmUnavailable(f"`{' '.join(command)}` failed: {reason}")
    return done.stdout
