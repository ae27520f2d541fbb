"""Recipes: a workload on a file system of a real kernel, on disks whose power fails.

A machine has several disks, which come one after the other: a boot costs more than all that is
done to a disk. Each is a device of its own with a cut of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nandlab.labs.file_systems import FILE_SYSTEMS, FileSystem
from nandlab.labs.sqlite import SQLITE
from nandlab.labs.workloads import FILES, Workload

_QUIET = "dmesg -n 1"
"""A message of the kernel would break into the lines of the guest: a dead disk makes many."""


@dataclass(frozen=True)
class Recipe:
    """A file system and what is done on it."""

    system: FileSystem
    workload: Workload

    @property
    def name(self) -> str:
        """What the command is given."""
        return f"{self.system.name}-{self.workload.name}"

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs of the host that the guest needs."""
        return (*self.system.programs, *self.workload.programs)

    def write_script(self, disk_numbers: Sequence[int]) -> str:
        """Makes each file system in turn, and writes to it until its disk is gone.

        A disk whose file system is mounted is told by `ready D`, the last step by `end D`.
        """
        return self._for_each(
            disk_numbers, {number: self._write(number) for number in disk_numbers}
        )

    def check_script(self, disk_numbers: Sequence[int]) -> str:
        """Lets the kernel recover each file system, looks at the items, and checks it.

        `checking D` comes first. `refused D mount` says that the kernel did not mount it,
        `refused D checker` that the checker found what its repair did not mend, `repaired D` that
        it did, `checked D` the end.
        """
        return self._for_each(
            disk_numbers, {number: self._check(number) for number in disk_numbers}
        )

    def _for_each(self, disk_numbers: Sequence[int], bodies: Mapping[int, str]) -> str:
        functions = "".join(f"disk_{number}() {{\n{bodies[number]}}}\n" for number in disk_numbers)
        calls = "".join(f"disk_{number}\n" for number in disk_numbers)
        return f"set +e\n{_QUIET}\n{self.workload.condition}\n{functions}{calls}true\n"

    def _write(self, number: int) -> str:
        disk, place = disk_name(number), f"/mnt/{number}"
        return f"""mkdir {place}
{self.system.make.format(disk=disk)} || return
{self.system.mount.format(disk=disk, place=place)} || return
echo "ready {number}"
{self.workload.write(number, place)}umount {place}
echo "end {number}"
"""

    def _check(self, number: int) -> str:
        disk, place = disk_name(number), f"/mnt/{number}"
        check = self.system.check.format(disk=disk)
        return f"""echo "checking {number}"
mkdir {place}
if {self.system.mount.format(disk=disk, place=place)}; then
{self.workload.check(number, place)}umount {place}
else
    echo "refused {number} mount"
fi
if ! {{ {check}; }} > /tmp/check 2>&1; then
    cat /tmp/check
    {self.system.repair.format(disk=disk)}
    if {{ {check}; }}; then echo "repaired {number}"; else echo "refused {number} checker"; fi
fi
echo "checked {number}"
"""


def disk_name(number: int) -> str:
    """The disk of a number, from 1 on, as the guest names it."""
    return f"/dev/vd{chr(ord('a') + number - 1)}"


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(system, workload)
        for system in FILE_SYSTEMS.values()
        for workload in (FILES, *SQLITE)
    )
}
"""All recipes, sorted by name."""
