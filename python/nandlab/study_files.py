"""Finds the study files that come with nandlab."""

from pathlib import Path

from nandlab.data import folder
from nandlab.errors import NandlabError
from nandlab.suggest import unknown

STUDY_FILE = "study.toml"
"""The file of a study's folder that says what is run."""


def shipped_studies() -> dict[str, Path]:
    """Study files by the name of their folder, sorted."""
    return {path.parent.name: path for path in sorted(folder("studies").glob(f"*/{STUDY_FILE}"))}


def find_study(study: str) -> str:
    """Path of the study file of a study given by its name, its folder or its file.

    Raises `NandlabError` if there is none.
    """
    shipped = shipped_studies()
    if study in shipped:
        return str(shipped[study])
    path = Path(study)
    if path.is_dir():
        if (path / STUDY_FILE).is_file():
            return str(path / STUDY_FILE)
        raise NandlabError(
            f"{study}: this folder holds no {STUDY_FILE}; name the folder of a study"
        )
    if path.exists():
        return study
    if path.suffix == ".toml" or path.parent != Path():
        raise NandlabError(f"{study}: no such study file; `nandlab list studies` shows the shipped")
    raise NandlabError(unknown("study", study, shipped))
