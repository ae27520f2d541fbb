"""Real file systems on a served device whose power fails: what was acknowledged is there.

A cut of files and one of SQLite on ext4 are always tried, and a kernel that sends no flushes. The
other recipes that promise something, with 20 cuts each, are part of `make test-long`.
"""

from dataclasses import replace

import pytest
from long_tests import IS_LONG

from nandlab.labs.cuts import Bench, cut_batch
from nandlab.labs.found import Cut
from nandlab.labs.points import drawn_points
from nandlab.labs.recipes import RECIPES
from nandlab.vm import Kernel, VmUnavailable, find_kernel, require_programs
from nandlab.vm.programs import MACHINE_PROGRAMS

pytestmark = pytest.mark.usefixtures("engine_is_built")

DEVICE = "emmc-5.1-64gb"
OPTIONS = {"capacity": "128MiB", "precondition": "fill"}
CUTS = {"ext4-files": 7, "ext4-sqlite-wal-full": 90}
LONG_CUTS = 20
PROMISES = tuple(
    name
    for name in RECIPES
    if name.endswith(("-files", "-delete-extra", "-wal-extra", "-wal-full"))
)
"""Recipes that lose nothing by what their calls promise."""
KERNELS = {"btrfs": "6.12"}


def kernel_for(name: str) -> Kernel:
    """The kernel that a recipe is tried with; skips the test if something is not installed."""
    try:
        require_programs((*MACHINE_PROGRAMS, *RECIPES[name].programs))
        return find_kernel(KERNELS.get(RECIPES[name].system.name, "6.1"))
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", PROMISES)
def test_what_a_kernel_acknowledged_survives_a_power_cut(name: str) -> None:
    recipe = RECIPES[name]
    if IS_LONG:
        cuts = drawn_points(LONG_CUTS, "acknowledgements", 1, recipe.workload.items, 1)
    elif name in CUTS:
        cuts = [Cut("acknowledgements", CUTS[name])]
    else:
        pytest.skip(f"{name} on a served device is part of make test-long")
    found, consoles = cut_batch(Bench(recipe, kernel_for(name), DEVICE, OPTIONS), cuts)
    assert len(found) == len(cuts)
    for cut, one in zip(cuts, found, strict=True):
        assert one.written.acknowledged == cut.at
        assert one.recovered >= cut.at, consoles["check"]
        assert one.is_sound, consoles["check"]
        assert one.written.recovery["reads"] > 0


def test_a_kernel_that_sends_no_flushes_is_found_out() -> None:
    """With barrier=0 ext4 waits for writes alone, which the device has in its cache."""
    name = "ext4-sqlite-wal-full"
    whole = RECIPES[name]
    system = replace(whole.system, mount="mount -t ext4 -o barrier=0 {disk} {place}")
    bench = Bench(replace(whole, system=system), kernel_for(name), DEVICE, OPTIONS)
    (found,), consoles = cut_batch(bench, [Cut("acknowledgements", 90)])
    assert found.written.acknowledged == 90
    assert found.written.lost_cached_sectors > 0
    assert found.lost, consoles["check"]
    assert not found.is_sound


def test_a_cut_at_a_program_tears_it() -> None:
    """mkfs alone programs more pages: the cut comes before anything is promised."""
    if not IS_LONG:
        pytest.skip("a cut in mkfs is part of make test-long")
    recipe = RECIPES["ext4-files"]
    bench = Bench(recipe, kernel_for("ext4-files"), DEVICE, OPTIONS)
    (early, late), _ = cut_batch(bench, [Cut("programs", 100), Cut("programs", 450)])
    assert (early.written.is_ready, early.written.acknowledged, early.is_sound) == (False, 0, True)
    assert late.written.is_ready
    assert late.written.acknowledged > 0
    assert late.is_sound
