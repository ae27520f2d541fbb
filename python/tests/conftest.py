"""What several test files share."""

from pathlib import Path

import pytest
from long_commands import write_inputs
from synthetic_results import study_result

from nandlab.frame import RunFrame
from nandlab.frame.run_directory import whole_folder, write_results
from nandlab.present import write_report


@pytest.fixture(scope="session")
def result() -> RunFrame:
    return study_result()


@pytest.fixture(scope="session")
def run_folder(result: RunFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of made-up results, as `nandlab run` leaves it."""
    out = tmp_path_factory.mktemp("runs") / "ftl-windows"
    with whole_folder(out) as folder:
        write_results(folder, result, "nandlab run ftl-windows")
        write_report(folder, result, "nandlab run ftl-windows")
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
