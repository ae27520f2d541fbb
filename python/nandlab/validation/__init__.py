"""Operation counts of the file systems on raw NAND against those of real code."""

from pathlib import Path


def prose(name: str) -> str:
    """A text of docs/validation.md."""
    return (Path(__file__).with_name("prose") / f"{name}.md").read_text(encoding="utf-8")
