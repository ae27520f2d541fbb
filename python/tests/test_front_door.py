"""The front page: publications, recorded verdicts, and the runs beside them."""

import shutil
from pathlib import Path

import pytest

from nandlab import reproduce
from nandlab.claims.record import load_record, recorded_counts
from nandlab.present.front import write_index
from nandlab.study_files import shipped_studies


def test_the_page_names_publications_and_counts_recorded_verdicts(
    run_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(run_folder, tmp_path / "ftl-windows")
    written = write_index(tmp_path)
    text = written.path.read_text(encoding="utf-8")
    assert written.runs == 1
    assert "Performance analysis of FTL (Flash Translation Layer) algorithms" in text
    assert "Park Won-joo, Yoo Hyun-seok" in text
    record = load_record(shipped_studies()["ftl-windows"].parent)
    assert record is not None
    for status, count in recorded_counts(record).items():
        assert f"{count} {status}" in text
    assert "nandlab run android --out out/android" in text
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["ftl-windows", "index.html"]


def test_a_folder_of_other_studies_gets_no_publications(tmp_path: Path) -> None:
    written = write_index(tmp_path)
    page, count = written.path, written.runs
    assert count == 0
    assert "No runs here yet" in page.read_text(encoding="utf-8")


STUDY = """
name = "tiny"
title = "Tiny"
question = "How fast?"
seed = 1
repeats = 1
part = "k9f1g08u0a"
[workload]
kind = "iozone"
options = "-i 0 -s 64k -r 4k"
[host]
board = "s5pv210-datasheet"
kernel = "2.6.29"
[axes]
file_system = ["yaffs2"]
"""


@pytest.mark.usefixtures("engine_is_built")
def test_all_shipped_studies_lead_to_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY, encoding="utf-8")
    shipped = {"sfq-kernel": shipped_studies()["sfq-kernel"], "tiny": path}
    monkeypatch.setattr(reproduce, "shipped_studies", lambda: shipped)
    out = tmp_path / "out"
    assert reproduce.main(["--out", str(out), "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "Left out: sfq-kernel (needs a virtual machine; run it with --full)" in told
    assert "1 studies run, 1 left out" in told
    assert "Tiny" in (out / "index.html").read_text(encoding="utf-8")
    monkeypatch.setattr(reproduce, "shipped_studies", dict)
    assert reproduce.main(["--out", str(out)]) == 2
    assert "no study was found" in capsys.readouterr().err
