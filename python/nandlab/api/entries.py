"""What each list has, as `nandlab list` needs it: without the modules that a frame needs."""

from __future__ import annotations

from nandlab import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
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
        study = _resolved(path)
        summary = study.get("title", "")
        found.append({**study, "name": name, "summary": summary, "file": str(path)})
    return found


def _resolved(path: Path) -> dict[str, Any]:
    """A study as it is run: one of cases has more axes than the engine knows."""
    from nandlab.cases import has_cases

    if has_cases(path):
        from nandlab.cases.study import plan_of

        return dict(plan_of(str(path), (), None, quick=False).study)
    return engine.describe_study(path, [], None, quick=False)
