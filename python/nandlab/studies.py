"""Finds the study files that come with nandlab."""

import os
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.suggest import unknown


def studies_directory() -> Path | None:
    """Folder of the shipped studies, or None when it is not there.

    `NANDLAB_STUDIES` comes first, then studies inside the package, then the source tree.
    """
    package = Path(__file__).resolve().parent
    candidates = [package / "studies", package.parents[1] / "studies", Path.cwd() / "studies"]
    if given := os.environ.get("NANDLAB_STUDIES"):
        candidates.insert(0, Path(given))
    return next((path for path in candidates if path.is_dir()), None)


def shipped_studies() -> dict[str, Path]:
    """Study files by name, sorted."""
    folder = studies_directory()
    if folder is None:
        return {}
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_study(study: str) -> str:
    """Path of a study given by its name or its path."""
    shipped = shipped_studies()
    if study in shipped:
        return str(shipped[study])
    path = Path(study)
    if path.is_dir():
        raise NandlabError(f"{study}: this is a folder; name a study file inside it")
    if path.exists():
        return study
    if path.suffix == ".toml" or path.parent != Path():
        raise NandlabError(f"{study}: no such study file; `nandlab list studies` shows the shipped")
    raise NandlabError(unknown("study", study, shipped))
