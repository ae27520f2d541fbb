"""The command line reaches the engine through the Python API alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CLI = Path(__file__).parents[1] / "nandlab" / "cli"
FILES = sorted(CLI.glob("*.py"))
ENGINE = {"nandlab.engine", "nandlab._native"}


def _imported(text: str) -> Iterator[str]:
    """Names of the modules that a program may import, at its head or later."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _calls_engine(text: str) -> bool:
    return not ENGINE.isdisjoint(_imported(text))


def test_no_command_calls_the_engine() -> None:
    assert not [path.name for path in FILES if _calls_engine(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "text",
    [
        "from nandlab import engine",
        "def f() -> None:\n    from nandlab import engine",
        "import nandlab._native",
        "from nandlab.engine import listing",
    ],
)
def test_a_call_of_the_engine_is_seen(text: str) -> None:
    assert _calls_engine(text)
    assert not _calls_engine("from nandlab.api import image")
