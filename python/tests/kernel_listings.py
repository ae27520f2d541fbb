"""What a real kernel shows of a mounted image, and what is shown here, in one form to compare."""

from pathlib import Path

import pytest

from nandlab.cli import main

LIST_FUNCTION = """
list() {
    cd /mnt
    find . | while read -r path; do
        hash=- target=-
        [ -L "$path" ] && target=$(readlink "$path")
        [ -f "$path" ] && [ ! -L "$path" ] && hash=$(sha256sum < "$path" | cut -d' ' -f1)
        echo "$(stat -c '%f %h %u %g %s %Y' "$path") $hash $target $path"
    done > "$1"
    cd /
}
"""
"""Shell function of the guest: lists /mnt into a file."""

WRITES = """
mkdir /mnt/from-the-kernel
for number in 1 2 3 4 5 6 7 8; do
    dd if=/dev/urandom of=/mnt/from-the-kernel/file$number bs=4096 count=20 2>/dev/null
    cat /init /init /init > /mnt/from-the-kernel/text$number
done
rm /mnt/from-the-kernel/file3
find /mnt -type f | sort | head -n 20 | while read -r path; do echo more >> "$path"; done
ln /mnt/from-the-kernel/file1 /mnt/linked
mv /mnt/from-the-kernel/file2 /mnt/moved
sync
"""
"""Shell commands of the guest: some of everything is written to /mnt."""


def listed(text: str) -> dict[str, tuple[str, ...]]:
    """What the guest listed, by path: type, mode, links, owner, group, size, time, hash, target."""
    rows = {}
    for line in text.splitlines():
        mode, links, uid, gid, size, mtime, digest, target, path = line.split(" ")
        bits = int(mode, 16)
        kind = {0o10: "f", 0o04: "d", 0o12: "l"}[bits >> 12]
        size = "0" if kind == "d" else size
        path = path.removeprefix("./")
        rows[path] = (kind, f"{bits & 0o7777:04o}", links, uid, gid, size, mtime, digest, target)
    return rows


def own_view(image: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, ...]]:
    """What `nandlab image ls` shows, in the same form."""
    capsys.readouterr()
    assert main(["image", "ls", str(image), "--hash", "--output-format", "tsv"]) == 0
    rows = {}
    for line in capsys.readouterr().out.splitlines():
        if not line.startswith("#"):
            kind, mode, links, uid, gid, size, mtime, _, digest, target, _, path = line.split("\t")
            rows[path] = (kind, mode, links, uid, gid, size, mtime, digest, target)
    return rows
