"""The page that leads to the reports of all runs below a folder."""

from pathlib import Path

from nandlab import __version__
from nandlab.errors import NandlabError
from nandlab.report.page import REPORT, environment
from nandlab.results.run_directory import MANIFEST, read_results
from nandlab.verdicts import judge

INDEX = "index.html"


def write_index(out: Path) -> tuple[Path, int]:
    """Writes `out`/index.html over the runs in its folders; returns it and how many there are."""
    if not out.is_dir():
        raise NandlabError(f"{out}: no such folder; name the folder that holds the runs")
    runs = []
    for path in sorted(out.iterdir()):
        if not path.name.startswith(".") and (path / MANIFEST).is_file():
            result = read_results(path)
            runs.append(
                {
                    "folder": path.name,
                    "title": str(result.study.get("title", result.name)),
                    "question": str(result.study.get("question", "")),
                    "headline": judge(result).headline,
                    "quick": bool(result.study.get("quick")),
                    "interrupted": result.interrupted,
                    "digest": result.results_digest,
                    "has_report": (path / REPORT).is_file(),
                }
            )
    page = environment().get_template("index.html.j2").render(runs=runs, version=__version__)
    target = out / INDEX
    target.write_text(page, encoding="utf-8")
    return target, len(runs)
