"""Records the searches of the shipped studies: `python -m nandlab.readings.record [STUDY...]`.

It writes `readings.json` into the folder of each study and the tables below a mark in
docs/readings.md. Studies of one board are searched jointly. Given names, it renews the search
of just these studies, or else the searches that hold one of them.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from nandlab.api.readings import search_readings
from nandlab.errors import NandlabError
from nandlab.outputs import write_whole
from nandlab.readings.page import RECORDED, page_of
from nandlab.readings.search import text_of
from nandlab.study_files import shipped_studies

SEARCHES = (
    ("scheduler-filesystem", "android"),
    ("ftl-windows",),
    ("sfq-emmc",),
    ("row-emmc",),
)
"""Studies that are searched together, for their records and the page."""

ALONE = (("scheduler-filesystem",), ("android",))
"""Searches that only the page has: what a study says without the other."""

PAGE = Path(__file__).resolve().parents[3] / "docs" / "readings.md"
MARK = "<!-- Made by `python -m nandlab.readings.record`: do not edit below. -->\n"


def main(wanted: Sequence[str]) -> int:
    """Searches, and writes the records."""
    above, _, below = PAGE.read_text(encoding="utf-8").partition(MARK)
    sections = dict(re.findall(r"^## `nandlab readings (.*?)`\n\n(.*?)(?=^## |\Z)", below,
                               re.MULTILINE | re.DOTALL))  # fmt: skip
    searches: list[tuple[str, ...]] = [*SEARCHES, *ALONE]
    if wanted:
        just = [names for names in searches if names == tuple(wanted)]
        searches = just or [names for names in searches if set(wanted) & set(names)]
    try:
        for names in searches:
            answer = search_readings(names).answer
            # How much was on disk before is no part of a result.
            answer["design"].pop("carried_out")
            for name in names if names in SEARCHES else ():
                write_whole(shipped_studies()[name].parent / RECORDED, text_of(answer).encode())
            sections[" ".join(names)] = page_of(answer)
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    pages = [f"## `nandlab readings {name}`\n\n{sections[name].rstrip()}\n"
             for name in map(" ".join, (*SEARCHES, *ALONE)) if name in sections]  # fmt: skip
    write_whole(PAGE, "\n".join([above + MARK, *pages]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
