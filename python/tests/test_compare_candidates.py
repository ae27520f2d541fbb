"""Kernels, parts, boards and mount options side by side; files by content; partial answers."""

import hashlib
import json
import time
from pathlib import Path

import pytest

import nandlab
from nandlab.cli import main
from nandlab.comparison.candidates import planned, unfinished
from nandlab.comparison.candidates_run import Asked
from nandlab.comparison.candidates_run import run as run_candidates
from nandlab.interruption import ENDS_WITHIN_S

SCRIPT = """mkdir d 755
putn d/f 0 12 644 6000 2000 x 1
put new 644 5000 1000 t 2 fsync
rename new d/f00000
sync
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    (tmp_path / "work.ops").write_text(SCRIPT, encoding="utf-8")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n', encoding="utf-8")
    return path


def _columns(capsys: pytest.CaptureFixture[str], workload: Path, *given: str) -> list[str]:
    """The names of the candidates."""
    words = ("compare", "--workload", str(workload), *given, "--output-format", "json")
    assert main(words) == 0, capsys.readouterr().err
    answer = json.loads(capsys.readouterr().out)["result"]
    return [one["label"] for one in answer["candidates"]]


@pytest.mark.usefixtures("engine_is_built")
def test_kernels_are_candidates_and_each_is_what_it_is_alone(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    given = ("--fs", "jffs2,yaffs2", "--blocks", "128")
    found = _columns(capsys, workload, *given, "--kernel", "2.6.29,6.12", "--out", str(out))
    assert found == ["JFFS2 2.6.29", "JFFS2 6.12", "YAFFS2 2.6.29", "YAFFS2 6.12"]
    together = nandlab.compare(workload=workload, fs="jffs2", blocks=128, kernel=["2.6.29", "6.12"])
    for kernel in ("2.6.29", "6.12"):
        alone = nandlab.compare(workload=workload, fs="jffs2", blocks=128, kernel=kernel)
        assert together.table[f"JFFS2 {kernel}"].str.strip_chars(" *").to_list() == (
            alone.table["JFFS2"].str.strip_chars(" *").to_list()
        )
    # A kernel that were left out of account would give the same column twice.
    assert together.table["JFFS2 2.6.29"].to_list() != together.table["JFFS2 6.12"].to_list()
    held = json.loads((out / "verdict.json").read_text(encoding="utf-8"))["conditions"]["kernel"]
    assert held.startswith("2.6.29 (profile linux-2.6.29, ")
    assert "), 6.12 (jffs2: profile linux-6.12, " in held
    # The folder runs again by itself.
    assert main(("run", str(out / "comparison.toml"), "--out", str(tmp_path / "again"))) == 0
    digests = {
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["results_digest"]
        for folder in (out, tmp_path / "again")
    }
    assert len(digests) == 1


@pytest.mark.usefixtures("engine_is_built")
def test_parts_boards_and_mount_options_are_candidates(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "ubifs,jffs2", "--blocks", "128", "--part", "k9f2g08u0b,k9f2g08u0c")
    options = ("--option", "ubifs:compr=none", "--option", "ubifs:-")
    assert _columns(capsys, workload, *given, *options) == [
        *("UBIFS compr=none k9f2g08u0b", "UBIFS compr=none k9f2g08u0c"),
        *("UBIFS k9f2g08u0b", "UBIFS k9f2g08u0c", "JFFS2 k9f2g08u0b", "JFFS2 k9f2g08u0c"),
    ]
    boards = ("--board", "s5pv210-datasheet,odroid-xu", "--fs", "yaffs2", "--blocks", "128")
    assert _columns(capsys, workload, *boards) == ["YAFFS2 s5pv210-datasheet", "YAFFS2 odroid-xu"]
    cards = ("--fs", "fat", "--ftl", "bast,page", "--part", "k9f2g08u0b,k9f2g08u0c")
    assert _columns(capsys, workload, *cards, "--blocks", "512") == [
        *("FAT on BAST k9f2g08u0b", "FAT on page mapping k9f2g08u0b"),
        *("FAT on BAST k9f2g08u0c", "FAT on page mapping k9f2g08u0c"),
    ]


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("--kernel", "2.6.29,"), ["--kernel", "a name is missing"]),
        (("--kernel", "6.1,6.1"), ["--kernel", "6.1 is there twice"]),
        (("--kernel", "6.1,../6"), ["--kernel", "no version"]),
        (("--kernel", "6.1,7.0"), ["7.0", "6.12"]),
        (("--part", "k9f2g08u0b,K9F2G08U0B"), ["--part", "twice"]),
        (("--option", "jffs2"), ["--option jffs2", "jffs2:-"]),
        (("--option", "ubifs:compr=none"), ["ubifs"]),
        (("--option", "jffs2:nonsense"), ["nonsense"]),
        (("--question", "lfie"), ["--question", "did you mean life?"]),
        (("--question", "life,life"), ["--question", "twice"]),
    ],
)
def test_wrong_candidates_are_refused_with_a_suggestion(
    capsys: pytest.CaptureFixture[str],
    workload: Path,
    given: tuple[str, ...],
    expected: list[str],
) -> None:
    words = ("compare", "--fs", "jffs2", "--blocks", "128", "--workload", str(workload), *given)
    assert main(words) == 2
    message = capsys.readouterr().err
    for part in ("nandlab: error: ", *expected):
        assert part in message, message


@pytest.mark.usefixtures("engine_is_built")
def test_a_host_means_nothing_to_layers_alone(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    for option, value in (("--kernel", "6.1"), ("--board", "odroid-xu"), ("--option", "a:b")):
        assert main(("compare", "--ftl", "bast", option, value, "--workload", str(workload))) == 2
        assert f"{option}: translation layers alone" in capsys.readouterr().err


@pytest.mark.usefixtures("engine_is_built")
def test_own_files_are_in_the_manifest_by_content(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    part = tmp_path / "mine.toml"
    text = (ROOT / "parts" / "k9f2g08u0c.toml").read_text(encoding="utf-8")
    part.write_text(text.replace('"k9f2g08u0c"', '"mine"'), encoding="utf-8")
    out = tmp_path / "out"
    given = ("--part", f"{part},k9f2g08u0b", "--blocks", "128", "--out", str(out))
    assert _columns(capsys, workload, "--fs", "jffs2", *given) == [
        *("JFFS2 mine", "JFFS2 k9f2g08u0b"),
    ]
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    files = {one["what"]: one for one in manifest["comparison"]["files"]}
    assert set(files) == {"part", "script", "workload", "study"}
    for one in files.values():
        content = (out / one["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (one["bytes"], one["sha256"])
    assert (out / files["part"]["file"]).read_bytes() == part.read_bytes()
    assert (out / files["workload"]["file"]).read_bytes() == workload.read_bytes()


@pytest.mark.usefixtures("engine_is_built")
def test_what_is_finished_is_shown_and_marked_after_an_interruption(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "work.ops").write_text("mkdir d 755\nputn d/f 0 3000 644 3000 1500 x 1\nsync\n")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n')

    began_s: list[float] = []

    def stop(done: int, total: int, label: str) -> None:
        if done:
            began_s.append(time.process_time())
            raise KeyboardInterrupt

    asked = Asked(file_systems="ubifs,jffs2,yaffs2", workload=path, blocks=512, jobs=1)
    finished = run_candidates(asked, stop)
    assert finished.run.interrupted
    finished.shown.print()
    assert time.process_time() - began_s[0] < ENDS_WITHIN_S
    assert "partial: only candidates that finished" in capsys.readouterr().out
    (shown,) = finished.shown.tables
    assert "partial" in shown.title
    left = unfinished(finished.run)
    assert left
    assert len(planned(finished.run)) == 3 == len(left) + len(shown.columns) - 1
    assert not any("*" in cell for row in shown.rows for cell in row[1:]), "no best of a part"
    assert finished.shown.headline.startswith("Interrupted: ")
    for name in left:
        assert name in finished.shown.headline
    # A whole run says nothing of that.
    whole = run_candidates(Asked(file_systems="ubifs,jffs2", workload=path, blocks=512))
    assert "partial" not in whole.shown.tables[0].title
    assert unfinished(whole.run) == []
