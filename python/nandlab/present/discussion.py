"""Fills the placeholders of `discussion.md` from the frame of claims, and renders it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from nandlab.errors import NandlabError
from nandlab.present.units import estimate_text, interval_text
from nandlab.suggest import did_you_mean

if TYPE_CHECKING:
    import polars

DISCUSSION = "discussion.md"

FIELDS = ("estimate", "interval", "n", "status")
"""What may stand behind the id of a claim, sorted."""

_PLACEHOLDER = r"\{([\w-]+)\.(\w+)\}"


def discussion(folder: Path, frame: "polars.DataFrame", *, is_quick: bool) -> str:
    """The discussion of a study as HTML; empty without one.

    `{claim-id.estimate}` becomes the value under the first reading. A quick form has no intervals
    and statuses: paragraphs that name one are left out.
    """
    path = folder / DISCUSSION
    if not path.is_file():
        return ""
    from markdown_it import MarkdownIt

    rows = {row["id"]: row for row in reversed(frame.to_dicts())}
    paragraphs = []
    for number, paragraph in enumerate(re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))):
        names = placeholders(paragraph)
        for name, field in names:
            if name not in rows or field not in FIELDS:
                known = rows if name not in rows else FIELDS
                hint = did_you_mean(name if name not in rows else field, known)
                told = f"{path}: paragraph {number + 1}: {{{name}.{field}}} is unknown: {hint}"
                raise NandlabError(told.rstrip(": "))
        if is_quick and names:
            continue
        paragraphs.append(filled(paragraph, rows))
    # A heading whose paragraphs are all left out goes with them.
    kept = [
        one
        for one, after in zip(paragraphs, [*paragraphs[1:], "#"], strict=True)
        if not (_level(one) and 0 < _level(after) <= _level(one))
    ]
    return str(MarkdownIt("commonmark").render("\n\n".join(kept)))


def _level(paragraph: str) -> int:
    """Level of a heading; 0 of another paragraph."""
    return len(paragraph) - len(paragraph.lstrip("#"))


def placeholders(text: str) -> list[tuple[str, str]]:
    """Claim and field of every placeholder."""
    return re.findall(_PLACEHOLDER, text)


def filled(text: str, rows: dict[str, dict[str, object]]) -> str:
    """A text with the values of claims in the place of its placeholders."""
    return re.sub(_PLACEHOLDER, lambda found: _filled(rows, found), text)


def _filled(rows: dict[str, dict[str, object]], found: re.Match[str]) -> str:
    row, name = rows[found[1]], found[2]
    unit = str(row["unit"])
    if name == "estimate":
        return estimate_text(row["estimate"], unit)  # type: ignore[arg-type]
    if name == "interval":
        return interval_text(row["low"], row["high"], unit)  # type: ignore[arg-type]
    return str(row[name] if row[name] is not None else "-")
