"""A real kernel shows the same files as the simulator on disks that cuts leave."""

from dataclasses import replace
from pathlib import Path

import pytest
from kernel_lab import laboratory_or_skip

import nandlab
from nandlab.vm import VmUnavailable
from tearing_lab.crash_media import Medium, Stack, broken_cuts, difference, medium, mount_all

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]
SERIES = "6.12"
CARD = "emmc-5.1-64gb"
SPLIT = (107, 108, 126)
"""Cut points at which the device keeps the second log of a checkpoint and loses the first."""
DISKS_MAX = 12
"""Disks of a boot: every failed cut is in the runs of scripts/config_patterns_kernel.py."""


def sample(cuts: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Some of them, spread over the script."""
    return cuts[:: max(1, len(cuts) // DISKS_MAX)][:DISKS_MAX]


def compare(media: list[Medium], stack: Stack, out: Path) -> None:
    try:
        mounted = mount_all(SERIES, stack, media, out)
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    told = [difference(*pair) for pair in zip(media, mounted, strict=True)]
    assert told == [None] * len(media)
    # The comparison sees another size, another name and another answer of the mount.
    ours = next(one for one in media if one.failure is None and "cfg" in one.found)
    theirs = mounted[media.index(ours)]
    for found in ({**ours.found, "cfg": "1 byte, 00000000"}, {**ours.found, "other": "0 bytes"}):
        assert difference(replace(ours, found=found), theirs) is not None
    assert difference(ours, replace(theirs, is_mounted=False)) is not None


@pytest.mark.parametrize("device", [None, CARD])
def test_fat_loses_settings_in_a_kernel_too(device: str | None, tmp_path: Path) -> None:
    laboratory_or_skip()
    stack = Stack("fat", device)
    script = ROOT / "workloads/config-rename.ops"
    cuts = sample(broken_cuts(script, stack))
    assert len(cuts) > 3
    media = [medium(script, stack, at, torn, tmp_path) for at, torn in cuts]
    compare(media, stack, tmp_path / "out")


def test_nilfs2_refuses_a_checkpoint_without_its_first_log_in_a_kernel_too(tmp_path: Path) -> None:
    laboratory_or_skip()
    stack = Stack("nilfs2", "sd-c10-16gb", blocks=512, pages_per_block=16)
    script = ROOT / "workloads/power-cuts.ops"
    for at in SPLIT:
        cut = nandlab.crash(script, only=at, torn=["reordered"], **stack.arguments())
        assert cut.answer["torn"][0]["hazards"] == {"split-checkpoint": 1}
        assert cut.is_clean
    whole = [at + 20 for at in SPLIT]
    media = [medium(script, stack, at, "reordered", tmp_path) for at in (*SPLIT, *whole)]
    assert [one.failure is None for one in media] == [False] * len(SPLIT) + [True] * len(whole)
    mounted = mount_all(SERIES, stack, media, tmp_path / "out")
    assert [difference(*pair) for pair in zip(media, mounted, strict=True)] == [None] * len(media)
    assert difference(media[0], mounted[-1]) is not None
