"""Real file systems on a served device whose power fails: what was acknowledged is there.

ext4 is always tried; F2FS, FAT and btrfs, and more cuts of each, are part of `make test-long`.
"""

import os
import shutil

import pytest

from nandlab.labs.cuts import cut_many
from nandlab.labs.recipes import RECIPES
from nandlab.vm import VmUnavailable, find_kernel, require_programs
from nandlab.vm.programs import MACHINE_PROGRAMS

pytestmark = pytest.mark.usefixtures("engine_is_built")

IS_LONG = os.environ.get("NANDLAB_LONG_TESTS") == "1"
CUTS = {"ext4": (7,), "f2fs": (), "fat": (), "btrfs": ()}
KERNELS = {"ext4": "6.1", "f2fs": "6.1", "fat": "6.1", "btrfs": "6.12"}
LONG_CUTS = {name: tuple(range(1, 40, 2)) for name in CUTS}


@pytest.mark.parametrize("name", RECIPES)
def test_what_a_kernel_acknowledged_survives_a_power_cut(name: str) -> None:
    recipe = RECIPES[name]
    cuts = LONG_CUTS[name] if IS_LONG else CUTS[name]
    if not cuts:
        pytest.skip(f"{name} on a served device is part of make test-long")
    for program in recipe.programs:
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"{program} is not installed (make system-packages)")
    try:
        require_programs(MACHINE_PROGRAMS)
        kernel = find_kernel(KERNELS[name])
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    options = {"capacity": "128MiB", "precondition": "fill"}
    found = cut_many(recipe, kernel, "emmc-5.1-64gb", cuts, **options)
    for after_files, one in zip(cuts, found, strict=True):
        assert one.acknowledged >= after_files
        assert one.files >= one.acknowledged, one.console
        assert one.is_sound, one.console
        assert one.recovery["reads"] > 0
