"""Records the searches of the shipped studies: `python -m nandlab.readings.record`.

It writes `readings.json` into the folder of each study and the tables below a mark in
docs/readings.md. Studies of one board are searched jointly.
"""

import sys
from pathlib import Path

from nandlab.api.readings import search_readings
from nandlab.errors import NandlabError
from nandlab.outputs import write_whole
from nandlab.readings.page import RECORDED, page_of
from nandlab.readings.search import text_of
from nandlab.study_files import shipped_studies

SEARCHES = (("scheduler-filesystem", "android"), ("ftl-windows",), ("sfq-emmc",))
"""Studies that are searched together, for their records and the page."""

ALONE = (("scheduler-filesystem",), ("android",))
"""Searches that only the page has: what a study says without the other."""

PAGE = Path(__file__).resolve().parents[3] / "docs" / "readings.md"
MARK = "<!-- Made by `python -m nandlab.readings.record`: do not edit below. -->\n"


def main() -> int:
    """Searches, and writes the records."""
    pages = []
    try:
        for names in (*SEARCHES, *ALONE):
            answer = search_readings(names).answer
            # How much was on disk before is no part of a result.
            answer["design"].pop("carried_out")
            for name in names if names in SEARCHES else ():
                write_whole(shipped_studies()[name].parent / RECORDED, text_of(answer).encode())
            command = f"nandlab readings {' '.join(names)}"
            pages.append(f"## `{command}`\n\n{page_of(answer)}")
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    above = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    write_whole(PAGE, "\n".join([above + MARK, *pages]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
