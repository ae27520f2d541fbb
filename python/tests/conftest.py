"""What several test files share."""

from pathlib import Path

import pytest
from long_commands import write_inputs
from synthetic_results import study_result

from nandlab.frame import RunFrame
from nandlab.present import write_report
from nandlab.results.run_directory import whole_folder, write_results
from nandlab.results.study_result import StudyResult


@pytest.fixture(scope="session")
def result() -> StudyResult:
    return study_result()


@pytest.fixture(scope="session")
def run_folder(result: StudyResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of made-up results, as `nandlab run` leaves it."""
    out = tmp_path_factory.mktemp("runs") / "ftl-windows"
    with whole_folder(out) as folder:
        write_results(folder, result, "nandlab run ftl-windows")
        write_report(folder, RunFrame.of(result), "nandlab run ftl-windows")
    return out


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """A folder with what the commands of `long_commands` read."""
    place = tmp_path_factory.mktemp("inputs")
    write_inputs(place, run_folder)
    return place


@pytest.fixture(scope="session")
def engine_is_built() -> None:
    pytest.importorskip(
        "nandlab._native", reason="the native module is not built: run `maturin develop`"
    )
