"""What the scripts that write a page of the documents share."""

import argparse
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def write_or_check(
    path: Path, page: Callable[[], str], description: str | None, arguments: list[str] | None
) -> int:
    """Write the page; with --check only tell whether it is up to date, by the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is old")
    given = parser.parse_args(arguments)
    text = page()
    if given.check:
        return int(path.read_text(encoding="utf-8") != text)
    path.write_text(text, encoding="utf-8")
    return 0
