"""What several test files share."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from long_commands import write_inputs
from synthetic_results import study_result

from nandlab.frame import RunFrame
from nandlab.frame.run_directory import whole_folder, write_results
from nandlab.present import write_report

LONGEST_FIRST = (
    "test_kernel_",
    "test_capture",
    "test_validation",
    "test_study_verdict",
    "test_docs",
)
"""Beginnings of the names of files whose tests take minutes, most of them in a virtual machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts files that take minutes first.

    Workers take one file after the other (`--dist loadfile`): a long file at the end would leave
    all other workers idle. Within a file the order stays.
    """

    def place(item: pytest.Item) -> int:
        of_name = (
            number
            for number, beginning in enumerate(LONGEST_FIRST)
            if item.path.name.startswith(beginning)
        )
        return next(of_name, len(LONGEST_FIRST))

    items.sort(key=place)


@pytest.fixture(scope="module", autouse=True)
def _memory_goes_back() -> Iterator[None]:
    """Gives the memory that the tests of a file have freed back to the system.

    The allocator of glibc keeps what many threads of a study freed: a worker would hold, for all
    files together, several times what the largest of its studies needs.
    """
    yield
    gc.collect()
    # Other C libraries have no such call.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


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
