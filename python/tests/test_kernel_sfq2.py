"""SFQ2 as a module: the mixes of docs/sfq2.md in a running kernel."""

import re
from pathlib import Path

import pytest
from kernel_lab import SOURCE, kernel_or_skip, modules_or_skip, program_or_skip, run_script

ROW = re.compile(r"^row (\S+) rate (\d+) longest_us (\d+)", re.MULTILINE)
LEAST_RATES = {"depth-32": 48, "depth-128": 40, "threads": 50, "write-back": 70, "real-time": 110}
LONGEST_MS = {"short-lived-read": 300, "short-lived-dsync-write": 300, "write-back": 60}


def test_every_mix_gets_what_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = kernel_or_skip("6.12")
    files = {"/short-lived": program_or_skip("short-lived", tmp_path / "short-lived")}
    script = (SOURCE / "tests" / "sfq2-rows.sh").read_text(encoding="utf-8")
    result = run_script(kernel, script, modules_or_skip(kernel), tmp_path / "out", files=files)
    rows = {name: (int(rate), int(us)) for name, rate, us in ROW.findall(result.console)}
    assert rows.keys() == LEAST_RATES.keys() | LONGEST_MS.keys()
    with capsys.disabled():
        print("", *(f"{name}: {rate}/s, {us} us" for name, (rate, us) in rows.items()), sep="\n  ")
    for name, least in LEAST_RATES.items():
        assert rows[name][0] >= least, name
    for name, longest in LONGEST_MS.items():
        assert rows[name][1] <= 1000 * longest, name
