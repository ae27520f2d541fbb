"""The rule that selects the module at a boot, and a module that is taken away while in use."""

import re
from pathlib import Path

import pytest
from kernel_lab import SERIES, SOURCE, kernel_or_skip, modules_or_skip, run_script
from long_tests import first_or_all

from nandlab.vm import VmUnavailable, require_programs


def rule_for(disk: str) -> str:
    """The rule that README.md tells to write, for another disk."""
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    found = re.search(r"/etc/udev/rules\.d/60-sfq\.rules\n +(ACTION.*)", text)
    assert found is not None
    assert '"sda"' in found[1]
    return found[1].replace('"sda"', f'"{disk}"') + "\n"


@pytest.mark.parametrize("is_installed", [True, False], ids=["installed", "not-installed"])
@pytest.mark.parametrize("series", first_or_all(SERIES, ("6.12",)))
def test_a_boot_with_the_rule_in_place(series: str, is_installed: bool, tmp_path: Path) -> None:
    try:
        udevadm = require_programs(["udevadm"])["udevadm"]
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    kernel = kernel_or_skip(series)
    module = modules_or_skip(kernel)["sfq-iosched"]
    rule = tmp_path / "60-sfq.rules"
    rule.write_text(rule_for("vda"), encoding="utf-8")
    # One program is both, by the name that it is called by.
    files = {"/sbin/systemd-udevd": udevadm, "/etc/udev/rules.d/60-sfq.rules": rule}
    if is_installed:
        files[f"/lib/modules/{kernel.release}/updates/sfq-iosched.ko"] = module
    script = (SOURCE / "tests" / "at-boot.sh").read_text(encoding="utf-8")
    script = f"is_installed={'yes' if is_installed else 'no'}\n{script}"
    programs = ("udevadm",)
    result = run_script(
        kernel, script, {}, tmp_path / "out", files=files, programs=programs, deadline_s=300.0
    )
    assert "test: at-boot passed" in result.console
