"""A simulated device as a block device of Linux through ublk, and its power cuts under ext4.

`nandlab-ublk` is built from extras/ublk and runs in the emulated machine, which has Linux 6.12. It
is part of `make test-long`: the program is built apart from the workspace.
"""

import json
from pathlib import Path

import pytest
from long_tests import IS_LONG

from nandlab.vm import (
    Contents,
    Machine,
    MachineResult,
    VmUnavailable,
    find_kernel,
    require_programs,
    run_machine,
)
from nandlab.vm.guest_program import find_ublk_program
from nandlab.vm.programs import MACHINE_PROGRAMS

_START = """
modprobe ublk_drv
mkfifo /tmp/commands
/nandlab-ublk --device emmc-5.1-64gb --capacity 67108864 --time none \\
    < /tmp/commands > /tmp/told 2>&1 &
exec 3> /tmp/commands
told() { i=0; while [ $(wc -l < /tmp/told) -lt $1 ] && [ $i -lt 300 ]; do
    i=$((i + 1)); sleep 0.1; done; }
told 1
"""

_STOP = """
echo stop >&3
wait
cp /tmp/told /output/told
if ls /dev/ublkb* > /dev/null 2>&1; then exit 9; fi
"""

_FILES = "1 2 3 4 5 6 7 8"


def in_machine(script: str, out: Path) -> MachineResult:
    if not IS_LONG:
        pytest.skip("ublk is part of make test-long")
    try:
        require_programs((*MACHINE_PROGRAMS, "mkfs.ext4", "fsck.ext4"))
        kernel = find_kernel("6.12")
        program = find_ublk_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    contents = Contents(
        modules=("ext4", "crc32c_generic"),
        available_modules=("ublk_drv",),
        programs=("mkfs.ext4", "fsck.ext4"),
        files={"nandlab-ublk": program},
    )
    return run_machine(Machine(kernel, _START + script + _STOP, 300.0, contents), out)


def test_ext4_survives_power_cuts_of_the_device_under_it(tmp_path: Path) -> None:
    script = f"""
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/ublkb0
round=0; lines=1
while [ $round -lt 4 ]; do
    round=$((round + 1))
    mount -t ext4 /dev/ublkb0 /mnt
    for n in {_FILES}; do
        yes "round $round file $n" | head -c 20000 > /tmp/data
        dd if=/tmp/data of=/mnt/f$round-$n bs=4k conv=fsync 2> /dev/null
    done
    yes lost | head -c 100000 > /mnt/not-synced
    echo cut >&3; lines=$((lines + 1)); told $lines
    # It answers with errors, like a disk without power.
    if dd if=/dev/ublkb0 of=/dev/null bs=4k count=1 iflag=direct 2> /dev/null; then exit 8; fi
    umount /mnt
    echo restore >&3; lines=$((lines + 1)); told $lines
done
mount -t ext4 /dev/ublkb0 /mnt
round=0
while [ $round -lt 4 ]; do
    round=$((round + 1))
    for n in {_FILES}; do
        yes "round $round file $n" | head -c 20000 | cmp - /mnt/f$round-$n && echo same
    done
done
umount /mnt
fsck.ext4 -fn /dev/ublkb0 > /dev/null 2>&1; echo "check $?"
echo stats >&3; told $((lines + 1))
"""
    found = in_machine(script, tmp_path)
    lines = found.console.splitlines()
    assert lines.count("same") == 32, found.console
    assert "check 0" in lines, found.console
    told = found.files["told"].read_text().splitlines()
    assert told[0] == "/dev/ublkb0"
    cuts, restores = told[1:9:2], told[2:9:2]
    assert [json.loads(one)["cuts"] for one in cuts] == [1, 2, 3, 4]
    assert all(json.loads(one)["reads"] > 0 for one in restores)
    statistics = json.loads(told[9])
    reads, writes, flushes, _ = statistics["totals"]["requests"]
    assert reads > 0
    assert writes > 32
    assert flushes >= 32, "each fsync is a flush, or a write with force unit access"
    assert len(statistics["digest"]) == 64


def test_words_that_are_wrong_are_told(tmp_path: Path) -> None:
    script = """
echo bogus >&3; told 2
set +e
for words in "" "--device nothing" "--device emmc-5.1-64gb --time slow" "--bogus 1"; do
    /nandlab-ublk $words; echo "status $?"
done 2>&1 | tee /tmp/wrong
set -e
"""
    found = in_machine(script, tmp_path)
    told = json.loads(found.files["told"].read_text().splitlines()[1])
    assert told == {"error": '"bogus" is none of cut, restore, stats and stop'}
    assert found.console.count("status 2") == 4
    for reason in (
        "--device is missing",
        "nothing",
        "--time: slow must be real or none",
        "--bogus is unknown: see --help",
    ):
        assert reason in found.console
