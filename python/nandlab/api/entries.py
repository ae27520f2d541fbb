"""What each list has, as `nandlab list` needs it: without the modules that a frame needs."""

from __future__ import annotations

from nandlab import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def entries(kind: str) -> list[dict[str, Any]]:
    """Everything in a list, each with its name and a summary of one line.

    Raises `NandlabError` for a list that does not exist.
    """
    return resolved_studies(names_in("studies")) if kind == "studies" else engine.listing(kind)


def names_in(kind: str) -> list[str]:
    """The names that a list has, aliases included, without what takes time to find out."""
    if kind == "studies":
        from nandlab.study_files import shipped_studies

        return list(shipped_studies())
    return [
        name for row in engine.listing(kind) for name in (str(row["name"]), *row.get("aliases", ()))
    ]


def resolved_studies(names: Iterable[str]) -> list[dict[str, Any]]:
    """Shipped studies, resolved: each takes up to half a second, as all its cells are planned."""
    from nandlab.study_files import shipped_studies

    found = []
    files = shipped_studies()
    for name in names:
        path = files[name]
        study = engine.describe_study(path, [], None, quick=False)
        summary = study.get("title", "")
        found.append({**study, "name": name, "summary": summary, "file": str(path)})
    return found
