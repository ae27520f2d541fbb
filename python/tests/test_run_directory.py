"""A run folder appears whole or not at all, and reads back as it was written."""

import json
import shutil
from pathlib import Path

import polars
import pytest
from made_up import answered

from nandlab import study_runs
from nandlab.cli import main
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame, read
from nandlab.frame.reference import read_reference
from nandlab.frame.run_directory import CURVES_CSV, MANIFEST, RESULTS_PARQUET, whole_folder


def test_results_read_back_as_written(run_folder: Path, result: RunFrame) -> None:
    again = read(run_folder)
    assert again.axes == result.axes
    assert again.frame.equals(result.frame)
    assert again.curves.equals(result.curves)
    assert again.reference == result.reference


@pytest.mark.parametrize("late", ["7", "0.5", "", "99999999999999999999999", "word"])
@pytest.mark.parametrize("early", ["1", "1.5", ""])
def test_the_type_of_a_column_is_that_of_all_its_rows(
    early: str, late: str, run_folder: Path, tmp_path: Path
) -> None:
    """Not that of the first hundred, which are looked at first."""
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    axes = json.loads((folder / MANIFEST).read_text())["axes"]
    cells = [*([early] * 150), late]
    rows = [f"{'-,' * len(axes)}{number},{cell}" for number, cell in enumerate(cells)]
    text = "\n".join([f"{','.join(axes)},io,reads", *rows, ""])
    (folder / CURVES_CSV).write_text(text, encoding="utf-8")
    whole = polars.read_csv(folder / CURVES_CSV, infer_schema_length=None)
    assert read(folder).curves["reads"].equals(whole["reads"])


def test_parquet_holds_the_rows_of_the_csv(run_folder: Path) -> None:
    parquet = polars.read_parquet(run_folder / RESULTS_PARQUET)
    lines = (run_folder / "results.csv").read_text().splitlines()
    assert parquet.columns == lines[0].split(",")
    assert parquet.height == len(lines) - 1
    assert parquet["processes"].dtype == polars.Int64


def test_the_manifest_tells_nothing_of_time_and_host(run_folder: Path) -> None:
    manifest = json.loads((run_folder / MANIFEST).read_text())
    assert set(manifest) == {
        "nandlab_version",
        "git_commit",
        "command",
        "results_digest",
        "seed",
        "quick",
        "inputs",
        "interrupted",
        "axes",
        "tables",
        "study",
        "notes",
    }


def test_an_error_leaves_the_earlier_run(run_folder: Path) -> None:
    before = sorted(run_folder.iterdir())

    def fail() -> None:
        with whole_folder(run_folder) as folder:
            (folder / "half").write_text("half")
            raise NandlabError("stop")

    with pytest.raises(NandlabError, match="stop"):
        fail()
    assert sorted(run_folder.iterdir()) == before
    assert [path.name for path in run_folder.parent.glob(".*")] == []


def test_an_interrupted_run_lies_beside_the_earlier_one(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synthetic_results import REFERENCE, engine_answer

    study = str(REFERENCE.with_name("study.toml"))
    answer = engine_answer()
    answer["interrupted"] = True
    answer["study"]["reference"] = None
    answer["rows"] = [row for row in answer["rows"] if row[0] in ("bast", "fast")]
    monkeypatch.setattr("nandlab.engine.run_study", lambda *args, **options: answered(answer))
    monkeypatch.setattr("nandlab.engine.listing", lambda kind: [])
    out = tmp_path / "out"
    request = study_runs.RunRequest("ftl-windows", study, out)
    first = study_runs.run(request)
    second = study_runs.run(request)
    assert (first.folder, second.folder) == (out, tmp_path / "out-interrupted")
    assert not (second.folder / "report.html").exists()
    assert main(["report", str(second.folder)]) == 0
    assert "interrupted" in (second.folder / "report.html").read_text()
    answer["rows"], answer["curves"]["rows"] = [], []
    nothing = study_runs.run(study_runs.RunRequest("ftl-windows", study, tmp_path / "no"))
    assert nothing.shown.headline == "Of 22 claims 22 are not run."
    assert read(nothing.folder).frame.is_empty()


@pytest.mark.parametrize(
    ("text", "reason"), [("", "empty"), ("a,b\n1\n", ":2: 1 cells under 2 column heads")]
)
def test_a_damaged_reference_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "reference.csv"
    path.write_text(text)
    with pytest.raises(NandlabError, match=reason):
        read_reference(path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(NandlabError, match="damaged"):
        read(tmp_path)
