"""The page that leads to the reports of all runs below a folder."""

from dataclasses import dataclass
from pathlib import Path

from nandlab import __version__
from nandlab.errors import NandlabError
from nandlab.report.front_door import (
    IN_A_KERNEL,
    PUBLICATIONS,
    SHOWN,
    Run,
    cards,
    other_runs,
    outcomes,
)
from nandlab.report.page import REPORT, environment
from nandlab.results.run_directory import MANIFEST, read_results
from nandlab.verdicts import judge
from nandlab.verdicts.advice import summary
from nandlab.verdicts.standing import Standing
from nandlab.whole_files import whole_files

INDEX = "index.html"


@dataclass(frozen=True)
class WrittenIndex:
    """The page, the runs on it, and why other folders with a manifest are not on it."""

    path: Path
    runs: int
    left_out: tuple[str, ...]


def write_index(out: Path) -> WrittenIndex:
    """Writes `out`/index.html over the runs in its folders."""
    if not out.is_dir():
        raise NandlabError(f"{out}: no such folder; name the folder that holds the runs")
    runs, left_out = _runs(out)
    studies = (*PUBLICATIONS, IN_A_KERNEL)
    # A folder of somebody's own studies alone gets no list of what was not run.
    is_front_door = any(run.result.name in studies for run in runs)
    shown = cards(runs, studies) if is_front_door else []
    found = outcomes(runs) if is_front_door else []
    page = (
        environment()
        .get_template("index.html.j2")
        .render(
            cards=shown,
            advice=found,
            summary=summary([one for _, one, _ in found]),
            others=other_runs(runs, shown),
            shown=SHOWN,
            standings=Standing,
            version=__version__,
        )
    )
    target = out / INDEX
    with whole_files() as files:
        scratch = files.file(target)
        assert scratch is not None
        scratch.write_text(page, encoding="utf-8")
    return WrittenIndex(target, len(runs), left_out)


def _runs(out: Path) -> tuple[list[Run], tuple[str, ...]]:
    """The runs, and the reasons of the folders that hold a manifest but no run that can be read."""
    found, left_out = [], []
    for path in sorted(out.iterdir()):
        if path.name.startswith(".") or not (path / MANIFEST).is_file():
            continue
        try:
            result = read_results(path)
        except NandlabError as error:
            # A replay, or a folder of another program, keeps no other run from the page.
            left_out.append(str(error))
            continue
        found.append(Run(path.name, result, judge(result), (path / REPORT).is_file()))
    return found, tuple(left_out)
