"""Recipes: a file system of a real kernel on a device that is served, made, written and checked.

The disk is /dev/vda. A script writes files one after the other, each with fsync, and prints
`ack N` on the console once file N is written: that is what an application would tell its user.
"""

from dataclasses import dataclass

FILE_BYTES = 20_000
"""Bytes of a file: some pages, and no whole number of them."""


@dataclass(frozen=True)
class Recipe:
    """How the guest makes, mounts and checks one file system."""

    name: str
    make: str
    mount: str
    check: str
    """Exits with 0 if the file system is consistent, or was repaired without a loss."""

    programs: tuple[str, ...]
    modules: tuple[str, ...]
    available_modules: tuple[str, ...] = ()

    def write_script(self, files: int) -> str:
        """Makes the file system, and writes and acknowledges files until the disk is gone."""
        return f"""{self.make}
{self.mount}
i=0
while [ $i -lt {files} ]; do
    i=$((i + 1))
    {_content("$i")} > /tmp/data
    dd if=/tmp/data of=/mnt/f$i bs=4k conv=fsync 2> /dev/null
    echo "ack $i"
done
umount /mnt
"""

    def check_script(self, acknowledged: int) -> str:
        """Lets the kernel recover, compares the files that were acknowledged, and checks."""
        return f"""{self.mount}
i=0
while [ $i -lt {acknowledged} ]; do
    i=$((i + 1))
    {_content("$i")} > /tmp/data
    if [ ! -f /mnt/f$i ]; then echo "lost $i"; elif ! cmp -s /tmp/data /mnt/f$i; then
        echo "damaged $i"; fi
done
echo "files $(ls /mnt | grep -c '^f')"
umount /mnt
set +e
{self.check} > /tmp/check 2>&1
echo "check $?"
cat /tmp/check
"""


def _content(number: str) -> str:
    """The bytes of a file, by its number."""
    return f'yes "file {number}" | head -c {FILE_BYTES}'


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "ext4",
            "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda",
            "mount -t ext4 /dev/vda /mnt",
            "fsck.ext4 -fn /dev/vda",
            ("mkfs.ext4", "fsck.ext4"),
            ("ext4", "crc32c_generic"),
        ),
        Recipe(
            "f2fs",
            "mkfs.f2fs -q -f /dev/vda",
            "mount -t f2fs /dev/vda /mnt",
            "fsck.f2fs --dry-run /dev/vda",
            ("mkfs.f2fs", "fsck.f2fs"),
            ("f2fs", "crc32_generic"),
        ),
        Recipe(
            "fat",
            "mkfs.vfat /dev/vda > /dev/null",
            "mount -t vfat /dev/vda /mnt",
            # The dirty bit that a cut leaves is no damage: -a clears it, and repairs what is safe.
            "fsck.vfat -a /dev/vda; fsck.vfat -n /dev/vda",
            ("mkfs.vfat", "fsck.vfat"),
            ("vfat", "nls_cp437", "nls_ascii", "nls_utf8", "nls_iso8859_1"),
        ),
        Recipe(
            "btrfs",
            "mkfs.btrfs -q -f /dev/vda",
            "mount -t btrfs /dev/vda /mnt",
            "btrfs check --readonly /dev/vda",
            ("mkfs.btrfs", "btrfs"),
            ("btrfs", "crc32c_generic"),
        ),
    )
}
