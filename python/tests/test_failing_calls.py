"""Calls that fail here as they do on a tmpfs of the host, and leave the same tree."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nandlab import engine
from nandlab.vm import VmUnavailable
from nandlab.vm.guest_program import find_guest_program
from tearing_lab.cases import failed_calls
from tearing_lab.chips import rows
from tearing_lab.scripts import DIALECTS, CallWriter

pytestmark = pytest.mark.usefixtures("engine_is_built")

SEEDS = range(1, 1 + int(os.environ.get("NANDLAB_CALL_SEEDS", "25")))
LINES = 150
SIZE, MOMENT = 5, 6
FAILING_SHARES = (0.04, 0.12)

EVERY_RULE = """\
mkdir d 755
mkdir d/e 755
put d/f 644 5000 4096 x 1
symlink d/f link
symlink d way
symlink ring ring
symlink made-by-link dangling
append link 100 100 z 2
put way/g 600 10 10 x 3
put dangling 640 7 7 x 4
put ring 644 5 5 x 1
read ring 512
chmod link 600
utime link 5 6
truncate link 300
chown link 7 8
rmdir d/.
rmdir d/..
rmdir d/e/..
rmdir .
rmdir way
rmdir way/
unlink way/
unlink d/.
unlink link/
rename d/f d
rename d/e d
rename d d/e
rename d d/e/../x
rename d/e/.. x
rename link/ other
rename d/f new/
rename d/e renamed/
mkdir slash/ 755
mkdir d/.. 755
put slash/ 644 5 5 x 1
put absent/ 644 5 5 x 1
symlink x absent/
symlink x .
mknod absent/ 600 p
mknod pipe 600 p
append pipe 5 5 x 1
put pipe 644 5 5 x 1
link d hard
link d d
link link hard-link
link link/ more
link d/f absent/
link d/f d/f/x
put d/../d/./f 644 9 9 x 5
put way/../up 644 9 9 x 6
"""


@pytest.fixture(scope="module")
def guest() -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root makes device nodes and gives files away on the host")
    try:
        return find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def host_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory of a tmpfs, where the host has one in its usual place."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else tmp_path) as name:
        yield Path(name)


def _on_host(guest: Path, script: Path, root: Path) -> tuple[list[tuple[int, str]], list[str]]:
    root.mkdir()
    failures, listing = script.with_suffix(".failures"), script.with_suffix(".tree")
    calls = [str(guest), "calls", "--file", str(script), "--directory", str(root)]
    subprocess.run([*calls, "--failures", str(failures)], check=True, umask=0)
    shown = [str(guest), "list", "--mount-point", str(root), "--file", str(listing)]
    subprocess.run(shown, check=True)
    failed = failed_calls(failures.read_text(encoding="utf-8").splitlines())
    return failed, rows(listing.read_text(encoding="utf-8"))


def _here(script: Path) -> tuple[list[tuple[int, str]], list[str]]:
    image = script.with_suffix(".oob")
    arguments = {
        "fs": "ubifs",
        "blocks": 96,
        "seed": 1,
        "dirty_writeback_centisecs": 500,
        "keep_going": True,
        "workload": "failing",
        "dump": str(image),
    }
    text = script.read_text(encoding="utf-8")
    answer = engine.run_script(script.name, text, arguments)
    listing = engine.call("image_list", image, {"fs": "ubifs"}, True)["tsv"]
    image.unlink()
    return failed_calls(answer["failures"]), rows(listing)


def _comparable(listing: list[str]) -> list[list[str]]:
    """Rows without the time and the root; what `stat` calls the size of a device is its maker's."""
    table = [row.split("\t") for row in listing]
    for row in table:
        row[MOMENT] = "-"
        if row[0] in "cb":
            row[SIZE] = "0"
    return [row for row in table if row[-1] != "."]


def _assert_alike(guest: Path, script: Path, root: Path) -> int:
    """Both answer each line alike; how many lines failed."""
    lines = script.read_text(encoding="utf-8").splitlines()
    there, host_tree = _on_host(guest, script, root)
    here, own_tree = _here(script)
    numbers = {number for number, _ in set(there) ^ set(here)}
    differences = [
        f"{number}: {lines[number - 1][:150]}: host {dict(there).get(number)}, "
        f"here {dict(here).get(number)}"
        for number in sorted(numbers)
    ]
    assert differences == [], script.name
    assert _comparable(own_tree) == _comparable(host_tree), script.name
    return len(there)


def test_every_rule_of_paths_is_linuxs(guest: Path, host_directory: Path, tmp_path: Path) -> None:
    script = tmp_path / "rules.ops"
    script.write_text(EVERY_RULE, encoding="utf-8")
    assert _assert_alike(guest, script, host_directory / "rules") > 25


def test_drawn_calls_fail_as_on_the_host(guest: Path, host_directory: Path, tmp_path: Path) -> None:
    failed = total = 0
    for seed in SEEDS:
        script = tmp_path / f"{seed}.ops"
        text = CallWriter(seed, DIALECTS["tmpfs"]).write(LINES)
        script.write_text(text, encoding="utf-8")
        failed += _assert_alike(guest, script, host_directory / str(seed))
        total += len(text.splitlines())
    assert FAILING_SHARES[0] < failed / total < FAILING_SHARES[1]
