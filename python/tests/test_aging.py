"""Ages between power cycles: what `nandlab script` shows of them, and the page made of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from script_modules import script_modules

from nandlab.api.scripts import script
from nandlab.cli import main

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]

LINES = """mount -
put app 644 300k 64k x 1 fsync
put cfg 644 8k 8k x 2 fsync
umount
wear {cycles}
repeat {times} {{
  age 1 years at 45C
  mount -
  scrub
  umount
}}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    with script_modules("aging_page") as (module,):
        yield module


@pytest.fixture(scope="module")
def weak_part(page: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells of a two-bit part with pages that the raw file systems take."""
    file = tmp_path_factory.mktemp("part") / "weak.toml"
    file.write_text(page.part_of(page.Chip("k9gag08u0m")), encoding="utf-8")
    return file


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "aged.ops"
    file.write_text(LINES.format(cycles=5000, times=2), encoding="utf-8")
    return file


def test_the_answer_names_files_their_errors_and_the_conditions(weak_part: Path) -> None:
    text = LINES.format(cycles=5000, times=2)
    found = script(text, fs="yaffs2", part=weak_part, blocks=64, seed=3)
    young, old = found.scrubs
    assert (young["ecc_correctable_bits"], young["ecc_codeword_bytes"]) == (4, 512)
    assert (young["erase_cycles_min"], young["erase_cycles_max"]) == (5000, 5000)
    assert young["temperatures_celsius"] == [45]
    assert 0 <= old["aged_ms"] - 2 * 31_557_600_000 < 1000
    assert old["rated_hours"] > 3 * 8_760
    assert found.lost_first == ("app",) or set(found.lost_first) == {"app", "cfg"}
    app = next(one for one in old["files"] if one["path"] == "app")
    # YAFFS2 has no checksum of data.
    assert app["error"] is None
    assert app["wrong_bytes"] > 0
    again = script(text, fs="yaffs2", part=weak_part, blocks=64, seed=3)
    assert again.answer["scrubs"] == found.answer["scrubs"]


def _shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["script", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_terminal_shows_what_was_lost_first(
    weak_part: Path, lines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [lines, "--fs", "ubifs", "--part", weak_part, "--blocks", 64]
    shown = _shown(capsys, *asked)
    text = " ".join(shown.split())
    assert "ECC of 4 bits in 512 bytes, 5,000" in text
    assert "erase cycles, 45 C, seed 1" in text
    assert "files at the last scrub, 2.00 years" in shown
    assert "lost first: app" in shown
    assert "after 1.00 years" in shown
    lines.write_text(LINES.format(cycles=1, times=1), encoding="utf-8")
    shown = _shown(capsys, *asked)
    assert "no file is lost" in shown
    assert "no bit error in 3 files and directories" in shown
    assert "the last scrub" not in shown


def test_a_mount_that_fails_is_the_loss_of_all_files(
    weak_part: Path, lines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines.write_text(LINES.format(cycles=5000, times=40), encoding="utf-8")
    shown = _shown(capsys, lines, "--fs", "ubifs", "--part", weak_part, "--blocks", 64)
    assert "the mount fails: ubifs: " in " ".join(shown.split())
    assert "lost first: app" in shown


def test_a_script_without_scrub_says_nothing_of_files(
    weak_part: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plain.ops"
    file.write_text("mount -\nput a 644 8k 8k x 1 fsync\n", encoding="utf-8")
    shown = _shown(capsys, file, "--fs", "jffs2", "--part", weak_part)
    assert "lost" not in shown
    assert "bit error" not in shown


def test_the_page_is_current(page: ModuleType) -> None:
    path, _, description = page.arguments()
    # The rows of one chip are measured here; `make docs` measures them all.
    (chip,) = (one for one in page.CHIPS if one.correctable_bits is not None)
    measured = [page.shown(row) for row in page.rows(chip)]
    text = path.read_text(encoding="utf-8")
    assert [line for line in measured if line not in text] == []
    kept = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(kept) == len(page.CHIPS) * len(page.FILE_SYSTEMS)
    assert page.write_or_check(path, lambda: text + "x", description, ["--check"]) == 1


def _row(page: ModuleType, **changes: Any) -> Any:
    row = page.Row("p", 4, 512, 100, "ubifs", [1.0], 1, {"app": 1}, {"EIO": 1})
    return replace(row, **changes)


def _told(page: ModuleType, *rows: Any) -> Sequence[str]:
    return list(page.findings(rows))


def test_sentences_follow_from_the_rows(page: ModuleType) -> None:
    one = _row(page)
    none = _row(page, years=[], first={}, how={})
    assert _told(page, none) == ["**No file is lost** in 10 years on `p`: 1 run."]
    assert _told(page, one) == [
        "**`app`**, the largest file, is among the first that are lost in 1 of 1 run.",
        "**Readers get EIO** on ubifs: a checksum covers each node.",
    ]
    # Equal counts: the name decides, and a file that is not the largest is called so.
    tie = _row(page, first={"cfg": 1, "log": 1}, how={})
    assert _told(page, tie) == [
        "**`cfg`**, not the largest, is among the first that are lost in 1 of 1 run."
    ]
    stronger = _row(page, bits=8, years=[], first={}, how={})
    assert _told(page, one, stronger)[0] == (
        "**8 in place of 4 bits** that the ECC of `p` corrects at 100 cycles: the first loss "
        "after more than 10 years in place of 1.0 years."
    )
    other = _row(page, file_system="jffs2", years=[2.0, 4.0], seeds=2)
    younger = [replace(one, cycles=50), replace(other, cycles=50, years=[1.0], seeds=1)]
    assert _told(page, one, other, *younger)[0] == (
        "**50 in place of 100 cycles** of `p`: the first loss after 1.0 years in place of "
        "1.0 to 3.0 years."
    )
    # Two of three seeds lost no file: the median is beyond what was measured.
    lasting = _row(page, cycles=50, seeds=3)
    assert _told(page, one, other, lasting)[0] == (
        "**50 in place of 100 cycles** of `p`: the first loss after more than 10 years in place of "
        "1.0 to 3.0 years."
    )
    assert " over 10 (1.0 to over 10) " in page.shown(lasting)
    fails = _row(page, how={page.FAILS: 1}, first={".": 1})
    assert _told(page, fails)[-1] == "**Readers get a mount that fails** on ubifs."
