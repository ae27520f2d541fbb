"""A study as an object: what it would run, and its run."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nandlab.api.runs import Run, run, setting_text


class Study:
    """A study that is checked and can be run."""

    def __init__(self, study: str | Path) -> None:
        """Find and check a study: a shipped one's name, a folder, or a study file.

        Raises `NandlabError` with file, line and a suggestion if something is wrong.
        """
        from nandlab.study_files import find_study

        self.path = Path(find_study(str(study)))
        """The study file."""
        self._plan = self._resolved([], quick=False)

    @classmethod
    def from_toml(cls, text: str | Path) -> "Study":
        """A study from a TOML file, or from TOML text.

        A string with a line break is text. Files that text names need absolute paths.

        Raises `NandlabError` as the constructor does.
        """
        if isinstance(text, Path) or "\n" not in text:
            return cls(text)
        folder = tempfile.mkdtemp(prefix="nandlab-study-")
        try:
            file = Path(folder) / "study.toml"
            file.write_text(text, encoding="utf-8")
            study = cls(file)
        except BaseException:
            shutil.rmtree(folder)
            raise
        # The file lives as long as the study.
        weakref.finalize(study, shutil.rmtree, folder)
        return study

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self._plan["name"])

    @property
    def question(self) -> str:
        """The question that the study answers; empty if it states none."""
        return str(self._plan.get("question") or "")

    def plan(self, *, quick: bool = False, set: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: A002
        """The resolved study, as `nandlab run --dry-run --json` prints it.

        Raises `NandlabError` for a value that does not fit.
        """
        sets = [f"{key}={setting_text(value)}" for key, value in (set or {}).items()]
        return self._resolved(sets, quick=quick)

    def _resolved(self, sets: list[str], *, quick: bool) -> dict[str, Any]:
        from nandlab.study_runs import RunRequest

        name = str(self.path)
        return RunRequest(name, name, Path(), sets, quick=quick).plan()

    def run(
        self,
        *,
        quick: bool = False,
        set: Mapping[str, Any] | None = None,  # noqa: A002 (as the option --set)
        seed: int | None = None,
        jobs: int | None = None,
        out: str | Path | None = None,
    ) -> Run:
        """Run the study; the parameters are those of `nandlab.run`."""
        return run(self.path, quick=quick, set=set, seed=seed, jobs=jobs, out=out)

    def __repr__(self) -> str:
        """Name and file."""
        return f"<Study {self.name}: {self.path}>"

    def _repr_html_(self) -> str:
        from html import escape

        axes = self._plan.get("axes") or {}
        rows = "".join(
            f"<tr><td>{escape(str(name))}</td><td>{escape(setting_text(values))}</td></tr>"
            for name, values in axes.items()
        )
        title = escape(self.question or self.name)
        return f"<p><strong>{title}</strong></p><table><tr><th>axis<th>values</tr>{rows}</table>"
