"""Renders the report of a run into one self-contained page."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab import __version__
from nandlab.interruption import held
from nandlab.json_text import json_text
from nandlab.outputs import write_whole
from nandlab.present.drawing import engine
from nandlab.present.page import FIGURES, REPORT, VERDICT, environment, script_safe
from nandlab.report import (
    comparison_sections,
    generic_sections,
)
from nandlab.report.parts import Section
from nandlab.report.pictures import drawn_pictures
from nandlab.results import StudyResult
from nandlab.verdicts.model import Verdict

TEMPLATES = Path(__file__).parent / "templates"

Sections = Callable[[StudyResult, Verdict, Sequence[Mapping[str, Any]]], list[Section]]
"""Makes the sections of a report; the last argument is the listing of translation layers."""


SECTIONS: tuple[tuple[str, Sections], ...] = (("comparison", comparison_sections.sections),)
"""Studies with sections of their own, sorted by name."""

WITHOUT_CLAIMS = frozenset({"comparison"})
"""Those of them that judge no publication."""


def write_report(
    folder: Path,
    result: StudyResult,
    verdict: Verdict,
    layers: Sequence[Mapping[str, Any]],
    command: str,
) -> None:
    """Writes page, pictures and verdict of a run into its folder."""
    sections = sections_of(result, verdict, layers)
    page = render(result, verdict, sections, command)
    pictures = drawn_pictures(figure for section in sections for figure in section.figures)
    # All takes seconds to make, and is written at once: no page stands beside older pictures.
    with held():
        write_whole(folder / REPORT, page.encode())
        write_whole(folder / VERDICT, f"{json_text(verdict.as_dict())}\n".encode())
        for name, picture in pictures.items():
            (folder / FIGURES).mkdir(exist_ok=True)
            write_whole(folder / FIGURES / name, picture)


def sections_of(
    result: StudyResult, verdict: Verdict, layers: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """The sections of a study's report; studies without some of their own get the general ones."""
    own = dict(SECTIONS).get(result.name)
    # A verdict without claims found nothing to compare: only the general sections can be filled.
    if own is None or (not verdict.claims and result.name not in WITHOUT_CLAIMS):
        return generic_sections.sections(result)
    return own(result, verdict, layers)


def render(result: StudyResult, verdict: Verdict, sections: Sequence[Section], command: str) -> str:
    """The page as text."""
    figures = [figure for section in sections for figure in section.figures]
    template = environment(TEMPLATES).get_template("report.html.j2")
    page: str = template.render(
        study=result.study,
        result=result,
        verdict=verdict,
        sections=sections,
        command=command,
        version=__version__,
        engine=engine() if figures else "",
        specifications=script_safe({figure.identifier: figure.specification for figure in figures}),
    )
    return page
