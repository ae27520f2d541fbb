"""What each list has, as `nandlab list` needs it: without the modules that a frame needs."""

from __future__ import annotations

from nandlab import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def entries(kind: str) -> list[dict[str, Any]]:
    """Everything in a list, each with its name and a summary of one line.

    Raises `NandlabError` for a list that does not exist.
    """
    return _studies() if kind == "studies" else engine.listing(kind)


def _studies() -> list[dict[str, Any]]:
    from nandlab.study_files import shipped_studies

    found = []
    for name, path in shipped_studies().items():
        study = engine.describe_study(path, [], None, quick=False)
        summary = study.get("title", "")
        found.append({**study, "name": name, "summary": summary, "file": str(path)})
    return found
